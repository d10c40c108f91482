"""Faults and controls run on rows with zeros, ties, equal and disjoint support."""

import numpy as np
import pytest
from support.instances import disjoint_pair, equal_pair, one_hot_pair, random_pair

from simverify.faults import CONTROLS, FAULTS, get_fault

PAIRS = [disjoint_pair(), equal_pair(), one_hot_pair(), random_pair(1, 4), random_pair(2, 2)]
GAMMA, CALLS = 3, 40


def emitted(entry, pair, rng):
    """Tokens of some calls, after the empty prefix."""
    if entry.contract == "step":
        step = entry.rule().step if isinstance(entry.rule, type) else entry.rule
        return [step((), pair.target, pair.draft, GAMMA, rng) for _ in range(CALLS)]
    calls = []
    for _ in range(CALLS):
        draft = []
        for _ in range(GAMMA):
            draft.append(rng.choice(pair.vocab_size, p=pair.draft(draft)))
        target = np.array([pair.target(draft[:i]) for i in range(GAMMA + 1)])
        rows = np.array([pair.draft(draft[:i]) for i in range(GAMMA)])
        given = target, rows, np.array(draft)
        if batch := getattr(entry, "batch", None):
            given = tuple(np.stack([array] * batch) for array in given)
        before = [array.copy() for array in given]
        calls += entry.rule(*given, rng) if batch else [entry.rule(*given, rng)]
        assert all(np.array_equal(*pair) for pair in zip(given, before, strict=True))
    return calls


def supported(tokens, pair):
    return all(pair.target(tokens[:i])[x] > 0 for i, x in enumerate(tokens))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_stays_in_the_support(name, pair):
    calls = emitted(CONTROLS[name], pair, np.random.default_rng())
    assert all(supported(tokens, pair) for tokens in calls)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
@pytest.mark.parametrize("name", [name for name, f in FAULTS.items() if f.scheme is None])
def test_a_fault_returns_tokens_whatever_the_rows(name, pair):
    for tokens in emitted(FAULTS[name], pair, np.random.default_rng()):
        assert 1 <= len(tokens) <= GAMMA + 1
        assert all(0 <= x < pair.vocab_size for x in tokens)


def test_a_fault_that_leaves_the_support_is_seen():
    calls = emitted(get_fault("draft-leak(1)"), disjoint_pair(), np.random.default_rng())
    assert not any(supported(tokens, disjoint_pair()) for tokens in calls)
