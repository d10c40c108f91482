"""Probes of repeated calls, and of the step contract, whose rules may keep state."""

import secrets
import sys

import numpy as np
import pytest
from support.probing import by_name, outcomes
from support.rules import norm, strict

from simverify.verifiers import VERIFIERS

torch = pytest.importorskip("torch")

TOKEN = VERIFIERS["token"].rule


class Leftover:
    """Remembers the first draft token of the call before and lets it shift its draws."""

    def __init__(self):
        self.last = 0

    def __call__(self, p, q, x, rng):
        skip, self.last = self.last, int(x[0])
        for _ in range(skip):
            rng.random()
        return TOKEN(p, q, x, rng)


class Stale:
    """Judges its first draft by the row of the call before, where the sizes allow it."""

    def __init__(self):
        self.row = None

    def __call__(self, p, q, x, rng):
        row, self.row = self.row, p[0].copy()
        if row is not None and int(x[0]) < len(row):
            p[0] = np.resize(row, len(p[0])) + 1e-3
            p[0] /= p[0].sum()
        return TOKEN(p, q, x, rng)


class Spare:
    """Draws two coins at once and keeps the second for whoever needs one next."""

    def __init__(self):
        self.coins = []

    def random(self, rng):
        if not self.coins:
            self.coins = rng.random(2).tolist()
        return self.coins.pop()

    def __call__(self, p, q, x, rng):
        return strict(p, q, x, lambda: self.random(rng), lambda r: rng.choice(len(r), p=r))


class NoScipyStats:
    """A finder of modules that refuses one."""

    @staticmethod
    def find_spec(name, *_):
        assert name != "scipy.stats", "imported under the twins"


def test_state_from_another_call_that_changes_the_law_is_a_violation(monkeypatch):
    # Imported while the twins stand in, it would be made of them: the probe does without it.
    monkeypatch.delitem(sys.modules, "scipy.stats", raising=False)
    monkeypatch.setattr(sys, "meta_path", [NoScipyStats, *sys.meta_path])
    found = by_name(Stale())["repeated calls"]
    assert found.outcome == "violation"
    assert "depends on earlier calls" in found.message


@pytest.mark.parametrize("rule", [Leftover(), Spare()])
def test_state_that_leaves_the_law_alone_is_a_warning(rule):
    found = by_name(rule)["repeated calls"]
    assert found.outcome == "warning"
    assert found.message.endswith("its distribution stays the same")


def test_own_generators_and_caches_are_no_state():
    own = np.random.default_rng(5)
    known = {}

    def generator(p, q, x, rng):
        return TOKEN(p, q, x, own)

    def entropy(p, q, x, rng):
        return strict(p, q, x, lambda: secrets.randbits(53) / 2**53, lambda r: r.argmax())

    def cache(p, q, x, rng):
        known.setdefault(p.tobytes(), p.cumsum())
        return TOKEN(p, q, x, rng)

    for rule in (generator, entropy, cache):
        assert outcomes(rule)["repeated calls"] == "ok"


def test_a_counter_is_a_warning():
    calls = []

    def rule(p, q, x, rng):
        calls.append(1)
        return [int(p[0].argmax())] if len(calls) % 2 else TOKEN(p, q, x, rng)

    assert outcomes(rule)["repeated calls"] == "warning"


# -- the step contract --


def step(prefix, target, draft, gamma, rng):
    """Draft and verify by the token rule, no state."""
    tokens = []
    for _ in range(gamma):
        context = (*prefix, *tokens)
        p, q = target(context), draft(context)
        x = int(rng.choice(len(q), p=q))
        if not rng.random() < p[x] / q[x]:
            rest = norm(p, q)
            return [*tokens, int(rng.choice(len(p), p=rest))]
        p[:] = q[:] = 0.0  # a row is the rule's own
        tokens.append(x)
    row = target((*prefix, *tokens))
    return [*tokens, int(rng.choice(len(row), p=row))]


def test_a_step_function_that_writes_into_its_rows_passes():
    assert set(outcomes(step, "step").values()) == {"ok", "not run"}


def test_steps_that_emit_nothing_or_nonsense_are_violations():
    assert "no tokens" in by_name(lambda c, t, d, g, r: [], "step")["output"].message
    assert "device meta" in (
        by_name(lambda c, t, d, g, r: torch.zeros(1, device="meta"), "step")["output"].message
    )
    drafts = outcomes(lambda c, t, d, g, r: [int(d(c).argmax())], "step")
    assert drafts["disjoint support"] == "violation"


def test_a_step_rule_whose_class_keeps_state_is_seen():
    class Sticky:
        seen = Leftover()

        def step(self, prefix, target, draft, gamma, rng):
            for _ in range(self.seen.last % 3):
                rng.random()
            tokens = step(prefix, target, draft, gamma, rng)
            type(self).seen.last = len(target(prefix))
            return tokens

    assert outcomes(Sticky, "step")["repeated calls"] == "warning"
