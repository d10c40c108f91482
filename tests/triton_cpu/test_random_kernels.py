"""Random kernels on tiles and in Triton's interpreter, bit by bit."""

import pytest

torch = pytest.importorskip("torch")

from support.kernel_launches import triton_itself  # noqa: E402
from support.random_kernels.launches import (  # noqa: E402
    KINDS,
    ran,
)

from simverify.folders import find_package  # noqa: E402
from simverify.triton_cpu import (  # noqa: E402
    language,
    tl,
)
from simverify.triton_cpu.blocks import Block  # noqa: E402

if find_package("triton") is None:
    pytest.skip("needs Triton: pip install --no-deps triton", allow_module_level=True)
try:
    triton_itself()
except AssertionError as error:  # there is a GPU
    pytest.skip(str(error), allow_module_level=True)


def compared(folder, seeds, kinds=KINDS[:1]):
    """Return what differs, of those kernels that the interpreter runs to their end."""
    made = [*ran(folder / "kernels.py", seeds, kinds)]
    whole = [x for x in made if x.real is not None]
    # It does not know all that Triton compiles; most it does.
    assert len(whole) > 0.85 * len(made)
    return [x.name for x in whole if x.real != x.tiles]


def test_as_in_the_interpreter(tmp_path):
    assert compared(tmp_path, range(25)) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 500, 100))
def test_many_as_in_the_interpreter(tmp_path, first):
    assert compared(tmp_path, range(first, first + 100), KINDS) == []


FAULTS = {
    # The other choice, a sum of what is written out alone, extremes exchanged, a round too few.
    "where": lambda gate, x, y: y,
    "sum": lambda x, axis: language.sum_elements(Block(x.data, x.dtype), axis),
    "maximum": tl.minimum,
    "rand": lambda seed, place: language.rand(seed, place, 9),
    "max": language.MINIMUM.value,
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_function_is_found(tmp_path, monkeypatch, name):
    """The control; a `//` that rounds down is not seen so soon."""
    monkeypatch.setitem(vars(tl), name, FAULTS[name])
    made = ran(tmp_path / "kernels.py", range(25))
    assert any(x.real is not None and x.tiles != x.real for x in made)


def test_a_mask_that_lets_in_one_more_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(Block, "__lt__", Block.__le__)
    made = ran(tmp_path / "kernels.py", range(10))
    assert any(x.real is not None and x.tiles != x.real for x in made)
