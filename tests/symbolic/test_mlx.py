"""What stands in for MLX, against MLX itself: bits by address, functions on numbers, exact laws."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import chisquare
from support.styles import FOLDER, Style, exact_outcome

import simverify
from simverify.symbolic.arrays import array_of_objects
from simverify.symbolic.keys import Word, words_in_blocks
from simverify.symbolic.patching import intercept_randomness
from simverify.symbolic.paths import Path
from simverify.symbolic.provenance import CannotEnumerate
from simverify.symbolic.source import RandomSource

mx = pytest.importorskip("mlx.core")

from simverify.symbolic.mlx_arrays import REAL, REAL_METHODS, DrawnArray, MlxOps  # noqa: E402
from simverify.symbolic.mlx_random import MlxKeyBook, MlxRandom, transformed  # noqa: E402

FALSE_ALARM = 1e-9
ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)


def threefry(key, counter):
    """The two words of a block (Salmon et al., SC 2011), 20 rounds, in Python's integers."""
    mask = 2**32 - 1
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = (counter[0] + keys[0]) & mask, (counter[1] + keys[1]) & mask
    for i in range(5):
        for turn in ROTATIONS[i % 2]:
            x = (x + y) & mask
            y = ((y << turn | y >> 32 - turn) & mask) ^ x
        x = (x + keys[(i + 1) % 3]) & mask
        y = (y + keys[(i + 2) % 3] + i + 1) & mask
    return x, y


def real_bits(key, at):
    *counter, lane = at
    return threefry(key.data, counter)[lane]


@pytest.fixture
def following(monkeypatch):
    """MLX followed, on the bits that a constant key really has."""
    real = {}
    word_at = MlxKeyBook._word

    def word(book, key, at, width, line):
        made = word_at(book, key, at, width, line)
        real.setdefault(made, real_bits(key, at))
        return made

    monkeypatch.setattr(MlxKeyBook, "_word", word)
    monkeypatch.setattr(Word, "_read", lambda self, how, make: make((real[self] + 0.5) / 2**32))
    source = RandomSource(1e-12, seed_once=False)
    source.begin(Path(), [])
    return partial(intercept_randomness, source, lambda: None, shadow_float=False)


LOGITS = np.log([[0.1, 0.2, 0.3, 0.4], [0.7, 1e-9, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]])

DRAWS = {
    "uniform": lambda k: mx.random.uniform(shape=(2, 3), key=k),
    "uniform, odd": lambda k: mx.random.uniform(shape=[7], key=k),
    "uniform between": lambda k: mx.random.uniform(-2, 3, (5,), key=k),
    "uniform of rows": lambda k: mx.random.uniform(mx.array([0.0, 1.0]), 2.0, (3, 2), key=k),
    "one uniform": lambda k: mx.random.uniform(key=k),
    "float16": lambda k: mx.random.uniform(shape=(64,), dtype=mx.float16, key=k),
    "bfloat16": lambda k: mx.random.uniform(shape=(64,), dtype=mx.bfloat16, key=k),
    "gumbel": lambda k: mx.random.gumbel((4,), key=k),
    "gumbel of 16 bits": lambda k: mx.random.gumbel((8,), mx.float16, k),
    "bernoulli": lambda k: mx.random.bernoulli(mx.array([0.1, 0.5, 0.9]), key=k),
    "bernoulli, shaped": lambda k: mx.random.bernoulli(0.3, [4, 5], k),
    "one bernoulli": lambda k: mx.random.bernoulli(key=k),
    "randint": lambda k: mx.random.randint(-3, 9, (20,), key=k),
    "randint of rows": lambda k: mx.random.randint(mx.array([0, 5]), 7, (6, 2), mx.int64, k),
    "permutation": lambda k: mx.random.permutation(6, key=k),
    "permuted": lambda k: mx.random.permutation(mx.array(LOGITS), axis=1, key=k),
    "categorical": lambda k: mx.random.categorical(mx.array(LOGITS), key=k),
    "one row": lambda k: mx.random.categorical(mx.array(LOGITS[0]), key=k),
    "a row looked up": lambda k: mx.random.categorical(mx.array(LOGITS[:1]), key=k),
    "samples": lambda k: mx.random.categorical(mx.array(LOGITS[0]), num_samples=50, key=k),
    "samples of rows": lambda k: mx.random.categorical(mx.array(LOGITS), num_samples=9, key=k),
    "shaped": lambda k: mx.random.categorical(mx.array(LOGITS), shape=(5, 3), key=k),
    "axis": lambda k: mx.random.categorical(mx.array(LOGITS), axis=0, key=k),
    "axis, samples": lambda k: mx.random.categorical(mx.array(LOGITS), 0, None, 6, k),
    "infinite": lambda k: mx.random.categorical(mx.array([[-np.inf] * 3]), num_samples=9, key=k),
    "split": lambda k: mx.random.uniform(shape=(3,), key=mx.random.split(k, 5)[3]),
    "split twice": lambda k: mx.random.uniform(key=mx.random.split(mx.random.split(k)[1])[0]),
    "vmap keys": lambda k: mx.vmap(lambda q: mx.random.uniform(shape=(2,), key=q))(
        mx.random.split(k, 3)
    ),
    "compiled": lambda k: mx.compile(lambda q: mx.random.gumbel((3,), key=q) * 2)(k),
    "indexed": lambda k: mx.array(LOGITS)[:, mx.random.categorical(mx.array(LOGITS[0]), key=k)],
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_the_same_key(name, following):
    for seed in (0, 3, 2**40 + 5):
        expected = np.array(DRAWS[name](mx.random.key(seed)).astype(mx.float64))
        with following():
            made = DRAWS[name](mx.random.key(seed))
            assert made.dtype == DRAWS[name](mx.random.key(seed)).dtype
            made = np.array(made.astype(mx.float64))
        np.testing.assert_allclose(made, expected, rtol=2e-6, atol=2e-7)


def test_draws_of_another_key_are_others(following):
    with following():
        made = np.array(DRAWS["samples"](mx.random.key(0)))
    assert (made != np.array(DRAWS["samples"](mx.random.key(1)))).any()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_words_have_the_addresses_at_which_a_split_finds_them(count):
    key = (7, 11)
    words = [threefry(key, at[:2])[at[2]] for at in words_in_blocks(2 * count)]
    made = mx.random.split(mx.array(key, dtype=mx.uint32), count)
    assert made.tolist() == np.reshape(words, (count, 2)).tolist()


X = np.array([[0.5, -1.5, 2.0], [0.25, 3.0, -0.75]], dtype=np.float32)
Y = np.array([[1.0, 2.0, 0.5], [4.0, 0.5, 1.0]], dtype=np.float32)
UPWARDS = np.array([0.1, 0.4, 0.4, 0.9], dtype=np.float32)
A = DrawnArray.of

CALLS = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "maximum", "minimum"), (X, Y)),
    **dict.fromkeys(("less", "less_equal", "greater", "greater_equal", "equal"), (X, Y)),
    **{name: (abs(X), Y) for name in ("power", "remainder", "floor_divide", "not_equal")},
    **{name: (abs(X),) for name in ("log", "log1p", "log2", "log10", "sqrt", "rsqrt", "square")},
    **dict.fromkeys(("exp", "expm1", "abs", "negative", "reciprocal", "sign", "floor"), (X,)),
    **dict.fromkeys(("ceil", "isnan", "isinf", "isfinite", "logical_not", "nan_to_num"), (X,)),
    **dict.fromkeys(("sum", "prod", "max", "min", "mean", "argmax", "argmin", "all"), (X,)),
    **dict.fromkeys(("any", "cumsum", "cumprod", "argsort", "sort", "flatten", "flip"), (X,)),
    **dict.fromkeys(("transpose", "squeeze", "tril", "triu", "stop_gradient", "abs"), (X,)),
    "logical_and": (X > 0, Y > 1), "logical_or": (X > 0, Y > 1),
    "clip": (X, -1.0, mx.array(1.0)), "argpartition": (X, 1), "partition": (X, 1), "topk": (X, 2),
    "reshape": (X, (3, 2)), "expand_dims": (X, 1), "moveaxis": (X, 0, 1), "swapaxes": (X, 0, 1),
    "broadcast_to": (X[:1], (4, 3)), "concatenate": ([X, Y], 1), "stack": ([X, Y], 1),
    "split": (X, 3, 1), "repeat": (X, 2, 1), "tile": (X, (1, 2)), "roll": (X, 1, 1),
    "take": (X, mx.array([2, 0]), 1), "take_along_axis": (X, mx.array([[0], [2]]), 1),
    "pad": (X, 1), "diag": (X[0],), "where": (mx.array(X > 0), X, Y), "searchsorted": (UPWARDS, X),
    "put_along_axis": (X, mx.array([[0], [2]]), Y[:, :1], 1), "array_equal": (X, Y),
    "astype": (X, mx.float16), "unflatten": (X, 1, (3, 1)), "atleast_3d": (X,),
}  # fmt: skip
"""Arguments of each function; arrays of numpy's become arrays of draws."""

OPTIONS = {
    "sum": {"axis": 1, "keepdims": True}, "max": {"axis": 0}, "argmax": {"axis": 1},
    "cumsum": {"axis": 1, "reverse": True}, "argsort": {"axis": 0}, "sort": {"axis": None},
    "all": {"axis": 0}, "mean": {"axis": [0, 1]}, "topk": {"axis": 0}, "cumprod": {"axis": None},
    "argpartition": {"axis": 0}, "partition": {"axis": None}, "searchsorted": {"side": "right"},
    "concatenate": {}, "flip": {"axis": 1}, "prod": {"axis": 0, "keepdims": True},
}  # fmt: skip


def as_drawn(x):
    """An array that is treated as one of draws, although its elements are numbers."""
    if isinstance(x, list):
        return [as_drawn(y) for y in x]
    if not isinstance(x, np.ndarray):
        return x
    kind = mx.bool_ if x.dtype == bool else mx.float32
    return DrawnArray.of(array_of_objects(list(x.ravel())).reshape(x.shape), kind)


def as_real(x):
    if isinstance(x, list | tuple):
        return type(x)(map(as_real, x)) if not all(isinstance(y, int) for y in x) else x
    return mx.array(x) if isinstance(x, np.ndarray) else x


def same(made, expected):
    if isinstance(expected, list | tuple):
        assert len(made) == len(expected)
        return all(map(same, made, expected))
    assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
    number = np.array(expected.astype(mx.float32))
    elements = made.elements
    if made.known is not None:
        elements = REAL.astype(made.known, mx.float32)
    np.testing.assert_allclose(np.array(elements).astype(np.float32), number, rtol=2e-6, atol=1e-6)
    return True


@pytest.fixture
def ops(monkeypatch):
    source = RandomSource(1e-12, seed_once=False)
    source.begin(Path(), [])
    made = MlxOps(source, None)
    monkeypatch.setattr(DrawnArray, "ops", made)
    return made


@pytest.mark.parametrize("options", [False, True], ids=["plain", "options"])
@pytest.mark.parametrize("name", CALLS)
def test_a_function_does_as_mlx_does(name, options, ops):
    kwargs = OPTIONS.get(name, {}) if options else {}
    args = CALLS[name]
    if name == "topk" and options:
        args = (X, 1)
    if name == "searchsorted":
        made = ops.run(name, REAL.searchsorted, (mx.array(UPWARDS), as_drawn(X)), kwargs)
    else:
        made = ops.run(name, getattr(REAL, name), tuple(map(as_drawn, args)), kwargs)
    assert same(made, getattr(REAL, name)(*map(as_real, args), **kwargs))


METHODS = {
    **{f"__{x}__": (Y,) for x in ("add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "eq")},
    **{f"__{x}__": (2.0,) for x in ("radd", "rsub", "rmul", "rtruediv", "ne", "pow")},
    "__neg__": (), "__abs__": (), "__getitem__": ((slice(None), mx.array([2, 0])),),
    "max": (1,), "sum": (), "reshape": (3, 2), "astype": (mx.bfloat16,), "argmax": (), "exp": (),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_a_method_does_as_mlx_does(name, ops):
    args = METHODS[name]
    made = ops.run(name, REAL_METHODS[name], (as_drawn(X), *map(as_drawn, args)), {})
    assert same(made, getattr(mx.array(X), name)(*map(as_real, args)))


def test_attributes_and_slices_do_as_in_mlx(ops):
    drawn, real = as_drawn(X), mx.array(X)
    assert (drawn.ndim, drawn.size, len(drawn), drawn.shape) == (2, 6, 2, (2, 3))
    assert same(drawn.T, real.T)
    assert same(drawn.mT, real.mT)
    # MLX takes no array as the end of a slice.
    for array in (drawn, real, DrawnArray.of_known(real)):
        with pytest.raises(ValueError, match="Slice indices"):
            array[: mx.array(1)]


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["add", "multiply", "divide", "exp", "sum", "cumsum", "maximum"])
def test_sixteen_bits_are_rounded_as_mlx_rounds_them(name, kind, ops):
    kind, other = getattr(mx, kind), getattr(np, kind, None)
    pair = (X / 3, Y / 7) if name in ("add", "multiply", "divide", "maximum") else (X / 3,)
    real = [mx.array(x).astype(kind) for x in pair]
    drawn = [ops._on_astype(mx.array(x), kind) for x in pair]
    forced = [DrawnArray.of(np.array(ops.elements(x), dtype=object), kind) for x in drawn]
    made = ops.run(name, getattr(REAL, name), tuple(forced), {})
    expected = getattr(REAL, name)(*real)
    assert made.dtype == expected.dtype
    numbers = np.array(expected.astype(mx.float32))
    tolerance = 0 if name not in ("exp", "sum", "cumsum") else 2e-2
    found = np.array(made.known.astype(mx.float32))
    np.testing.assert_allclose(found, numbers, rtol=tolerance)
    assert other is None or not np.array_equal(found, np.float32(getattr(np, name)(*pair)))


def written():
    x = mx.zeros((2, 3))
    u = mx.random.uniform(shape=(3,), key=mx.random.key(3))
    x[1] = u
    x[0, 2] = 7
    y = x
    y += 1
    z = x.at[mx.array([0, 0])].add(u)
    return mx.concatenate([x, z * 2])


def test_writes_and_aliases_do_as_in_mlx(following):
    expected = np.array(written())
    with following():
        made = np.array(written())
    np.testing.assert_allclose(made, expected, rtol=1e-6)
    assert expected[0, 2] == 8


ROW = np.log([0.2, 0.3, 0.5])

LAWS = {
    "implicit state": lambda: (
        3 * (mx.random.uniform() < 0.3).item() + mx.random.categorical(mx.array(ROW)).item()
    ),
    "one key, coin and noise": lambda key: (
        3 * (mx.random.uniform(shape=(3,), key=key)[0] < 0.3).item()
        + mx.random.categorical(mx.array(ROW), key=key).item()
    ),
    "another shape": lambda key: (
        3 * (mx.random.uniform(key=key) < 0.3).item()
        + mx.random.categorical(mx.array(ROW), key=key).item()
    ),
    "looked up with the coin": lambda key: (
        3 * (mx.random.uniform(key=key) < 0.3).item()
        + mx.random.categorical(mx.array(ROW[None]), key=key).item()
    ),
    "two of a split": lambda key: (
        3 * (mx.random.uniform(key=mx.random.split(key)[0]) < 0.3).item()
        + mx.random.categorical(mx.array(ROW), key=mx.random.split(key)[1]).item()
    ),
    "vmap shares the state": lambda: int(
        mx.sum(
            mx.vmap(lambda x: (mx.random.uniform() < x).astype(mx.int32))(mx.array([0.2, 0.5, 0.9]))
        )
    ),
    "partitioned race": lambda: mx.argpartition(
        -mx.log(mx.random.uniform(shape=(3,))) / mx.exp(mx.array(ROW)), 0
    )[0].item(),
    "sorted race": lambda: (
        (mx.argsort(mx.random.gumbel((3,)) + mx.array(ROW)) * mx.array([9, 3, 1])).sum().item()
    ),
    "bfloat16 race": lambda: (
        mx.argmax((mx.array(ROW) + 8 + mx.random.gumbel((3,))).astype(mx.bfloat16)).item()
    ),
    "randint": lambda: (mx.random.randint(0, 5, (2,)) * mx.array([5, 1])).sum().item(),
    "permutation": lambda: (mx.random.permutation(3) * mx.array([9, 3, 1])).sum().item(),
}  # fmt: skip
CALLS_OF_A_LAW = 40_000


def drawn_by_mlx(name):
    rule = LAWS[name]
    mx.random.seed(5)
    if rule.__code__.co_argcount == 0:
        return [rule() for _ in range(CALLS_OF_A_LAW)]
    keys = mx.random.split(mx.random.key(5), CALLS_OF_A_LAW)
    return [rule(keys[i]) for i in range(CALLS_OF_A_LAW)]


def law_of(name):
    rule = LAWS[name]
    if rule.__code__.co_argcount == 0:
        return simverify.exact_law(lambda rng: rule())
    return simverify.exact_law(lambda rng: rule(mx.random.key(int(rng.integers(2**31)))))


def pvalue(drawn, law):
    outcomes = sorted({*drawn, *law}, key=lambda x: -law.get(x, 0))
    counts = np.array([drawn.count(x) for x in outcomes])
    due = np.array([CALLS_OF_A_LAW * float(law.get(x, 0)) for x in outcomes])
    few = int((due >= 20).sum())
    if few < len(due):
        counts, due = [*counts[:few], counts[few:].sum()], [*due[:few], max(due[few:].sum(), 1e-9)]
    return chisquare(counts, np.array(due) * CALLS_OF_A_LAW / sum(due)).pvalue


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.thorough(by_day=3)
def test_the_law_is_that_of_mlx(name):
    assert pvalue(drawn_by_mlx(name), law_of(name)) > FALSE_ALARM


def test_a_law_of_two_keys_is_not_that_of_one():
    drawn = drawn_by_mlx("looked up with the coin")
    assert pvalue(drawn, law_of("two of a split")) < FALSE_ALARM


def test_functions_that_mlx_made_of_others_are_told_apart():
    def double(x):
        return 2 * x

    made = {
        "compile": (mx.compile(double), mx.compile(double, inputs=[mx.random.state])),
        "vmap": (mx.vmap(double), mx.vmap(double, in_axes=(0,), out_axes=1)),
        "grad": (mx.grad(double), mx.value_and_grad(double), mx.checkpoint(double)),
    }
    for how, functions in made.items():
        assert [transformed(f)[:2] for f in functions] == [(how, double)] * len(functions)


ATTACKS = {
    "right/mlx/mlx_softmax_partial": "held in a container, or by a partial",
    "right/mlx/mlx_key_plus_number": "words of keys as numbers",
    "wrong/mlx/mlx_vmap_key_outside": "mx.vmap's coin() by its source",
    "wrong/mlx/mlx_compile_second_token": "mx.compile's accept() by its source",
    "wrong/mlx/mlx_compile_one_side": "among inputs or outputs, not both",
    "wrong/mlx/mlx_key_of_another_shape": "",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_the_stand_in_does_otherwise_is_neither_followed_nor_blamed(name):
    outcome, why = exact_outcome(Style(FOLDER / f"{name}.py"), 60.0)
    assert outcome == ("refused" if ATTACKS[name] else "caught")
    assert ATTACKS[name] in why


def test_another_thread_is_told_that_its_state_is_not_its_own(monkeypatch, ops):
    monkeypatch.setattr("threading.current_thread", object)
    with pytest.raises(CannotEnumerate, match="another thread"):
        MlxRandom(ops.source, ops).uniform()
