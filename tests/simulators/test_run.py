"""Runs on threads and in shards: the same counts, whoever counted them."""

import itertools
from dataclasses import fields
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.feature_rows import (
    assert_same,
    drawn,
    due_pits,
    due_ratio_sums,
    due_ratios,
    due_scores,
    numbers,
    pairs_of_rows,
)
from support.instances import equal_pair
from support.pages.reproduction import agree

from simverify import stats
from simverify.faults import get_fault
from simverify.models.base import compact
from simverify.models.markov import markov
from simverify.models.ngram import corpus_text, train_ngram
from simverify.simulators import run as module
from simverify.simulators.kernels import features as kernel
from simverify.simulators.run import (
    PIT_BINS,
    TRIALS_PER_SHARD,
    Counts,
    RowLookup,
    default_threads,
    features,
    model_tables,
    pits_and_ratios,
    run_on_threads,
    sample_features,
    sample_tokens,
    simulate,
)
from simverify.verifiers import VERIFIERS

# Features are the sums that stats would make of plain arrays, whatever the batch or threads.


WIDTHS = {"accept": 1.0, "contrast": 2.0, "surprise": 16.0}


def batch(seed, n, vocab_size):
    p, q = pairs_of_rows(seed, n, vocab_size)
    rng = np.random.default_rng([seed, n])
    return p, q, drawn(rng, p), rng.random(n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_sum_is_what_stats_makes_of_the_tokens(dtype):
    p, q, tokens, uniforms = batch(21, 200, 8)
    judged, follows = np.arange(200) % 5 != 4, np.arange(200) % 7 != 0
    found = features(
        p.astype(dtype), q.astype(dtype), tokens, uniforms, judged=judged, follows=follows
    )
    index = np.arange(200)
    pits = due_pits(p, q, tokens, uniforms)
    assert found.n == 200
    assert found.unsupported == 0
    for order in range(3):
        due = np.histogram(pits[order], bins=stats.PIT_BINS, range=(0, 1))[0]
        # An edge of a bin may be an ulp away.
        assert np.abs(np.cumsum(found.pits[order] - due)).max() <= 1
        assert np.abs(found.pits[order] - due).sum() <= 4
    for name, scores in due_scores(p, q).items():
        moments = stats.score_moments(p, scores)
        due = stats.score_sums(
            scores[index, tokens], width=WIDTHS[name],
            **{field.name: getattr(moments, field.name) for field in fields(moments)},
        )  # fmt: skip
        tolerance = 1e-3 if name == "surprise" else 1e-9  # fourth powers of a polynomial's error
        assert_same(getattr(found, name), due, atol=tolerance)
    members = [
        stats.q_above_p(p, q), stats.rare_token(p, below=1e-3), stats.rare_token(p, below=1e-5),
    ]  # fmt: skip
    for sums, inside in zip((found.q_above_p, *found.rare), members, strict=True):
        chance = np.minimum((p * inside).sum(axis=1), 1)
        assert_same(sums, stats.indicator_sums(inside[index, tokens], chance))
    with np.errstate(divide="ignore"):
        logs = np.log(due_ratios(p, q, tokens, judged))
    assert_same(found.ratios, due_ratio_sums(logs), atol=2e-5)
    second = index[1:][follows[1:]]
    assert_same(found.pairs, stats.pair_sums(pits[0, second - 1], pits[0, second]))


def test_pairs_that_share_no_token():
    p, q, tokens, uniforms = batch(22, 12, 8)
    follows = np.array([0, 1, 1, 1, 1, 0, 0, 1, 0, 1, 1, 1], bool)
    found = features(p, q, tokens, uniforms, follows=follows)
    pits = due_pits(p, q, tokens, uniforms)[0]
    first = np.array([0, 2, 6, 8, 10])  # sequences 0-4, 5, 6-7, 8-11
    np.testing.assert_array_equal(found.pair_table, stats.pit_table(pits[first], pits[first + 1]))
    assert found.pairs.n == 8
    alone = features(p, q, tokens, uniforms)
    assert alone.pairs.n == 0
    assert alone.pair_table.sum() == 0


def test_threads_and_parts_change_nothing(monkeypatch):
    arguments = batch(23, 300, 8)
    once = numbers(features(*arguments))
    monkeypatch.setattr(module, "_CHUNK_ENTRIES", 8 * 7)
    parts = [numbers(features(*arguments, threads=threads)) for threads in (1, 3)]
    np.testing.assert_array_equal(*parts)
    np.testing.assert_allclose(parts[0], once, rtol=1e-12, atol=1e-12)


def test_batches_add_up():
    arguments = batch(24, 100, 8)
    whole = features(*arguments)
    first, second = (
        features(*(array[part] for array in arguments)) for part in (slice(40), slice(40, 100))
    )
    assert_same(first + second, whole, rtol=1e-11, atol=1e-11)
    assert numbers(first + second).size == numbers(whole).size


def test_a_token_that_the_target_excludes_is_counted():
    p, q = np.array([[1.0, 0.0, 0.0]] * 2), np.array([[0.5, 0.0, 0.5]] * 2)
    found = features(p, q, np.array([2, 1]), np.array([0.1, 0.9]))
    assert found.unsupported == 2
    leak = kernel.FAULTS.index("draft-leak(1)")
    # One that the draft may emit speaks for the leak, for good; one that neither may, not.
    assert (found.ratios.log_evalues[leak] == np.inf).all()
    assert (found.ratios.log_refutations[leak] == -np.inf).all()
    neither = features(p[:1], q[:1], np.array([1]), np.array([0.5]))
    assert neither.unsupported == 1
    floored = kernel.FAULTS.index("floored-residual(1e-05)")  # it may emit anything
    assert (neither.ratios.log_evalues[floored] == np.inf).all()
    assert (np.delete(neither.ratios.log_evalues, floored, axis=0) == 0).all()


def test_a_token_that_a_fault_excludes_refutes_it_at_full_strength():
    p, q = np.array([[0.5, 0.5, 0.0]]), np.array([[0.5, 0.0, 0.5]])
    found = features(p, q, np.array([1]), np.array([0.5]))
    leak = kernel.FAULTS.index("draft-leak(1)")
    assert found.ratios.log_evalues[leak, 0] == -np.inf
    assert found.ratios.log_refutations[leak, 0] == np.inf
    np.testing.assert_allclose(
        found.ratios.log_evalues[leak, 1:], np.log1p(-np.array(stats.STRENGTHS[1:]))
    )


def rows_of(*rows, dtype=np.float64):
    return np.array(rows, dtype=dtype)


GOOD = {
    "p": rows_of([0.5, 0.5], [0.25, 0.75]),
    "q": rows_of([0.5, 0.5], [0.75, 0.25]),
    "tokens": np.array([0, 1]),
    "uniforms": np.array([0.0, 0.5]),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": rows_of([0.5, 0.5])}, r"shapes \(1, 2\), \(2, 2\), expected the same"),
        ({"p": GOOD["p"][:, :1], "q": GOOD["q"][:, :1]}, "V >= 2"),
        ({"p": GOOD["p"].astype(np.float32)}, "p, q are float32, float64, expected"),
        ({"p": GOOD["p"].astype(np.float16), "q": GOOD["q"].astype(np.float16)}, "float16"),
        ({"p": rows_of([0.5, 0.5], [0.25, 0.74])}, r"p row 1 sums to 0.99 \(float64\)"),
        ({"q": rows_of([0.5, 0.5], [np.inf, 0.25])}, "q row 1 sums to inf"),
        ({"q": rows_of([1.5, -0.5], [0.75, 0.25])}, "row 0 has a negative or NaN entry"),
        ({"p": rows_of([0.5, 0.5], [np.nan, 0.5])}, "row 1 has a negative or NaN entry"),
        ({"tokens": np.array([0, 2])}, r"tokens span 0..2, expected 0..1"),
        ({"tokens": np.array([-1, 0])}, r"tokens span -1..0, expected 0..1"),
        ({"tokens": np.array([0.0, 1.0])}, "expected integers"),
        ({"tokens": np.array([0])}, r"int64 \(1,\), expected integers \(2,\)"),
        ({"uniforms": np.array([0.0, 1.0])}, r"outside \[0, 1\)"),
        ({"uniforms": np.array([0.0, np.nan])}, r"outside \[0, 1\)"),
        ({"judged": np.array([1, 0])}, "judged is int64"),
        ({"follows": np.array([True])}, r"follows is bool \(1,\)"),
        ({"threads": 0}, "threads is 0, expected a whole number, 1 or more"),
    ],
)
def test_bad_input(change, message):
    features(**GOOD)
    with pytest.raises(ValueError, match=message) as caught:
        features(**GOOD | change)
    assert "\n" not in str(caught.value)


def test_no_tokens():
    with pytest.raises(ValueError, match="n >= 1"):
        features(**{name: array[:0] for name, array in GOOD.items()})


def test_rows_of_float32_may_miss_one_by_their_rounding():
    p = np.random.default_rng(25).dirichlet(np.full(1000, 0.5), 4).astype(np.float32)
    assert features(p, p, np.zeros(4, int), np.zeros(4)).n == 4
    with pytest.raises(ValueError, match="p row 0 sums to"):
        features(p.astype(np.float64), p.astype(np.float64), np.zeros(4, int), np.zeros(4))


def log_pvalues(law, dtype, seed):
    """All tests of 240,000 tokens that follow ``law``, in batches, 2,000 contexts over and over."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(12, 0.7), (2, 2_000))
    rows = np.array([law(a[None], b[None], ()) for a, b in zip(p, q, strict=True)])
    rows, *given = (np.tile(x, (30, 1)) for x in (np.maximum(rows, 0), p, q))
    # One in four follows nothing; under the null no token knows another.
    follows = np.arange(len(rows)) % 4 != 0
    parts = [
        features(
            *(x.astype(dtype) for x in given),
            drawn(rng, rows),
            rng.random(len(rows)),
            follows=follows,
        )
        for _ in range(4)
    ]
    total = reduce(add, parts)
    tests = {f"pit-{i}": stats.pit_ks(h, alpha=0.5) for i, h in enumerate(total.pits)}
    tests |= {name: stats.score_test(getattr(total, name), alpha=0.5) for name in WIDTHS}
    indicators = {"above": total.q_above_p, "rare-3": total.rare[0], "rare-5": total.rare[1]}
    tests |= {name: stats.indicator_test(sums, alpha=0.5) for name, sums in indicators.items()}
    tests["correlation"] = stats.pit_correlation(total.pairs, alpha=0.5)
    tests["pairs"] = stats.g2_test(stats.pit_table_g2(total.pair_table), alpha=0.5)
    gate = stats.ratio_gate(total.ratios, alpha=0.5)
    tests["ratios"] = gate.test
    return {name: test.log_pvalue for name, test in tests.items()}, gate


def target(p, q, prefix):
    return p[0]


@pytest.mark.distribution
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_targets_tokens_pass_every_test(dtype):
    found, gate = log_pvalues(target, dtype, 20_260_101)
    assert len(found) == 12
    for name, log_p in found.items():
        assert log_p > np.log(ALPHA / len(found)), name
    slight = {"floored-residual(1e-05)", "scaled-acceptance(1.01)"}
    assert set(kernel.FAULTS) - slight <= {r.fault for r in gate.refuted}


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("fault", "sees"),
    [
        ("target-residual", {"pit-0", "accept", "contrast", "above"}),
        ("draft-leak(0.3)", {"pit-0", "accept", "contrast", "above"}),
        ("inverted-ratio", {"pit-0", "contrast", "above"}),
        ("scaled-acceptance(1.1)", {"pit-0"}),
        ("draft-temperature(0.9)", set()),
        ("reused-uniform", {"pit-1"}),
        ("unnormalised-residual", {"pit-1"}),
        ("target-temperature(0.9)", {"pit-2", "surprise"}),
    ],
)
@pytest.mark.thorough
def test_a_faults_tokens_fail_and_it_is_named(fault, sees):
    """Negative control: the same tests of tokens that follow another law."""
    found, gate = log_pvalues(get_fault(fault).law, np.float64, 20_260_102)
    for name in sees | {"ratios"}:
        assert found[name] < np.log(ALPHA), name
    # Lenience 0.9 is acceptance times 1.11.
    alike = {"scaled-acceptance(1.1)": {"lenient(0.9)"}, "draft-leak(0.3)": {"draft-leak(1)"}}
    named = {fault} | alike.get(fault, set())
    assert gate.best.fault in named
    assert not named & {r.fault for r in gate.refuted if r.strength <= 0.1}


@pytest.mark.distribution
def test_tokens_that_repeat_their_neighbours_place_are_correlated():
    """Negative control of the pairs: each PIT's uniform is shared by two tokens in a row."""
    n = 20_000
    rng = np.random.default_rng(20_260_103)
    p, q = rng.dirichlet(np.full(12, 0.7), (2, n))
    u = np.repeat(rng.random(n // 2), 2)[:, None]
    order = np.argsort(q / p, axis=1)
    cdf = np.cumsum(np.take_along_axis(p, order, 1), axis=1)
    place = np.minimum((cdf <= u).sum(axis=1), 11)
    tokens = order[np.arange(n), place]
    found = features(p, q, tokens, rng.random(n), follows=np.arange(n) % 2 == 1)
    assert stats.pit_correlation(found.pairs, alpha=0.5).log_pvalue < np.log(ALPHA)
    table = stats.g2_test(stats.pit_table_g2(found.pair_table), alpha=0.5)
    assert table.log_pvalue < np.log(ALPHA)
    # Each token alone is right.
    half = features(p[::2], q[::2], tokens[::2], rng.random(n // 2))
    assert stats.pit_ks(half.pits[0], alpha=0.5).log_pvalue > np.log(ALPHA)


def test_drawn_tokens_follow_their_rows():
    """The helper that the tests draw with: zeros never, the only possible token always."""
    p, _ = pairs_of_rows(31, 12, 8)
    tokens = drawn(np.random.default_rng(37), np.repeat(p, 50, axis=0))
    assert (np.repeat(p, 50, axis=0)[np.arange(600), tokens] > 0).all()


TRIALS = 5 * TRIALS_PER_SHARD + 77  # no multiple of a shard or of a tile


def run(rule, trials, *, threads=1, seed=7, model=None, **options):
    tables = model_tables(model or markov(5))
    options = {"calls": 3, "transition_shape": (6, *tables.target.shape), "pit_positions": 2,
               **options}  # fmt: skip
    return simulate(tables, rule, 4, trials, seed=seed, threads=threads, **options)


@pytest.fixture(scope="module", params=VERIFIERS)
def rule(request):
    return request.param


def test_threads_change_nothing(rule):
    one = run(rule, TRIALS)
    for threads in (2, 3):
        assert agree(one, run(rule, TRIALS, threads=threads))
    assert not agree(one, run(rule, TRIALS, seed=8))


def test_parts_add_up(rule):
    whole = run(rule, TRIALS, first_trial=1000)
    cuts = [0, 1, 130, TRIALS_PER_SHARD + 5, TRIALS]
    parts = [
        run(rule, end - begin, first_trial=1000 + begin) for begin, end in itertools.pairwise(cuts)
    ]
    assert agree(whole, sum(parts[1:], parts[0]))
    assert not agree(whole, run(rule, TRIALS, first_trial=1001))


def test_counts_are_of_all_trials(rule):
    counts = run(rule, TRIALS)
    assert counts.trials == counts.accepted.sum() == TRIALS
    assert (counts.transitions.sum(axis=(1, 2))[:3] == TRIALS).all()
    assert (counts.pits.sum(axis=2) == TRIALS).all()
    assert (np.diff(counts.lengths[0]) > 0).all()
    tails = [counts.accepted[n:].sum() for n in range(1, 5)]
    assert counts.tail_counts.tolist() == tails
    first = run(rule, TRIALS, calls=1)
    assert first.lengths[0, 0] == TRIALS + sum(tails)
    taus = np.arange(1, 6)
    assert first.lengths[1, 0] == (first.accepted * taus**2).sum()


def test_all_rules_see_the_same_drafts():
    """With p = q these keep every draft token: the first gamma tokens are the drafts."""
    drafts = {
        rule: run(rule, 10_000, model=equal_pair(), calls=1).transitions[:4]
        for rule in ("token", "block", "greedy")
    }
    np.testing.assert_array_equal(drafts["token"], drafts["block"])
    np.testing.assert_array_equal(drafts["token"], drafts["greedy"])
    other = run("token", 10_000, model=equal_pair(), calls=1, seed=8).transitions[:4]
    assert (other != drafts["token"]).any()


def test_token_and_block_are_one_rule_at_gamma_one():
    """Down to each count, since they read the same uniforms."""
    tables = model_tables(compact())
    for gamma, same in ((1, True), (2, False)):
        token, block = (
            simulate(tables, rule, gamma, 20_000, seed=7, threads=1, transition_shape=(3, 4, 3))
            for rule in ("token", "block")
        )
        assert agree(token, block) == same


def test_fewer_trials_than_threads():
    assert run("block", 2, threads=3).trials == 2
    nothing = run("block", 0, threads=2)
    assert (nothing.trials, nothing.accepted.sum(), nothing.lengths.sum()) == (0, 0, 0)


def test_a_failing_thread_ends_the_run():
    def broken(take):
        raise KeyError(take())

    with pytest.raises(KeyError, match=str(TRIALS_PER_SHARD)):
        run_on_threads(broken, 0, TRIALS, 2)


def test_default_threads():
    assert default_threads() >= 1


def test_counts_add_up_field_by_field():
    ones = np.ones(2, np.int64)
    a = Counts(1, ones, ones, ones, ones, 3)
    total = a + Counts(2, 2 * ones, 3 * ones, 4 * ones, 5 * ones, 6)
    assert (total.trials, total.unsupported) == (3, 9)
    fields = (total.accepted, total.lengths, total.transitions, total.pits)
    assert [field.tolist() for field in fields] == [[3, 3], [4, 4], [5, 5], [6, 6]]


# The first tokens of a run are those that it counted, each with its model's own rows.


GAMMA, STREAMED_TRIALS = 3, 300
SHAPES = {"token": (1, GAMMA + 1), "match": (1, GAMMA + 1), "greedy": (2 * GAMMA, 2 * GAMMA)}
"""Calls and positions of a trial."""


@pytest.fixture(scope="module", params=["markov", "ngram"])
def model(request):
    return markov(70) if request.param == "markov" else train_ngram(corpus_text()[:100_000])


@pytest.fixture(scope="module")
def tables(model):
    return model_tables(model)


def taken(tables, rule, n):
    calls, positions = SHAPES[rule]
    return sample_tokens(tables, rule, GAMMA, n, seed=7, calls=calls, positions=positions)


def counted(tables, rule):
    calls, positions = SHAPES[rule]
    return simulate(
        tables,
        rule,
        GAMMA,
        STREAMED_TRIALS,
        seed=7,
        threads=2,
        calls=calls,
        pit_positions=positions,
    )


@pytest.mark.parametrize("rule", SHAPES)
def test_they_have_the_pits_that_the_run_counts(model, tables, rule):
    """State, token, position and uniform of every token, or the histograms would differ."""
    counts = counted(tables, rule)
    n = int(counts.pits[0].sum())
    found = taken(tables, rule, n)
    pits, _ = pits_and_ratios(found, RowLookup.of(model, tables), np.ones(n, bool))
    # Tokens of one q/p but for rounding, as n-grams have them, may be ordered by it.
    for order in (0, 1) if model.name == "markov-70" else (1,):
        for position in range(SHAPES[rule][1]):
            bins = (pits[order, found.positions == position] * PIT_BINS).astype(int)
            due = counts.pits[order, position]
            # An edge of a bin may be an ulp away.
            moved = np.cumsum(np.bincount(bins, minlength=PIT_BINS) - due)
            assert moved[-1] == 0
            assert np.abs(moved).max() <= 1
            assert (moved != 0).sum() <= 2


def test_tokens_of_another_rule_have_other_pits(model, tables):
    """Negative control of the test above."""
    n = int(counted(tables, "token").pits[0].sum())
    found = taken(tables, "match", n)
    pits, _ = pits_and_ratios(found, RowLookup.of(model, tables), np.ones(n, bool))
    bins = (pits[0, found.positions == 0] * PIT_BINS).astype(int)
    moved = np.bincount(bins, minlength=PIT_BINS) - counted(tables, "token").pits[0, 0]
    assert np.abs(moved).sum() > 100


def test_the_order_is_of_trials_and_positions_and_cut_where_it_is_full(tables, monkeypatch):
    whole = taken(tables, "token", 500)
    assert len(whole.tokens) == 500
    assert whole.positions[0] == 0
    assert all(b in (0, a + 1) for a, b in pairwise(whole.positions))
    monkeypatch.setattr(module, "TRIAL_CHUNK", 50)
    for n in (1, 2, 499):
        part = taken(tables, "token", n)
        for name in ("states", "tokens", "positions", "uniforms"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[:n])


def test_generations_fill_their_positions(tables):
    found = taken(tables, "greedy", 60)
    np.testing.assert_array_equal(found.positions, np.tile(np.arange(6), 10))


def test_rows_are_laws_and_the_states_own(model, tables):
    found = taken(tables, "token", 400)
    p, q = RowLookup.of(model, tables).lookup(found.states)
    for rows in (p, q):
        np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-12)
    starts = found.positions == 0
    if model.name.startswith("markov"):
        np.testing.assert_array_equal(p[starts][0], model.target_start)
        after = np.flatnonzero(~starts)
        np.testing.assert_array_equal(q[after[0]], model.draft([found.tokens[after[0] - 1]]))
        return
    # Which contexts they are is the PITs' business; that rows fit states is theirs.
    index = np.unique(model.contexts, axis=0)
    seen = {tuple(np.round(row, 12)) for row in p[starts]}
    due = {tuple(np.round(model.target(context), 12)) for context in index}
    assert seen <= due


def test_batches_add_up_to_the_features_of_all(model, tables, monkeypatch):
    found, rows = taken(tables, "token", 301), RowLookup.of(model, tables)
    judged = found.positions < GAMMA
    p, q = rows.lookup(found.states)
    whole = features(p, q, found.tokens, found.uniforms, judged=judged, follows=np.ones(301, bool))
    monkeypatch.setattr(module, "_MAX_ROW_ENTRIES", 100 * model.vocab_size)
    parts = sample_features(found, rows, judged, 1)
    np.testing.assert_array_equal(parts.pits, whole.pits)
    np.testing.assert_allclose(parts.ratios.log_evalues, whole.ratios.log_evalues, rtol=1e-9)
    # A batch's first token has no partner.
    assert (whole.pairs.n, parts.pairs.n) == (300, 297)
    assert stats.pit_ks(parts.pits[2], alpha=0.5).n == 301
