"""Every public function refuses what it cannot use, in one line that names the argument."""

import inspect
import math

import numpy as np
import pytest

from simverify import stats
from simverify.stats import G2, IndicatorSums, PairSums, ScoreSums, transition_g2

COUNTS = np.array([[20, 30, 50]])
ROWS = np.array([[0.2, 0.3, 0.5]])
MEMBERS = np.array([[True, False, False]])
SCORES = np.array([[0.0, 1.0, 0.5]])
TOKENS = np.array([2, 0, 1])
PITS = np.linspace(0, 1, 4000)
MOMENTS = {name: np.full(3, 0.25) for name in ("mean", "variance", "third", "fourth")}
G2_OF_THREE: G2 = transition_g2(COUNTS, ROWS)
BITS: IndicatorSums = stats.indicator_sums_of_contexts(COUNTS, ROWS, MEMBERS)
SUMS: ScoreSums = stats.score_sums_of_contexts(COUNTS, ROWS, SCORES)
PAIRS: PairSums = stats.pair_sums(PITS, PITS[::-1])
RATIOS = np.array([0.5, 1.0, 2.0])
BETS = stats.bet_sums("a", RATIOS, np.zeros(3), np.full(3, 2.0), shares=[0.5])
ENDS = np.array([[0.0, 0.2], [0.2, 0.6]])
STEPS = stats.StepBets.grid([0.5], [0.2])
ALPHA_01 = {"alpha": 0.01}
CURVE = {"lower": [0.5], "upper": [0.6]}

GAIN = {"mean": 0.1, "variance": 0.2, "bets": 3, "price": 0.01}

VALID = {
    "adjusted_pvalues": {"log_pvalues": np.array([-3.0, -math.inf])},
    "accept": {"p": ROWS, "q": ROWS},
    "acceptance_min_detectable": {"n": 100, **CURVE, **ALPHA_01, "power": 0.9},
    "acceptance_samples": {"shift": 0.1, **CURVE, **ALPHA_01, "power": 0.9},
    "acceptance_test": {"tail_counts": np.array([55]), "n": 100, **CURVE, **ALPHA_01},
    "bet_power": {"n": 100, **GAIN, **ALPHA_01},
    "bet_samples": {**GAIN, **ALPHA_01, "power": 0.9},
    "bet_sums": {
        "name": "a", "ratios": RATIOS, "low": np.zeros(3), "high": np.full(3, 2.0), "shares": [0.5],
    },
    "bet_test": {"sums": BETS, **ALPHA_01, "ball": 0.0},
    "capped_mean_test": {"values": ENDS[:, 1], "limit": 0.3, **ALPHA_01, "name": "a"},
    "contrast": {"p": ROWS, "q": ROWS},
    "correlation_min_detectable": {"n": 5000, **ALPHA_01, "power": 0.9, "ball": 0.0},
    "correlation_samples": {"correlation": 0.1, **ALPHA_01, "power": 0.9, "ball": 0.0},
    "disjoint_pairs": {"n": 10, "lag": 1, "phase": 0},
    "drift_test": {
        "observed": np.full(2, 0.1), "variances": np.ones(2), "expected": np.zeros(2),
        "errors": np.zeros(2), "n": 100, **ALPHA_01, "most": 2.0,
    },
    "duplicates_min_detectable": {
        "n": 100, "probability": 0.3, **ALPHA_01, "power": 0.9, "ball": 0.0,
    },
    "duplicates_test": {"count": 3, "n": 10, "probability": 0.3, **ALPHA_01, "ball": 0.0},
    "expected_g2": {"totals": np.array([100]), "probabilities": ROWS},
    "g2_min_detectable": {"df": 3, "n": 100, **ALPHA_01, "power": 0.9},
    "g2_samples": {"tv": 0.1, "df": 3, **ALPHA_01, "power": 0.9},
    "g2_test": {"g2": G2_OF_THREE, **ALPHA_01},
    "indicator_bin": {"probability": np.array([0.2, 1.0])},
    "indicator_min_detectable": {"sums": BITS, **ALPHA_01, "power": 0.9, "ball": 0.0},
    "indicator_sums": {"bits": np.array([0, 1]), "probabilities": np.array([0.2, 0.3])},
    "indicator_sums_of_contexts": {"counts": COUNTS, "rows": ROWS, "members": MEMBERS},
    "indicator_test": {"sums": BITS, **ALPHA_01, "ball": 0.0},
    "ks_min_detectable": {"n": 100, **ALPHA_01, "power": 0.9, "bins": 16, "ball": 0.0},
    "ks_samples": {"distance": 0.1, **ALPHA_01, "power": 0.9, "bins": 16, "ball": 0.0},
    "lasting_delay": {
        "deviation": 0.1, "bets": STEPS, **ALPHA_01, "groups": 1, "after": 0, "ball": 0.0,
        "power": 0.9,
    },
    "order_key": {"order": "ratio", "p": ROWS, "q": ROWS},
    "pair_g2": {"first": TOKENS, "second": TOKENS, "row": ROWS[0]},
    "pair_sums": {"first": PITS, "second": PITS},
    "pit_bounds": {"p": ROWS, "key": SCORES, "tokens": np.array([1])},
    "pit_correlation": {"sums": PAIRS, **ALPHA_01, "ball": 0.0},
    "pit_ks": {"histogram": np.array([3, 4]), **ALPHA_01, "ball": 0.0},
    "pit_table": {"first": PITS, "second": PITS},
    "pit_table_g2": {"table": np.full((8, 8), 10)},
    "plan_looks": {"samples": 100, **ALPHA_01},
    "q_above_p": {"p": ROWS, "q": ROWS},
    "rare_token": {"p": ROWS, "below": 0.3},
    "rate_interval": {"count": np.array([3]), "n": 10, "error": 0.1},
    "score_min_detectable": {"sums": SUMS, **ALPHA_01, "power": 0.9, "ball": 0.0},
    "score_moments": {"rows": ROWS, "scores": SCORES},
    "score_sums": {
        "score": np.full(3, 0.5), **MOMENTS, "low": np.zeros(3), "high": np.ones(3), "width": 1.0,
    },
    "score_sums_of_contexts": {"counts": COUNTS, "rows": ROWS, "scores": SCORES},
    "score_test": {"sums": SUMS, **ALPHA_01, "ball": 0.0},
    "split_alpha": {**ALPHA_01, "weights": {"a": 1.0}},
    "stream_sums": {"earlier": ENDS, "later": ENDS},
    "support_violations": {"counts": COUNTS, "probabilities": ROWS},
    "surprise": {"p": ROWS, "cap": 16.0},
    "transition_g2": {"counts": COUNTS, "probabilities": ROWS},
    "values_needed": {"values": ENDS[:, 1], "limit": 0.3, **ALPHA_01},
}  # fmt: skip

OPEN = [0.0, 1.0, -0.1, math.nan]
NOT_POSITIVE = [0.0, -1.0, math.nan, math.inf]
NO_LAW = [
    np.array([[0.2, 0.3, 0.4]]),
    np.array([[0.2, math.nan, 0.5]]),
    np.array([[-0.2, 0.7, 0.5]]),
    np.array([[1.0]]),
]
NO_PITS = [np.full(4000, math.nan), np.full(4000, 1.1), PITS[:-1], PITS[:, None], PITS[:0]]
NO_ENDS = [ENDS[:1], ENDS[:, :1], ENDS[::-1], ENDS + 1, ENDS - 1, np.full((2, 2), math.nan)]
BAD = {
    "alpha": OPEN,
    "power": OPEN,
    "error": OPEN,
    "limit": OPEN,
    "deviation": OPEN,
    "values": [np.array([1.1]), np.array([math.nan]), np.zeros((2, 2)), np.zeros(0)],
    "after": [-1, 0.5],
    "groups": [0, 1.5],
    "log_pvalues": [np.array([0.1]), np.array([math.nan]), np.zeros((2, 2)), np.zeros(0)],
    "ball": [-0.1, 1.0, math.nan],
    "n": [0, -1, 2.5, True],
    "samples": [0, -1, 2.5],
    "lag": [0, 1.5],
    "phase": [2, -1],
    "df": [0, 1.5],
    "bins": [1, 2.5],
    "shift": NOT_POSITIVE,
    "tv": NOT_POSITIVE,
    "correlation": NOT_POSITIVE,
    "excess": NOT_POSITIVE,
    "distance": NOT_POSITIVE,
    "below": NOT_POSITIVE,
    "cap": NOT_POSITIVE,
    "width": [*NOT_POSITIVE, 0.5],
    "probability": [-0.1, 1.1, math.nan],
    "counts": [-COUNTS, COUNTS / 1.0, COUNTS[0], COUNTS[:, :2], np.full((1, 3), math.nan)],
    "rows": NO_LAW,
    "p": NO_LAW,
    "q": NO_LAW,
    "row": [row[0] for row in NO_LAW],
    "probabilities": NO_LAW,
    "histogram": [np.array([0, 0]), np.array([-1, 2]), np.array([0.5, 1.0]), np.array([3])],
    "totals": [np.array([0]), np.array([-1]), np.array([1.5]), np.array([1, 2])],
    "table": [np.full((8, 8), -1), np.full((8, 8), 1), np.full((8, 8), math.nan), np.ones(3, int)],
    "tail_counts": [np.array([-1]), np.array([101]), np.array([0.5]), np.array([1, 1])],
    "lower": [[math.nan], [0.7], [-0.1], [0.5, 0.5]],
    "upper": [[math.nan], [0.4], [1.1], [0.5, 0.5]],
    "count": [-1, 11],
    "shares": [[], [0.0], [1.1], [math.nan]],
    "ratios": [-RATIOS, RATIOS + 9, np.full(3, math.nan), RATIOS[:2], RATIOS[:, None], RATIOS[:0]],
    "observed": [np.full(2, math.nan), np.full(2, math.inf), np.zeros(3), np.zeros(0)],
    "expected": [np.full(2, math.nan), np.full(2, math.inf), np.zeros(3), np.zeros((2, 1))],
    "variances": [np.zeros(2), -np.ones(2), np.full(2, math.nan), np.full(2, math.inf)],
    "errors": [-np.ones(2), np.full(2, math.nan), np.full(2, math.inf), np.zeros(1)],
    "most": NOT_POSITIVE,
    "price": [-0.1, math.nan, math.inf],
    "earlier": NO_ENDS,
    "later": NO_ENDS,
    "weights": [{}, {"a": 0.0}, {"a": math.nan}],
    "scores": [SCORES[:, :2], np.array([[0.0, math.nan, 1.0]]), np.array([[0.0, math.inf, 1.0]])],
    "members": [MEMBERS[:, :2], SCORES],
    "key": [SCORES[:, :2], np.array([[0.0, math.nan, 1.0]])],
    "tokens": [np.array([3]), np.array([-1]), np.array([0.0]), np.array([1, 1])],
    "bits": [np.array([0, 2]), np.array([-1, 0]), np.array([0.0, 1.0]), np.array([1])],
    "order": ["size", None],
    **{name: [np.full(3, math.nan), np.zeros(2)] for name in ("score", *MOMENTS, "low", "high")},
}
FIRST = {
    "pair_g2": [np.array([3, 0, 1]), np.array([-1, 0, 1]), TOKENS / 1.0, TOKENS[:2], TOKENS[:0]],
    "pair_sums": NO_PITS,
    "pit_table": NO_PITS,
}
EXTRA = {
    **{
        (name, argument): values
        for name in ("bet_power", "bet_samples")
        for argument, values in (
            ("mean", [math.nan, math.inf]), ("variance", [-0.1, math.nan, math.inf]),
            ("bets", [0, 1.5]),
        )
    },
    ("rate_interval", "count"): [np.array([-1]), np.array([11]), np.array([0.5])],
    ("indicator_sums", "probabilities"): [
        np.array([0.2, math.nan]), np.array([0.2, 1.1]), np.array([0.2]),
    ],
    ("score_sums", "variance"): [np.full(3, -1.0), np.full(3, math.nan)],
    ("score_sums", "high"): [np.full(3, 2.0), np.full(3, -1.0)],
    ("correlation_min_detectable", "n"): [0, 3999, -1],
    ("transition_g2", "counts"): [0 * COUNTS, -COUNTS, COUNTS / 1.0],
    ("score_sums_of_contexts", "counts"): [0 * COUNTS, -COUNTS, COUNTS / 1.0],
    ("indicator_sums_of_contexts", "counts"): [0 * COUNTS, -COUNTS, COUNTS / 1.0],
}  # fmt: skip


def cases():
    for name, arguments in VALID.items():
        for argument in arguments:
            known = FIRST.get(name) if argument in ("first", "second") else BAD.get(argument)
            for value in EXTRA.get((name, argument), known) or []:
                yield name, argument, value


@pytest.mark.parametrize("name", VALID)
def test_the_examples_are_good(name):
    getattr(stats, name)(**VALID[name])


@pytest.mark.parametrize(("name", "argument", "value"), list(cases()))
def test_bad_input_is_refused_in_one_line(name, argument, value):
    with pytest.raises(ValueError, match=r"\S") as error:
        getattr(stats, name)(**{**VALID[name], argument: value})
    message = str(error.value)
    assert "\n" not in message
    # Got, and expected.
    assert "expected" in message or "not found by" in message


# Its errors are tested where the certificates, ratios and plans are.
ELSEWHERE = {
    "agreement_test", "best_certificate", "bounded_means_test", "budget_table",
    "certificate_bound", "certificate_samples", "direction_evalues", "directions_test",
    "discordant_test", "dual_certificate", "empirical_bernstein", "eprocess_growth",
    "eprocess_min_detectable", "eprocess_samples", "matched_fits", "mixing_min_detectable",
    "mixing_samples", "monotone_certificate", "needed_excess", "needed_shift", "plan_table",
    "plug_in_certificate", "quadratic_log_tail", "quadratic_spread", "quadratic_test",
    "rare_hidden", "rare_test", "ratio_gate", "ratio_min_detectable", "ratio_samples",
    "ratio_sums", "ratio_test", "refutation_min_detectable", "refutation_samples",
    "stratified_bernstein", "swap_test", "swaps_needed",
}  # fmt: skip


def test_no_function_is_forgotten():
    functions = {
        name
        for name in stats.__all__
        if inspect.isfunction(getattr(stats, name)) and name not in ELSEWHERE
    }
    assert functions == set(VALID)


def test_arguments_without_a_bad_value_are_named():
    given = {argument for arguments in VALID.values() for argument in arguments}
    assert given - set(BAD) == {"bets", "first", "name", "second", "g2", "sums"}
