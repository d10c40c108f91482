"""Generators that yield the same numbers: found, followed as one stream, and named."""

import copy
import random

import numpy as np
import pytest
from support.levels import at_night

from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.symbolic.equal_streams import (
    equal_keys,
    noted_equal_streams,
    put_back_equal_streams,
    shared_starts,
)

torch = pytest.importorskip("torch")

SMALL = AuditSettings(gamma=1, vocab=2, seconds=20, max_paths=2_000)


def ahead(generator, draws):
    for _ in range(draws):
        generator.random()
    return generator


def torch_state(generator):
    return torch.Generator().set_state(generator.get_state())


def a_copy_of_state():
    one, other = np.random.default_rng(7), np.random.default_rng()
    other.bit_generator.state = one.bit_generator.state
    return one, other


def spawned():
    return np.random.default_rng(np.random.SeedSequence(7).spawn(1)[0])


def legacy_bits():
    return np.random.Generator(np.random.MT19937(7)), np.random.RandomState(np.random.MT19937(7))


EQUAL = {
    "numpy": lambda: (np.random.default_rng(7), np.random.default_rng(7)),
    "a deep copy": lambda: (one := np.random.default_rng(7), copy.deepcopy(one)),
    "a state": a_copy_of_state,
    "equal spawn keys": lambda: (spawned(), spawned()),
    "python": lambda: (random.Random(7), random.Random(7)),
    "legacy": lambda: (np.random.RandomState(7), np.random.RandomState(7)),
    "two libraries": lambda: (np.random.RandomState([7]), random.Random(7)),
    "one kind of bits": legacy_bits,
    "two draws ahead": lambda: (np.random.default_rng(7), ahead(np.random.default_rng(7), 2)),
    "500 draws ahead": lambda: (ahead(np.random.default_rng(7), 500), np.random.default_rng(7)),
}
APART = {
    "two seeds": lambda: (np.random.default_rng(7), np.random.default_rng(8)),
    "spawned": lambda: np.random.default_rng(7).spawn(2),
    "jumped": lambda: (
        np.random.default_rng(7),
        np.random.Generator(np.random.default_rng(7).bit_generator.jumped()),
    ),
    "one object": lambda: [np.random.default_rng(7)] * 2,
    "one state": lambda: (
        one := np.random.default_rng(7),
        np.random.Generator(one.bit_generator),
    ),
    "philox counters": lambda: [
        np.random.Generator(np.random.Philox(key=7, counter=[0, 0, 0, n])) for n in (0, 1)
    ],
}


def rule_of(first, second, *, coupled=False):
    """A step rule that drafts by the first generator, and accepts by the second.

    ``coupled``: it emits the target's own draw, and shares the drafter's numbers on purpose.
    """

    def step(prefix, target, draft, gamma, rng):
        new = ()
        for _ in range(gamma):
            p, q = target((*prefix, *new)), draft((*prefix, *new))
            x = locate(q, first.random())
            if coupled:
                new = (*new, locate(p, second.random()))
                if new[-1] != x:
                    return list(new)
            elif second.random() * q[x] >= p[x]:
                return [*new, locate(np.maximum(p - q, 0), rng.random())]
            else:
                new = (*new, x)
        return [*new, locate(target((*prefix, *new)), rng.random())]

    return step


def locate(row, u):
    cdf = np.cumsum(row)
    return int(min(np.searchsorted(cdf, u * cdf[-1], side="right"), len(row) - 1))


@pytest.mark.parametrize("make", [pytest.param(x, id=name) for name, x in EQUAL.items()])
def test_equal_streams_are_found(make):
    starts = shared_starts(rule_of(*make()))
    assert len(starts) == 2
    names = sorted(start.name for start in starts.values())
    assert names[0].startswith("first")
    assert names[1].startswith("second")


@pytest.mark.parametrize("make", [pytest.param(x, id=name) for name, x in APART.items()])
def test_other_streams_are_not(make):
    assert not shared_starts(rule_of(*make()))


def test_equal_streams_of_torch_are_found():
    seven = torch.Generator().manual_seed(7)
    for one, other in ((seven, torch.Generator().manual_seed(7)), (seven, torch_state(seven))):
        assert len(shared_starts(rule_of(one, other))) == 2
    assert not shared_starts(rule_of(seven, torch.Generator().manual_seed(8)))


def test_looking_draws_nothing():
    generators = np.random.default_rng(7), random.Random(7), np.random.RandomState(7)
    same = np.random.default_rng(7), random.Random(7), np.random.RandomState(7)
    shared_starts(rule_of(generators, same))
    assert [x.random() for x in generators] == [x.random() for x in same]


WRONG = ["two draws ahead", "two libraries", "numpy", "python"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", at_night(WRONG, but=WRONG[:1]))
def test_a_wrong_rule_fails_and_both_are_named(name):
    run = audit(Subject("rule", rule_of(*EQUAL[name]()), "step"), settings=SMALL)
    assert run.verdict == "FAIL"
    assert run.findings[0].text.startswith("equal-streams: ")
    assert "first" in run.findings[0].text
    assert "second" in run.findings[0].text


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["two seeds", "one object"])
def test_a_right_rule_passes(name):
    run = audit(Subject("rule", rule_of(*APART[name]()), "step"), settings=SMALL)
    assert run.verdict == "PASS"
    assert not any("yield the same numbers" in note for note in run.notes)


@pytest.mark.thorough
def test_a_coupling_by_one_seed_is_right():
    run = audit(Subject("rule", rule_of(*EQUAL["numpy"](), coupled=True), "step"), settings=SMALL)
    assert run.verdict == "PASS"
    assert any("yield the same numbers" in note for note in run.notes)


@pytest.mark.slow
def test_a_rule_that_gives_two_generators_one_seed_is_judged_by_its_law():
    class Rule:
        coupled = False

        def __init__(self):
            pair = np.random.default_rng(7), np.random.default_rng(7)
            self.step = rule_of(*pair, coupled=self.coupled)

    class Coupled(Rule):
        coupled = True

    wrong = audit(Subject("rule", Rule, "step"), settings=SMALL)
    assert wrong.verdict == "FAIL"
    assert "test_equal_streams.py:" in wrong.findings[0].text
    assert audit(Subject("rule", Coupled, "step"), settings=SMALL).verdict == "PASS"


@pytest.mark.thorough
@pytest.mark.parametrize("copied", [copy.copy, lambda generator: generator.clone_state()])
def test_copies_of_torchs_default_generator_are_followed(copied):
    def kept(p, q, x, rng):
        before = copied(torch.default_generator)
        token = int(torch.multinomial(torch.tensor(p[0]), 1))
        assert int(torch.multinomial(torch.tensor(p[0]), 1, generator=before)) == token
        return [token]

    run = audit(Subject("rule", kept, "verify"), settings=SMALL)
    assert (run.verdict, run.tier) == ("PASS", "exact"), run.findings


class RaisesAtAnyName:
    def __getattribute__(self, name):
        if name != "__class__":
            raise RuntimeError(name)
        return RaisesAtAnyName


def test_an_object_that_raises_at_any_name_is_searched():
    assert not shared_starts(rule_of(RaisesAtAnyName(), np.random.default_rng(7)))


def test_generators_of_equal_streams_are_put_back():
    one, other, third = (np.random.default_rng(seed) for seed in (7, 7, 8))
    rule = rule_of(one, other)
    with noted_equal_streams(rule):
        for generator, draws in ((one, 3), (other, 5), (third, 2)):
            generator.random(draws)
        put_back_equal_streams()
        assert one.random() == other.random() == np.random.default_rng(7).random()
    assert third.random() == np.random.default_rng(8).random(3)[2]


def holding(**values):
    """A rule that holds the values by name."""
    source = f"def verify(p, q, tokens, rng):\n    return {', '.join(values)}, rng"
    exec(source, values)
    return values["verify"]


@pytest.mark.parametrize("make", ["key", "PRNGKey"])
def test_equal_keys_of_jax_are_named(make):
    random = pytest.importorskip("jax").random
    make = getattr(random, make)
    said = equal_keys(holding(keys={"coin": make(0), "last": make(0)}))
    assert said == "keys['coin'] and keys['last'] were the same JAX key when the audit began"
    key = make(0)
    assert equal_keys(holding(first=key, again=key)) == ""  # one key, by two names
    gone = make(0)
    gone.delete()
    assert equal_keys(holding(gone=gone, other=make(0))) == ""
    assert equal_keys(holding(first=make(0), other=make(1), split=random.split(make(0)))) == ""


def test_equal_keys_of_mlx_are_named():
    random = pytest.importorskip("mlx.core").random
    said = equal_keys(holding(coin=random.key(3), last=random.key(3)))
    assert said == "coin and last were the same MLX key when the audit began"
    key = random.key(3)
    assert equal_keys(holding(first=key, again=key)) == ""
    assert equal_keys(holding(first=key, other=random.key(4), split=random.split(key))) == ""


@pytest.mark.thorough
def test_equal_keys_are_a_note_of_a_sampled_audit_alone():
    jax = pytest.importorskip("jax")
    held = {"one": jax.random.key(0), "other": jax.random.key(0)}

    def verify(p, q, tokens, rng):
        written = repr(rng.random()) if held else ""  # which the exact tier cannot follow
        return [locate(p[0], float(written))]

    def followed(p, q, tokens, rng):
        return [locate(p[0], rng.random())] if held else []

    for rule, notes in ((verify, 1), (followed, 0)):
        run = audit(Subject("rule", rule, "verify"), settings=SMALL)
        assert sum("were the same JAX key" in note for note in run.notes) == notes
