"""Hundreds of calls of one object: draws that are used again, and code that looks like it."""

import random
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom
from support.probing import by_name

from simverify.auditing.invocation import ProbeRecorder, run_probe
from simverify.auditing.many_calls import FIRST_LAG, MIN_PAIRS, equal_at_lag, repeated_draws
from simverify.auditing.probes import PROBE_SECONDS, seeded_generator
from simverify.auditing.trees import tree_as_step
from simverify.faults import CONTROLS
from simverify.trees import Drafting, get_scheme, shape_of_levels
from simverify.verifiers import VERIFIERS
from simverify.verifiers.trees import TREE_VERIFIERS

torch = pytest.importorskip("torch")


class Fresh:
    """Each uniform from the generator that the call is handed."""

    def uniform(self, rng):
        return rng.random()

    def begin_call(self):
        pass


class Ring(Fresh):
    """Draws ``size`` uniforms once and goes round and round."""

    def __init__(self, size):
        self.size, self.pool, self.at = size, None, 0

    def uniform(self, rng):
        if self.pool is None:
            self.pool = rng.random(self.size)
        self.at += 1
        return self.pool[(self.at - 1) % self.size]


class Pool(Fresh):
    """Draws 100 uniforms whenever it has none left, of a generator that is seeded each time."""

    def __init__(self, seed=None):
        self.seed, self.pool = seed, []

    def uniform(self, rng):
        if not self.pool:
            maker = rng if self.seed is None else np.random.default_rng(self.seed)
            self.pool = maker.random(100).tolist()
        return self.pool.pop()


class Generator(Fresh):
    """A generator of its own, which ``again`` puts back every 50 calls, if there is one."""

    def __init__(self, draw, again=None):
        self.draw, self.again, self.calls = draw, again, 0

    def uniform(self, rng):
        return self.draw()

    def begin_call(self):
        self.calls += 1
        if self.again is not None and self.calls % 50 == 0:
            self.again()


class Counter(Fresh):
    """A counter-based generator, whose counter wraps."""

    def __init__(self, period):
        self.period, self.at = period, 0

    def uniform(self, rng):
        self.at = (self.at + 1) % self.period
        return np.random.Generator(np.random.Philox(key=7, counter=[0, 0, 0, self.at])).random()


def generators():
    numpy, python, legacy = np.random.default_rng(5), random.Random(5), np.random.RandomState(5)
    tensor, state = torch.Generator().manual_seed(5), numpy.bit_generator.state

    def draw():
        return torch.rand((), generator=tensor, dtype=torch.float64).item()

    return {
        "numpy": (numpy.random, lambda: setattr(numpy.bit_generator, "state", state)),
        "python": (python.random, lambda: python.seed(5)),
        "legacy": (legacy.random_sample, lambda: legacy.seed(5)),
        "torch": (draw, lambda: tensor.manual_seed(5)),
    }


RIGHT = {
    "the generator handed": Fresh,
    "a pool refilled": Pool,
    "a counter": lambda: Counter(2**60),
    **{
        f"{name}'s generator": lambda x=name: Generator(generators()[x][0]) for name in generators()
    },
}
WRONG = {
    **{f"a ring of {n}": lambda n=n: Ring(n) for n in (64, 96, 256, 500)},
    "a pool refilled alike": lambda: Pool(3),
    "a counter that wraps": lambda: Counter(128),
    **{
        f"{name}'s state put back": lambda x=name: Generator(*generators()[x])
        for name in generators()
    },
}
ROLES = ("draft", "accept", "residual")


def by_role(made, roles=ROLES):
    return {role: made if role in roles else Fresh() for role in ROLES}


def probed(rule, contract="verify"):
    body = partial(repeated_draws, rule=rule, contract=contract, rng=seeded_generator(1))
    return run_probe("many calls", body, PROBE_SECONDS, ProbeRecorder())


def locate(row, u):
    cdf = np.cumsum(row)
    return int(min(np.searchsorted(cdf, u * cdf[-1], side="right"), len(row) - 1))


def step_rule(make, roles=ROLES, *, at_reset=False):
    """A class of the token rule; ``make()`` is what its draws in ``roles`` come from."""

    class Rule:
        def __init__(self):
            self.draws = by_role(make(), roles)

        def reset(self):
            if at_reset:
                self.draws = by_role(make(), roles)

        def step(self, prefix, target, draft, gamma, rng):
            for draws in set(self.draws.values()):
                draws.begin_call()
            new = ()
            for _ in range(gamma):
                p, q = target((*prefix, *new)), draft((*prefix, *new))
                x = locate(q, self.draws["draft"].uniform(rng))
                if self.draws["accept"].uniform(rng) * q[x] >= p[x]:
                    rest = np.maximum(p - q, 0)
                    return [*new, locate(rest, self.draws["residual"].uniform(rng))]
                new = (*new, x)
            return [*new, locate(target((*prefix, *new)), self.draws["residual"].uniform(rng))]

    return Rule


def block_rule(make, roles=ROLES):
    """The token rule as a function whose draws outlive the call."""
    draws = by_role(make(), roles)

    def verify(p, q, drafted, rng):
        for each in set(draws.values()):
            each.begin_call()
        for i, x in enumerate(drafted):
            if draws["accept"].uniform(rng) * q[i, x] >= p[i, x]:
                rest = np.maximum(p[i] - q[i], 0)
                return [*map(int, drafted[:i]), locate(rest, draws["residual"].uniform(rng))]
        return [*map(int, drafted), locate(p[-1], draws["residual"].uniform(rng))]

    return verify


@pytest.mark.parametrize("make", [pytest.param(x, id=name) for name, x in WRONG.items()])
def test_draws_that_come_again_are_violations(make):
    for contract, rule in (("verify", block_rule(make)), ("step", step_rule(make))):
        found = probed(rule, contract)
        assert found.outcome == "violation"
        assert "draws are used again" in found.message


@pytest.mark.parametrize("make", [pytest.param(x, id=name) for name, x in RIGHT.items()])
def test_draws_of_their_own_are_right(make):
    assert probed(block_rule(make)).outcome == "ok"
    assert probed(step_rule(make), "step").outcome != "violation"


@pytest.mark.parametrize("role", ROLES)
def test_draws_of_one_role_that_come_again_are_violations(role):
    for size in (64, 256):
        rule = step_rule(lambda n=size: Ring(n), (role,))
        assert probed(rule, "step").outcome == "violation"
        if role != "draft":  # which the caller draws
            rule = block_rule(lambda n=size: Ring(n), (role,))
            assert probed(rule).outcome == "violation"


class RingGenerator(np.random.Generator):
    """Uniforms and weighted choices come from a ring."""

    ring = Ring(64)

    def random(self):
        return float(self.ring.uniform(super()))

    def choice(self, a, p):
        return locate(p, self.random())


@pytest.mark.parametrize("name", ["naive", "recursive", "k-seq"])
def test_rings_of_tree_rules_are_violations(name):
    # A call takes now one accept draw, now several.
    known, ring = TREE_VERIFIERS[name], Ring(256)

    class Rng(RingGenerator):
        pass

    def tree(*given):
        *rows, rng = given
        Rng.ring = ring
        return known.rule(*rows, Rng(rng.bit_generator))

    for rule, outcome in ((tree, "violation"), (known.rule, "ok")):
        itself = tree_as_step(rule, Drafting(shape_of_levels((2, 1)), get_scheme(known.schemes[0])))
        assert probed(itself, "step").outcome == outcome


def test_rings_made_at_each_reset_are_violations():
    assert probed(step_rule(lambda: Ring(96), at_reset=True), "step").outcome == "violation"


def test_generations_that_begin_alike_are_violations():
    found = probed(step_rule(RIGHT["numpy's generator"], at_reset=True), "step")
    assert found.outcome == "violation"
    assert "generations of one object repeat each other" in found.message
    seeded_by_caller = step_rule(lambda: Pool(None), at_reset=True)
    assert probed(seeded_by_caller, "step").outcome == "ok"


@pytest.mark.parametrize("name", generators())
def test_objects_that_start_from_one_seed_are_a_warning(name):
    # Each is right by itself, whatever its seed.
    found = by_name(step_rule(RIGHT[f"{name}'s generator"]), "step")
    assert found["many calls"].outcome == "warning"
    assert found["many calls"].message.startswith("all objects start from one seed")
    assert {probe.outcome for probe in found.values()} <= {"ok", "not run", "warning"}


@pytest.mark.parametrize("name", [*VERIFIERS, *CONTROLS])
def test_catalogued_rules_do_not_depend_on_earlier_calls(name):
    rule = (VERIFIERS | CONTROLS)[name]
    assert probed(rule.rule, rule.contract).outcome == "ok"


def test_draws_that_run_out_are_a_warning():
    class Rule(step_rule(Fresh)):
        calls = 0

        def step(self, *given):
            self.calls += 1
            if self.calls > 100:
                raise IndexError("pop from empty list")
            return super().step(*given)

    found = probed(Rule, "step")
    assert found.outcome == "warning"
    assert "in call 101 of a generation" in found.message


def test_calls_that_are_picked_by_their_own_tokens_show_no_dependence():
    """A rule may accept one token alone for a while: its acceptances are alike, its tokens are not.

    Controls: a trial for the picked calls alone would fail it, and a ring among them is found.
    """
    rng = np.random.default_rng(11)
    tokens, accepted = rng.integers(16, size=2048), np.arange(2048) // 128

    def repetition(picked, calls):
        return equal_at_lag(picked, 1 / 16, range(FIRST_LAG, len(picked) - MIN_PAIRS), 1e-9, calls)

    picked = tokens[tokens == accepted]
    assert repetition(picked, len(tokens)) is None
    assert repetition(picked, len(picked)) is not None
    ring = np.tile(rng.integers(16, size=64), 32)
    assert repetition(ring[ring < 8], len(ring)) is not None


@pytest.mark.parametrize("repeats", range(0, 60, 6))
def test_equal_tokens_are_judged_by_the_exact_tail(repeats):
    """Whether the shorter way, by one term of a tail, or the whole tail decides."""
    rng = np.random.default_rng(repeats)
    tokens = rng.integers(16, size=300)
    at = rng.choice(290, size=repeats, replace=False)
    tokens[at + 10] = tokens[at]
    lags = range(FIRST_LAG, len(tokens) - MIN_PAIRS)
    for alpha in (1e-2, 1e-9):
        tails = [binom.sf((tokens[k:] == tokens[:-k]).sum() - 1, 300 - k, 1 / 16) for k in lags]
        found = equal_at_lag(tokens, 1 / 16, lags, alpha, 300)
        assert (found is not None) == (min(tails) <= alpha / len(lags))
    assert repeats < 50 or found is not None


@pytest.mark.parametrize("at", ["the second object", "the second reset"])
def test_a_rule_that_cannot_begin_again_does_not_end_the_audit(at):
    class Rule(step_rule(Fresh)):
        objects = 0

        def __init__(self):
            super().__init__()
            Rule.objects += 1
            self.resets = 0
            if at == "the second object" and Rule.objects > 1:
                raise OSError("in use")

        def reset(self):
            self.resets += 1
            if at == "the second reset" and self.resets > 1:
                raise ValueError("once only")

    assert probed(Rule, "step").outcome == "ok"
