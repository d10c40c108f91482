"""A whole comparison: its numbers against fractions worked out elsewhere, or by hand here."""

import itertools
import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from support.false_alarms import ALPHA

import simverify
from simverify import UsageError
from simverify.models import get_model
from simverify.results.reading import document_text

BLOCKS = 100_000
RULES = ["token", "block", "greedy", "match"]

ACCEPTED = {
    ("toy", 1): ("2/3", "2/3", "2/3"),
    ("toy", 2): ("10/9", "11/9", "12/9"),
    ("toy", 3): ("38/27", "5/3", "50/27"),
    ("toy", 4): ("130/81", "166/81", "64/27"),
    ("toy", 8): ("12610/6561", "20384/6561", "8536/2187"),
    ("compact", 1): ("5/6", "5/6", "5/6"),
    ("compact", 2): ("101/72", "211/144", "221/144"),
    ("compact", 3): ("379/216", "139/72", "593/288"),
}
"""E[tau] of token, block and greedy's first call: Sun et al. 2025, and by hand for compact."""


def row(run, model, verifier):
    (found,) = [r for r in run.results if (r.model, r.verifier) == (model, verifier)]
    return found


@pytest.fixture(scope="module")
def run():
    return simverify.compare(
        ["toy", "compact"],
        RULES,
        gamma=3,
        blocks=BLOCKS,
        cost_ratio=0.25,
        seed=5,
        threads=2,
        alpha=ALPHA,
    )


@pytest.fixture(scope="module")
def rows(run):
    return run.results


@pytest.mark.parametrize(("model", "gamma"), ACCEPTED)
@pytest.mark.thorough
def test_exact_accepted_tokens_are_the_known_fractions(model, gamma):
    run = simverify.compare([model], RULES[:3], gamma=gamma, blocks=1000)
    for name, known in zip(RULES, ACCEPTED[model, gamma], strict=False):
        expected = row(run, model, name).expected_accepted
        assert Fraction(expected.fraction) == Fraction(known)
        assert expected.exact == pytest.approx(float(Fraction(known)))
        # Certain bounds: the floats next to the fraction, or itself.
        assert Fraction(expected.lower) <= Fraction(known) <= Fraction(expected.upper)
        assert expected.upper - expected.lower < 1e-14
        assert expected.method == "enumeration"


@pytest.mark.thorough
def test_the_coupling_bound_is_the_sum_of_the_smaller_joints(run):
    for info in run.models:
        pair = get_model(info.name).rational
        total = Fraction(0)
        for length in (1, 2, 3):
            for x in itertools.product(range(info.vocab_size), repeat=length):
                ms, mb = pair.draft_start[x[0]], pair.target_start[x[0]]
                for last, token in itertools.pairwise(x):
                    state = last % len(pair.target_rows)
                    ms *= pair.draft_rows[state][token]
                    mb *= pair.target_rows[state][token]
                total += min(ms, mb)
        assert Fraction(info.bounds.coupling.fraction) == total


def test_what_follows_from_accepted_tokens(rows):
    for r in rows:
        accepted = r.expected_accepted.exact
        assert r.block_efficiency == pytest.approx(accepted + 1)
        assert r.speedup.cost_ratio == 0.25
        assert r.speedup.predicted == pytest.approx((accepted + 1) / (3 * 0.25 + 1))
        assert sum(r.acceptance_ccdf.exact) == pytest.approx(accepted)
        assert r.optimality == pytest.approx(accepted / r.optimum.expected_accepted)


def test_the_optimum_is_the_blocks_or_for_carried_state_the_coupling_bound(run):
    for info in run.models:
        block = row(run, info.name, "block").expected_accepted.exact
        for name in ("token", "block", "match"):
            optimum = row(run, info.name, name).optimum
            assert (optimum.name, optimum.expected_accepted) == ("block", block)
        greedy = row(run, info.name, "greedy").optimum
        assert (greedy.name, greedy.expected_accepted) == ("coupling", info.bounds.coupling.exact)
        assert row(run, info.name, "block").optimality == 1
        assert row(run, info.name, "token").optimality < 1


def test_measured_intervals_are_empirical_bernstein(rows):
    for r in rows:
        tails = np.array(r.acceptance_ccdf.measured)
        mean, square = tails.sum(), (tails * (2 * np.arange(1, 4) - 1)).sum()
        log = math.log(2 * 2 / (1 - 0.999))
        n = r.measured.blocks
        variance = (square - mean**2) * n / (n - 1)
        half = math.sqrt(2 * variance * log / n) + 7 * 3 * log / (3 * (n - 1))
        assert n == BLOCKS
        assert r.measured.mean == pytest.approx(mean)
        assert r.measured.ci_high == pytest.approx(mean + half, rel=1e-3)
        assert r.measured.ci_low == pytest.approx(mean - half, rel=1e-3)


def away(r, accepted, share):
    """Whether the measured mean is further from ``accepted`` than Hoeffding allows."""
    bound = 3 * math.sqrt(math.log(2 / share) / (2 * r.measured.blocks))
    return abs(r.measured.mean - accepted) > bound


@pytest.mark.distribution
def test_kernels_accept_what_the_law_says(rows):
    assert not any(away(r, r.expected_accepted.exact, ALPHA / len(rows)) for r in rows)


def test_a_wrong_law_is_away(run):
    """Negative control: token's kernel under block's law, and block's under greedy's."""
    for model in ("toy", "compact"):
        token, block, greedy, _ = (row(run, model, name) for name in RULES)
        assert away(token, block.expected_accepted.exact, ALPHA)
        assert away(block, greedy.expected_accepted.exact, ALPHA)


@pytest.mark.distribution
def test_losslessness_is_exact_and_sampled(run):
    for r in run.results:
        assert r.lossless.tier == "exact"
        assert r.lossless.exact.arithmetic == "rational"
        assert r.lossless.exact.method == "paths"
        assert r.lossless.max_abs_deviation == r.lossless.tv == 0
        assert not r.lossless.findings
        assert r.lossless.tests
        assert not any(test.rejected for test in r.lossless.tests)
    spent = sum(test.alpha for r in run.results for test in r.lossless.tests + r.acceptance.tests)
    assert 0.5 * run.alpha < spent <= run.alpha * (1 + 1e-9)


def test_a_lossy_rule_fails_by_its_law_and_by_its_kernel():
    run = simverify.compare(["compact"], ["token", "temperature-0"], gamma=2, blocks=2000)
    lossy = row(run, "compact", "temperature-0")
    assert run.verdict == lossy.verdict == "FAIL"
    # The first token is always 2, to which the target gives one half.
    assert lossy.lossless.tv == pytest.approx(1 / 2)
    assert any(test.rejected for test in lossy.lossless.tests)
    assert lossy.lossless.findings


def test_a_greedy_rule_is_lossless_at_temperature_zero():
    run = simverify.compare(
        ["markov-8"], ["temperature-0", "token", "block"], gamma=2, temperature=0.0, blocks=2000
    )
    assert run.verdict == "PASS"
    accepted = {r.expected_accepted.exact for r in run.results}
    assert len(accepted) == 1


@pytest.mark.distribution
def test_a_short_run_promises_nothing():
    run = simverify.compare(["markov-64"], ["token"], gamma=4, blocks=1000, alpha=ALPHA)
    assert run.verdict == "INCONCLUSIVE"
    (r,) = run.results
    assert r.lossless.tier == "sampled"
    assert r.lossless.exact is None
    assert r.lossless.detectable is None or r.lossless.detectable > run.detect
    assert r.expected_accepted.method == "closed-form"


@pytest.mark.distribution
def test_enough_blocks_for_the_deviation_pass():
    run = simverify.compare(["toy"], ["token"], gamma=2, detect=0.05, alpha=ALPHA, blocks=20_000)
    assert run.verdict == "PASS"
    assert run.results[0].lossless.detectable <= 0.05


def without_meta(run):
    return document_text(msgspec.structs.replace(run, meta=None))


@pytest.mark.thorough
def test_the_seed_is_all_that_a_result_depends_on(run):
    arguments = (["toy", "compact"], RULES)
    options = {"gamma": 3, "blocks": BLOCKS, "cost_ratio": 0.25, "alpha": ALPHA}
    for threads in (1, 3):
        again = simverify.compare(*arguments, **options, seed=5, threads=threads)
        assert without_meta(again) == without_meta(run)
        assert again.meta.threads == threads
    other = simverify.compare(*arguments, **options, seed=6, threads=2)
    assert without_meta(other) != without_meta(run)


def test_rules_see_the_same_drafts_whoever_else_is_compared(run):
    alone = simverify.compare(["compact"], ["block"], gamma=3, blocks=BLOCKS, seed=5)
    assert alone.results[0].measured == row(run, "compact", "block").measured


def test_the_order_is_the_users(run):
    assert [(r.model, r.verifier) for r in run.results] == [
        (model, verifier) for model in ("toy", "compact") for verifier in RULES
    ]


def test_models_without_a_corpus_have_none(run):
    assert all(info.corpus_sha256 is None for info in run.models)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gamma": 0}, "gamma is 0: expected 1 to 64"),
        ({"gamma": 65}, "gamma is 65"),
        ({"blocks": 0}, "blocks is 0: expected 2 to"),
        ({"blocks": 10**11}, "blocks is 100000000000"),
        ({"calls": -1}, "calls is -1"),
        ({"cost_ratio": -0.1}, "cost ratio is -0.1"),
        ({"cost_ratio": math.nan}, "cost ratio is nan"),
        ({"cost_ratio": math.inf}, "cost ratio is inf"),
        ({"alpha": 0.0}, "alpha is 0.0"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"detect": math.nan}, "detect is nan"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is"),
        ({"threads": 0}, "threads is 0"),
        ({"eos": 1}, "end-of-sequence token 1 without calls"),
        ({"eos": 2, "calls": 1}, "end-of-sequence token 2 is not in the vocabulary of toy, 0 to 1"),
        ({"models": []}, "nothing to compare"),
        ({"verifiers": []}, "nothing to compare"),
        ({"models": ["toy", "toy"]}, "two models are called 'toy'"),
        ({"verifiers": ["match", "token", "match"]}, "verifier 'match' is named twice"),
        ({"models": ["toi"]}, "did you mean 'toy'"),
        ({"verifiers": ["blok"]}, "unknown verifier, engine or fault 'blok': did you mean 'block'"),
    ],
)
def test_what_is_out_of_range_is_refused(arguments, message):
    settings = {"models": ["toy"], "verifiers": ["token"], "gamma": 1, "blocks": 1000} | arguments
    with pytest.raises(UsageError, match=message):
        simverify.compare(**settings)


def test_a_run_too_short_for_its_power_is_never_a_pass():
    run = simverify.compare(["markov-64"], ["token"], gamma=8, blocks=2)
    assert run.verdict == "INCONCLUSIVE"
