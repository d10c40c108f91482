"""The battery on tokens of any code: faults named, localised and refuted; one alpha for all."""

import numpy as np
import pytest
from support.false_alarms import ALPHA

from simverify.auditing.sampled.tables import SampledInstance, default_instances
from simverify.auditing.sampled.tier import sample_callable
from simverify.battery.battery import RARE_BELOW, Slot, certify, judge_tokens
from simverify.battery.fault_rows import (
    MAX_TESTED,
    fault_counts,
    judged_rows,
    known_faults,
    slot_rows,
)
from simverify.battery.judgement import rejections
from simverify.battery.localise import PARTS
from simverify.battery.naming import ratio_tests
from simverify.battery.shares import callable_shares, context_shares, kernel_shares
from simverify.faults import FAULTS
from simverify.faults.base import accepted, keep
from simverify.models.small import compact
from simverify.verifiers import VERIFIERS

SMALL = (SampledInstance(compact(), 2),)
token = VERIFIERS["token"].rule


def audit(rule, contract="verify", *, instances=None, alpha=ALPHA, detect=0.02, **options):
    return sample_callable(
        rule, contract, instances=instances or default_instances(), seed=7, alpha=alpha,
        detect=detect, **options,
    ).tier  # fmt: skip


def rejected(tier):
    return {test.name.partition(": ")[2] for test in tier.tests if test.rejected}


# -- faults, sampled -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("target-residual", "residual"),
        ("softmax-residual", "residual"),
        ("inverted-ratio", "accept"),
        ("scaled-acceptance(1.1)", "accept"),
        ("typical-acceptance", "accept"),
        ("wrong-bonus-row", "bonus"),
        ("previous-row", "row plumbing"),
        ("residual-row-zero", "row plumbing"),
        ("target-temperature(0.9)", "row plumbing"),
        ("reused-uniform", "random stream"),
        ("one-uniform", "random stream"),
        ("truncated-draft-soft-q", "draft contract"),
    ],
)
def test_a_catalogued_fault_is_named_and_localised(name, part):
    fault = FAULTS[name]
    tier = audit(fault.rule, fault.contract)
    assert tier.findings
    assert tier.localisation.part == part
    # Acceptance times 1.1 and times 1/.9 take more tokens to tell apart than to find.
    twins = {"scaled-acceptance(1.1)", "lenient(0.9)"}
    assert tier.faults.best.fault in (twins if name in twins else {name})
    assert tier.faults.explains > 0.75
    assert name not in {refuted.fault for refuted in tier.faults.refuted if refuted.strength < 1}
    assert tier.certificate is None


def doubled(p, q, x, rng):
    """Token verification that keeps a rejected token once in five."""
    tau = 0
    while tau < len(x) and (
        rng.random() < min(1, p[tau][x[tau]] / q[tau][x[tau]]) or rng.random() < 0.2
    ):
        tau += 1
    law = p[tau] if tau == len(x) else np.maximum(p[tau] - q[tau], 0)
    return keep(x, tau, int(rng.choice(len(law), p=law / law.sum())))


def uniform_residual(p, q, x, rng):
    """Right acceptance; after a rejection any token that p has more of, all alike."""
    tau = accepted(p, q, x, rng)
    law = p[tau] if tau == len(x) else (p[tau] > q[tau]).astype(float)
    return keep(x, tau, int(rng.choice(len(law), p=law / law.sum())))


def mixed_bonus(p, q, x, rng):
    """Right but for the bonus, which is uniform over what p allows."""
    tau = accepted(p, q, x, rng)
    law = (p[tau] > 0) / 1.0 if tau == len(x) else np.maximum(p[tau] - q[tau], 0)
    law = law if law.sum() else p[tau]
    return keep(x, tau, int(rng.choice(len(law), p=law / law.sum())))


@pytest.mark.parametrize(
    ("rule", "part"), [(doubled, "accept"), (uniform_residual, "residual"), (mixed_bonus, "bonus")]
)
def test_a_fault_that_is_in_no_catalogue_is_localised(rule, part):
    tier = audit(rule)
    assert tier.findings
    assert (tier.localisation.part, bool(tier.localisation.why)) == (part, True)


def test_what_points_nowhere_is_not_localised():
    """A rule with state: its slots need not follow the target, and no law is named."""
    fault = FAULTS["repeated-stream"]
    tier = audit(fault.rule, fault.contract)
    assert tier.findings
    assert tier.localisation.part is None
    assert tier.faults.best is None


def test_a_shared_stream_is_localised_by_independence_alone():
    fault = FAULTS["shared-request-uniforms"]
    tier = audit(fault.rule, fault.contract, batch=fault.batch)
    assert tier.findings
    assert (tier.localisation.part, tier.localisation.position) == ("random stream", None)


@pytest.mark.distribution
@pytest.mark.parametrize("name", ["token", "block", "match", "greedy"])
def test_a_right_rule_passes_and_refutes_faults(name):
    verifier = VERIFIERS[name]
    tier = audit(verifier.rule, verifier.contract, detect=0.03)
    assert (tier.findings, tier.localisation, tier.faults.best) == ((), None, None)
    refuted = {fault.fault: fault.strength for fault in tier.faults.refuted}
    assert len(refuted) >= 15
    assert refuted["inverted-ratio"] <= 1.0
    assert tier.faults.beta == 1e-3
    assert not set(refuted) & set(tier.faults.not_refuted)
    # Nobody's tokens refute an acceptance inflated by a ten-thousandth.
    assert "scaled-acceptance(1.0001)" in tier.faults.not_refuted
    assert "dual" in tier.certificate.method or "plug-in" in tier.certificate.method


# -- one alpha -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "options"), [("token", {}), ("token", {"batch": 4}), ("greedy", {})]
)
def test_all_looks_together_spend_no_more_than_alpha(rule, options):
    verifier = VERIFIERS[rule]
    call = verifier.rule
    if options:

        def call(p, q, x, rng):  # fmt: skip
            return [token(*block, rng) for block in zip(p, q, x, strict=True)]

    tier = audit(call, verifier.contract, alpha=1e-6, detect=0.05, **options)
    assert tier.looks == 4
    once = [test.alpha for test in tier.tests if "named faults" in test.name]
    # The last look spends half of what is spent at looks.
    every = [2 * test.alpha for test in tier.tests if "named faults" not in test.name]
    assert len(once) == 2 * len(default_instances())
    assert sum(once) == pytest.approx(0.5e-6)
    assert sum(once) + sum(every) <= 1e-6 * (1 + 1e-12)
    assert sum(test.alpha for test in tier.tests if "score" in test.name) <= 0.125e-6 * (1 + 1e-12)


def test_the_test_of_fixed_size_is_asked_at_the_last_look_alone():
    tier = audit(FAULTS["inverted-ratio"].rule)
    names = {test.name.partition(": ")[2] for test in tier.tests}
    assert tier.looks == 1
    assert "named faults, at any time" in names
    assert "named faults" not in names
    assert "named faults, at any time" in rejected(tier)


# -- pairs of rows -------------------------------------------------------------------------


def batched(pick):
    """Token rule over a batch; row i of call c is judged with the stream ``pick(c, i)``."""
    calls = iter(range(1 << 40))

    def verify(p, q, x, rng):
        call = next(calls)
        blocks = enumerate(zip(p, q, x, strict=True))
        return [token(*block, np.random.default_rng([3, *pick(call, i)])) for i, block in blocks]

    return verify


@pytest.mark.distribution
def test_rows_of_their_own_streams_pass():
    tier = audit(batched(lambda c, i: (c, i)), batch=8, instances=SMALL, detect=0.03)
    assert tier.findings == ()
    names = [test.name for test in tier.tests]
    assert any("of a call: equal outputs" in name for name in names)
    assert any("and the next call's row" in name for name in names)


@pytest.mark.parametrize(
    ("pick", "words"),
    [
        (lambda c, i: (c, i - 3 if i in (3, 4, 5) else i), "of a call: "),
        (lambda c, i: (c, 0 if i == 7 else i), "rows 1 and 8 of a call: "),
        (lambda c, i: (c - 1, 7) if i == 0 else (c, i), "row 8 and the next call's row 1: "),
    ],
    ids=["three apart", "one pair", "across calls"],
)
def test_rows_that_share_a_stream_are_found_whichever_they_are(pick, words):
    start = 1 << 20  # so that no call's number is negative
    shifted = batched(lambda c, i: pick(c + start, i))
    tier = audit(shifted, batch=8, instances=SMALL, detect=0.03)
    assert rejected(tier)
    assert all(words in name for name in rejected(tier))
    assert tier.localisation.part == "random stream"


# -- the catalogue's laws ------------------------------------------------------------------


def test_every_fault_with_a_law_has_a_part():
    every = known_faults(prefix=True, first_row=True)
    assert {fault.name.partition("(")[0] for fault in every} == set(PARTS)
    assert len(every) > MAX_TESTED
    with_law = {name for name, fault in FAULTS.items() if fault.law is not None}
    assert with_law - {fault.name for fault in every} == {"draft-leak(0.01)"}


@pytest.mark.parametrize("first_row", [False, True])
def test_faults_said_to_need_no_more_read_no_more(first_row):
    """Other rows and other tokens before change nothing; they do for the faults left out."""
    every = known_faults(prefix=True, first_row=True)
    same = {fault.name for fault in every}
    for slot, prefixes in ((2, [(0, 1), (3, 2)]), (3, [(0, 1, 2), (3, 2, 1)])):
        rng = np.random.default_rng(4)
        p, q = rng.dirichlet(np.ones(4), (2, 4)), rng.dirichlet(np.ones(4), (2, 3))
        kept = [0, slot] if first_row else [slot]
        p[1, kept] = p[0, kept]
        q[1, [i for i in kept if i < 3]] = q[0, [i for i in kept if i < 3]]
        rows = slot_rows(every, p, q, prefixes)
        same &= {f.name for f, law in zip(every, rows, strict=True) if np.allclose(*law)}
    assert same == {fault.name for fault in known_faults(prefix=False, first_row=first_row)}


def test_a_fault_that_is_the_target_but_for_rounding_is_no_evidence():
    """With two tokens the residual is one of them: several faults change nothing."""
    rng = np.random.default_rng(6)
    p, q = rng.dirichlet(np.ones(2), 3), rng.dirichlet(np.ones(2), 3)
    faults = known_faults(prefix=False, first_row=False)
    counts = np.array([rng.multinomial(300_000, row) for row in p])
    table = fault_counts(faults, [(counts, p, judged_rows(faults, p, q))])
    told = {table.names[m] for m in table.telling}
    assert {"one-hot-residual", "top-k-residual(1)"}.isdisjoint(told)
    assert {"inverted-ratio", "target-residual"} <= told
    tests = ratio_tests(table, {"ratios": ALPHA}, last=True)
    assert not any(test.rejected for test in tests)
    assert f"over {min(len(told), MAX_TESTED)} faults" in tests[0].method


# -- counted tokens ------------------------------------------------------------------------


def slots(law, tokens=400_000, vocab=6):
    """Two slots of tokens from ``law(p, q)``, and their rows."""
    rng = np.random.default_rng(12)
    made = []
    for slot in range(2):
        p, q = rng.dirichlet(np.full(vocab, 0.7), 5), rng.dirichlet(np.full(vocab, 0.7), 5)
        counts = np.array([rng.multinomial(tokens // 5, row) for row in law(p, q)])
        made.append(Slot(f"slot {slot + 1}", counts, p, q))
    return made


def judged(made, alpha=ALPHA):
    shares = kernel_shares(alpha, calls=False)
    faults = known_faults(prefix=False, first_row=False)
    parts = [(x.counts, x.target, judged_rows(faults, x.target, x.draft)) for x in made]
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
    tests = judged([Slot("slot 1", counts, p, p)]).tests
    assert [test.name for test in tests if test.name.startswith("score")] == []
    assert RARE_BELOW < 0.25


def test_the_better_bound_is_shown_at_the_sum_of_both_deltas():
    few = certify(slots(leak(0.0)), delta=1e-3)
    assert few.method.startswith("dual")
    assert few.delta == 1e-3
    many = certify(slots(leak(0.0), vocab=300), delta=1e-3)
    assert many.method.startswith("plug-in")


def test_shares_of_an_instance_are_the_batterys():
    shares = callable_shares(1.0 - 1e-9)
    assert shares["gate"] == shares["ratios"] == pytest.approx(0.25)
    assert shares["scores"] == pytest.approx(0.25)


def test_a_finding_speaks_for_all_of_its_kind():
    rejected_ones = [test for test in judged(slots(leak(0.03))).tests if test.rejected]
    found = rejections(rejected_ones)
    kinds = [line.split()[0].rstrip(",:") for line in found]
    assert kinds == ["named", "score", "transitions", "rare"]
    scores = [test for test in rejected_ones if test.name.startswith("score")]
    worst = min(scores, key=lambda test: test.log_pvalue)
    assert found[1].startswith(f"{worst.name}: p = 1e-")
    assert found[1].endswith(f", and {len(scores) - 1} more of its kind")
    assert "more" not in found[0]
