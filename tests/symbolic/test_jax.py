"""What stands in for JAX, against JAX itself: bits by address, programs on numbers, exact laws."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import set_current_trace
from jax.sharding import AbstractMesh, Mesh, PartitionSpec
from scipy.stats import chisquare
from support.written_rules import outcome

import simverify
from simverify.auditing.sampled_runs import (
    ContractMisuse,
    StaleDraw,
    TrialRunner,
    default_sampled_instances,
)
from simverify.symbolic.hidden_state import UNCHANGED_STATE, HiddenState
from simverify.symbolic.jax_programs import Runner
from simverify.symbolic.jax_trace import DrawTrace
from simverify.symbolic.keys import Word
from simverify.symbolic.paths import Path
from simverify.symbolic.source import RandomSource

FALSE_ALARM = 1e-9


def following(monkeypatch, *, plain=False):
    """A trace on which the draws of a constant key are the bits that JAX itself gives."""
    source = RandomSource(1e-12, seed_once=False)
    source.begin(Path(), [])
    runner = Runner(source, None, plain=plain)
    real = {}
    of_keys = runner.book._word

    def word(key, at, width, line):
        made = of_keys(key, at, width, line)
        if made not in real:
            with jax.core.eval_context():
                again = jax.random.wrap_key_data(np.array(key.data, np.uint32), impl=key.impl)
                bits = jax.random.bits(again, (64,), f"uint{width}")
            real[made] = int(bits[at])
        return made

    def read(self, how, make, among=None):
        return make((real[self] + 0.5) / 2**self.bits)

    monkeypatch.setattr(runner.book, "_word", word)

    def below(self, high, count):
        return np.uint32(((real[high] << 32) + real[self]) % count)

    monkeypatch.setattr(Word, "_read", read)
    monkeypatch.setattr(Word, "below", below)
    return DrawTrace(runner)


P = jnp.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.0, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]])


def looped(key):
    def step(i, state):
        key, total = state
        key, now = jax.random.split(key)
        return key, total + jax.random.uniform(now) * (i + 1)

    return jax.lax.fori_loop(0, 4, step, (key, 0.0))[1]


def until(key):
    def step(state):
        key, count = state
        return jax.random.split(key)[0], count + 1

    return jax.lax.while_loop(lambda s: jax.random.uniform(s[0]) < 0.4, step, (key, 0))[1]


def scanned(key):
    def step(key, row):
        key, now = jax.random.split(key)
        return key, jax.random.categorical(now, jnp.log(row))

    return jax.lax.scan(step, key, P, reverse=True)[1]


def branched(key):
    u = jax.random.uniform(key)
    n = jnp.int32(u * 3)
    made = jax.lax.switch(n, [lambda x: x + 1, lambda x: x * 2, lambda x: x - 3], u)
    return jax.lax.cond(u < 0.5, lambda x: x, lambda x: -x, made)


def written(key):
    u = jax.random.uniform(key, (3, 4))
    u = u.at[1].set(0.5).at[0, 2].add(1.0).at[jnp.array([2, 0]), jnp.array([1, 3])].multiply(2.0)
    return jnp.roll(jnp.pad(u, 1, constant_values=0.3), 1, axis=0)[::2], u[:, ::-1].T.reshape(2, 6)


PROGRAMS = {
    "uniform": lambda k: jax.random.uniform(k, (2, 3)),
    "uniform between": lambda k: jax.random.uniform(k, (5,), minval=-2.0, maxval=3.0),
    "uniform scalar": jax.random.uniform,
    "gumbel": lambda k: jax.random.gumbel(k, (4,)),
    "exponential": lambda k: jax.random.exponential(k, (4,)),
    "bernoulli": lambda k: jax.random.bernoulli(k, P),
    "categorical": lambda k: jax.random.categorical(k, jnp.log(P), axis=-1),
    "categorical shape": lambda k: jax.random.categorical(k, jnp.log(P), shape=(5, 3)),
    "choice": lambda k: jax.random.choice(k, 4, (6,), p=P[0]),
    "choice of few": lambda k: jax.random.choice(k, P[0], (2,), replace=False, p=P[0]),
    "choice unweighted": lambda k: jax.random.choice(k, 5, (4,)),
    "randint": lambda k: jax.random.randint(k, (6,), -3, 9),
    "permutation": lambda k: jax.random.permutation(k, 6),
    "bits": lambda k: jax.random.bits(k, (3,)) % 7,
    "signs": lambda k: jax.random.rademacher(k, (5,)),
    "vmap keys": lambda k: jax.vmap(jax.random.uniform)(jax.random.split(k, 3)),
    "vmap folded": lambda k: jax.vmap(lambda i: jax.random.uniform(jax.random.fold_in(k, i), (2,)))(
        jnp.arange(3)
    ),
    "vmap bits of two keys": lambda k: jax.vmap(lambda q: jax.random.bernoulli(q, 0.3, (2,)))(
        jax.random.split(k, 3)
    ),
    "fori": looped,
    "while": until,
    "scan": scanned,
    "branches": branched,
    "writes": written,
    "sorts": lambda k: jnp.sort(jax.random.uniform(k, (3, 4)), axis=0),
    "argsort": lambda k: jnp.argsort(jax.random.uniform(k, (6,)), descending=True),
    "top k": lambda k: jax.lax.top_k(jax.random.uniform(k, (2, 5)), 3),
    "running": lambda k: jnp.cumsum(jax.random.uniform(k, (3, 4)), axis=1),
    "maximum": lambda k: jnp.maximum(jax.random.uniform(k, (4,)), 0.4).max(),
    "search": lambda k: jnp.searchsorted(jnp.cumsum(P[0]), jax.random.uniform(k, (5,))),
    "where": lambda k: jnp.where(jax.random.uniform(k, (4,)) < 0.5, P[0], -1.0),
    "take": lambda k: jnp.take_along_axis(
        P, jax.random.categorical(k, jnp.log(P))[:, None], axis=1
    ),
    "clip": lambda k: jnp.clip(jax.random.uniform(k, (6,)), 0.2, 0.7),
    "power": lambda k: (1 - jax.random.uniform(k, (3,))) ** 2 / 3 + jnp.sqrt(0.5),
    "floor": lambda k: jnp.floor(jax.random.uniform(k, (6,)) * 5).astype(int) % 3,
    "concatenate": lambda k: jnp.concatenate([jax.random.uniform(k, (2,)), P[0]]),
    "one hot": lambda k: jax.nn.one_hot(jax.random.categorical(k, jnp.log(P[0])), 4),
    "bfloat16": lambda k: jax.random.uniform(k, (5,), jnp.bfloat16),
    "float16": lambda k: jax.random.uniform(k, (5,), jnp.float16, 0.5, 2),
    "Gumbel bfloat16": lambda k: jax.random.gumbel(k, (5,), jnp.bfloat16),
    "Gumbel float16": lambda k: jax.random.gumbel(k, (5,), jnp.float16),
    "exponential bfloat16": lambda k: jax.random.exponential(k, (5,), jnp.bfloat16) * 0.3 + 1,
    "cast to bfloat16": lambda k: (
        jax.random.uniform(k, (5,)).astype(jnp.bfloat16) * jnp.bfloat16(0.3)
    ),
    "categorical bfloat16": lambda k: jax.random.categorical(
        k, jnp.log(P[0]).astype(jnp.bfloat16), shape=(5,)
    ),
    "choice float16": lambda k: jax.random.choice(k, 4, (5,), p=P[0].astype(jnp.float16)),
    "bits of 8": lambda k: jax.random.bits(k, (5,), "uint8"),
    "bits of 16": lambda k: jax.random.bits(k, (5,), "uint16"),
}

QUICK = (
    "categorical", "choice", "randint", "while", "scan", "writes", "vmap folded", "Gumbel bfloat16",
    "float16",
)  # fmt: skip


@pytest.mark.parametrize("name", [*QUICK, *(x for x in PROGRAMS if x not in QUICK)])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "as it is"])
@pytest.mark.thorough(by_day=24)
def test_programs_do_as_jax_does_on_its_own_bits(name, compiled, monkeypatch):
    program = jax.jit(PROGRAMS[name]) if compiled else PROGRAMS[name]
    for key in (jax.random.key(5), jax.random.key(6, impl="rbg"), jax.random.PRNGKey(7)):
        expected = jax.tree.map(np.asarray, program(key))
        with set_current_trace(following(monkeypatch)):
            made = jax.tree.map(np.asarray, program(key))
        for x, y in zip(jax.tree.leaves(made), jax.tree.leaves(expected), strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            # Between two operations compiled code may leave out a rounding to float16.
            rtol = 2**-10 if x.dtype == np.float16 else 2e-6
            np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-6)


def test_a_program_on_other_bits_is_not_the_same(monkeypatch):
    program = jax.jit(PROGRAMS["categorical shape"])
    with set_current_trace(following(monkeypatch)):
        made = np.asarray(program(jax.random.key(5)))
    assert (made != np.asarray(program(jax.random.key(6)))).any()


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("partitionable", [True, False])
def test_bits_have_one_address_where_they_are_the_same_bits(impl, partitionable):
    before = jax.config.jax_threefry_partitionable
    jax.config.update("jax_threefry_partitionable", partitionable)
    try:
        runner = Runner(RandomSource(1e-12, seed_once=False), None, plain=False)

        def keys(root):
            split, fold_in = jax.random.split, jax.random.fold_in
            made = [split(root, n)[i] for n in (1, 2, 3, 4) for i in range(n)]
            made += [fold_in(root, i) for i in range(4)]
            return [root, *made, split(made[1])[0], fold_in(made[1], 0), split(fold_in(root, 1))[1]]

        def bits(key):
            return [jax.random.bits(key, (n,)) for n in (1, 2, 3, 4, 5)]

        root = jax.random.key(3, impl=impl)
        real = [int(x) for key in keys(root) for row in bits(key) for x in row]
        trace = DrawTrace(runner)
        with set_current_trace(trace):
            drawn = trace.stage_value(root)
            drawn.value.elements[()] = runner.book.root("drawn", impl)[0]
            named = [
                id(word)
                for key in keys(drawn)
                for row in bits(key)
                for word in row.value.elements.tolist()
            ]
    finally:
        jax.config.update("jax_threefry_partitionable", before)
    same = {}
    for number, name in zip(real, named, strict=True):
        assert same.setdefault(name, number) == number
    assert len(set(real)) == len(set(named))


LOGITS = jnp.log(P[0])
COMPUTED = {
    "negative winner": lambda k: jnp.where(
        jax.random.categorical(k, LOGITS) - 1 < 0, 7, jnp.argmax(LOGITS)
    ),
    "negative index": lambda k: jnp.arange(4)[jax.random.categorical(k, LOGITS) - 1],
    "remainder": lambda k: jax.lax.rem(jax.random.categorical(k, LOGITS) - 2, jnp.array(2)) + 2,
    "winner times minus one": lambda k: -1 * jax.random.categorical(k, LOGITS) < -1,
    "number for a winner": lambda k: (
        jnp.array([jax.random.categorical(k, LOGITS), -1])[jax.random.randint(k, (), 0, 2)] < 0
    ),
    "reduced bits": lambda k: (
        jax.lax.reduce_or(jnp.array([4, 8]), (0,)) + jax.random.categorical(k, LOGITS)
    ),
}
"""Integers computed of one that was drawn."""

LAWS = {
    "one key, coin and noise": lambda k: (
        3 * (jax.random.uniform(k) < 0.3) + jax.random.categorical(k, jnp.log(P[0, :3]))
    ),
    "one key, coins and noise": lambda k: (
        3 * (jax.random.uniform(k, (3,)) < P[1, :3]).sum()
        + jax.random.categorical(k, jnp.log(P[0, :3]))
    ),
    "a prefix of another shape": lambda k: (
        4 * (jax.random.uniform(k, (4,))[1] < 0.6) + jax.random.categorical(k, jnp.log(P[0]))
    ),
    "split is fold_in": lambda k: (
        3 * (jax.random.uniform(jax.random.split(k)[1]) < 0.5)
        + jax.random.categorical(jax.random.fold_in(k, 1), jnp.log(P[0, :3]))
    ),
    "two keys": lambda k: (
        3 * (jax.random.uniform(jax.random.split(k)[0]) < 0.5)
        + jax.random.categorical(jax.random.fold_in(k, 1), jnp.log(P[0, :3]))
    ),
    "choice": lambda k: jax.random.choice(k, 4, p=P[0]),
    "two without replacement": lambda k: (
        jax.random.choice(k, 4, (2,), replace=False, p=P[0]) @ jnp.array([4, 1])
    ),
    "permutation": lambda k: jax.random.permutation(k, 3) @ jnp.array([9, 3, 1]),
    "first below": lambda k: jnp.argmax(jax.random.uniform(k, (3,)) < 0.4),
    "race of narrowed noise": lambda k: (
        3 * (jax.random.gumbel(k, (3,)) > 0.3).sum()
        + jnp.argmax(jax.random.gumbel(k, (3,)) + jnp.log(P[0, :3]))
    ),
    "loop": until,
    **COMPUTED,
}
DRAWS = 100_000


def counted(program, law):
    """How often JAX itself gives each outcome, and how often it should."""
    keys = jax.random.split(jax.random.key(11), DRAWS)
    drawn = np.asarray(jax.jit(jax.vmap(program))(keys)).tolist()
    outcomes = sorted({*drawn, *law}, key=lambda x: -law.get(x, 0))
    counts = [drawn.count(x) for x in outcomes]
    due = [DRAWS * float(law.get(x, 0)) for x in outcomes]
    few = next((i for i, x in enumerate(due) if x < 20), len(due))
    if few < len(due):
        counts, due = [*counts[:few], sum(counts[few:])], [*due[:few], sum(due[few:])]
    return counts, np.array(due) * sum(counts) / sum(due)


def law_of(program):
    def call(rng):
        return int(jax.jit(program)(jax.random.key(int(rng.integers(2**31)))))

    return simverify.exact_law(call)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.thorough(by_day=5)
def test_the_law_is_that_of_jax(name):
    counts, due = counted(LAWS[name], law_of(LAWS[name]))
    assert chisquare(counts, due).pvalue > FALSE_ALARM


def test_a_law_of_two_keys_is_not_that_of_one():
    counts, due = counted(LAWS["split is fold_in"], law_of(LAWS["two keys"]))
    assert chisquare(counts, due).pvalue < FALSE_ALARM


HALF = {"bfloat16": 7, "float16": 10}
THREE = jnp.array([0.2, 0.3, 0.5])


def coin(k, dtype):
    return jax.random.uniform(k, (), dtype) < jnp.asarray(0.3, dtype)


def chosen(k, dtype):
    return jax.random.choice(k, 3, p=THREE.astype(dtype))


def raced(k, dtype):
    return jax.random.categorical(k, jnp.log(THREE[:2]).astype(dtype))


def outcomes_of(program, dtype):
    """What JAX makes of each uniform of 16 bits, and each pair of them."""
    one = jnp.asarray(np.arange(2 ** HALF[dtype]) / 2 ** HALF[dtype], dtype)
    if program is coin:
        return one < jnp.asarray(0.3, dtype)
    if program is chosen:
        sums = jnp.cumsum(THREE.astype(dtype))
        return jnp.searchsorted(sums, sums[-1] * (1 - one))
    tiny = jnp.finfo(dtype).tiny
    noise = -jnp.log(-jnp.log(jnp.maximum(tiny, one * (1 - tiny) + tiny)))
    first, second = (noise + x for x in jnp.log(THREE[:2]).astype(dtype))
    return second[:, None] > first


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("program", [coin, chosen, raced])
def test_random_numbers_of_16_bits_have_the_law_that_all_of_them_add_up_to(program, dtype):
    law = law_of(partial(program, dtype=dtype))
    outcomes, counts = np.unique(outcomes_of(program, dtype), return_counts=True)
    expected = dict(zip(outcomes.tolist(), counts / counts.sum(), strict=True))
    assert law == pytest.approx(expected, abs=1e-12)
    finer = law_of(partial(program, dtype="float32"))
    assert max(abs(finer[x] - law[x]) for x in law) > 1e-4


def spread(mesh):
    """A draw of row 0 or 1 by the weights 1 and 3, inside of ``jax.shard_map``."""

    def draw(key):
        key = jax.random.fold_in(key, jax.lax.axis_index("data"))
        drawn = jax.random.categorical(key, jnp.log(jnp.array([0.25, 0.75])))
        return jax.lax.psum(drawn, "data")[None]

    return jax.shard_map(draw, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec("data"))


ONE_DEVICE = Mesh(np.array(jax.devices()[:1]), ("data",))


def test_shard_map_is_followed_on_one_device():
    law = law_of(lambda key: spread(ONE_DEVICE)(key)[0])
    assert law == pytest.approx({0: 0.25, 1: 0.75}, abs=1e-6)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (jax.jit(spread(AbstractMesh((2,), ("data",)))), "on several devices"),
        (spread(ONE_DEVICE), "outside of jax.jit"),
    ],
)
def test_other_uses_of_shard_map_are_refused(function, said):
    def call(rng):
        return int(function(jax.random.key(int(rng.integers(2**31))))[0])

    with pytest.raises(simverify.CannotEnumerate, match=rf"jax.shard_map {said}"):
        simverify.exact_law(call)


FLOORED = """
import jax, jax.numpy as jnp

@jax.jit
def rule(key, P, Q, X):
    n = X.shape[0]
    first, second = jax.random.split(key)
    at = jnp.arange(n)
    kept = jax.random.uniform(first, (n,)) * Q[at, X] < P[at, X]
    k = jnp.argmin(jnp.append(kept, False))
    row = jnp.where(k < n, jnp.maximum(P[k] - Q[jnp.minimum(k, n - 1)], 0), P[n])
    return k, jax.random.categorical(second, jnp.log(row + {floor}))

def verify(target_probs, draft_probs, draft_tokens, rng):
    key = jax.random.key(int(rng.integers(2**31)))
    k, y = rule(key, jnp.asarray(target_probs), jnp.asarray(draft_probs), jnp.asarray(draft_tokens))
    return [*map(int, draft_tokens[: int(k)]), int(y)]
"""


@pytest.mark.parametrize(("floor", "expected"), [(1e-9, "followed"), (1e-2, "caught")])
def test_a_floor_that_hardly_ever_wins_is_no_hidden_randomness(floor, expected):
    """float32 noise has few numbers at its end, and a path that needs one may not repeat."""
    assert outcome(FLOORED.format(floor=floor)) == expected


def test_bits_that_are_cut_off_are_no_widened_ones():
    def narrowed(k):
        bits = jax.random.bits(k, (), "uint32").astype(jnp.uint16)
        bits = (bits >> 1) | jnp.uint16(0x3F80)
        return jax.lax.bitcast_convert_type(bits, jnp.bfloat16) < 1.5

    def widened(k):
        bits = (jax.random.bits(k, (), "uint8").astype(jnp.uint16) >> 1) | jnp.uint16(0x3F80)
        return jax.lax.bitcast_convert_type(bits, jnp.bfloat16) < 1.5

    with pytest.raises(simverify.CannotEnumerate):
        law_of(narrowed)
    assert law_of(widened) == {0: 0.5, 1: 0.5}


def test_a_program_is_not_replayed_on_draws_of_another_kind():
    doubled = jax.jit(lambda x: 2 * jnp.sqrt(x))

    def below(k):
        first, second = jax.random.split(k)
        uniform = doubled(jax.random.uniform(first, (2,))) < 1
        exponential = doubled(jax.random.exponential(second, (2,))) < 1
        return uniform.sum() + 3 * exponential.sum()

    u, e = 0.25, 1 - np.exp(-0.25)
    of_u, of_e = ([(1 - x) ** 2, 2 * x * (1 - x), x**2] for x in (u, e))
    expected = {i + 3 * j: of_u[i] * of_e[j] for i in range(3) for j in range(3)}

    def call(rng):
        return int(below(jax.random.key(int(rng.integers(2**31)))))

    assert simverify.exact_law(call) == pytest.approx(expected, abs=1e-6)


def test_one_plus_a_uniform_may_be_subtracted_from_two():
    def below(k):
        bits = (jax.random.bits(k, (), "uint32") >> 9) | jnp.uint32(0x3F800000)
        return 2 - jax.lax.bitcast_convert_type(bits, jnp.float32) <= 0.25

    assert law_of(below) == pytest.approx({0: 0.75, 1: 0.25}, abs=1e-6)


STATE = {"key": jax.random.key(0)}


def test_a_key_in_a_container_is_put_back():
    def rule(*_):
        STATE["key"], _ = jax.random.split(STATE["key"])

    kept = HiddenState(rule, None)
    before = STATE["key"]
    assert kept.reason == ""
    assert kept.image() == UNCHANGED_STATE
    rule()
    assert kept.image() != UNCHANGED_STATE
    assert kept.put_back()
    assert STATE["key"] is before
    assert kept.image() == UNCHANGED_STATE


class UnexpectedTracerError(Exception):
    """As JAX's own, of an array that left the function that traced it."""


@pytest.mark.parametrize(("kind", "stale"), [("DrawTracer", True), ("DynamicJaxprTracer", False)])
def test_a_draw_that_code_keeps_from_the_exact_tier_is_no_fault_of_it(kind, stale):
    def rule(*_):
        raise UnexpectedTracerError(f"a value wrapped in a {kind} to escape the scope")

    (instance, *_) = default_sampled_instances()
    runner = TrialRunner(rule, "verify", instance, seconds=5.0)
    with pytest.raises(StaleDraw if stale else ContractMisuse):
        runner.run(4)
