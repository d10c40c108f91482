"""Whole verifiers on tiles beside the interpreter: each kernel that they launch, bit by bit."""

import pytest

torch = pytest.importorskip("torch")

from support.batched_doubles import V1  # noqa: E402
from support.kernel_launches import (  # noqa: E402
    Drafted,
    differences,
    launches,
    triton_itself,
)
from support.launching_engines import (  # noqa: E402
    ENGINES,
    both,
    vllm_v1,
)

from simverify.folders import find_package  # noqa: E402
from simverify.triton_cpu import tl  # noqa: E402

if find_package("triton") is None:
    pytest.skip("needs Triton: pip install --no-deps triton", allow_module_level=True)
try:
    triton_itself()
except AssertionError as error:  # there is a GPU
    pytest.skip(str(error), allow_module_level=True)

BATCH = Drafted(0, 3, 2, 5, 3)


@pytest.fixture
def double(tmp_path):
    file = tmp_path / "rejection_sampler.py"
    file.write_text(V1)
    return file


def test_our_own_kernels():
    path, make = ENGINES["own"]
    tiles, real = both(make, path)
    found = launches(tiles, BATCH)
    assert {x.kernel for x in found} == {"sum_tiles", "weigh", "sum_laws", "draw", "fill_uniforms"}
    assert [differences(x, tiles, real) for x in found] == [[]] * len(found)


def test_a_double_of_a_server(double):
    tiles, real = both(vllm_v1, double)
    found = launches(tiles, BATCH)
    assert len({x.kernel for x in found}) == 3
    assert [differences(x, tiles, real) for x in found] == [[]] * len(found)


@pytest.mark.parametrize("name", ["maximum", "program_id"])
def test_a_wrong_operation_of_tiles_is_found(double, monkeypatch, name):
    """The control: the other extreme, and every program the first."""
    wrong = {"maximum": tl.minimum, "program_id": lambda axis: tl.zeros((), tl.int32)}
    monkeypatch.setitem(vars(tl), name, wrong[name])
    tiles, real = both(vllm_v1, double)
    assert any(differences(x, tiles, real) for x in launches(tiles, BATCH))
