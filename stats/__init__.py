"""Tests, certificates and plans over plain arrays; no verifier, model or simulator in sight.

Names load on first use: importing the package costs nothing but this file.
"""

__simverify_role__ = "machinery"


import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simverify.stats._checks import TestResult as TestResult
    from simverify.stats.case_control import MatchedFits as MatchedFits
    from simverify.stats.case_control import matched_fits as matched_fits
    from simverify.stats.certificates import Certificate as Certificate
    from simverify.stats.certificates import best_certificate as best_certificate
    from simverify.stats.certificates import dual_certificate as dual_certificate
    from simverify.stats.certificates import monotone_certificate as monotone_certificate
    from simverify.stats.certificates import plug_in_certificate as plug_in_certificate
    from simverify.stats.counts import G2 as G2
    from simverify.stats.counts import RareTokens as RareTokens
    from simverify.stats.counts import SupportResult as SupportResult
    from simverify.stats.counts import disjoint_pairs as disjoint_pairs
    from simverify.stats.counts import duplicates_min_detectable as duplicates_min_detectable
    from simverify.stats.counts import duplicates_test as duplicates_test
    from simverify.stats.counts import expected_g2 as expected_g2
    from simverify.stats.counts import g2_min_detectable as g2_min_detectable
    from simverify.stats.counts import g2_samples as g2_samples
    from simverify.stats.counts import g2_test as g2_test
    from simverify.stats.counts import pair_g2 as pair_g2
    from simverify.stats.counts import pit_table as pit_table
    from simverify.stats.counts import pit_table_g2 as pit_table_g2
    from simverify.stats.counts import rare_hidden as rare_hidden
    from simverify.stats.counts import rare_test as rare_test
    from simverify.stats.counts import support_violations as support_violations
    from simverify.stats.counts import transition_g2 as transition_g2
    from simverify.stats.e_detector import LastingBets as LastingBets
    from simverify.stats.e_detector import StepBets as StepBets
    from simverify.stats.e_detector import lasting_delay as lasting_delay
    from simverify.stats.evalues import RATIO_CAP as RATIO_CAP
    from simverify.stats.evalues import STRENGTHS as STRENGTHS
    from simverify.stats.evalues import BetSums as BetSums
    from simverify.stats.evalues import FaultAtStrength as FaultAtStrength
    from simverify.stats.evalues import LearnedRates as LearnedRates
    from simverify.stats.evalues import RatioResult as RatioResult
    from simverify.stats.evalues import RatioSums as RatioSums
    from simverify.stats.evalues import bet_power as bet_power
    from simverify.stats.evalues import bet_samples as bet_samples
    from simverify.stats.evalues import bet_sums as bet_sums
    from simverify.stats.evalues import bet_test as bet_test
    from simverify.stats.evalues import eprocess_growth as eprocess_growth
    from simverify.stats.evalues import eprocess_min_detectable as eprocess_min_detectable
    from simverify.stats.evalues import eprocess_samples as eprocess_samples
    from simverify.stats.evalues import ratio_gate as ratio_gate
    from simverify.stats.evalues import ratio_sums as ratio_sums
    from simverify.stats.evalues import ratio_test as ratio_test
    from simverify.stats.means import acceptance_min_detectable as acceptance_min_detectable
    from simverify.stats.means import acceptance_samples as acceptance_samples
    from simverify.stats.means import acceptance_test as acceptance_test
    from simverify.stats.means import bounded_means_test as bounded_means_test
    from simverify.stats.means import capped_mean_test as capped_mean_test
    from simverify.stats.means import empirical_bernstein as empirical_bernstein
    from simverify.stats.means import rate_interval as rate_interval
    from simverify.stats.means import stratified_bernstein as stratified_bernstein
    from simverify.stats.means import values_needed as values_needed
    from simverify.stats.paired import MOST_SWAPS as MOST_SWAPS
    from simverify.stats.paired import agreement_test as agreement_test
    from simverify.stats.paired import direction_evalues as direction_evalues
    from simverify.stats.paired import directions_test as directions_test
    from simverify.stats.paired import discordant_test as discordant_test
    from simverify.stats.paired import needed_excess as needed_excess
    from simverify.stats.paired import needed_shift as needed_shift
    from simverify.stats.paired import quadratic_log_tail as quadratic_log_tail
    from simverify.stats.paired import quadratic_spread as quadratic_spread
    from simverify.stats.paired import quadratic_test as quadratic_test
    from simverify.stats.paired import swap_test as swap_test
    from simverify.stats.paired import swaps_needed as swaps_needed
    from simverify.stats.pits import PIT_BINS as PIT_BINS
    from simverify.stats.pits import PairSums as PairSums
    from simverify.stats.pits import correlation_min_detectable as correlation_min_detectable
    from simverify.stats.pits import correlation_samples as correlation_samples
    from simverify.stats.pits import ks_min_detectable as ks_min_detectable
    from simverify.stats.pits import ks_samples as ks_samples
    from simverify.stats.pits import order_key as order_key
    from simverify.stats.pits import pair_sums as pair_sums
    from simverify.stats.pits import pit_bounds as pit_bounds
    from simverify.stats.pits import pit_correlation as pit_correlation
    from simverify.stats.pits import pit_ks as pit_ks
    from simverify.stats.pits import stream_sums as stream_sums
    from simverify.stats.planning import Look as Look
    from simverify.stats.planning import PlanRow as PlanRow
    from simverify.stats.planning import PlanTable as PlanTable
    from simverify.stats.planning import adjusted_pvalues as adjusted_pvalues
    from simverify.stats.planning import budget_table as budget_table
    from simverify.stats.planning import certificate_bound as certificate_bound
    from simverify.stats.planning import certificate_samples as certificate_samples
    from simverify.stats.planning import mixing_min_detectable as mixing_min_detectable
    from simverify.stats.planning import mixing_samples as mixing_samples
    from simverify.stats.planning import plan_looks as plan_looks
    from simverify.stats.planning import plan_table as plan_table
    from simverify.stats.planning import ratio_min_detectable as ratio_min_detectable
    from simverify.stats.planning import ratio_samples as ratio_samples
    from simverify.stats.planning import refutation_min_detectable as refutation_min_detectable
    from simverify.stats.planning import refutation_samples as refutation_samples
    from simverify.stats.planning import split_alpha as split_alpha
    from simverify.stats.scores import INDICATOR_BINS as INDICATOR_BINS
    from simverify.stats.scores import IndicatorSums as IndicatorSums
    from simverify.stats.scores import ScoreMoments as ScoreMoments
    from simverify.stats.scores import ScoreSums as ScoreSums
    from simverify.stats.scores import accept as accept
    from simverify.stats.scores import contrast as contrast
    from simverify.stats.scores import drift_test as drift_test
    from simverify.stats.scores import indicator_bin as indicator_bin
    from simverify.stats.scores import indicator_min_detectable as indicator_min_detectable
    from simverify.stats.scores import indicator_sums as indicator_sums
    from simverify.stats.scores import indicator_sums_of_contexts as indicator_sums_of_contexts
    from simverify.stats.scores import indicator_test as indicator_test
    from simverify.stats.scores import q_above_p as q_above_p
    from simverify.stats.scores import rare_token as rare_token
    from simverify.stats.scores import score_min_detectable as score_min_detectable
    from simverify.stats.scores import score_moments as score_moments
    from simverify.stats.scores import score_sums as score_sums
    from simverify.stats.scores import score_sums_of_contexts as score_sums_of_contexts
    from simverify.stats.scores import score_test as score_test
    from simverify.stats.scores import surprise as surprise

_HOME = {
    "_checks": ("TestResult"),
    "case_control": ("MatchedFits matched_fits"),
    "certificates": (
        "Certificate best_certificate dual_certificate monotone_certificate plug_in_certificate "
    ),
    "counts": (
        "G2 RareTokens SupportResult disjoint_pairs duplicates_min_detectable duplicates_test "
        "expected_g2 g2_min_detectable g2_samples g2_test pair_g2 pit_table pit_table_g2 "
        "rare_hidden rare_test support_violations transition_g2 "
    ),
    "e_detector": ("LastingBets StepBets lasting_delay"),
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
"""Names by module; the imports above say the same to type checkers."""

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
