"""What joins values, chooses among them or writes them gives the type that the library gives.

numpy and torch say which: a number of Python's beside 16 bits is of 16 bits, an array of doubles
is of doubles. Each program tells the type of a result and of its elements; the law that is
computed is held against real runs of it.
"""

from itertools import product

import pytest
from support.fuzzing.differential import Finding, run_twice

from simverify.symbolic import array_functions
from simverify.symbolic.torch_ops import TorchOps

DRAWS = (
    "np.asarray(rng.random(3), dtype=np.float16)", "rng.random(3, dtype=np.float32)",
    "rng.integers(-2**31, 2**31, 3, dtype=np.int32)", "rng.integers(0, 2, 3, dtype=np.uint8)",
)  # fmt: skip
VALUES = (
    "1", "0.4", "300", "np.float16(0.4)", "np.float64(0.4)", "np.int64(1)", "np.array(0.4)",
    "W[:3]", "[1, 2, 3]", "rng.random(3)", "True", "np.bool_(True)", "np.float32([0.4, 0.1, 0.2])",
    "np.int8([1, 2, 3])", "rng.random()", "rng.integers(2, dtype=np.uint8)",
)  # fmt: skip
QUICK = ("1", "np.float64(0.4)", "W[:3]", "rng.random()")
JOINED = (
    "np.where(C, x, y)", "np.select([C, ~C], [0, x], y)", "np.select([C], [y], x)",
    "np.choose([0, 1, 0], [x, y])", "np.piecewise(x, [C], [y, lambda v: v * 2])",
    "np.append(x, y)", "np.hstack([y, x])", "np.stack([np.broadcast_to(y, 3), x])[1]",
    "np.concatenate([x, np.atleast_1d(y)])", "np.block([x, np.atleast_1d(y)])",
    "np.column_stack([x, np.broadcast_to(y, 3)])[:, 0]", "np.insert(x, 0, y)",
    "np.full_like(x, y)", "np.array([x[0], y])", "np.array([np.broadcast_to(y, 3), x])[1]",
    "np.concatenate([x, x], dtype=np.float32)",
    "np.float_power(x, 2)", "np.array(x, ndmin=2)[0]", "np.full((), x[0])[None]",
    "np.where(True, x[0].item(), y).ravel()",
)  # fmt: skip
BOUNDED = (
    "np.clip(x, y, 2)", "np.clip(x, np.float16(.1), y)", "x.clip(0.1, y)", "np.maximum(x, y)",
    "np.fmin(y, x)", "np.maximum.outer(x, np.atleast_1d(y))[0]",
    "np.max(x[:1], initial=y)[None]",
)  # fmt: skip
"""Two draws are compared here, which not all can be."""

WRITTEN = (
    "np.put(x, [0, 1], y)", "np.place(x, C, y)", "np.putmask(x, C, y)", "np.copyto(x, y)",
    "np.copyto(x, y, where=C)", "np.copyto(x, y, casting='unsafe')", "x[0] = y", "x[:] = y",
    "x[C] = y", "x.fill(y)", "x.put([0], y)", "x.flat[0] = y", "x.flat[:2] = y",
    "np.add(x, y, out=x)", "x *= y", "np.clip(x, 0, y, out=x)", "np.maximum(x, y, where=C, out=x)",
)  # fmt: skip


def found(draws, value, lines, result="x"):
    """How a program that tells the types of a result differs, "same", or what is refused."""
    text = (
        "def program(rng):\n    C = np.array([True, False, True])\n"
        f"    x = {draws}\n    y = {value}\n    {lines}\n    a = {result}\n"
        "    return hash((a.dtype.name, a.shape, *(e.__class__.__name__ for e in a))) % 10007\n"
    )
    return run_twice(text, seed=17, few=20)


def differing(programs):
    """Those of some programs whose law is not that of real runs; no more are refused than meet."""
    told = {program: found(*program) for program in programs}
    refused = [x for x in told.values() if isinstance(x, str) and x != "same"]
    assert all("draw" in x for x in refused), refused
    assert len(refused) <= len(told) / 4, refused
    return {p: x.what for p, x in told.items() if isinstance(x, Finding)}


@pytest.mark.parametrize("expression", [*JOINED, *BOUNDED])
@pytest.mark.thorough
def test_a_result_has_the_type_that_numpy_gives(expression):
    shown = product(DRAWS[:1], QUICK)
    assert differing([(x, y, "pass", expression) for x, y in shown]) == {}


@pytest.mark.parametrize("statement", WRITTEN)
@pytest.mark.thorough
def test_what_is_written_takes_the_type_of_its_place(statement):
    shown = product(DRAWS[:1], QUICK)
    assert differing([(x, y, statement) for x, y in shown]) == {}


def test_16_bits_in_a_list_beside_doubles_are_doubles_where_nobody_asks():
    text = (
        "def program(rng):\n    x = rng.random(2).astype(np.float16)\n"
        "    return int(np.array([[.1, .2], x])[1, 0] < .4)\n"
    )
    assert run_twice(text, seed=19) == "same"


@pytest.mark.slow
@pytest.mark.parametrize("expression", [*JOINED, *BOUNDED])
def test_every_type_beside_every_other_in_a_result(expression):
    assert differing([(x, y, "pass", expression) for x, y in product(DRAWS, VALUES)]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("statement", WRITTEN)
def test_every_type_written_into_every_other(statement):
    assert differing([(x, y, statement) for x, y in product(DRAWS, VALUES)]) == {}


def test_another_type_is_told(monkeypatch):
    """Negative control: of 16 bits beside an integer of Python's, doubles would be made."""
    case = (DRAWS[0], "1", "pass", "np.select([C, ~C], [0, x], y)")
    assert found(*case) == "same"
    real = array_functions.run_on_placeholders
    monkeypatch.setattr(
        array_functions, "run_on_placeholders", lambda *call: real(*call).astype(float)
    )
    assert isinstance(found(*case), Finding)


TENSORS = (
    "torch.rand(3).half()", "torch.rand(3)", "torch.randint(0, 2, (3,))", "torch.rand(3).bfloat16()"
)  # fmt: skip
TENSOR_VALUES = (
    "0.4", "torch.tensor(0.4, dtype=torch.float64)", "torch.tensor([0.4, 0.1, 0.2])", "1e5", "300",
    "torch.tensor([0.4], dtype=torch.float64)", "torch.tensor(1)", "True", "[0.4, 0.1, 0.2]",
    "torch.tensor([1, 2, 3], dtype=torch.uint8)",
)  # fmt: skip
OF_TENSORS = (
    "torch.where(C, x, y)", "torch.clamp(x, y)", "x.clamp(max=y)", "torch.masked_fill(x, C, y)",
    "torch.cat([x, torch.as_tensor(y).reshape(-1)])", "torch.maximum(x, torch.as_tensor(y))",
    "torch.stack([torch.as_tensor(y).expand(3), x])[1]", "torch.hstack([x, torch.as_tensor(y)])",
    "x.clamp_(y)", "x.masked_fill_(C, y)", "x.fill_(y)", "x.copy_(torch.as_tensor(y))",
    "x.clamp_(max=x[0])", "x.mul_(x[0])", "(x.__setitem__(0, y), x)[1]",
    "(x.__setitem__(C, y), x)[1]", "x.mul_(y)",
)  # fmt: skip


def in_torch(draws, value, expression):
    """The same of tensors."""
    text = (
        f"def program(rng):\n    C = torch.tensor([True, False, True])\n    x = {draws}\n"
        f"    y = {value}\n    a = {expression}\n"
        "    return hash((str(a.dtype), a.shape, *(type(e.item()).__name__ for e in a))) % 10007\n"
    )
    return run_twice(text, seed=18, few=20)


@pytest.mark.parametrize("expression", OF_TENSORS)
@pytest.mark.thorough
def test_a_tensor_has_the_type_that_torch_gives(expression):
    for case in product(TENSORS[:1], TENSOR_VALUES[:3], [expression]):
        assert in_torch(*case) == "same", case


@pytest.mark.slow
@pytest.mark.parametrize("expression", OF_TENSORS)
def test_every_type_of_tensors_beside_every_other(expression):
    for case in product(TENSORS, TENSOR_VALUES, [expression]):
        assert in_torch(*case) == "same", case


def test_another_type_of_a_tensor_is_told(monkeypatch):
    """Negative control: what is clamped keeps its type, whatever its bounds have."""
    case = (TENSORS[0], "torch.tensor([0.4], dtype=torch.float64)", "torch.clamp(x, y)")
    assert in_torch(*case) == "same"
    monkeypatch.setattr(TorchOps, "_asked", lambda self, func, x, *rest, **kw: x)
    assert isinstance(in_torch(*case), Finding)
