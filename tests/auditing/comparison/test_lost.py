"""Calls that were lost may have had what is missing; they excuse nothing of what is too much."""

from dataclasses import replace

import numpy as np
import pytest
from support.whole_laws import compare_verify

from simverify.auditing.comparison import certain_deviation
from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.instances import instance_battery
from simverify.auditing.subject import Subject

LONG = 20


def verify(p, q, x, rng):
    for i, y in enumerate(x.tolist()):
        if rng.random() * q[i, y] >= p[i, y]:
            rest = np.maximum(p[i] - q[i], 0)
            rest = rest if rest.sum() else p[i]
            return [*x[:i].tolist(), int(rng.choice(len(rest), p=rest / rest.sum()))]
    return [*x.tolist(), int(rng.choice(p.shape[1], p=p[-1]))]


def drafted(prefix, target, draft, gamma, rng):
    x, p, q = [], [target(prefix)], []
    for _ in range(gamma):
        q.append(draft((*prefix, *x)))
        x.append(int(rng.choice(len(q[-1]), p=q[-1])))
        p.append(target((*prefix, *x)))
    return np.array(p), np.array(q), np.array(x)


def ends_at_a_limit(prefix, target, draft, gamma, rng):
    if len(prefix) >= LONG:
        raise IndexError("context")
    return verify(*drafted(prefix, target, draft, gamma, rng), rng)


def fills_a_buffer(prefix, target, draft, gamma, rng):
    tokens = verify(*drafted(prefix, target, draft, gamma, rng), rng)
    np.zeros(LONG)[len(prefix) : len(prefix) + len(tokens)] = tokens
    return tokens


def emits_drafts_at_a_limit(prefix, target, draft, gamma, rng):
    p, q, x = drafted(prefix, target, draft, gamma, rng)
    if len(prefix) < LONG:
        return verify(p, q, x, rng)
    if x[0] == 1:
        raise IndexError("context")
    return [int(rng.choice(p.shape[1], p=q[0]))]


@pytest.mark.parametrize(
    ("rule", "fails"),
    [(ends_at_a_limit, False), (fills_a_buffer, False), (emits_drafts_at_a_limit, True)],
)
def test_beyond_its_longest_context_code_may_raise_and_not_emit_wrong_tokens(rule, fails):
    plain = next(m for m in instance_battery(2, 2) if m.name == "plain, V=2, gamma=2")
    # The draft has 0 far oftener than the target: what comes of it is too much, whatever is lost.
    long = replace(
        plain, name="around 20", prompt=(0, 1) * 9 + (0,), targets=((1, 9),), drafts=((9, 1),)
    )
    subject = Subject(rule.__name__, rule, "step")
    tier = run_exact_tier(subject, "step", [plain, long], tolerance=None, searching=False)
    if fails:
        assert tier.failure.model is long
        assert tier.failure.deviates
    else:
        assert tier.failure is None
        assert [judged.model for judged in tier.beyond] == [long]


@pytest.mark.parametrize("lossy", [True, False])
@pytest.mark.thorough
def test_what_is_emitted_too_often_is_no_loss(lossy):
    def rule(p, q, x, rng):
        if x[0] == 1 and p[0, 1] < 1:
            raise IndexError
        return [0, 0] if lossy and x[0] == 0 else verify(p, q, x, rng)

    found = [compare_verify(rule, m, m.gamma) for m in instance_battery(2, 2) if m.gamma == 1]
    assert all(c.lost > 0 for c in found if c.findings)
    assert (max(map(certain_deviation, found)) > 1e-3) == lossy
