"""Audits of any code by the battery: faults named and localised, right rules refute them."""

import math

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.levels import at_night

from simverify.auditing.sampled_runs import SampledInstance, default_sampled_instances
from simverify.auditing.sampled_tier import sample_callable
from simverify.battery.battery import (
    callable_shares,
    context_shares,
    kernel_shares,
    output_shares,
    pit_shares,
)
from simverify.faults import FAULTS
from simverify.faults.base import accepted_count, prefix_and_last
from simverify.models.base import compact
from simverify.verifiers import VERIFIERS

SMALL = (SampledInstance(compact(), 2),)
token = VERIFIERS["token"].rule


def audit(rule, contract="verify", *, instances=None, alpha=ALPHA, detect=0.02, **options):
    return sample_callable(
        rule, contract, instances=instances or default_sampled_instances(), seed=7, alpha=alpha,
        detect=detect, **options,
    ).tier  # fmt: skip


def rejected(tier):
    return {test.name.partition(": ")[2] for test in tier.tests if test.rejected}


# -- faults, sampled -----------------------------------------------------------------------


# One of each part with every change.
@pytest.mark.parametrize(
    ("name", "part"),
    at_night(
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
        but=[
            ("target-residual", "residual"),
            ("inverted-ratio", "accept"),
            ("wrong-bonus-row", "bonus"),
            ("previous-row", "row plumbing"),
            ("reused-uniform", "random stream"),
            ("truncated-draft-soft-q", "draft contract"),
        ],
    ),
)
@pytest.mark.thorough
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
    return prefix_and_last(x, tau, int(rng.choice(len(law), p=law / law.sum())))


def uniform_residual(p, q, x, rng):
    """Right acceptance; after a rejection any token that p has more of, all alike."""
    tau = accepted_count(p, q, x, rng)
    law = p[tau] if tau == len(x) else (p[tau] > q[tau]).astype(float)
    return prefix_and_last(x, tau, int(rng.choice(len(law), p=law / law.sum())))


def mixed_bonus(p, q, x, rng):
    """Right but for the bonus, which is uniform over what p allows."""
    tau = accepted_count(p, q, x, rng)
    law = (p[tau] > 0) / 1.0 if tau == len(x) else np.maximum(p[tau] - q[tau], 0)
    law = law if law.sum() else p[tau]
    return prefix_and_last(x, tau, int(rng.choice(len(law), p=law / law.sum())))


@pytest.mark.parametrize(
    ("rule", "part"), [(doubled, "accept"), (uniform_residual, "residual"), (mixed_bonus, "bonus")]
)
@pytest.mark.thorough
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
@pytest.mark.parametrize("name", at_night(["token", "block", "match", "greedy"], but=["block"]))
@pytest.mark.thorough
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
@pytest.mark.thorough(by_day=1)
def test_all_looks_together_spend_no_more_than_alpha(rule, options):
    verifier = VERIFIERS[rule]
    call = verifier.rule
    if options:

        def call(p, q, x, rng):  # fmt: skip
            return [token(*block, rng) for block in zip(p, q, x, strict=True)]

    tier = audit(call, verifier.contract, alpha=1e-6, detect=0.1, **options)
    assert tier.looks == 4
    once = [test.alpha for test in tier.tests if "named faults" in test.name]
    # The last look spends half of what is spent at looks.
    every = [2 * test.alpha for test in tier.tests if "named faults" not in test.name]
    assert len(once) == 2 * len(default_sampled_instances())
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


# Every test's share of the false-alarm rate, and that all of a run stay below it.


RATE = 1e-6
MANY = {"transitions": 4, "positions": 1, "rare": 1}

# What splits, its weights as they must be to each other, and the names among them that are a
# quarter together, beside a half for the likelihood ratios and a quarter for the scores.
SPLITS = {
    "kernel": (
        lambda: kernel_shares(RATE, calls=False),
        {"output": 6, "lossy": 1, "acceptance": 1},
        {"ratios": 1 / 2, "scores": 1 / 4},
    ),
    "kernel, with calls": (
        lambda: kernel_shares(RATE, calls=True),
        {"output": 6, "lossy": 1, "acceptance": 1, "calls": 1},
        {"ratios": 1 / 2, "scores": 1 / 4},
    ),
    "contexts": (lambda: context_shares(RATE), {**MANY, "pairs": 0.5}, {}),
    "PITs": (
        lambda: pit_shares(RATE, cells=False),
        {"pits": 4, "descending": 0.5, "pairs": 0.5},
        {},
    ),
    "PITs and cells": (
        lambda: pit_shares(RATE, cells=True),
        {"pits": 4, "descending": 0.5, "pairs": 0.5, "coarse": 1, "fine": 1},
        {},
    ),
    "real models": (
        lambda: output_shares(RATE),
        {"pits": 4, "pairs": 1, "acceptance": 1},
        {"ratios": 1 / 2, "scores": 1 / 4},
    ),
    "callables": (
        lambda: callable_shares(RATE),
        {**MANY, "joint": 2, "independence": 3, "acceptance": 1, "optimality": 1},
        {"gate": 1 / 4, "ratios": 1 / 4, "scores": 1 / 4},
    ),
}


@pytest.mark.parametrize(("split", "weights", "battery"), SPLITS.values(), ids=SPLITS)
def test_a_split_is_whole_and_as_weighted(split, weights, battery):
    shares = split()
    assert math.fsum(shares.values()) <= RATE
    assert math.fsum(shares.values()) == pytest.approx(RATE, rel=1e-12)
    assert all(share > 0 for share in shares.values())
    first = next(iter(weights))
    for name, weight in weights.items():
        assert shares[name] / shares[first] == pytest.approx(weight / weights[first], rel=1e-12)
    for name, part in battery.items():
        assert shares[name] == pytest.approx(part * RATE, rel=1e-12)
    rest = set(shares) - set(battery)
    assert rest == set(weights)
    assert math.fsum(shares[name] for name in rest) == pytest.approx(
        RATE / 4 if battery else RATE, rel=1e-12
    )


def test_what_is_split_inside_a_share_stays_in_it():
    for calls in (False, True):
        output = kernel_shares(RATE, calls=calls)["output"]
        inside = [context_shares(output), *(pit_shares(output, cells=x) for x in (False, True))]
        for split in inside:
            assert 0.99 * output < math.fsum(split.values()) <= output
