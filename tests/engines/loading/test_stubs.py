import importlib
import sys

import pytest

from simverify.engines.loading.stubs import stubs


def test_a_stub_has_every_attribute_inside_the_block_and_is_gone_after_it():
    with stubs("nobody.kernels.fast"):
        from nobody.kernels.fast import Config, launch

        assert isinstance(Config(1, level=3), Config)
        assert issubclass(type("Own", (Config,), {}), Config)
        assert launch is importlib.import_module("nobody.kernels.fast").launch
    assert not [name for name in sys.modules if name.startswith("nobody")]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nobody.kernels")


def test_what_is_loaded_stays_what_it_is():
    import json

    with stubs("json.decoder", "json.nowhere"):
        assert sys.modules["json"] is json
        assert importlib.import_module("json.nowhere").anything
    assert "json.nowhere" not in sys.modules
    assert sys.modules["json"] is json


def test_stubs_are_gone_after_an_error_and_have_no_private_names():
    def fail():
        with stubs("nobody"):
            module = importlib.import_module("nobody")
            assert not hasattr(module, "__all__")
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        fail()
    assert "nobody" not in sys.modules
