"""Random kernels: translated, operator by operator and in Triton's interpreter, bit by bit."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from support.kernel_launches import triton_itself  # noqa: E402
from support.random_kernels.launches import KINDS, ran  # noqa: E402

from simverify.engines.tiles import tl  # noqa: E402
from simverify.engines.tiles.translation import helpers, plans  # noqa: E402
from simverify.folders import find_package  # noqa: E402

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
    assert all(x.planned for x in whole if x.kind[0] is not torch.float16)
    # Triton has no exp or sqrt of float16: kernels that call them fall back by design.
    half = [x.planned for x in whole if x.kind[0] is torch.float16]
    assert sum(half) >= 0.9 * len(half)
    assert [x.name for x in made if x.translated != x.stepped] == []
    return [x.name for x in whole if x.real != x.translated]


def test_as_in_the_interpreter(tmp_path):
    assert compared(tmp_path, range(25)) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 500, 100))
def test_many_as_in_the_interpreter(tmp_path, first):
    assert compared(tmp_path, range(first, first + 100), KINDS) == []


FAULTS = {
    # A mask that lets in one lane too many; extremes exchanged; a sum of what is written out alone.
    "cut": lambda start, bound, count: min(max(bound + 1 - start, 0), count),
    "fmax": np.fmin,
    "total": lambda row, count, kind: np.add.reduce(row, dtype=kind),
    # The rest of a row thrown away where a choice ends in it; rounds of the cipher.
    "closed": lambda gate, count: gate,
    "philox": lambda *x: helpers.philox(*x[:-1], 9),
    "remainder": lambda x, y: x % y,
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.thorough(by_day=2)
def test_a_wrong_translation_is_found(tmp_path, monkeypatch, name):
    """The control: what is wrong in one of the functions that written kernels call."""
    assert name in plans.NAMES
    monkeypatch.setitem(plans.NAMES, name, FAULTS[name])
    made = ran(tmp_path / "kernels.py", range(60), really=False)
    assert any(x.translated != x.stepped for x in made)


def test_a_wrong_operator_is_found(tmp_path, monkeypatch):
    """The same of what runs operator by operator; a `//` that rounds down is not seen so soon."""
    monkeypatch.setitem(vars(tl), "where", lambda gate, x, y: y)
    made = ran(tmp_path / "kernels.py", range(5))
    assert any(x.real is not None and x.stepped != x.real for x in made)
