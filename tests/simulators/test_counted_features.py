"""Features from counts are those of the tokens that were counted."""

import numpy as np
import pytest
from support import naive
from support.false_alarms import ALPHA
from support.feature_rows import assert_same, drawn, due_pits, pairs_of_rows

from simverify import stats
from simverify.faults import get_fault
from simverify.simulators.counted_features import ContextLaws, features_of_counts
from simverify.simulators.features import features
from simverify.simulators.kernels.rows import features as kernel

ROWS = pairs_of_rows(31, 12, 8)


def counts_of(rows, each, seed):
    rng = np.random.default_rng(seed)
    return np.array([rng.multinomial(each, row) for row in rows])


def tokens_of(counts):
    """Contexts and tokens (n,) that ``counts`` counts, cell by cell."""
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    return np.divmod(cells, counts.shape[1])


@pytest.mark.parametrize("judged", [True, False])
def test_counting_first_changes_no_sum_but_the_pits(judged):
    p, q = ROWS
    counts = counts_of(p, 40, 32)
    contexts, tokens = tokens_of(counts)
    laws = ContextLaws(p, q, judged=judged)
    found = features_of_counts(counts, laws, seed=1)
    flags = np.full(tokens.size, judged)
    due = features(p[contexts], q[contexts], tokens, np.zeros(tokens.size), judged=flags)
    for name in ("q_above_p", "rare", "accept", "contrast", "surprise"):
        one, other = (getattr(x, name) for x in (found, due))
        if name == "rare":
            for a, b in zip(one, other, strict=True):
                assert_same(a, b)
            continue
        if hasattr(one, "tables"):
            assert one.tables is not None
            np.testing.assert_allclose(one.deviation, other.deviation, atol=1e-5)
            np.testing.assert_allclose(one.variance, other.variance, rtol=1e-6, atol=1e-5)
            np.testing.assert_allclose(one.fourth, other.fourth, rtol=1e-6, atol=1e-2)
            assert one.n == other.n == 480
            continue
        assert_same(one, other)
    for sums in ("log_evalues", "log_refutations"):
        np.testing.assert_allclose(
            *(getattr(x.ratios, sums) for x in (found, due)), rtol=1e-6, atol=1e-4
        )
    none = np.abs(found.ratios.log_evalues[:-1]).max() < 1e-9
    assert none != judged


def test_pits_take_the_draws_of_their_addresses():
    p, q = ROWS
    counts = counts_of(p, 50, 33)
    contexts, tokens = tokens_of(counts)
    seed, first = 2**63 + 5, 2**32 - 7
    rank = np.concatenate([np.arange(n) for n in counts.ravel()])
    uniforms = np.array(
        [naive.uniform(seed, first + int(c) * 8 + int(x), kernel.COUNTED, int(n))
         for c, x, n in zip(contexts, tokens, rank, strict=True)]
    )  # fmt: skip
    found = features_of_counts(counts, ContextLaws(p, q, judged=True), seed=seed, first=first)
    pits = due_pits(p[contexts], q[contexts], tokens, uniforms)
    for order in range(3):
        due = np.histogram(pits[order], bins=stats.PIT_BINS, range=(0, 1))[0]
        # An edge of a bin may be an ulp away.
        assert np.abs(np.cumsum(found.pits[order] - due)).max() <= 1
        assert np.abs(found.pits[order] - due).sum() <= 4


def test_counts_of_one_run_add_up_and_keep_their_laws_once():
    p, q = ROWS
    laws = ContextLaws(p, q, judged=True)
    parts = [counts_of(p, 40, seed) for seed in (34, 35)]
    both = features_of_counts(parts[0], laws, seed=1) + features_of_counts(
        parts[1], laws, seed=1, first=1000
    )
    assert both.n == 960
    assert len(both.accept.tables) == 1
    assert_same(
        both.accept, features_of_counts(parts[0] + parts[1], laws, seed=1).accept, atol=1e-9
    )


def test_tokens_that_the_target_excludes_are_counted():
    p, q = np.array([[0.5, 0.5, 0.0]]), np.array([[0.5, 0.0, 0.5]])
    laws = ContextLaws(p, q, judged=True)
    assert features_of_counts(np.array([[3, 2, 4]]), laws, seed=1).unsupported == 4


def test_bad_input():
    p, q = ROWS
    with pytest.raises(ValueError, match=r"p row 0 sums to 0\.5"):
        ContextLaws(p / 2, q, judged=True)
    with pytest.raises(ValueError, match=r"q has shape \(11, 8\)"):
        ContextLaws(p, q[1:], judged=True)
    laws = ContextLaws(p, q, judged=True)
    with pytest.raises(ValueError, match="expected at least one token"):
        features_of_counts(np.zeros((12, 8), int), laws, seed=1)
    with pytest.raises(ValueError, match="expected no negative count"):
        features_of_counts(np.full((12, 8), -1), laws, seed=1)
    with pytest.raises(ValueError, match="expected integers"):
        features_of_counts(np.full((12, 8), 1.0), laws, seed=1)
    with pytest.raises(ValueError, match="expected"):
        features_of_counts(np.ones((12, 7), int), laws, seed=1)


def log_pvalues(rows, p, q, seed):
    laws = ContextLaws(p, q, judged=True)
    found = features_of_counts(counts_of(rows, 50_000, seed), laws, seed=seed)
    tests = {f"pit-{i}": stats.pit_ks(h, alpha=0.5) for i, h in enumerate(found.pits)}
    for name in ("accept", "contrast", "surprise"):
        tests[name] = stats.score_test(getattr(found, name), alpha=0.5)
    tests["above"] = stats.indicator_test(found.q_above_p, alpha=0.5)
    tests["ratios"] = stats.ratio_gate(found.ratios, alpha=0.5).test
    return {name: test.log_pvalue for name, test in tests.items()}


@pytest.fixture(scope="module")
def smooth_rows():
    return np.random.default_rng(36).dirichlet(np.full(12, 0.7), (2, 20))


def test_the_growth_of_counted_faults_is_known(smooth_rows):
    p, q = smooth_rows
    ratios = features_of_counts(counts_of(p, 9, 38), ContextLaws(p, q, judged=True), seed=1).ratios
    assert (ratios.growth > 0).all()


@pytest.mark.distribution
def test_counts_of_the_target_pass(smooth_rows):
    p, q = smooth_rows
    found = log_pvalues(p, p, q, 20_260_104)
    for name, log_p in found.items():
        assert log_p > np.log(ALPHA / len(found)), name


@pytest.mark.distribution
def test_counts_of_a_fault_fail_every_test(smooth_rows):
    """Negative control."""
    p, q = smooth_rows
    law = get_fault("target-residual").law
    rows = np.array([law(a[None], b[None], ()) for a, b in zip(p, q, strict=True)])
    for name, log_p in log_pvalues(rows / rows.sum(axis=1, keepdims=True), p, q, 5).items():
        assert log_p < np.log(ALPHA), name


def test_drawn_tokens_follow_their_rows():
    """The helper that the tests draw with: zeros never, the only possible token always."""
    p, _ = ROWS
    tokens = drawn(np.random.default_rng(37), np.repeat(p, 50, axis=0))
    assert (np.repeat(p, 50, axis=0)[np.arange(600), tokens] > 0).all()
