"""A fault's law of a slot is what running it on every path of its coins gives, slot by slot."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from support.instances import (
    disjoint_pair,
    equal_pair,
    one_hot_pair,
    partly_equal_pair,
    random_pair,
)

from simverify.faults import FAULTS, get_fault
from simverify.faults.base import next_row, residual
from simverify.models import get_model
from simverify.symbolic.paths import ForkedGenerator, explore

WITH_PARAMETERS = [
    "lenient(0.5)",
    "scaled-acceptance(0.7)",
    "draft-leak(0.3)",
    "draft-temperature(1.6)",
    "target-temperature(2)",
    "floored-residual(0.05)",
    "top-k-residual(2)",
    "relaxed-acceptance(1,0)",
    "relaxed-acceptance(3,0.1)",
    "entropy-scaled(1)",
    "forced-top(3)",
]
LAWS = [*(name for name, fault in FAULTS.items() if fault.law is not None), *WITH_PARAMETERS]
WITHOUT = {
    "count-all-accepts",
    "zero-mass-accept",
    "swapped-rows",
    "next-row",
    "naive-block",
    "greedy-no-state",
    "seeded-per-call",
    "seeded-per-request",
    "shared-noise",
    "draft-uniform-as-coin",
    "repeated-stream",
    "ragged-offset",
    "swapped-requests",
    "shared-request-uniforms",
    "one-sided-penalty",
    "openvino-draft",
}
MODELS = [
    (get_model("compact"), 3),
    (get_model("markov-5"), 2),
    (random_pair(1, 4), 2),
    (random_pair(5, 3), 3),
    (partly_equal_pair(), 2),
    (one_hot_pair(), 2),
    (disjoint_pair(), 2),
    (equal_pair(), 2),
]


def emitted(fault, model, gamma):
    """Exact law of one call's tokens, uncompleted, drafts included: {tokens: weight}."""

    def run(path):
        coins = ForkedGenerator(path)
        if fault.contract == "step":
            return tuple(fault.rule((), model.target, model.draft, gamma, coins))
        draft = ()
        for _ in range(gamma):
            q = model.draft(draft)
            draft = (*draft, int(coins.choice(len(q), p=q)))
        target = np.array([model.target(draft[:i]) for i in range(gamma + 1)])
        rows = np.array([model.draft(draft[:i]) for i in range(gamma)])
        return tuple(fault.rule(target, rows, np.array(draft), coins))

    law = Counter()
    for tokens, weight in explore(run):
        law[tokens] += float(weight)
    return law


def slots(law, vocab_size):
    """Law (V,) of each slot that has mass, given the tokens before it: {prefix: row}."""
    rows = defaultdict(lambda: np.zeros(vocab_size))
    for tokens, weight in law.items():
        for j, token in enumerate(tokens):
            rows[tokens[:j]][token] += weight
    return {prefix: row / row.sum() for prefix, row in rows.items() if row.sum() > 1e-12}


def along(model, gamma, prefix):
    """Rows along ``prefix``; those beyond the slot, which a law must not read, are NaN."""
    target = np.full((gamma + 1, model.vocab_size), np.nan)
    draft = np.full((gamma, model.vocab_size), np.nan)
    for i in range(len(prefix) + 1):
        target[i] = model.target(prefix[:i])
        if i < gamma:
            draft[i] = model.draft(prefix[:i])
    return target, draft


def error(law, fault, model, gamma):
    """Largest difference of ``law`` from the fault's exact law, over all slots."""
    found = slots(emitted(fault, model, gamma), model.vocab_size)
    return max(
        np.abs(law(*along(model, gamma, prefix), prefix) - row).max()
        for prefix, row in found.items()
    )


def test_every_fault_without_a_law_is_known():
    chains = {name: fault for name, fault in FAULTS.items() if fault.scheme is None}
    assert {name for name, fault in chains.items() if fault.law is None} == WITHOUT
    assert not [name for name in FAULTS.keys() - chains.keys() if FAULTS[name].law]


@pytest.mark.parametrize(("model", "gamma"), MODELS, ids=lambda x: getattr(x, "name", None))
@pytest.mark.parametrize("name", LAWS)
def test_every_slot_follows_the_law(name, model, gamma):
    fault = get_fault(name)
    assert error(fault.law, fault, model, gamma) < 1e-12


@pytest.mark.parametrize("name", LAWS)
def test_the_targets_row_does_not_fit(name):
    """Negative control: what a correct rule emits is not what the fault does."""
    fault = get_fault(name)
    assert max(error(lambda p, q, prefix: p[len(prefix)], fault, *on) for on in MODELS[:2]) > 2e-5


@pytest.mark.parametrize("name", LAWS)
def test_the_law_of_a_slot_is_a_distribution(name):
    law, rng = get_fault(name).law, np.random.default_rng(7)
    for vocab_size, gamma in ((2, 1), (5, 3), (200, 2)):
        rows = (
            rng.exponential(size=(2, gamma + 1, vocab_size))
            * (rng.random((2, gamma + 1, vocab_size)) < 0.7)
            + 1e-9
        )
        p, q = rows / rows.sum(axis=2, keepdims=True)
        for j in range(gamma + 1):
            row = law(p, q[:gamma], (0,) * j)
            assert row.shape == (vocab_size,)
            assert row.min() > -1e-15
            assert row.sum() == pytest.approx(1, abs=1e-12)


def test_a_law_leaves_its_rows_alone():
    p, q = np.array([[0.5, 0.3, 0.2]] * 2), np.array([[0.2, 0.3, 0.5]])
    p.flags.writeable = q.flags.writeable = False
    for name in LAWS:
        get_fault(name).law(p, q, ())
        get_fault(name).law(p, p[:1], ())  # no residual: p itself stands in


def test_an_earlier_weight_matters():
    """One uniform and block's acceptance: the law depends on more than the slot's own rows."""
    model, gamma = MODELS[0]
    for name in ("one-uniform", "naive-block-stealth"):
        fault = get_fault(name)

        def forgetful(p, q, prefix, law=fault.law):
            j = len(prefix)
            return law(p[j:], q[j:], ())

        assert error(forgetful, fault, model, gamma) > 1e-3


def test_the_next_row_asks_for_the_rows_after_every_token():
    fault, (model, gamma) = get_fault("next-row"), MODELS[1]
    found = slots(emitted(fault, model, gamma), model.vocab_size)
    for prefix, row in found.items():
        if len(prefix) < gamma:
            later = np.array([model.target((*prefix, x)) for x in range(model.vocab_size)])
            assert next_row(later, model.draft(prefix)) == pytest.approx(row, abs=1e-12)
            assert np.abs(model.target(prefix) - row).max() > 1e-3


def test_the_residual_of_equal_rows_is_the_targets():
    row = np.array([0.25, 0.75])
    assert residual(row, row) == pytest.approx(row)
