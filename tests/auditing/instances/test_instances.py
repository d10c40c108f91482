"""The instances of the battery, and the search beyond them."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from support.rules import narrow

from simverify.auditing import exact_tier
from simverify.auditing.coverage import find_reachable
from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.examiner import verify_as_step
from simverify.auditing.instances import SmallModel, instance_battery, instances_for
from simverify.auditing.search import LiteralHints, SearchSpace, search_failure, smallest_failure
from simverify.auditing.subject import Subject
from simverify.symbolic.engine import Budget
from simverify.verifiers import VERIFIERS
from simverify.verifiers.token import verify as token

# The numbers that stand in the code lead the exact tier to where a fault hides behind them.


EDGE = 40


def large_ids(target, draft, drafted, rng):
    if int(drafted[0]) == EDGE:
        return [int(drafted[0])]
    return token(target, draft, drafted, rng)


def long_drafts(target, draft, drafted, rng):
    if len(drafted) >= 5:
        return [*map(int, drafted), 0]
    return token(target, draft, drafted, rng)


def lenient(target, draft, drafted, rng):
    ratio = target[0, drafted[0]] / draft[0, drafted[0]]
    if 0.37 < ratio < 0.375:
        return [int(drafted[0])]
    return token(target, draft, drafted, rng)


PIECE = 16


def piece_by_piece(target, draft, drafted, rng):
    # Of 17 tokens the last piece has one, and is never looked at.
    if len(target[0]) > PIECE:
        looked_at = max(PIECE * -(-(len(target[0]) - 1) // PIECE), 1)
        target = target.copy()
        target[-1, looked_at:] = 0
        target[-1] /= target[-1].sum()
    return token(target, draft, drafted, rng)


def a_full_piece(target, draft, drafted, rng):
    if len(target[0]) % PIECE == 0:
        target = np.delete(target, -1, 1) / np.delete(target, -1, 1).sum(1, keepdims=True)
    return token(target, draft, drafted, rng)


def long_prefix(prefix, target, draft, gamma, rng):
    row = draft(prefix) if len(prefix) > EDGE else target(prefix)
    return [int(rng.choice(len(row), p=row))]


def short_context(prefix, target, draft, gamma, rng):
    if len(prefix) >= EDGE:
        raise IndexError("the context is full")
    row = target(prefix)
    return [int(rng.choice(len(row), p=row))]


def of(rule, contract="verify", hints=True):
    numbers = find_reachable(rule).numbers if hints else ()
    return LiteralHints.among(numbers, contract, 2, 3)


def tried(rule, contract, hints):
    models = of(rule, contract, hints).models(contract)
    return run_exact_tier(
        Subject("mine", rule, None), contract, models, tolerance=None, searching=False
    )


@pytest.mark.parametrize(
    ("rule", "contract"),
    [
        (large_ids, "verify"),
        (long_drafts, "verify"),
        (lenient, "verify"),
        (piece_by_piece, "verify"),
        (a_full_piece, "verify"),
        (long_prefix, "step"),
    ],
)
def test_a_fault_behind_a_number_of_the_code_is_found(rule, contract):
    assert tried(rule, contract, hints=True).failure is not None
    # Negative control: without the numbers nothing leads there.
    assert tried(rule, contract, hints=False).failure is None


def test_code_that_raises_beyond_its_context_is_right_within_it():
    tier = tried(short_context, "step", hints=True)
    assert tier.failure is None
    assert tier.judged
    assert tier.beyond


def test_code_that_is_right_passes_all_of_them():
    every = LiteralHints((40, 98), (5, 6), (0.05, 0.37, 0.995, 2.0), ends=(7, 64))
    tier = run_exact_tier(
        Subject("token", token, None), "verify", every.models("verify"), tolerance=None,
        searching=False,
    )  # fmt: skip
    assert tier.failure is None
    assert tier.not_enumerable is None
    assert tier.skipped == []


def test_instances_stand_on_either_side_of_a_number():
    models = LiteralHints((), (), (0.37,)).models("verify")
    ratios = {
        p / q for m in models if "p/q" in m.name for p, q in [(m.target(())[0], m.draft(())[0])]
    }
    assert min(ratios) < 0.37 < max(ratios)
    assert any(0.36 < r < 0.37 for r in ratios)
    assert any(0.37 < r < 0.375 for r in ratios)


def test_what_the_battery_reaches_already_is_no_hint():
    assert LiteralHints.among({0, 1, 2, -1, 1e-12}, "verify", 4, 12) == LiteralHints()
    assert LiteralHints.among({50}, "verify", 4, 12).sizes == (50,)
    assert LiteralHints.among({10}, "verify", 4, 13) == LiteralHints(ends=(10,))
    assert LiteralHints.among({50}, "step", 4, 12).lengths == (50,)
    assert np.isclose(LiteralHints.among({0.995, 50}, "verify", 4, 12).numbers, (0.995, 50)).all()


MODELS = list(instance_battery(4, 12))


def rows(model, depth):
    for length in range(depth):
        for prefix in itertools.product(range(model.vocab_size), repeat=length):
            yield model.target(prefix), model.draft(prefix)


def test_the_battery_is_small_scope_and_rich():
    assert {m.vocab_size for m in MODELS} == {2, 3, 4, 5, 6, 8, 9, 12}
    assert {m.gamma for m in MODELS} == {1, 2, 3, 4}
    pairs = [pair for model in MODELS for pair in rows(model, 2)]
    assert any((p == 0).any() and (q[p == 0] > 0).any() for p, q in pairs)
    assert any((q == 0).any() and (p[q == 0] > 0).any() for p, q in pairs)
    assert any((np.maximum(p - q, 0) > 0).sum() >= 2 for p, q in pairs)
    assert any(np.array_equal(p, q) for p, q in pairs)
    assert any((p * q).sum() == 0 for p, q in pairs)
    assert any(q.max() == 1 for _, q in pairs)
    assert any(p.max() == 1 for p, _ in pairs)
    assert any((p[q > 0] / q[q > 0]).min() < 0.5 for p, q in pairs)
    assert any(len(set(p)) < len(p) for p, _ in pairs)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_every_row_is_a_law(model):
    for p, q in rows(model, 3):
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert q.sum() == pytest.approx(1, abs=1e-12)


def test_rows_depend_on_the_prefix_and_are_fresh():
    model = next(m for m in MODELS if m.name == "plain, V=3, gamma=3")
    seen = {tuple(model.target(x)) for x in [(), (0,), (1,), (2,), (0, 1), (1, 0)]}
    assert len(seen) > 3
    model.target(())[:] = 0
    assert model.target(()).sum() == pytest.approx(1)


@pytest.mark.parametrize("n", range(2, 6))
def test_rows_depend_on_each_token_before_them(n):
    weights = tuple((i + 1, 9) for i in range(n))
    model = SmallModel("all rows differ", 1, weights, weights)
    for length in range(3, 7):
        for prefix in itertools.product(range(2), repeat=length):
            for i in range(length - 2):
                other = (*prefix[:i], 1 - prefix[i], *prefix[i + 1 :])
                assert not np.array_equal(model.target(prefix), model.target(other))


def test_the_document_holds_the_same_rows_as_fractions():
    model = MODELS[-1]
    document = model.document(2)
    for prefix, row in document.target_probs.items():
        tokens = tuple(map(int, prefix.split(","))) if prefix else ()
        assert [float(Fraction(x)) for x in row] == pytest.approx(list(model.target(tokens)))
        assert sum(Fraction(x) for x in row) == 1


def test_rules_that_draft_themselves_get_smaller_instances():
    step = instances_for("step", 4, 12, 0)
    assert max(m.gamma for m in step) == 3
    assert all(m.certain_drafts and m.gamma == 1 for m in step if m.vocab_size > 3)
    assert len(instances_for("verify", 4, 12, 0)) == len(MODELS)
    assert all(m.gamma <= 2 and m.vocab_size <= 3 for m in instances_for("verify", 2, 3, 0))


def test_the_search_shrinks():
    def fails(model: SmallModel) -> bool:
        p, q = model.target(()), model.draft(())
        return bool(abs(p - q).sum() > 0.5)

    assert fails(search_failure(fails, SearchSpace(4, 3), examples=100, seed=0))
    found = smallest_failure(fails, SearchSpace(4, 3), examples=100, seed=0)
    assert (found.vocab_size, found.gamma, len(found.targets)) == (2, 1, 1)
    for search in (search_failure, smallest_failure):
        assert search(lambda _: False, SearchSpace(3, 2), examples=20, seed=0) is None


@pytest.mark.parametrize("contract", ["verify", "step"])
@pytest.mark.thorough
def test_a_correct_rule_passes_within_the_paths_of_the_battery(contract):
    rule = narrow(12)
    subject = Subject("mine", verify_as_step(rule) if contract == "step" else rule, None)
    tier = run_exact_tier(
        subject, contract, instances_for(contract, 4, 12, 0), tolerance=1e-9, searching=False
    )
    assert tier.failure is None
    assert not tier.skipped
    assert 3_000 < tier.paths < 30_000


def test_instances_that_do_not_fit_leave_paths_for_the_small_ones():
    models = instances_for("verify", 4, 12, 0)
    tier = run_exact_tier(
        Subject("mine", narrow(12), None), "verify", models,
        tolerance=1e-9, budget=Budget(4_500, 60.0), searching=False,
    )  # fmt: skip
    assert tier.skipped
    assert not any(model.core for model in tier.skipped)
    assert {model for model in models if model.core} <= {x.model for x in tier.judged}


def test_the_search_ends_with_its_paths_and_keeps_its_answers(monkeypatch):
    asked = []

    def search_all(fails, _within, **_):
        small = [model for model in MODELS if (model.vocab_size, model.gamma) == (2, 1)]
        before = [fails(model) for model in small]
        asked.append(len(calls))
        assert [fails(model) for model in small] == before
        asked.append(len(calls))

    calls = []

    def rule(p, q, x, rng):
        calls.append(1)
        return narrow(12)(p, q, x, rng)

    monkeypatch.setattr(exact_tier, "search_failure", search_all)
    for budget in (50, 10_000):
        calls.clear()
        monkeypatch.setattr(exact_tier, "SEARCH_EFFORT", budget)
        run_exact_tier(Subject("mine", rule, None), "verify", MODELS[:1], tolerance=1e-9)
    assert asked[0] == asked[1] < asked[2] == asked[3]


def test_a_ratio_just_under_one_is_accepted_by_a_coin():
    """A right rule takes one; a rule that saves it there is off on rows that are nearly equal."""

    def saving(target, draft, drafted, rng):
        for i, x in enumerate(drafted):
            if 0.995 < target[i, x] / draft[i, x] < 1:
                return [*map(int, drafted[: i + 1])]
        return VERIFIERS["token"].rule(target, draft, drafted, rng)

    near = [m for m in instance_battery(1, 3) if m.name.startswith("sweep") and m.vocab_size == 3]
    for rule, fails in ((saving, True), (VERIFIERS["token"].rule, False)):
        tier = run_exact_tier(
            Subject("r", rule, None), "verify", near, tolerance=None, searching=False
        )
        assert (tier.failure is not None) == fails
