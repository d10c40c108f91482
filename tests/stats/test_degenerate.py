"""Degenerate and near-degenerate inputs: no test's size exceeds its level, by enumeration.

Rows that are proportional on the target's support, as those of a draft and its top-k
truncation are, disjoint, one-hot, equal, or any of these but for an ulp: what should be
constant there is constant up to rounding, and no test may take the rounding for evidence.
Every outcome of a few tokens is tried, so that sizes are exact.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats as laws
from support.false_alarms import ALPHA
from support.levels import at_night

from simverify import stats
from simverify.stats.pits import MIN_PAIRS

LEVEL = 0.1
"""Sizes are looked at from here down: above it some laws are approximate, and say so."""

DRAFT = np.array([0.5, 0.3, 0.2])
V = DRAFT.size


def top(row, k):
    kept = np.where(np.argsort(np.argsort(-row)) < k, row, 0.0)
    return kept / kept.sum()


PAIRS = {
    "equal": (DRAFT, DRAFT),
    "equal but for an ulp": (DRAFT, np.nextafter(DRAFT, [1, 0, 1])),
    "all of them an ulp up": (DRAFT, np.nextafter(DRAFT, 1)),
    "top-1 of the draft": (top(DRAFT, 1), DRAFT),
    "top-2 of the draft": (top(DRAFT, 2), DRAFT),
    "top-2 in thirds": (np.array([3 / 5, 2 / 5, 0]), np.array([1 / 2, 1 / 3, 1 / 6])),
    "draft is the top-2": (DRAFT, top(DRAFT, 2)),
    "disjoint": (np.array([0.4, 0.6, 0]), np.array([0, 0, 1.0])),
    "one-hot, both": (np.array([0, 1.0, 0]), np.array([0, 1.0, 0])),
    "one-hot, apart": (np.array([0, 1.0, 0]), np.array([1.0, 0, 0])),
    "one-hot target": (np.array([0, 1.0, 0]), DRAFT),
    "one-hot draft": (DRAFT, np.array([0, 1.0, 0])),
    "nearly one-hot": (np.array([1 - 1e-12, 5e-13, 5e-13]), DRAFT),
    "dust beside it": (np.array([0.6, 0.4 - 1e-17, 1e-17]), np.array([0.6, 0.4, 0])),
    "smallest of floats": (np.array([0.6, 0.4, 5e-324]), np.array([1, 5e-324, 1e-320])),
    "uniform": (np.full(3, 1 / 3), np.full(3, 1 / 3)),
    "halves": (np.array([0.5, 0.5, 0]), np.array([0.25, 0.25, 0.5])),
    "sums to less than 1": (np.array([0.3, 0.7 - 9e-10, 0]), DRAFT),
}


def another(p):
    """A law on the support of p, dust aside, that is not p."""
    row = np.where(p > 1e-9, [0.2, 0.7, 0.9], 0.0)
    return row / row.sum()


def faults(p, q):
    """Laws whose ratio to the target is constant on its support, nearly so, or not at all."""
    away = np.eye(V)[int(p.argmin())]
    rows = [0.9 * p + 0.1 * away, q, p[::-1], (p + q) / 2, np.full(V, 1 / V), np.nextafter(p, 1)]
    rows += [another(p)]
    return np.array([row / row.sum() for row in rows])[:, None]


NAMES = tuple("abcdefg")
SCORES = {
    "accept": (stats.accept, 1.0),
    "contrast": (stats.contrast, 2.0),
    "surprise": (lambda p, q: stats.surprise(p), 16.0),
}
SETS = {"q > p": stats.q_above_p, "rare": lambda p, q: stats.rare_token(p, below=0.01)}


def single(moments, scores, tokens, width):
    """Scores of tokens one by one, as a stream brings them."""
    given = {
        name: np.repeat(getattr(moments, name), len(tokens))
        for name in ("mean", "variance", "third", "fourth", "low", "high")
    }
    return stats.score_sums(scores[0, tokens], **given, width=width)


def every_test(counts, p, q, alpha):
    """Yield the name and the result of every test that counts of one context serve."""
    p, q, table = p[None], q[None], counts[None]
    tokens = np.repeat(np.arange(V), counts)
    laws_of = faults(p[0], q[0])
    yield "ratios", stats.ratio_test(table, p, laws_of, names=NAMES, alpha=alpha).test
    for name, law in zip(NAMES, laws_of, strict=True):
        one = stats.ratio_test(table, p, law[None], names=name, alpha=alpha)
        yield f"ratio {name}", one.test
        one = stats.ratio_test(table, p, law[None], names=name, alpha=alpha, ball=1e-4)
        yield f"ratio {name} in a ball", one.test
    sums = stats.ratio_sums(table, p, laws_of, names=NAMES)
    yield "gate", stats.ratio_gate(sums, alpha=alpha).test
    for name, (score, width) in SCORES.items():
        scores = score(p, q)
        counted = stats.score_sums_of_contexts(table, p, scores)
        streamed = single(stats.score_moments(p, scores), scores, tokens, width)
        for ball in (0.0, 1e-4):
            yield f"{name}, ball {ball}", stats.score_test(counted, alpha=alpha, ball=ball)
            streams = stats.score_test(streamed, alpha=alpha, ball=ball)
            yield f"{name}, streamed, ball {ball}", streams
    for name, members in SETS.items():
        inside = members(p, q)
        bits = stats.indicator_sums_of_contexts(table, p, inside)
        chance = 1.0 if not (p[0] > 0)[~inside[0]].any() else min(float(p[0][inside[0]].sum()), 1.0)
        stream = stats.indicator_sums(inside[0, tokens], np.full(len(tokens), chance))
        for ball in (0.0, 1e-4):
            yield f"{name}, ball {ball}", stats.indicator_test(bits, alpha=alpha, ball=ball)
            streams = stats.indicator_test(stream, alpha=alpha, ball=ball)
            yield f"{name}, streamed, ball {ball}", streams
    yield from cell_tests(counts, p[0], alpha)
    # As a call's tau: how many tokens begin with the likeliest.
    first = int(p[0].argmax())
    rate = [float(p[0, first] / p[0].sum())]
    hits = [int(counts[first])]
    yield "acceptance", stats.acceptance_test(hits, len(tokens), rate, rate, alpha=alpha)
    chance = min(1.0, float((p[0] ** 2).sum() / p[0].sum() ** 2))
    if len(tokens) == 2:
        same = int(counts.max() == 2)
        yield "duplicates", stats.duplicates_test(same, 1, chance, alpha=alpha)
    if len(tokens) >= 2:
        yield (
            "means",
            stats.bounded_means_test(hits, hits, len(tokens), rate, [1], alpha=alpha, name="means"),
        )


def cell_tests(counts, p, alpha):
    """Yield what counts of cells serve, some only where a cell expects enough of them."""
    g2 = stats.transition_g2(counts[None], p[None])
    if g2.df:
        yield "g2", stats.g2_test(g2, alpha=alpha)
        yield "g2 in a ball", stats.g2_test(g2, alpha=alpha, ball=1e-4)
    if g2.rare is not None:
        yield "rare tokens", stats.rare_test(g2.rare, alpha=alpha)


def outcomes(n, p):
    """All counts of ``n`` possible tokens, and their probabilities."""
    counts = np.array([c for c in itertools.product(range(n + 1), repeat=V) if sum(c) == n])
    counts = counts[~counts[:, p == 0.0].any(axis=1)]
    return counts, laws.multinomial.pmf(counts, n, p / p.sum())


def sizes(n, p, tests_of):
    """Yield each test's name and its worst size over its level, from ``LEVEL`` down.

    ``tests_of``: yields the tests of some counts by name.
    """
    counts, masses = outcomes(n, p)
    found = {}
    for count, mass in zip(counts, masses, strict=True):
        for name, test in tests_of(count):
            assert test.log_pvalue <= 0.0, (name, count)
            assert test.min_detectable >= 0.0, (name, count)
            # A p-value of 0 is for what the null hypothesis excludes.
            assert test.log_pvalue > -math.inf or mass < 1e-15, (name, count)
            found.setdefault(name, []).append((test.log_pvalue, mass))
    for name, pairs in found.items():
        log_p, mass = np.array(sorted(pairs)).T
        size = np.cumsum(mass)
        # Of equal p-values the last has the size.
        last = np.append(np.diff(log_p) > 1e-9, True) & (log_p < math.log(LEVEL)) & (size > 1e-290)
        excess = np.log(size[last]) - log_p[last]
        yield name, math.exp(excess.max(initial=-math.inf))


@pytest.mark.parametrize("n", [1, 2, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.thorough(by_day=12)
def test_no_size_exceeds_its_level(pair, n):
    p, q = PAIRS[pair]
    for name, ratio in sizes(n, p, lambda counts: every_test(counts, p, q, 1e-6)):
        assert ratio <= 1 + 1e-6, name


@pytest.mark.parametrize("pair", ["top-2 in thirds", "equal but for an ulp", "halves", "uniform"])
def test_no_size_exceeds_its_level_where_cells_are_full(pair):
    """Enough tokens for a G2 as well; with 40 a cell of 1/3 expects 13."""
    p, _ = PAIRS[pair]
    n = 40 if pair != "uniform" else 31
    found = dict(sizes(n, p, lambda counts: cell_tests(counts, p, 1e-6)))
    assert "g2" in found
    for name, ratio in found.items():
        assert ratio <= 1 + 1e-6, name


@pytest.mark.parametrize("pair", PAIRS)
def test_another_law_is_found(pair):
    """Negative control: tokens of another law on the same support fail; of a point there is none.

    Each kind of test finds some of them, so that none passes by never rejecting.
    """
    p, q = PAIRS[pair]
    counts = np.rint(3000 * another(p)).astype(int)
    rejected = {name for name, test in every_test(counts, p, q, ALPHA) if test.rejected}
    if (p > 1e-9).sum() == 1:
        assert not rejected
    else:
        assert {"acceptance", "means", "g2"} <= rejected
        assert any("ratio" in name for name in rejected)


@pytest.mark.thorough
def test_each_test_finds_another_law_somewhere():
    rejected = set()
    seen = set()
    for p, q in PAIRS.values():
        for counts in (np.rint(3000 * another(p)).astype(int), np.where(p > 0.0, 300, 0)):
            for name, test in every_test(counts, p, q, ALPHA):
                seen.add(name)
                if test.rejected:
                    rejected.add(name)
    assert seen == rejected


@pytest.mark.distribution
@pytest.mark.parametrize("vocab", [3, 8, 40])
def test_truncated_targets_of_many_sizes_raise_no_alarm(vocab):
    """Target = draft truncated to its top k and renormalised, every k, several contexts."""
    rng = np.random.default_rng([301, vocab])
    log_p = {}
    for k in range(1, vocab):
        drafts = rng.dirichlet(np.ones(vocab), 4)
        rows = np.array([top(row, k) for row in drafts])
        counts = np.array([rng.multinomial(5000, row) for row in rows])
        alternatives = np.array([drafts, 0.9 * rows + 0.1 * drafts, rows[::-1]])
        test = stats.ratio_test(counts, rows, alternatives, names="abc", alpha=ALPHA).test
        log_p["ratios", k] = test.log_pvalue
        for name, (score, _) in SCORES.items():
            sums = stats.score_sums_of_contexts(counts, rows, score(rows, drafts))
            log_p[name, k] = stats.score_test(sums, alpha=ALPHA).log_pvalue
        for name, members in SETS.items():
            sums = stats.indicator_sums_of_contexts(counts, rows, members(rows, drafts))
            log_p[name, k] = stats.indicator_test(sums, alpha=ALPHA).log_pvalue
        g2 = stats.transition_g2(counts, rows)
        if g2.df:
            log_p["g2", k] = stats.g2_test(g2, alpha=ALPHA).log_pvalue
    worst = min(log_p, key=log_p.get)
    assert log_p[worst] > math.log(ALPHA / len(log_p)), worst


@pytest.mark.distribution
@pytest.mark.parametrize("pair", PAIRS)
def test_pits_and_pairs_of_degenerate_rows_raise_no_alarm(pair):
    """PITs in every order, their pairs and equal outputs, of tokens of such rows."""
    p, q = PAIRS[pair]
    p = p / p.sum()
    rng = np.random.default_rng(302)
    n = 2 * MIN_PAIRS
    tokens = rng.choice(V, size=n, p=p)
    rows, drafts = np.tile(p, (n, 1)), np.tile(q / q.sum(), (n, 1))
    log_p = {}
    for order in ("ratio", "index", "descending"):
        below, above = stats.pit_bounds(rows, stats.order_key(order, rows, drafts), tokens)
        u = below + rng.random(n) * (above - below)
        histogram = np.histogram(u, bins=stats.PIT_BINS, range=(0, 1))[0]
        log_p["pits", order] = stats.pit_ks(histogram, alpha=ALPHA).log_pvalue
        pairs = stats.pair_sums(u[:-1], u[1:])
        log_p["correlation", order] = stats.pit_correlation(pairs, alpha=ALPHA).log_pvalue
        table = stats.pit_table_g2(stats.pit_table(u[::2], u[1::2]))
        log_p["pit table", order] = stats.g2_test(table, alpha=ALPHA).log_pvalue
    g2 = stats.pair_g2(tokens[::2], tokens[1::2], p)
    if g2.df:
        log_p["pairs", ""] = stats.g2_test(g2, alpha=ALPHA).log_pvalue
    same = int((tokens[::2] == tokens[1::2]).sum())
    chance = min(1.0, float((p**2).sum()))
    log_p["equal", ""] = stats.duplicates_test(same, n // 2, chance, alpha=ALPHA).log_pvalue
    worst = min(log_p, key=log_p.get)
    assert log_p[worst] > math.log(ALPHA / len(log_p)), worst


def test_a_vocabulary_of_one_is_refused_by_name():
    with pytest.raises(ValueError, match="1 categories, expected 2 or more"):
        stats.transition_g2(np.array([[5]]), np.array([[1.0]]))
    with pytest.raises(ValueError, match="V = 2 or more"):
        stats.accept(np.array([[1.0]]), np.array([[1.0]]))


@pytest.mark.parametrize("pair", at_night(PAIRS, but=("top-2 in thirds", "one-hot, apart")))
@pytest.mark.thorough
def test_any_level_has_a_promise(pair):
    """No crash, no NaN, and nothing smaller is promised at a smaller level."""
    p, q = PAIRS[pair]
    for n in (1, 50, 10**6):
        counts = np.rint((n - 1) * p / p.sum()).astype(int)
        counts[int(p.argmax())] += 1
        usual = {}
        for alpha in (0.5, 1e-13, 1e-17, 1e-100, 1e-300):
            for name, test in every_test(counts, p, q, alpha):
                assert test.log_pvalue <= 0.0, (name, n, alpha)
                least = usual.setdefault(name, test.min_detectable)
                assert test.min_detectable >= least * (1 - 1e-9), (name, n, alpha)
