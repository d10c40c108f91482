"""Tests, certificates and plans over plain arrays; no verifier, model or simulator in sight.

Names load on first use: importing the package costs nothing but this file.
"""

__simverify_role__ = "machinery"


import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simverify.stats._checks import TestResult as TestResult
    from simverify.stats.case_control import *  # noqa: F403
    from simverify.stats.certificates import *  # noqa: F403
    from simverify.stats.counts import *  # noqa: F403
    from simverify.stats.e_detector import *  # noqa: F403
    from simverify.stats.evalues import *  # noqa: F403
    from simverify.stats.means import *  # noqa: F403
    from simverify.stats.paired import *  # noqa: F403
    from simverify.stats.pits import *  # noqa: F403
    from simverify.stats.planning import *  # noqa: F403
    from simverify.stats.scores import *  # noqa: F403

_HOME = {
    "_checks": "TestResult",
    "case_control": "MatchedFits matched_fits",
    "certificates": (
        "Certificate best_certificate dual_certificate monotone_certificate plug_in_certificate "
    ),
    "counts": (
        "G2 RareTokens SupportResult disjoint_pairs duplicates_min_detectable duplicates_test "
        "expected_g2 g2_min_detectable g2_samples g2_test pair_g2 pit_table pit_table_g2 "
        "rare_hidden rare_test support_violations transition_g2 "
    ),
    "e_detector": "LastingBets StepBets lasting_delay",
    "evalues": (
        "BetSums FaultAtStrength LearnedRates RATIO_CAP RatioResult RatioSums STRENGTHS "
        "bet_power bet_samples bet_sums bet_test eprocess_growth eprocess_min_detectable "
        "eprocess_samples ratio_gate ratio_sums ratio_test "
    ),
    "means": (
        "acceptance_min_detectable acceptance_samples acceptance_test bounded_means_test "
        "capped_mean_test empirical_bernstein rate_interval stratified_bernstein "
        "values_needed "
    ),
    "paired": (
        "MOST_SWAPS agreement_test direction_evalues directions_test discordant_test "
        "needed_excess needed_shift quadratic_log_tail quadratic_spread quadratic_test "
        "swap_test swaps_needed "
    ),
    "pits": (
        "PIT_BINS PairSums correlation_min_detectable correlation_samples ks_min_detectable "
        "ks_samples order_key pair_sums pit_bounds pit_correlation pit_ks stream_sums "
    ),
    "planning": (
        "Look PlanRow PlanTable adjusted_pvalues budget_table certificate_bound "
        "certificate_samples mixing_min_detectable mixing_samples plan_looks plan_table "
        "ratio_min_detectable ratio_samples refutation_min_detectable refutation_samples "
        "split_alpha "
    ),
    "scores": (
        "INDICATOR_BINS IndicatorSums ScoreMoments ScoreSums accept contrast drift_test "
        "indicator_bin indicator_min_detectable indicator_sums indicator_sums_of_contexts "
        "indicator_test q_above_p rare_token score_min_detectable score_moments score_sums "
        "score_sums_of_contexts score_test surprise "
    ),
}
"""Names by module; type checkers take all public names of these modules."""

_MODULE = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> object:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
