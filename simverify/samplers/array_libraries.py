"""Samplers and uniform numbers of Python, numpy, torch and JAX."""

import bisect
import copy
import hashlib
import importlib
import itertools
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from simverify.arrays import Floats, Ints, Row
from simverify.samplers.base import (
    FIRST,
    HALF,
    ORDERS,
    VOCAB,
    Call,
    DrawFunction,
    Lookup,
    Race,
    Sampler,
    Streams,
    UniformGenerator,
    as_float64,
    in_parts,
    logits_of,
    modulo_tv,
    normalised,
    numpy_cast,
    order_law,
    repeated,
    scipy_law,
    threshold_tv,
    uniform_law,
)

# Python and numpy.


def _numpy_index(row: Row, dtype: str) -> Callable[[Floats], Ints]:
    sums = row.astype(dtype).astype(np.float64).cumsum()
    sums /= sums[-1]
    return lambda u: sums.searchsorted(u, side="right")


def _choices(row: Row, _dtype: str, count: int, seed: int) -> Ints:
    tokens = random.Random(seed).choices(range(len(row)), weights=row.tolist(), k=count)
    return np.array(tokens, dtype=np.int64)


def _choices_index(row: Row, _dtype: str) -> Callable[[Floats], Ints]:
    sums = list(itertools.accumulate(row.tolist()))
    last = len(sums) - 1
    return lambda u: np.array(
        [bisect.bisect(sums, x * sums[-1], 0, last) for x in u.tolist()], dtype=np.int64
    )


def _python_uniforms(_dtype: str, count: int, seed: int) -> Floats:
    numbers = random.Random(seed)
    return np.array([numbers.random() for _ in range(count)])


# torch.


def torch_module() -> Any:
    """Return torch, which is imported where it is judged alone."""
    return importlib.import_module("torch")


def _torch_row(row: Row, dtype: str) -> Any:
    torch = torch_module()
    return torch.tensor(row, dtype=torch.float64).to(getattr(torch, dtype))


def _torch_cast(row: Row, dtype: str) -> Row:
    return normalised(_torch_row(row, dtype).double().numpy())


def _torch_generator(seed: int) -> Any:
    return torch_module().Generator().manual_seed(seed)


def _torch_many(row: Row, dtype: str, count: int, seed: int) -> Ints:
    numbers = _torch_generator(seed)
    drawn = torch_module().multinomial(_torch_row(row, dtype), count, True, generator=numbers)
    return np.asarray(drawn.numpy(), dtype=np.int64)


def _torch_index(row: Row, dtype: str) -> Callable[[Floats], Ints]:
    given = _torch_row(row, dtype)
    # Half precision is added up in float32.
    sums = np.cumsum((given.float() if dtype in HALF else given).numpy())
    sums = (sums / sums[-1]).astype(np.float64)
    sums[-1] = 1.0
    return lambda u: np.minimum(sums.searchsorted(u, side="left"), len(sums) - 1)


def _torch_uniforms(_dtype: str, count: int, seed: int) -> Floats:
    torch = torch_module()
    drawn = torch.rand(count, dtype=torch.float64, generator=_torch_generator(seed))
    return np.asarray(drawn.numpy())


def _torch_one(row: Row, dtype: str, count: int, seed: int) -> Ints:
    torch, numbers, given = torch_module(), _torch_generator(seed), _torch_row(row, dtype)
    parts = [
        torch.multinomial(given.expand(part, -1), 1, generator=numbers).ravel().numpy()
        for part in in_parts(count, len(row))
    ]
    return np.concatenate(parts).astype(np.int64)


def _torch_race(row: Row, dtype: str, count: int, seed: int) -> Ints:
    torch, numbers, given = torch_module(), _torch_generator(seed), _torch_row(row, dtype)
    parts = []
    for part in in_parts(count, len(row)):
        noise = torch.empty((part, len(row)), dtype=given.dtype).exponential_(generator=numbers)
        parts.append((given / noise).argmax(-1).numpy())
    return np.concatenate(parts).astype(np.int64)


# JAX.


_JAX_BITS = {"float32": 23, "float16": 10, "bfloat16": 7}


def jax_module() -> Any:
    """Return JAX, as torch."""
    return importlib.import_module("jax")


def _jax_array(values: Any, dtype: str) -> Any:
    return jax_module().numpy.asarray(np.asarray(values), dtype)


def _jax_cast(row: Row, dtype: str) -> Row:
    return normalised(np.asarray(_jax_array(row, dtype).astype("float32"), dtype=np.float64))


def _jax_cast_logits(row: Row, dtype: str) -> Row:
    given = np.asarray(_jax_array(logits_of(row), dtype).astype("float32"), dtype=np.float64)
    return normalised(np.exp(given - given.max()))


def _jax_choice(row: Row, dtype: str, count: int, seed: int) -> Ints:
    key = jax_module().random.key(seed)
    drawn = jax_module().random.choice(key, len(row), (count,), p=_jax_array(row, dtype))
    return np.asarray(drawn).astype(np.int64)


def _jax_index(row: Row, dtype: str) -> Callable[[Floats], Ints]:
    jnp = jax_module().numpy
    sums = jnp.cumsum(_jax_array(row, dtype))

    def index(u: Floats) -> Ints:
        looked_up = sums[-1] * (1 - _jax_array(u, dtype))
        return np.asarray(jnp.searchsorted(sums, looked_up)).astype(np.int64)

    return index


def _jax_uniforms(dtype: str, count: int, seed: int) -> Floats:
    drawn = jax_module().random.uniform(jax_module().random.key(seed), (count,), dtype)
    return np.asarray(drawn.astype("float32"), dtype=np.float64)


def _jax_categorical(row: Row, dtype: str, count: int, seed: int) -> Ints:
    jax, given = jax_module(), _jax_array(logits_of(row), dtype)
    parts = in_parts(count, len(row))
    keys = jax.random.split(jax.random.key(seed), len(parts))
    drawn = [
        np.asarray(jax.random.categorical(key, given, shape=(part,)))
        for key, part in zip(keys, parts, strict=True)
    ]
    return np.concatenate(drawn).astype(np.int64)


def _jax_gumbel(uniforms: Any) -> Any:
    """Return the Gumbel numbers of uniform ones k / 2^bits, in their type, as JAX does."""
    jnp = jax_module().numpy
    tiny = jnp.asarray(jnp.finfo(uniforms.dtype).tiny, uniforms.dtype)
    floored = jnp.maximum(tiny, uniforms * (1 - tiny) + tiny)
    return -jnp.log(-jnp.log(floored))


def _jax_gumbel_race(row: Row, dtype: str, count: int, seed: int) -> Ints:
    jax, given = jax_module(), _jax_array(logits_of(row), dtype)
    parts = in_parts(count, len(row))
    keys = jax.random.split(jax.random.key(seed), len(parts))
    drawn = []
    for key, part in zip(keys, parts, strict=True):
        noise = _jax_gumbel(jax.random.uniform(key, (part, len(row)), given.dtype))
        drawn.append(np.asarray(jax.numpy.argmax(noise + given, axis=-1)))
    return np.concatenate(drawn).astype(np.int64)


def _jax_scores(row: Row, dtype: str) -> tuple[Floats, Ints]:
    points = 1 << _JAX_BITS[dtype]
    noise = _jax_gumbel(_jax_array(np.arange(points) / points, dtype))
    given = _jax_array(logits_of(row), dtype)
    exact = np.asarray(given.astype("float32"))
    different, place = np.unique(exact, return_inverse=True)
    scores = _jax_array(different, dtype)[:, None] + noise
    return np.asarray(scores.astype("float32"), dtype=np.float64), place.astype(np.int64)


def _torch_uniform(dtype: str, count: int, seed: int) -> Floats:
    torch = torch_module()
    numbers = torch.Generator().manual_seed(seed)
    drawn = torch.rand(count, dtype=getattr(torch, dtype), generator=numbers)
    return as_float64(drawn.double().numpy())


def _jax_uniform(dtype: str, count: int, seed: int) -> Floats:
    jax = jax_module()
    return as_float64(jax.random.uniform(jax.random.key(seed), (count,), dtype).astype("float32"))


def _choice_of(name: str, make: Callable[[int], Any]) -> Sampler:
    """Return the sampler of a numpy generator; ``make``: returns one with a seed."""
    return Sampler(
        name,
        "numpy",
        ("float64", "float32"),
        "one uniform number of 53 bits, looked up in a float64 cumulative sum",
        numpy_cast,
        lambda row, dtype, count, seed: make(seed).choice(
            len(row), size=count, p=row.astype(dtype)
        ),
        Lookup(
            {"float64": 53, "float32": 53},
            _numpy_index,
            lambda _dtype, count, seed: make(seed).random(count),
        ),
    )


SAMPLERS = (
    Sampler(
        "random.choices",
        "",
        ("float64",),
        "one uniform number of 53 bits, looked up in a float64 cumulative sum",
        numpy_cast,
        _choices,
        Lookup({"float64": 53}, _choices_index, _python_uniforms),
    ),
    _choice_of("numpy.Generator.choice", np.random.default_rng),
    _choice_of("numpy.RandomState.choice", np.random.RandomState),
    Sampler(
        "torch.multinomial",
        "torch",
        ("float32", "float64", *HALF),
        "a race: the token with the largest p / e, where each token has an exponential number e of "
        "the row's type",
        _torch_cast,
        _torch_one,
        again=_torch_race,
    ),
    Sampler(
        "torch.multinomial-replacement",
        "torch",
        ("float32", "float64", *HALF),
        "many draws from one row: one uniform number of 53 bits each, looked up in a cumulative "
        "sum of the row's type, or of float32 for half precision",
        _torch_cast,
        _torch_many,
        Lookup(dict.fromkeys(("float32", "float64", *HALF), 53), _torch_index, _torch_uniforms),
    ),
    Sampler(
        "jax.random.choice",
        "jax",
        ("float32", *HALF),
        "one uniform number, looked up in a cumulative sum; both have the row's type",
        _jax_cast,
        _jax_choice,
        Lookup(_JAX_BITS, _jax_index, _jax_uniforms),
    ),
    Sampler(
        "jax.random.categorical",
        "jax",
        ("float32", *HALF),
        "a race: the largest of logit + g, with a Gumbel number g of the row's type for each token",
        _jax_cast_logits,
        _jax_categorical,
        race=Race(HALF, _jax_scores),
        again=_jax_gumbel_race,
    ),
)

GENERATORS = (
    UniformGenerator(
        "random.random", "", ("float64",), _python_uniforms, "import random; print(random.random())"
    ),
    UniformGenerator(
        "numpy.Generator.random",
        "numpy",
        ("float64", "float32"),
        lambda dtype, count, seed: as_float64(
            np.random.default_rng(seed).random(
                count, np.float32 if dtype == "float32" else np.float64
            )
        ),
        "import numpy; print(numpy.random.default_rng().random())",
    ),
    UniformGenerator(
        "numpy.RandomState.random_sample",
        "numpy",
        ("float64",),
        lambda _dtype, count, seed: np.random.RandomState(seed).random_sample(count),
        "import numpy; print(numpy.random.random_sample())",
    ),
    UniformGenerator(
        "torch.rand",
        "torch",
        ("float32", "float64", *HALF),
        _torch_uniform,
        "import torch; print(torch.rand(1, dtype=torch.float64).item())",
    ),
    UniformGenerator("jax.random.uniform", "jax", ("float32", *HALF), _jax_uniform),
)


# What generators and keys of one seed share.


def _python_names() -> dict[str, Any]:
    return {"Random": random.Random, "sha512": hashlib.sha512}


def _numpy_names() -> dict[str, Any]:
    return vars(np.random) | {"deepcopy": copy.deepcopy, "Random": random.Random}


def _numpy_numbers(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return [generator.random() for _ in range(FIRST)]
    if isinstance(generator, np.random.BitGenerator):
        return generator.random_raw(FIRST)
    return generator.random(FIRST)


def _torch_names() -> dict[str, Any]:
    torch = torch_module()

    def inside(block: Callable[[], AbstractContextManager[Any]]) -> Any:
        with torch.random.fork_rng():
            torch.manual_seed(5)
            with block():
                return torch.rand(FIRST, dtype=torch.float64)

    def after(block: Callable[[], AbstractContextManager[Any]]) -> Any:
        with torch.random.fork_rng():
            torch.manual_seed(5)
            with block():
                torch.rand(FIRST, dtype=torch.float64)
            return torch.rand(FIRST, dtype=torch.float64)

    return {
        "Generator": torch.Generator,
        "inside": inside,
        "after": after,
        "fork_rng": torch.random.fork_rng,
    }


def _torch_numbers(value: Any) -> Any:
    torch = torch_module()
    if isinstance(value, torch.Generator):
        value = torch.rand(FIRST, dtype=torch.float64, generator=value)
    return value.numpy()


def _jax_names() -> dict[str, Any]:
    return dict(vars(jax_module().random))


def _jax_numbers(value: Any) -> Any:
    jax = jax_module()
    key = jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key) or value.shape == (2,)
    return np.ravel(jax.random.bits(value, (FIRST,)) if key else value)


_JAX_PAIRS = (
    ("key(5)", "PRNGKey(5)"),
    ("key(5)", "split(key(5))[0]"),
    ("split(key(5), 2)[0]", "split(key(5), 3)[0]"),
    ("split(key(5), 3)[2]", "fold_in(key(5), 2)"),
    ("fold_in(fold_in(key(5), 1), 2)", "fold_in(fold_in(key(5), 2), 1)"),
    ("bits(key(5), (1024,))", "bits(key(5), (2048,))[:1024]"),
    ("bits(key(5), (1024,))", "key_data(split(key(5), 512))"),
    *(
        pair
        for kind in ("rbg", "unsafe_rbg")
        for pair in (
            (f"split(key(5, impl='{kind}'), 2)[0]", f"split(key(5, impl='{kind}'), 3)[0]"),
            (f"split(key(5, impl='{kind}'), 3)[2]", f"fold_in(key(5, impl='{kind}'), 2)"),
        )
    ),
)

STREAMS = (
    Streams(
        "",
        _python_names,
        _numpy_numbers,
        (
            ("Random(5)", "Random(-5)"),
            ("Random(5)", "Random(5.0)"),
            ("Random(5)", "Random('5')"),
            ("Random('a')", "Random(int.from_bytes(b'a' + sha512(b'a').digest()))"),
        ),
    ),
    Streams(
        "numpy",
        _numpy_names,
        _numpy_numbers,
        (
            ("default_rng(5)", "default_rng([5, 0])"),
            ("default_rng(2**32)", "default_rng([0, 1])"),
            ("default_rng(5)", "(g := default_rng(5)).spawn(1) and g"),
            ("default_rng(5)", "default_rng(5).spawn(1)[0]"),
            ("default_rng(5).spawn(2)[0]", "default_rng(5).spawn(3)[0]"),
            ("default_rng(5).spawn(1)[0]", "deepcopy(default_rng(5)).spawn(1)[0]"),
            ("default_rng(5).spawn(4)[3]", "default_rng(SeedSequence(5, spawn_key=(3,)))"),
            ("default_rng(5).spawn(4)[3]", "default_rng([5, 0, 0, 0, 3])"),
            ("PCG64(5)", "PCG64(5).jumped()"),
            ("PCG64(5).jumped(2)", "PCG64(5).jumped().jumped()"),
            ("PCG64(5)", "PCG64(5).advance(100)"),
            ("Philox(5)", "Philox(5).advance(100)"),
            ("Philox(key=5)", "Philox(key=5, counter=100)"),
            ("RandomState(5)", "RandomState([5])"),
            ("RandomState([5])", "RandomState([5, 0])"),
            ("RandomState([5])", "Random(5)"),
            ("RandomState(5)", "RandomState(MT19937(5))"),
            ("Generator(MT19937(5))", "RandomState(MT19937(5))"),
        ),
    ),
    Streams(
        "torch",
        _torch_names,
        _torch_numbers,
        (
            ("Generator().manual_seed(5)", "Generator().manual_seed(5).clone_state()"),
            ("inside(fork_rng)", "after(fork_rng)"),
        ),
    ),
    Streams("jax", _jax_names, _jax_numbers, _JAX_PAIRS),
    Streams(
        "jax",
        _jax_names,
        _jax_numbers,
        _JAX_PAIRS,
        "jax_threefry_partitionable off",
        lambda: jax_module().threefry_partitionable(False),
    ),
)
"""In words: ``inside`` and ``after`` draw with one seed in a block and after it."""


# Functions that draw integers, permutations and normal numbers.


def _torch_draw_names(count: int, seed: int) -> dict[str, Any]:
    torch, numbers = torch_module(), _torch_generator(seed)

    def filled(value: float, dtype: str = "float32") -> Any:
        return torch.full((count,), value, dtype=getattr(torch, dtype))

    def drawn(name: str) -> Callable[..., Any]:
        function = getattr(torch, name)
        return lambda *given: function(*(filled(x) for x in given), generator=numbers).double()

    return {
        "randint": lambda *bounds, dtype="int64": torch.randint(
            *bounds, (count,), generator=numbers, dtype=getattr(torch, dtype)
        ).to(torch.int64),
        "randperm": repeated(lambda size: torch.randperm(size, generator=numbers).numpy(), count),
        "bernoulli": lambda p, dtype="float32": torch.bernoulli(
            filled(p, dtype), generator=numbers
        ).double(),
        "poisson": drawn("poisson"),
        "binomial": drawn("binomial"),
        "geometric_": lambda p, dtype="int64": (
            filled(0, dtype).geometric_(p, generator=numbers).double()
        ),
    }


def _torch_words(count: int, seed: int) -> Any:
    return np.random.RandomState(seed).randint(0, 1 << 32, count, dtype=np.uint32).astype(np.uint64)


def _replay_torch_integers(size: int, count: int, seed: int) -> Ints:
    if size < _TORCH_WIDE:
        return np.asarray(_torch_words(count, seed) % size, dtype=np.int64)
    high, low = _torch_words(2 * count, seed).reshape(-1, 2).T
    return np.asarray((high << np.uint64(32) | low) % np.uint64(size), dtype=np.int64)


_TORCH_WIDE = 1 << 28


def _replay_torch_orders(count: int, seed: int) -> Ints:
    words = iter(_torch_words(3 * count, seed).tolist())

    def draw(size: int) -> list[int]:
        items = list(range(size))
        for place in range(size - 1):
            other = place + next(words) % (size - place)
            items[place], items[other] = items[other], items[place]
        return items

    return repeated(draw, count)(4)


def _replay_torch_bernoulli(p: float, dtype: str, count: int, seed: int) -> Floats:
    torch = torch_module()
    given = torch.tensor(p, dtype=getattr(torch, dtype)).double().item()
    drawn = _torch_uniform("float64" if dtype == "float64" else "float32", count, seed) < given
    return as_float64(drawn)


def _torch_threshold(p: float, dtype: str) -> float:
    torch = torch_module()
    given = torch.tensor(p, dtype=getattr(torch, dtype)).double().item()
    return threshold_tv(given, 53 if dtype == "float64" else 24)


def _torch_draw(
    name: str, method: str, calls: tuple[Call, ...], *unusual_calls: str, count: int = 1 << 18
) -> DrawFunction:
    written = tuple(f"{name}({words})" for words in unusual_calls)
    title = f"torch.{'Tensor.' * name.endswith('_')}{name}"
    return DrawFunction(title, "torch", method, _torch_draw_names, calls, written, count)


def _bernoulli_call(
    p: float,
    dtype: str,
    given: float,
    replay: Callable[[float, str, int, int], Any],
    tv: Callable[[float, str], float],
) -> Call:
    """Return a call of a library's Bernoulli numbers; ``given``: p in that type."""
    return Call(
        f"bernoulli({p:.9g}, '{dtype}')",
        partial(scipy_law, "bernoulli", given),
        partial(replay, p, dtype),
        partial(tv, p, dtype),
    )


_BERNOULLI = (
    (0.3, "float32", float(np.float32(0.3))),
    (1e-8, "float32", float(np.float32(1e-8))),
    (1e-3, "float16", float(np.float16(1e-3))),
    (1e-3, "bfloat16", 0.00099945068359375),
)

_POISSON_CALLS = (
    Call("poisson(3.5)", partial(scipy_law, "poisson", 3.5)),
    Call("poisson(100)", partial(scipy_law, "poisson", 100)),
)

_BINOMIAL_CALLS = (
    Call("binomial(20, .3)", partial(scipy_law, "binom", 20, 0.3)),
    Call("binomial(1000, .4)", partial(scipy_law, "binom", 1000, 0.4)),
)

_TORCH_DRAWS = (
    _torch_draw(
        "randint",
        "Returns a word modulo the range; takes 32-bit words for fewer than 2^28 integers, else "
        "64-bit words",
        tuple(
            Call(
                f"randint({size})",
                partial(uniform_law, size),
                partial(_replay_torch_integers, size),
                partial(modulo_tv, 32 if size < _TORCH_WIDE else 64, size),
            )
            for size in (10, VOCAB, _TORCH_WIDE - 1, 3 << 30)
        ),
        "0",
        "5, 5",
        "2.9",
        "0, 2**63",
        "-2**63, 2**63 - 1",
        "256, 258, dtype='bfloat16'",
        "0, 300, dtype='bfloat16'",
        "0, 300, dtype='uint8'",
    ),
    _torch_draw(
        "randperm",
        "Fisher-Yates shuffle from the front; each index: a 32-bit word modulo the range",
        (
            Call(
                "randperm(4)",
                partial(order_law, 4, 4),
                _replay_torch_orders,
                partial(modulo_tv, 32, 3),
            ),
        ),
        "0",
        "-1",
        count=ORDERS,
    ),
    _torch_draw(
        "bernoulli",
        "Returns 1 if a uniform number is below p; the number has 24 bits, or 53 for float64",
        tuple(
            _bernoulli_call(*one, _replay_torch_bernoulli, _torch_threshold) for one in _BERNOULLI
        ),
        "0",
        "1",
        "nan",
        "-.1",
        "1.1",
        "1 - 1e-8",
    ),
    _torch_draw(
        "poisson",
        "If the rate is below 10: multiplies uniform numbers; else PTRS; returns float32",
        _POISSON_CALLS,
        *("0", "-1", "nan", "inf", "1e10", "1e30"),
    ),
    _torch_draw(
        "binomial",
        "If n min(p, 1 - p) is below 10: adds up geometric gaps between successes; else BTRS; "
        "works in float32",
        _BINOMIAL_CALLS,
        *("0, .5", "20, 0", "20, 1", "20, nan", "20, -.1", "20, 1.1", "-1, .5"),
    ),
    _torch_draw(
        "geometric_",
        "Divides the logarithm of a 53-bit uniform number by log(1 - p); rounds up",
        (
            Call("geometric_(.5)", partial(scipy_law, "geom", 0.5)),
            Call("geometric_(.01)", partial(scipy_law, "geom", 0.01)),
        ),
        *("0", "1", "nan", "1e-10", "1e-17", "1e-30"),
    ),
)


def _jax_draw_names(count: int, seed: int) -> dict[str, Any]:
    jax = jax_module()
    random, key = jax.random, jax.random.key(seed)

    def sized(name: str) -> Callable[..., Any]:
        return lambda *given, **named: getattr(random, name)(key, *given, shape=(count,), **named)

    return {
        "randint": lambda *bounds, **named: random.randint(key, (count,), *bounds, **named),
        "bernoulli": lambda p, dtype="float32", **named: random.bernoulli(
            key, _jax_array(p, dtype), (count,), **named
        ),
        "permutation": lambda size: jax.vmap(lambda one: random.permutation(one, size))(
            random.split(key, count)
        ),
        "poisson": sized("poisson"),
        "geometric": sized("geometric"),
        "binomial": sized("binomial"),
    }


def _replay_jax_integers(size: int, count: int, seed: int) -> Ints:
    random = jax_module().random
    words = [random.bits(key, (count,)) for key in random.split(random.key(seed))]
    high, low = (np.asarray(word).astype(np.uint64) for word in words)
    # 2^16 squared wraps to 0, and the upper word then counts for nothing.
    carried = _jax_multiplier(size)
    return ((high % size * carried + low % size) % size).astype(np.int64)


def _jax_multiplier(size: int) -> int:
    return ((1 << 16) % size) ** 2 % (1 << 32) % size


def _jax_randint_tv(size: int) -> float:
    return modulo_tv(32 if _jax_multiplier(size) == 0 else 64, size)


def _replay_jax_bernoulli(p: float, dtype: str, count: int, seed: int) -> Any:
    given = float(_jax_array(p, dtype).astype("float32"))
    return _jax_uniform(dtype, count, seed) < given


def _jax_threshold(p: float, dtype: str) -> float:
    return threshold_tv(float(_jax_array(p, dtype).astype("float32")), _JAX_BITS[dtype])


def _jax_draw(name: str, method: str, calls: tuple[Call, ...], *unusual_calls: str) -> DrawFunction:
    written = tuple(f"{name}({words})" for words in unusual_calls)
    return DrawFunction(f"jax.random.{name}", "jax", method, _jax_draw_names, calls, written)


_JAX_DRAWS = (
    _jax_draw(
        "randint",
        "Up to 2^16 integers: a 64-bit word modulo the range. Above that: only its lower 32 bits "
        "modulo the range, because the factor of the upper half overflows to 0",
        tuple(
            Call(
                f"randint(0, {size})",
                partial(uniform_law, size),
                partial(_replay_jax_integers, size),
                partial(_jax_randint_tv, size),
            )
            for size in (10, VOCAB, 3 << 29)
        ),
        "5, 5",
        "5, 3",
        "0, 2.9",
        "0, 2**31",
        "0, 300, dtype='uint8'",
    ),
    _jax_draw(
        "bernoulli",
        "Returns 1 if a uniform number of p's type is below p",
        tuple(_bernoulli_call(*one, _replay_jax_bernoulli, _jax_threshold) for one in _BERNOULLI),
        "0",
        "1",
        "nan",
        "-.1",
        "1.1",
        "1 - 1e-8",
    ),
    _jax_draw(
        "permutation",
        "Sorts by random 32-bit words, often enough that equal words hardly matter",
        (Call("permutation(4)", partial(order_law, 4, 4)),),
        "0",
    ),
    _jax_draw(
        "poisson",
        "If the rate is below 10: multiplies uniform numbers; else PTRS; works in float32",
        _POISSON_CALLS,
        *("0", "-1", "nan", "1e10"),
    ),
    _jax_draw(
        "binomial",
        "If n min(p, 1 - p) is at most 10: adds up geometric gaps between successes; else BTRS; "
        "works in float32",
        _BINOMIAL_CALLS,
        *("20., 0.", "20., 1.", "20., nan", "20., 1.1"),
    ),
    _jax_draw(
        "geometric",
        "Divides the logarithm of a float32 uniform number by log(1 - p); rounds down and adds 1",
        (
            Call("geometric(.5)", partial(scipy_law, "geom", 0.5)),
            Call("geometric(.01)", partial(scipy_law, "geom", 0.01)),
        ),
        *("0", "1", "nan", "1e-10"),
    ),
)

DRAW_FUNCTIONS = (*_TORCH_DRAWS, *_JAX_DRAWS)
