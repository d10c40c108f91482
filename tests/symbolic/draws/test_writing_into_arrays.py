"""Draws that code puts into arrays and tensors, made in a call or before: all ways that there are.

Each way is tried in the token rule, whose coins lie in the array: once with a coin for each draft,
and once with the first coin for all.
"""

import array

import numpy as np
import pytest
from support.written_rules import outcome

from simverify import exact_law
from simverify.auditing.enumeration import enumerate_verify

RULE = """
import array, functools
import numpy as np
{imports}
{before}

def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    {put}
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if {coin} * q[x] >= p[x]:
            r = np.maximum(p - q, 0)
            return [*map(int, draft_tokens[:i]), int(rng.choice(len(p), p=r / r.sum()))]
    return [*map(int, draft_tokens), int(rng.choice(len(p), p=target_probs[-1]))]
"""


def of(put, before="", coin="u[{i}]", imports=""):
    return put, before, coin, imports


PLACES = {
    # Where the array is kept.
    "at import": of("u = A; u[:n] = rng.random(n)", "A = np.zeros(8)"),
    "a view": of("u = A[: n + 1]; u[:n] = rng.random(n)", "A = np.zeros(8)"),
    "a view of a view": of("u = A[2:][: n + 1]; u[:n] = rng.random(n)", "A = np.zeros(8)"),
    "two names": of("A[:n] = rng.random(n); u = B", "A = np.zeros(8); B = A[:6]"),
    "columns": of("A[:n, 1] = rng.random(n); u = B", "A = np.zeros((8, 2)); B = A.T[1]"),
    "reversed": of("A[-n:] = rng.random(n); u = B", "A = np.zeros(8); B = A[::-1]"),
    "of a class": of("u = Kept.a; u[:n] = rng.random(n)", "class Kept:\n    a = np.zeros(8)"),
    "of an object": of(
        "u = KEPT.a; u[:n] = rng.random(n)",
        "class Kept:\n    def __init__(self):\n        self.a = np.zeros(8)\nKEPT = Kept()",
    ),
    "of an object in an object": of(
        "u = KEPT.b.a; u[:n] = rng.random(n)",
        "class Kept: pass\nKEPT = Kept(); KEPT.b = Kept(); KEPT.b.a = np.zeros(8)",
    ),
    "of slots": of(
        "u = KEPT.a; u[:n] = rng.random(n)",
        "class Kept:\n    __slots__ = ('a',)\nKEPT = Kept(); KEPT.a = np.zeros(8)",
    ),
    "of a function": of("u = f.a; u[:n] = rng.random(n)", "def f(): pass\nf.a = np.zeros(8)"),
    "a default": of("u = fill(rng, n)", "def fill(rng, n, a=np.zeros(8)):\n"
        "    a[:n] = rng.random(n)\n    return a"),
    "a default by name": of("u = fill(rng, n)", "def fill(rng, n, *, a=np.zeros(8)):\n"
        "    a[:n] = rng.random(n)\n    return a"),
    "closed over": of("u = fill(rng, n)", "def make():\n    a = np.zeros(8)\n"
        "    def fill(rng, n):\n        a[:n] = rng.random(n)\n        return a\n    return fill\n"
        "fill = make()"),
    "a partial's": of("u = fill(rng, n)", "def put(a, rng, n):\n    a[:n] = rng.random(n)\n"
        "    return a\nfill = functools.partial(put, np.zeros(8))"),
    "a method's": of("u = fill(rng, n)", "class Kept:\n    def __init__(self):\n"
        "        self.a = np.zeros(8)\n    def fill(self, rng, n):\n        self.a[:n] = "
        "rng.random(n)\n        return self.a\nfill = Kept().fill"),
    "cached": of("u = made(); u[:n] = rng.random(n)",
        "@functools.cache\ndef made():\n    return np.zeros(8)\nmade()"),
    "cached by size": of("u = made(n); u[:n] = rng.random(n)",
        "@functools.lru_cache(8)\ndef made(n):\n    return np.zeros(n + 1)\nmade(1); made(2)"),
    "cached as an attribute": of("u = KEPT.a; u[:n] = rng.random(n)", "class Kept:\n"
        "    @functools.cached_property\n    def a(self):\n        return np.zeros(8)\n"
        "KEPT = Kept(); KEPT.a"),
    "in a list": of("u = A[1]; u[:n] = rng.random(n)", "A = [None, np.zeros(8)]"),
    "in a list of lists": of("u = A[1][0]; u[:n] = rng.random(n)", "A = [[], [np.zeros(8)]]"),
    "in a tuple": of("u = A[0]; u[:n] = rng.random(n)", "A = np.zeros(8), 3"),
    "in a dict": of("u = A['u']; u[:n] = rng.random(n)", "A = {'u': np.zeros(8)}"),
    "made when it is needed": of("A.setdefault(n, np.zeros(n))[:] = rng.random(n); u = A[n]",
        "A = {}"),
    "another module's": of("kept.a[:n] = rng.random(n); u = kept.a",
        "import types\nkept = types.SimpleNamespace(a=np.zeros(8))"),
    # How it was made.
    "empty": of("u = A; u[:n] = rng.random(n)", "A = np.empty(8)"),
    "full": of("u = A; u[:n] = rng.random(n)", "A = np.full(8, 0.5)"),
    "a row": of("u = A; u[:n] = rng.random(n)", "A = np.array([0.5, 0.5, 0.5])"),
    "of another library": of("u = A; u[:n] = rng.random(n)", "A = np.linspace(0, 1, 8)"),
    "in a call, full": of("u = np.full(n, 0.5); u[:] = rng.random(n)"),
    "in a call, a row": of("u = np.array([0.5, 0.5]); u[:n] = rng.random(n)"),
    "in a call, a range": of("u = np.arange(4.0); u[:n] = rng.random(n)"),
    "in a call, spaced": of("u = np.linspace(0, 1, 4); u[:n] = rng.random(n)"),
    "in a call, a copy of a row": of("u = np.array(target_probs[:, 0]); u[:n] = rng.random(n)"),
    "in a call, tiled": of("u = np.tile(0.5, 4); u[:n] = rng.random(n)"),
    "of float32": of("u = A; u[:n] = rng.random(n, dtype=np.float32)",
        "A = np.zeros(8, dtype=np.float32)"),
    "of float32, from doubles": of("u = A; u[:n] = rng.random(n)",
        "A = np.zeros(8, dtype=np.float32)"),
    "structured": of("A['u'][:n] = rng.random(n); u = A['u']",
        "A = np.zeros(8, dtype=[('u', 'f8'), ('t', 'i8')])"),
    "structured, by rows": of("for i in range(n): A[i] = rng.random(), i",
        "A = np.zeros(8, dtype=[('u', 'f8'), ('t', 'i8')])", "A[{i}]['u']"),
    "array.array": of("u = A\n    for i in range(n): u[i] = rng.random()",
        "A = array.array('d', [0.0] * 8)"),
    "array.array, in a call": of("u = array.array('d', (rng.random() for _ in range(n)))"),
    "a memoryview": of("u = memoryview(A)\n    for i in range(n): u[i] = rng.random()",
        "A = np.zeros(8)"),
}  # fmt: skip

A = "A = np.zeros(8)"
WRITTEN = {
    "one by one": of("u = A\n    for i in range(n): u[i] = rng.random()", A),
    "a slice": of("u = A; u[:n] = rng.random(n)", A),
    "a list": of("u = A; u[:n] = [rng.random() for _ in range(n)]", A),
    "dots": of("u = A[:n]; u[...] = rng.random(n)", A),
    "a mask": of("u = A; u[np.arange(8) < n] = rng.random(n)", A),
    "indices": of("u = A; u[np.arange(n)] = rng.random(n)", A),
    "a list of indices": of("u = A; u[list(range(n))] = rng.random(n)", A),
    "two indices": of("u = A[0]; A[np.zeros(n, int), np.arange(n)] = rng.random(n)",
        "A = np.zeros((2, 8))"),
    "added": of("u = A; u[:n] = 0; u[:n] += rng.random(n)", A),
    "added to a view": of("u = A[:n]; u[:] = 0; u += rng.random(n)", A),
    "multiplied": of("u = A[:n]; u[:] = 1; u *= rng.random(n)", A),
    "put": of("u = A; u.put(range(n), rng.random(n))", A),
    "np.put": of("u = A; np.put(u, np.arange(n), rng.random(n))", A),
    "np.place": of("u = A; np.place(u, np.arange(8) < n, rng.random(n))", A),
    "np.putmask": of("u = A; np.putmask(u, np.arange(8) < n, rng.random(8))", A),
    "np.copyto": of("u = A[:n]; np.copyto(u, rng.random(n))", A),
    "np.copyto where": of("u = A; np.copyto(u, rng.random(8), where=np.arange(8) < n)", A),
    "np.put_along_axis": of("u = A; np.put_along_axis(u, np.arange(n), rng.random(n), 0)", A),
    "np.fill_diagonal": of("np.fill_diagonal(A, rng.random(2)); u = A.diagonal()",
        "A = np.zeros((2, 2))"),
    "np.add out": of("u = A[:n]; np.add(rng.random(n), 0.0, out=u)", A),
    "np.multiply out, by place": of("u = A[:n]; np.multiply(rng.random(n), 1.0, u)", A),
    "np.subtract where": of("u = A; np.subtract(1, rng.random(8), out=u, where=np.arange(8) < n)",
        A),
    "np.clip out": of("u = A[:n]; np.clip(rng.random(n), 0, 1, out=u)", A),
    "np.concatenate out": of("u = A[:n]; np.concatenate([rng.random(n)], out=u)", A),
    "np.stack out": of("u = A[:n]; np.stack([rng.random() for _ in range(n)], out=u)", A),
    "np.take out": of("u = A[:n]; np.take(rng.random(n), np.arange(n), out=u)", A),
    "np.cumsum out": of("u = A[:n]; np.cumsum(rng.random((n, 1)), axis=1, out=u[:, None])", A),
    "np.compress out": of("u = A[:n]; np.compress([True] * n, rng.random(n), out=u)", A),
    "np.choose out": of("u = A[:n]; np.choose([0] * n, [rng.random(n)], out=u)", A),
    "np.round out": of("u = A[:n]; np.positive(rng.random(n), out=u)", A),
    "np.where": of("u = A[:n]; u[:] = np.where(np.arange(n) >= 0, rng.random(n), 0)", A),
    "np.add.at": of("u = A; u[:] = 0; np.add.at(u, np.arange(n), rng.random(n))", A),
    "np.sum out": of("u = A[:n]; np.sum(rng.random((1, n)), axis=0, out=u)", A),
    "np.add.reduce out": of("u = A[:n]; np.add.reduce(rng.random((1, n)), axis=0, out=u)", A),
    "np.max out": of("u = A[:n]; np.max(rng.random((1, n)), axis=0, out=u)", A),
    "random out": of("u = A[:n]; rng.random(out=u)", A),
    "random out of float32": of("u = A[:n]; rng.random(out=u, dtype=np.float32)",
        "A = np.zeros(8, dtype=np.float32)"),
    "exponentials out": of("u = A[:n]; rng.standard_exponential(out=u); u[:] = np.exp(-u)", A),
    "flat": of("A.flat[:n] = rng.random(n); u = A.flat", "A = np.zeros((2, 4))"),
    "flat, one": of("u = A\n    for i in range(n): A.flat[i] = rng.random()", A),
    "raveled": of("u = A.ravel(); u[:n] = rng.random(n)", "A = np.zeros((2, 4))"),
    "reshaped": of("A.reshape(-1)[:n] = rng.random(n); u = A[0]", "A = np.zeros((2, 4))"),
    "a new axis": of("A[:, None][:n, 0] = rng.random(n); u = A", A),
    "fill": of("u = [A[i : i + 1] for i in range(n)]\n    for x in u: x.fill(rng.random())", A),
    "nditer": of("u = A\n    for i in np.ndindex(n): u[i] = rng.random()", A),
    "enumerated": of("u = A\n    for i, z in enumerate(rng.random(n)): u[i] = z", A),
    "swapped": of("u = A; u[:2] = rng.random(2); u[[0, 1]] = u[[1, 0]]", A),
    "shifted": of("u = A; u[1 : n + 1] = rng.random(n); u[:n] = u[1 : n + 1].copy()", A),
    "shuffled": of("u = A[:n]; u[:] = rng.random(n); rng.shuffle(u)", A),
    "sorted back": of("u = A[:n]; u[:] = rng.random(n); u[:] = u[::-1].copy()", A),
    "resized": of("u = A; u[:n] = rng.random(n); u = np.resize(u, n)", A),
    "as a list": of("u = A; u[:n] = rng.random(n); u = u.tolist()", A),
    "as a copy": of("A[:n] = rng.random(n); u = A.copy()", A),
    "as an iterator": of("A[:n] = rng.random(n); u = list(A)", A),
    "as floats": of("A[:n] = rng.random(n); u = [float(z) for z in A[:n]]", A),
    "setitem": of("u = A; u.__setitem__(slice(n), rng.random(n))", A),
    "by setattr": of("A.flat = rng.random(8); u = A", A),
    "through a function": of("u = A\n    np.vectorize(lambda i: u.__setitem__(i, rng.random()), "
        "otypes=[object])(np.arange(n))", A),
}  # fmt: skip

T = "A = torch.zeros(8, dtype=torch.float64)"
TORCH = {
    "a slice": of("u = A; u[:n] = torch.rand(n, dtype=torch.float64)", T),
    "a view": of("u = A[: n + 1]; u[:n] = torch.rand(n, dtype=torch.float64)", T),
    "a number": of("u = A\n    for i in range(n): u[i] = torch.rand((), dtype=torch.float64)", T),
    "numpy's numbers": of("u = A\n    for i in range(n): u[i] = rng.random()", T),
    "numpy's array": of("u = A; u[:n] = torch.from_numpy(rng.random(n))", T),
    "fill_": of("u = A\n    for i in range(n): u[i].fill_(torch.rand((), dtype=torch.float64))", T),
    "fill_ a number": of("u = A\n    for i in range(n): u[i].fill_(rng.random())", T),
    "copy_": of("u = A[:n]; u.copy_(torch.rand(n, dtype=torch.float64))", T),
    "copy_ of another type": of("u = A[:n]; u.copy_(torch.rand(n))", T),
    "index_put_": of("u = A; u.index_put_((torch.arange(n),), torch.rand(n, dtype=torch.float64))",
        T),
    "index_put_ added": of("u = A; u.zero_(); u.index_put_((torch.arange(n),), "
        "torch.rand(n, dtype=torch.float64), accumulate=True)", T),
    "index_copy_": of("u = A; u.index_copy_(0, torch.arange(n), "
        "torch.rand(n, dtype=torch.float64))", T),
    "index_add_": of("u = A; u.zero_(); u.index_add_(0, torch.arange(n), "
        "torch.rand(n, dtype=torch.float64))", T),
    "index_fill_": of("u = A\n    for i in range(n): u.index_fill_(0, torch.tensor([i]), "
        "torch.rand((), dtype=torch.float64))", T),
    "scatter_": of("u = A; u.scatter_(0, torch.arange(n), torch.rand(n, dtype=torch.float64))", T),
    "scatter_add_": of("u = A; u.zero_(); u.scatter_add_(0, torch.arange(n), "
        "torch.rand(n, dtype=torch.float64))", T),
    "masked_scatter_": of("u = A; u.masked_scatter_(torch.arange(8) < n, "
        "torch.rand(n, dtype=torch.float64))", T),
    "masked_fill_": of("u = A\n    for i in range(n): u.masked_fill_(torch.arange(8) == i, "
        "torch.rand((), dtype=torch.float64))", T),
    "put_": of("u = A; u.put_(torch.arange(n), torch.rand(n, dtype=torch.float64))", T),
    "a mask": of("u = A; u[torch.arange(8) < n] = torch.rand(n, dtype=torch.float64)", T),
    "indices": of("u = A; u[torch.arange(n)] = torch.rand(n, dtype=torch.float64)", T),
    "uniform_": of("u = A; u[:n].uniform_()", T),
    "exponential_": of("u = A; u[:n].exponential_().neg_().exp_()", T),
    "rand out": of("u = A[:n]; torch.rand(n, dtype=torch.float64, out=u)", T),
    "add out": of("u = A[:n]; torch.add(torch.rand(n, dtype=torch.float64), 0, out=u)", T),
    "cat out": of("u = A[:n]; torch.cat([torch.rand(n, dtype=torch.float64)], out=u)", T),
    "stack out": of("u = A[:n]; torch.stack([torch.rand((), dtype=torch.float64) for _ in "
        "range(n)], out=u)", T),
    "where out": of("u = A[:n]; torch.where(torch.ones(n, dtype=torch.bool), "
        "torch.rand(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64), out=u)", T),
    "add_": of("u = A[:n]; u.zero_(); u.add_(torch.rand(n, dtype=torch.float64))", T),
    "+=": of("u = A[:n]; u.zero_(); u += torch.rand(n, dtype=torch.float64)", T),
    "select": of("u = A\n    for i in range(n): u.select(0, i).copy_(torch.rand(()).double())", T),
    "view": of("u = A.view(-1); u.view(2, 4)[0, :n] = torch.rand(n, dtype=torch.float64)", T),
    "set_": of("u = A; u.set_(torch.rand(n, dtype=torch.float64))", T),
    "data": of("u = A; u.data[:n] = torch.rand(n, dtype=torch.float64)", T),
    "of float32": of("u = A; u[:n] = torch.rand(n)", "A = torch.zeros(8)"),
    "of a module": of("u = A.u; u[:n] = torch.rand(n, dtype=torch.float64)",
        "A = torch.nn.Module(); A.register_buffer('u', torch.zeros(8, dtype=torch.float64))"),
    "without gradients": of("u = A\n    with torch.no_grad(): u[:n] = torch.rand(n).double()", T),
    "slice_scatter": of("u = A.slice_scatter(torch.rand(n, dtype=torch.float64), 0, 0, n)", T),
    "index_put": of("u = A.index_put((torch.arange(n),), torch.rand(n, dtype=torch.float64))", T),
    "index_copy": of("u = A.index_copy(0, torch.arange(n), torch.rand(n, dtype=torch.float64))",
        T),
    "masked_scatter": of("u = A.masked_scatter(torch.arange(8) < n, "
        "torch.rand(n, dtype=torch.float64))", T),
    "in a list": of("u = A[0]; u[:n] = torch.rand(n).double()",
        "A = [torch.zeros(8, dtype=torch.float64)]"),
}  # fmt: skip


ARRAY_TYPES = {
    "isinstance": "isinstance(u, array.array)",
    "a sum": "isinstance(u + u, array.array)",
    "a multiple": "(u * 2).typecode == 'd'",
    "no list": "not isinstance([], array.array)",
}


@pytest.mark.parametrize("name", ARRAY_TYPES)
def test_an_array_of_draws_has_the_type_of_an_array(name):
    def f(rng):
        u = array.array("d", [0.0])
        u[0] = rng.random()
        return eval(ARRAY_TYPES[name], globals(), {"u": u}), bool(u[0] < 0.25)

    assert exact_law(f) == {(True, True): 0.25, (True, False): 0.75}


FILLED = {
    "index_fill_ with an integer": ("u.index_fill_(0, at, 0)", 0.0),
    "index_fill by name": ("u = u.index_fill(0, at, value=1)", 1.0),
    "index_fill_ with numpy's number": ("u.index_fill_(0, at, np.float64(0.75))", 0.75),
    "index_add_": ("u = torch.full((3,), 0.25); u.index_add_(0, at + 1, torch.rand(1))", 0.25),
    "index_put_": ("u.index_put_((at,), torch.tensor([0.25]))", 0.25),
    "scatter_": ("u.scatter_(0, at, 0.75)", 0.75),
}


@pytest.mark.parametrize("name", FILLED)
def test_numbers_beside_draws_stay_numbers(name):
    torch = pytest.importorskip("torch")

    written, number = FILLED[name]
    body = f"def f(rng):\n    u, at = torch.rand(3), torch.tensor([1])\n    {written}\n"
    space = {"torch": torch, "np": np}
    exec(body + f"    return bool(u[1] == {number})", space)
    assert exact_law(space["f"]) == {True: 1.0}


WAYS = {
    **{f"kept {name}": way for name, way in PLACES.items()},
    **{f"numpy, {name}": way for name, way in WRITTEN.items()},
    **{f"torch, {name}": (*way[:3], "import torch") for name, way in TORCH.items()},
}


def code(name, right):
    put, before, coin, imports = WAYS[name]
    coin = coin.format(i="i" if right else "0")
    return RULE.format(put=put, before=before, imports=imports, coin=coin)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.thorough(by_day=40)
def test_a_coin_for_each_draft_passes_and_one_for_all_fails(name):
    assert outcome(code(name, right=True)) == "followed"
    assert outcome(code(name, right=False)) == "caught"


NOT_FOLLOWED = {
    "a row's copy": of("u = target_probs[:, 0].copy(); u[:n] = rng.random(n)"),
    "a cast": of("u = np.arange(4).astype(float); u[:n] = rng.random(n)"),
    "a product": of("u = target_probs[:, 0] * 0; u[:n] = rng.random(n)"),
    "a record array": of("A.u[:n] = rng.random(n); u = A.u",
        "A = np.zeros(8, dtype=[('u', 'f8'), ('t', 'i8')]).view(np.recarray)"),
    "masked": of("u = A; u[:n] = rng.random(n)", "A = np.ma.zeros(8)"),
    "another's memory": of("u = A; u[:n] = rng.random(n)", "A = np.frombuffer(bytearray(64))"),
    "in an iterator": of("u = next(A); u[:n] = rng.random(n)",
        "import itertools\nA = itertools.cycle([np.zeros(8)])"),
    "of a tensor": of("u = A.numpy(); u[:n] = rng.random(n)",
        "A = torch.zeros(8, dtype=torch.float64)", imports="import torch"),
    "beside a tensor": of("A[:n] = torch.rand(n, dtype=torch.float64); u = B",
        "B = np.zeros(8); A = torch.from_numpy(B)", imports="import torch"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_FOLLOWED)
@pytest.mark.parametrize("right", [True, False])
def test_what_is_not_followed_is_refused_by_name(name, right):
    put, before, coin, imports = NOT_FOLLOWED[name]
    source = RULE.format(
        put=put, before=before, imports=imports, coin=coin.format(i="i" if right else "0")
    )
    assert outcome(source).startswith("cannot follow")


AT_LAST = "u = A.copy(); A[:n] = rng.random(n)"
ONCE = "A[:] = rng.random(8) if A[0] < 0 else A; u = A"
HIDDEN = "import itertools\nA = np.zeros(8); C = itertools.cycle([A])"
BETWEEN_CALLS = {
    # Wrong, and never taken for right.
    "the last call's draws": of(AT_LAST, "A = np.zeros(8)"),
    "the last call's draws, in a list": of(
        "u = A[0].copy(); A[0][:n] = rng.random(n)", "A = [np.zeros(8)]"
    ),
    "the last call's draws, in an object": of(
        "u = A.a.copy(); A.a[:n] = rng.random(n)",
        "class Kept: pass\nA = Kept(); A.a = np.zeros(8)",
    ),
    "the last call's draws, in a cache": of(
        "u = A().copy(); A()[:n] = rng.random(n)",
        "@functools.cache\ndef A(): return np.zeros(8)",
    ),
    "the last call's draws, in a filled cache": of(
        "u = A().copy(); A()[:n] = rng.random(n)",
        "@functools.cache\ndef A(): return np.zeros(8)\nA()",
    ),
    "drawn once": of(ONCE, "A = np.full(8, -1.0)"),
    "drawn once, one by one": of(
        "for i in range(n): A[i] = rng.random() if A[i] < 0 else A[i]\n    u = A",
        "A = np.full(8, -1.0)",
    ),
    "drawn once, in a tensor": of(
        "A.copy_(torch.rand(8) if A[0] < 0 else A); u = A",
        "A = torch.full((8,), -1.0)",
        imports="import torch",
    ),
    "the last call's draws, in a tensor": of(
        "u = A.clone(); A[:n] = torch.rand(n)", "A = torch.zeros(8)", imports="import torch"
    ),
    "counted": of(
        "A[1:][:n] = rng.random(n); A[0] += 1; u = A[1:]; u[1:] = u[0] if A[0] > 30 else u[1:]",
        "A = np.zeros(8)",
    ),
    "changed where nobody looks": of(
        "A[:n] = rng.random(n); next(C)[1:] = next(C)[0]; u = A", HIDDEN
    ),
}


@pytest.mark.parametrize("name", BETWEEN_CALLS)
def test_what_a_call_leaves_to_the_next_is_not_taken_for_new(name):
    put, before, coin, imports = BETWEEN_CALLS[name]
    source = RULE.format(put=put, before=before, imports=imports, coin=coin.format(i="i"))
    assert outcome(source) != "followed"


RIGHT = {
    "read where nobody looks": of("A[:n] = rng.random(n); u = next(C)", HIDDEN),
    "the rest of a tensor": of(
        "A[:n] = torch.rand(n); u = A + A[4:].sum()", "A = torch.zeros(8)", imports="import torch"
    ),
    "the rest of an array": of("A[:n] = rng.random(n); u = A + A[4:].sum()", "A = np.zeros(8)"),
    "a table beside": of(
        "A[:n] = rng.random(n); u = A / B.max()", "A = np.zeros(8); B = np.linspace(0, 1, 99)"
    ),
    "beside what answers no name": of(
        "A[0].a[:n] = rng.random(n); u = A[0].a",
        "import weakref\n"
        "class Kept:\n    def __getattr__(self, name): raise RuntimeError(name)\n"
        "class Slotted:\n    __slots__ = ('b',)\n    __getattr__ = Kept.__getattr__\n"
        "A = [Kept(), weakref.proxy(Kept()), Slotted()]; A[0].a = np.zeros(8)",
    ),
    "not a number yet": of(
        "A[:n] = rng.random(n); u = np.where(np.isnan(A), 0.5, A)", "A = np.full(8, np.nan)"
    ),
    "another array in its place": of(
        "global A; A = A * 0; A[:n] = rng.random(n); u = A", "A = np.zeros(8)"
    ),
    "grown": of(
        "global A; A = A if len(A) >= n else np.zeros(n); A[:n] = rng.random(n); u = A",
        "A = np.zeros(1)",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_honest_code_is_not_caught(name):
    put, before, coin, imports = RIGHT[name]
    source = RULE.format(put=put, before=before, imports=imports, coin=coin.format(i="i"))
    found = outcome(source)
    assert found == "followed" or found.startswith("cannot follow"), found


KEPT = np.zeros(8)
HELD = {"a": KEPT[:4], "b": (KEPT, 3)}


def into_what_is_kept(p, q, x, rng):
    HELD["a"][:2] = rng.random(2)
    return [int(HELD["b"][0][0] < 0.25)]


def test_what_is_kept_is_put_back():
    kept, held = KEPT, dict(HELD)
    law = enumerate_verify(into_what_is_kept, np.full((2, 2), 0.5), np.full((1, 2), 0.5), [0])
    assert law.probabilities == {(1,): 0.25, (0,): 0.75}
    assert KEPT is kept
    assert type(KEPT) is np.ndarray
    assert HELD["a"] is held["a"]
    assert HELD["b"] is held["b"]


def test_a_tensor_holds_numbers_again():
    torch = pytest.importorskip("torch")
    kept = torch.arange(8.0)

    def rule(p, q, x, rng):
        kept[:2] = torch.rand(2)
        return [int(kept[0] < 0.25)]

    law = enumerate_verify(rule, np.full((2, 2), 0.5), np.full((1, 2), 0.5), [0])
    assert law.probabilities == {(1,): 0.25, (0,): 0.75}
    assert kept[2:].tolist() == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert not kept.isnan().any()
