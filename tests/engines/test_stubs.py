import importlib
import sys

import pytest

from simverify.engines.extract import PatchedModule, stub_modules, torch_without_pinning


def test_a_stub_has_every_attribute_inside_the_block_and_is_gone_after_it():
    with stub_modules("nobody.kernels.fast"):
        from nobody.kernels.fast import Config, launch

        assert isinstance(Config(1, level=3), Config)
        assert issubclass(type("Own", (Config,), {}), Config)
        assert launch is importlib.import_module("nobody.kernels.fast").launch
    assert not [name for name in sys.modules if name.startswith("nobody")]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nobody.kernels")


def test_what_is_loaded_stays_what_it_is():
    import json

    with stub_modules("json.decoder", "json.nowhere"):
        assert sys.modules["json"] is json
        assert importlib.import_module("json.nowhere").anything
    assert "json.nowhere" not in sys.modules
    assert sys.modules["json"] is json


def test_stubs_are_gone_after_an_error_and_have_no_private_names():
    def fail():
        with stub_modules("nobody"):
            module = importlib.import_module("nobody")
            assert not hasattr(module, "__all__")
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        fail()
    assert "nobody" not in sys.modules


def test_a_changed_module_is_the_module_but_for_the_names_that_are_given(monkeypatch):
    import math

    changed = PatchedModule("math", sqrt=abs)
    assert changed.sqrt(-2) == 2
    assert changed.floor is math.floor
    monkeypatch.setattr(math, "floor", round)  # as an audit puts its own in place
    assert changed.floor is round
    with pytest.raises(AttributeError):
        changed.nothing  # noqa: B018


def test_tensors_are_not_pinned():
    torch = pytest.importorskip("torch")
    made = torch_without_pinning().tensor([1, 2], dtype=torch.int32, pin_memory=True)
    assert made.tolist() == [1, 2]
    assert made.dtype == torch.int32
    assert not made.is_pinned()
    assert torch_without_pinning().cumsum is torch.cumsum
