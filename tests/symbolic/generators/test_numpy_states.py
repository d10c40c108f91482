# ruff: noqa: NPY002 -- these are verifiers as users write them
"""numpy's generators seeded, spawned, copied, rewound: the same state gives the same draws."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Philox, SeedSequence, default_rng
from support.fuzzing.generator_pairs import same_half

from simverify.symbolic.provenance import CannotEnumerate

G = np.random.Generator
RNG = default_rng(7)
BITS = PCG64(7)
STATE = np.random.RandomState(7)
calls = itertools.count()


def again(rng, read, put):
    """Two draws with the state put back between them."""
    state = read(rng)
    u = rng.random()
    put(rng, state)
    return u, rng.random()


def put_bits(rng, state):
    rng.bit_generator.state = state


def after(bits, words):
    return bits.advance(words) or bits


def first(seed):
    return default_rng(seed).random()


def seed64(rng):
    return rng.integers(2**63)


class Held:
    pass


INDEPENDENT = {
    "spawned": lambda rng: [g.random() for g in rng.spawn(2)],
    "child and parent": lambda rng: (rng.spawn(1)[0].random(), rng.random()),
    "spawned twice": lambda rng: (rng.spawn(1)[0].random(), rng.spawn(1)[0].random()),
    "seed sequence": lambda rng: map(first, SeedSequence().spawn(2)),
    "of the bit generator": lambda rng: [G(b).random() for b in rng.bit_generator.spawn(2)],
    "system": lambda rng: (first(None), G(PCG64()).random()),
    "other seeds": lambda rng: (first(seed64(rng)), first(seed64(rng))),
    "drawn seed": lambda rng: (lambda s: (first(s), first(s + 1)))(int(seed64(rng))),
    "mixed seeds": lambda rng: (lambda s: (
        first(s * 1_000_003 % 2**62), first((s * 1_000_003 + 1) % 2**62)
    ))(int(seed64(rng))),
    "drawn list": lambda rng: (lambda s: (first([s, 0]), first([s, 1])))(seed64(rng)),
    "drawn words": lambda rng: (
        first(rng.integers(2**32, size=4, dtype=np.uint32)),
        first(rng.integers(2**32, size=2).tolist()),
    ),
    "entropy": lambda rng: (first(SeedSequence().entropy), first(SeedSequence().entropy)),
    "generate_state": lambda rng: map(first, SeedSequence().generate_state(4, np.uint64)[:2]),
    "jumped": lambda rng: (G(rng.bit_generator.jumped()).random(), rng.random()),
    "jumped afar": lambda rng: [
        *(G(rng.bit_generator.jumped(i)).random() for i in (1, 2)), rng.random()
    ][:2],
    "advanced": lambda rng: (rng.random(), G(after(rng.bit_generator, 5)).random()),
    "Philox": lambda rng: [G(Philox(seed64(rng), counter=[0, 0, i, 0])).random() for i in (0, 1)],
    "Philox by call": lambda rng: [G(Philox(key=9, counter=[0, 0, 0, next(calls)])).random()
                                   for _ in range(2)],
    "drawn key": lambda rng: [G(Philox(key=seed64(rng))).random() for _ in range(2)],
    "SFC64": lambda rng: (G(SFC64(seed64(rng))).random(), rng.random()),
    "kept": lambda rng: (RNG.random(), RNG.random()),
    "kept bits": lambda rng: (G(BITS).random(), G(BITS).random()),
    "kept state": lambda rng: (STATE.random_sample(), STATE.rand()),
    "copied afterwards": lambda rng: (rng.random(), copy.deepcopy(rng).random(), rng.random())[:2],
    "a shallow copy, which shares": lambda rng: (copy.copy(rng).random(), rng.random()),
    "so does one of a state": lambda rng: (copy.copy(STATE).rand(), STATE.rand()),
    "raw": lambda rng: rng.bit_generator.random_raw(2) / 2.0**64,
    "reseeded by the system": lambda rng: [(np.random.seed(), np.random.rand())[1] for _ in "ab"],
    "randbits": lambda rng: (first(np.random.bit_generator.randbits(128)), rng.random()),
    "two families": lambda rng: (lambda s: (G(PCG64(s)).random(), G(SFC64(s)).random()))(
        seed64(rng)
    ),
}  # fmt: skip

SAME = {
    "mixed seed": lambda rng: (lambda s: (
        first((s * 1_000_003 + 1) % 2**62), first((s * 1_000_003 + 1) & (2**62 - 1))
    ))(int(seed64(rng))),
    "state": lambda rng: again(rng, lambda r: r.bit_generator.state, put_bits),
    "state of bits": lambda rng: again(rng, lambda r: dict(r.bit_generator.state), put_bits),
    "state copied": lambda rng: again(
        rng, lambda r: copy.deepcopy(r.bit_generator.state), put_bits
    ),
    "state pickled": lambda rng: again(
        rng, lambda r: pickle.loads(pickle.dumps(r.bit_generator.state)), put_bits
    ),
    "get_state": lambda rng: again(
        np.random.mtrand._rand, lambda r: np.random.get_state(), lambda r, s: np.random.set_state(s)
    ),
    "get_state as dict": lambda rng: again(
        STATE, lambda r: r.get_state(legacy=False), lambda r, s: r.set_state(s)
    ),
    "state of a state": lambda rng: again(
        STATE, lambda r: r.get_state(), lambda r, s: r.set_state(list(s))
    ),
    "deepcopy": lambda rng: (copy.deepcopy(rng).random(), rng.random()),
    "copy of bits": lambda rng: (G(copy.copy(rng.bit_generator)).random(), rng.random()),
    "copied state": lambda rng: (copy.deepcopy(STATE).rand(), STATE.rand()),
    "pickled": lambda rng: (pickle.loads(pickle.dumps(rng)).random(), rng.random()),
    "pickled bits": lambda rng: (G(pickle.loads(pickle.dumps(BITS))).random(), G(BITS).random()),
    "drawn seed": lambda rng: (lambda s: (first(s), first(s)))(seed64(rng)),
    "drawn list": lambda rng: (lambda s: (first([s, 1]), G(PCG64([s, 1])).random()))(seed64(rng)),
    "drawn sequence": lambda rng: (lambda s: (first(s), first(SeedSequence(s))))(seed64(rng)),
    "child by number": lambda rng: (lambda s: (
        first(SeedSequence(s).spawn(2)[1]), first(SeedSequence(s, spawn_key=(1,)))
    ))(seed64(rng)),
    "one sequence": lambda rng: (lambda s: (first(s), first(s)))(SeedSequence()),
    "its entropy": lambda rng: (lambda s: (first(s), first(s.entropy)))(SeedSequence()),
    "a child again": lambda rng: [
        first(s.spawn(1)[0]) for s in (lambda s: (s, copy.deepcopy(s)))(SeedSequence())
    ],
    "drawn key": lambda rng: (lambda s: (
        G(Philox(key=s)).random(), G(Philox(key=s, counter=0)).random()
    ))(seed64(rng)),
    "legacy seed": lambda rng: (lambda s: (
        np.random.RandomState(s).rand(), np.random.RandomState(s).uniform()
    ))([rng.integers(2**32), rng.integers(2**32)]),
    "jumped twice": lambda rng: [
        *(G(rng.bit_generator.jumped()).random() for _ in "ab"), rng.random()
    ][:2],
    "advance": lambda rng: (
        rng.bit_generator.state and rng.random(), G(after(rng.bit_generator, -1)).random()
    ),
    "overlapping counters": lambda rng: (lambda s: (
        G(Philox(s, counter=0)).random(5)[4], G(Philox(s, counter=1)).random()
    ))(seed64(rng)),
    "two on one": lambda rng: again(
        G(rng.bit_generator), lambda r: rng.bit_generator.state, lambda r, s: put_bits(rng, s)
    ),
    "choice": lambda rng: (copy.deepcopy(rng).choice(2, p=[0.5, 0.5]) / 2, rng.random()),
    "words": lambda rng: (lambda s: [s.generate_state(n)[0] / 2.0**32 for n in (2, 1)])(
        SeedSequence()
    ),
}  # fmt: skip

CONSTANT = {
    "seed": lambda rng: (first(1234), rng.random()),
    "spawned": lambda rng: (default_rng(1234).spawn(1)[0].random(), rng.random()),
    "grandchild": lambda rng: (
        SeedSequence(3).spawn(2)[1].spawn(1) and first(SeedSequence(3).spawn(2)[1].spawn(1)[0]),
        rng.random(),
    ),
    "PCG64": lambda rng: (G(PCG64(1234)).random(), rng.random()),
    "PCG64DXSM": lambda rng: (G(PCG64DXSM(1)).random(), rng.random()),
    "jumped": lambda rng: (G(PCG64(1234).jumped()).random(), rng.random()),
    "Philox": lambda rng: (G(Philox(key=1, counter=[0, 0, 1, 0])).random(), rng.random()),
    "Philox jumped": lambda rng: (G(Philox(1).jumped(3)).random(), rng.random()),
    "MT19937": lambda rng: (np.random.RandomState(MT19937(3)).rand(), rng.random()),
    "RandomState": lambda rng: (np.random.RandomState(3).rand(), rng.random()),
    "np.random.seed": lambda rng: (np.random.seed(0), np.random.rand(), rng.random())[1:],
    "copied": lambda rng: (copy.deepcopy(default_rng(3)).random(), rng.random()),
    "pickled": lambda rng: (pickle.loads(pickle.dumps(default_rng(3))).random(), rng.random()),
    "set to a state": lambda rng: (put_bits(rng, CONSTANT_STATE), rng.random(), RNG.random())[1:],
    "legacy state": lambda rng: (np.random.set_state(LEGACY_STATE), np.random.rand(), rng.random())[
        1:
    ],
    "seeded by a state": lambda rng: (first(SeedSequence(1).generate_state(4)), rng.random()),
    "by the length of the draft": lambda rng: (first(len("draft")), rng.random()),
}
CONSTANT_STATE = default_rng(5).bit_generator.state
LEGACY_STATE = np.random.RandomState(5).get_state()

REFUSED = {
    "few mixed seeds": (
        lambda rng: (first(int(seed64(rng)) * 6 % 2**32), 0.2), "2**31 drawn numbers"
    ),
    "few seeds": (lambda rng: (first(rng.integers(2**31)), 0.2), "2**31 drawn numbers"),
    # Forking on each value is tried last, and is no reason.
    "few seeds, as an int": (
        lambda rng: (first(int(rng.integers(2**31)) + 1), 0.2), "2**31 drawn numbers"
    ),
    "few values, then many": (
        lambda rng: (int(rng.integers(100)) & 1, [0, 1][int(rng.integers(2**31))]),
        "where a plain number is needed",
    ),
    "legacy": (lambda rng: (np.random.RandomState(rng.integers(2**32)).rand(), 0.2), "2**32"),
    "inside of a state": (
        lambda rng: (rng.bit_generator.state["state"]["state"] % 2, 0.2), "the inside of the state"
    ),
    "inside of a legacy state": (
        lambda rng: (np.random.get_state()[1][0] / 2**32, 0.2), "the inside of the state"
    ),
    "two kinds": (
        lambda rng: (copy.deepcopy(rng).integers(2) / 2, rng.random()), "draws of two kinds"
    ),
    "two weights": (
        lambda rng: (copy.deepcopy(rng).binomial(1, 0.3), rng.binomial(1, 0.4)), "two kinds"
    ),
    "jumped after": (
        lambda rng: (rng.bit_generator.state and rng.standard_exponential(),
                     G(rng.bit_generator.jumped()).random()),
        "jumped() after draws that take an unknown number of words",
    ),
    "back": (
        lambda rng: (rng.random(), G(after(rng.bit_generator, -1)).random()), "from before"
    ),
    "near counters": (
        lambda rng: (lambda s: (
            G(Philox(s, counter=0)).exponential(size=9)[8], G(Philox(s, counter=1)).random()
        ))(seed64(rng)),
        "may overlap",
    ),
    "ctypes": (lambda rng: (rng.bit_generator.ctypes.state_address % 2, 0.2), "ctypes of the bit"),
    "cffi": (lambda rng: (rng.bit_generator.capsule is None, 0.2), "capsule of the bit generator"),
    "spent": (
        lambda rng: (rng.random(), first(rng.bit_generator.seed_seq)), "that has drawn, used again"
    ),
    "set_bit_generator": (
        lambda rng: (np.random.set_bit_generator(PCG64(3)), 0.2), "np.random.set_bit_generator"
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", INDEPENDENT)
def test_streams_that_have_nothing_in_common_are_independent(how):
    assert same_half(INDEPENDENT[how], "rng") == (pytest.approx(0.5, abs=1e-14), [])


@pytest.mark.parametrize("how", SAME)
def test_the_same_state_gives_the_same_draw(how):
    assert same_half(SAME[how], "rng") == (pytest.approx(1.0, abs=1e-14), [])


@pytest.mark.parametrize("how", SAME)
def test_so_it_does_in_numpy(how):
    for seed in range(20):
        u, v = SAME[how](default_rng(seed))
        assert (u < 0.5) == (v < 0.5)


@pytest.mark.parametrize("how", INDEPENDENT)
def test_and_in_numpy_other_states_give_other_draws(how):
    pairs = (INDEPENDENT[how](default_rng(seed)) for seed in range(100))
    same = [(u < 0.5) == (v < 0.5) for u, v in pairs]
    assert 20 < sum(same) < 80  # misses with probability 1e-9


@pytest.mark.parametrize("how", CONSTANT)
def test_a_constant_is_a_finding_however_it_is_dressed(how):
    assert same_half(CONSTANT[how], "rng")[1] == ["constant-seed"]


@pytest.mark.parametrize("how", REFUSED)
def test_what_is_not_known_is_refused_by_name(how):
    two, words = REFUSED[how]
    with pytest.raises(CannotEnumerate) as refusal:
        same_half(two, "rng")
    assert words in str(refusal.value)
