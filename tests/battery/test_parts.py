"""The battery's parts on counts and rows: what each sees, what shares go where, what is named."""

import numpy as np
import pytest
from support.false_alarms import ALPHA

from simverify.battery.battery import (
    MAX_TESTED_FAULTS,
    PART_OF_FAULT,
    RARE_PROBABILITY,
    SlotCounts,
    callable_shares,
    certify_slots,
    context_shares,
    detectable_faults,
    fault_counts,
    judge_tokens,
    kernel_shares,
    ratio_tests,
    rejection_findings,
    single_slot_rows,
    slot_rows,
)
from simverify.faults import FAULTS

# -- the catalogue's laws ------------------------------------------------------------------


def test_every_fault_with_a_law_has_a_part():
    every = detectable_faults(prefix=True, first_row=True)
    assert {fault.name.partition("(")[0] for fault in every} == set(PART_OF_FAULT)
    assert len(every) > MAX_TESTED_FAULTS
    with_law = {name for name, fault in FAULTS.items() if fault.law is not None}
    assert with_law - {fault.name for fault in every} == {"draft-leak(0.01)"}


@pytest.mark.parametrize("first_row", [False, True])
def test_faults_said_to_need_no_more_read_no_more(first_row):
    """Other rows and other tokens before change nothing; they do for the faults left out."""
    every = detectable_faults(prefix=True, first_row=True)
    same = {fault.name for fault in every}
    for slot, prefixes in ((2, [(0, 1), (3, 2)]), (3, [(0, 1, 2), (3, 2, 1)])):
        rng = np.random.default_rng(4)
        p, q = rng.dirichlet(np.ones(4), (2, 4)), rng.dirichlet(np.ones(4), (2, 3))
        kept = [0, slot] if first_row else [slot]
        p[1, kept] = p[0, kept]
        q[1, [i for i in kept if i < 3]] = q[0, [i for i in kept if i < 3]]
        rows = slot_rows(every, p, q, prefixes)
        same &= {f.name for f, law in zip(every, rows, strict=True) if np.allclose(*law)}
    assert same == {fault.name for fault in detectable_faults(prefix=False, first_row=first_row)}


def test_a_fault_that_is_the_target_but_for_rounding_is_no_evidence():
    """With two tokens the residual is one of them: several faults change nothing."""
    rng = np.random.default_rng(6)
    p, q = rng.dirichlet(np.ones(2), 3), rng.dirichlet(np.ones(2), 3)
    faults = detectable_faults(prefix=False, first_row=False)
    counts = np.array([rng.multinomial(300_000, row) for row in p])
    table = fault_counts(faults, [(counts, p, single_slot_rows(faults, p, q))])
    told = {table.names[m] for m in table.telling}
    assert {"one-hot-residual", "top-k-residual(1)"}.isdisjoint(told)
    assert {"inverted-ratio", "target-residual"} <= told
    tests = ratio_tests(table, {"ratios": ALPHA}, last=True)
    assert not any(test.rejected for test in tests)
    assert f"over {min(len(told), MAX_TESTED_FAULTS)} faults" in tests[0].method


# -- counted tokens ------------------------------------------------------------------------


def slots(law, tokens=400_000, vocab=6):
    """Two slots of tokens from ``law(p, q)``, and their rows."""
    rng = np.random.default_rng(12)
    made = []
    for slot in range(2):
        p, q = rng.dirichlet(np.full(vocab, 0.7), 5), rng.dirichlet(np.full(vocab, 0.7), 5)
        counts = np.array([rng.multinomial(tokens // 5, row) for row in law(p, q)])
        made.append(SlotCounts(f"slot {slot + 1}", counts, p, q))
    return made


def judged(made, alpha=ALPHA):
    shares = kernel_shares(alpha, calls=False)
    faults = detectable_faults(prefix=False, first_row=False)
    parts = [(x.counts, x.target, single_slot_rows(faults, x.target, x.draft)) for x in made]
    return judge_tokens(
        made, fault_counts(faults, parts), shares | context_shares(shares["output"])
    )


def leak(share):
    return lambda p, q: (1 - share) * p + share * q


@pytest.mark.distribution
def test_every_part_of_the_battery_sees_a_leak_and_none_a_right_law():
    right, wrong = judged(slots(leak(0.0))), judged(slots(leak(0.03)))
    assert not any(test.rejected for test in right.tests)
    found = {test.name for test in wrong.tests if test.rejected}
    assert {
        "named faults", "transitions", "transitions, slot 1", "score min(1, q/p)",
        "score (q-p)/(q+p)", "score q > p", "score q > p, slot 1",
    } <= found  # fmt: skip
    assert sum(test.alpha for test in wrong.tests) <= ALPHA
    assert right.detectable < 0.02
    assert right.by_slot[0] > np.log(ALPHA) > wrong.by_slot[0]


def test_a_named_fault_takes_fewer_tokens_than_an_unnamed_one():
    """A leak of .15% in 400,000 tokens: the likelihood ratio finds it, the G2 does not."""
    found = [test.name for test in judged(slots(leak(0.0015))).tests if test.rejected]
    assert "named faults" in found
    assert "transitions" not in found


def test_a_score_that_nothing_moves_is_not_tested():
    p = np.full((3, 4), 0.25)
    counts = np.full((3, 4), 1000)
    tests = judged([SlotCounts("slot 1", counts, p, p)]).tests
    assert [test.name for test in tests if test.name.startswith("score")] == []
    assert RARE_PROBABILITY < 0.25


def test_the_better_bound_is_shown_at_the_sum_of_both_deltas():
    few = certify_slots(slots(leak(0.0)), delta=1e-3)
    assert few.method.startswith("dual")
    assert few.delta == 1e-3
    many = certify_slots(slots(leak(0.0), vocab=300), delta=1e-3)
    assert many.method.startswith("plug-in")


def test_shares_of_an_instance_are_the_batterys():
    shares = callable_shares(1.0 - 1e-9)
    assert shares["gate"] == shares["ratios"] == pytest.approx(0.25)
    assert shares["scores"] == pytest.approx(0.25)


def test_a_finding_speaks_for_all_of_its_kind():
    rejected_ones = [test for test in judged(slots(leak(0.03))).tests if test.rejected]
    found = rejection_findings(rejected_ones)
    kinds = [line.split()[0].rstrip(",:") for line in found]
    assert kinds == ["named", "score", "transitions", "rare"]
    scores = [test for test in rejected_ones if test.name.startswith("score")]
    worst = min(scores, key=lambda test: test.log_pvalue)
    assert found[1].startswith(f"{worst.name}: p = 1e-")
    assert found[1].endswith(f", and {len(scores) - 1} more of its kind")
    assert "more" not in found[0]
