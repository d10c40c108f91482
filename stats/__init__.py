"""Tests, certificates and plans over plain arrays; no verifier, model or simulator in sight.

Names load on first use: importing the package costs nothing but this file.
"""

__simverify_role__ = "machinery"

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simverify.stats.certificates.bounds import Certificate as Certificate
    from simverify.stats.certificates.bounds import best_certificate as best_certificate
    from simverify.stats.certificates.bounds import monotone_certificate as monotone_certificate
    from simverify.stats.certificates.bounds import plug_in_certificate as plug_in_certificate
    from simverify.stats.certificates.dual import dual_certificate as dual_certificate
    from simverify.stats.counts.g2 import G2 as G2
    from simverify.stats.counts.g2 import g2_min_detectable as g2_min_detectable
    from simverify.stats.counts.g2 import g2_samples as g2_samples
    from simverify.stats.counts.g2 import g2_test as g2_test
    from simverify.stats.counts.independence import disjoint_pairs as disjoint_pairs
    from simverify.stats.counts.independence import (
        duplicates_min_detectable as duplicates_min_detectable,
    )
    from simverify.stats.counts.independence import duplicates_test as duplicates_test
    from simverify.stats.counts.independence import pair_g2 as pair_g2
    from simverify.stats.counts.independence import pit_table as pit_table
    from simverify.stats.counts.independence import pit_table_g2 as pit_table_g2
    from simverify.stats.counts.matched import MatchedFits as MatchedFits
    from simverify.stats.counts.matched import matched_fits as matched_fits
    from simverify.stats.counts.rare import RareTokens as RareTokens
    from simverify.stats.counts.rare import SupportResult as SupportResult
    from simverify.stats.counts.rare import rare_hidden as rare_hidden
    from simverify.stats.counts.rare import rare_test as rare_test
    from simverify.stats.counts.rare import support_violations as support_violations
    from simverify.stats.counts.transitions import expected_g2 as expected_g2
    from simverify.stats.counts.transitions import transition_g2 as transition_g2
    from simverify.stats.means.binomial import (
        acceptance_min_detectable as acceptance_min_detectable,
    )
    from simverify.stats.means.binomial import acceptance_samples as acceptance_samples
    from simverify.stats.means.binomial import acceptance_test as acceptance_test
    from simverify.stats.means.binomial import rate_interval as rate_interval
    from simverify.stats.means.bounded_means import bounded_means_test as bounded_means_test
    from simverify.stats.means.capped_means import capped_mean_test as capped_mean_test
    from simverify.stats.means.capped_means import values_needed as values_needed
    from simverify.stats.means.intervals import empirical_bernstein as empirical_bernstein
    from simverify.stats.means.intervals import stratified_bernstein as stratified_bernstein
    from simverify.stats.pits.correlation import PairSums as PairSums
    from simverify.stats.pits.correlation import (
        correlation_min_detectable as correlation_min_detectable,
    )
    from simverify.stats.pits.correlation import correlation_samples as correlation_samples
    from simverify.stats.pits.correlation import pair_sums as pair_sums
    from simverify.stats.pits.correlation import pit_correlation as pit_correlation
    from simverify.stats.pits.pit import PIT_BINS as PIT_BINS
    from simverify.stats.pits.pit import ks_min_detectable as ks_min_detectable
    from simverify.stats.pits.pit import ks_samples as ks_samples
    from simverify.stats.pits.pit import pit_ks as pit_ks
    from simverify.stats.pits.pit_orders import order_key as order_key
    from simverify.stats.pits.pit_orders import pit_bounds as pit_bounds
    from simverify.stats.pits.streams import stream_sums as stream_sums
    from simverify.stats.planning.budget import adjusted_pvalues as adjusted_pvalues
    from simverify.stats.planning.budget import split_alpha as split_alpha
    from simverify.stats.planning.formulas import certificate_bound as certificate_bound
    from simverify.stats.planning.formulas import certificate_samples as certificate_samples
    from simverify.stats.planning.formulas import mixing_min_detectable as mixing_min_detectable
    from simverify.stats.planning.formulas import mixing_samples as mixing_samples
    from simverify.stats.planning.formulas import ratio_min_detectable as ratio_min_detectable
    from simverify.stats.planning.formulas import ratio_samples as ratio_samples
    from simverify.stats.planning.formulas import (
        refutation_min_detectable as refutation_min_detectable,
    )
    from simverify.stats.planning.formulas import refutation_samples as refutation_samples
    from simverify.stats.planning.looks import Look as Look
    from simverify.stats.planning.looks import plan_looks as plan_looks
    from simverify.stats.planning.plans import PlanRow as PlanRow
    from simverify.stats.planning.plans import PlanTable as PlanTable
    from simverify.stats.planning.plans import budget_table as budget_table
    from simverify.stats.planning.plans import plan_table as plan_table
    from simverify.stats.ratios.bets import RATIO_CAP as RATIO_CAP
    from simverify.stats.ratios.bets import BetSums as BetSums
    from simverify.stats.ratios.bets import bet_power as bet_power
    from simverify.stats.ratios.bets import bet_samples as bet_samples
    from simverify.stats.ratios.bets import bet_sums as bet_sums
    from simverify.stats.ratios.bets import bet_test as bet_test
    from simverify.stats.ratios.lasting import LastingBets as LastingBets
    from simverify.stats.ratios.lasting import StepBets as StepBets
    from simverify.stats.ratios.lasting import lasting_delay as lasting_delay
    from simverify.stats.ratios.rates import LearnedRates as LearnedRates
    from simverify.stats.ratios.ratio_tests import FaultAtStrength as FaultAtStrength
    from simverify.stats.ratios.ratio_tests import RatioResult as RatioResult
    from simverify.stats.ratios.ratio_tests import eprocess_growth as eprocess_growth
    from simverify.stats.ratios.ratio_tests import (
        eprocess_min_detectable as eprocess_min_detectable,
    )
    from simverify.stats.ratios.ratio_tests import eprocess_samples as eprocess_samples
    from simverify.stats.ratios.ratio_tests import ratio_gate as ratio_gate
    from simverify.stats.ratios.ratio_tests import ratio_test as ratio_test
    from simverify.stats.ratios.sums import STRENGTHS as STRENGTHS
    from simverify.stats.ratios.sums import RatioSums as RatioSums
    from simverify.stats.ratios.sums import ratio_sums as ratio_sums
    from simverify.stats.results import TestResult as TestResult
    from simverify.stats.scores.drifts import drift_test as drift_test
    from simverify.stats.scores.functions import ScoreMoments as ScoreMoments
    from simverify.stats.scores.functions import accept as accept
    from simverify.stats.scores.functions import contrast as contrast
    from simverify.stats.scores.functions import q_above_p as q_above_p
    from simverify.stats.scores.functions import rare_token as rare_token
    from simverify.stats.scores.functions import score_moments as score_moments
    from simverify.stats.scores.functions import surprise as surprise
    from simverify.stats.scores.indicator_bank import (
        indicator_min_detectable as indicator_min_detectable,
    )
    from simverify.stats.scores.indicator_bank import indicator_test as indicator_test
    from simverify.stats.scores.indicators import INDICATOR_BINS as INDICATOR_BINS
    from simverify.stats.scores.indicators import IndicatorSums as IndicatorSums
    from simverify.stats.scores.indicators import indicator_bin as indicator_bin
    from simverify.stats.scores.indicators import indicator_sums as indicator_sums
    from simverify.stats.scores.indicators import (
        indicator_sums_of_contexts as indicator_sums_of_contexts,
    )
    from simverify.stats.scores.score_bank import score_min_detectable as score_min_detectable
    from simverify.stats.scores.score_bank import score_test as score_test
    from simverify.stats.scores.score_totals import ScoreSums as ScoreSums
    from simverify.stats.scores.score_totals import score_sums as score_sums
    from simverify.stats.scores.score_totals import score_sums_of_contexts as score_sums_of_contexts
    from simverify.stats.signs.chaos import agreement_test as agreement_test
    from simverify.stats.signs.directions import direction_evalues as direction_evalues
    from simverify.stats.signs.directions import directions_test as directions_test
    from simverify.stats.signs.directions import needed_shift as needed_shift
    from simverify.stats.signs.discordant import discordant_test as discordant_test
    from simverify.stats.signs.quadratic import needed_excess as needed_excess
    from simverify.stats.signs.quadratic import quadratic_log_tail as quadratic_log_tail
    from simverify.stats.signs.quadratic import quadratic_spread as quadratic_spread
    from simverify.stats.signs.quadratic import quadratic_test as quadratic_test
    from simverify.stats.signs.swaps import MOST_SWAPS as MOST_SWAPS
    from simverify.stats.signs.swaps import swap_test as swap_test
    from simverify.stats.signs.swaps import swaps_needed as swaps_needed

_HOME = {
    "means.binomial": "acceptance_min_detectable acceptance_samples acceptance_test rate_interval",
    "means.bounded_means": "bounded_means_test",
    "planning.budget": "adjusted_pvalues split_alpha",
    "certificates.bounds": (
        "Certificate best_certificate monotone_certificate plug_in_certificate"
    ),
    "pits.correlation": (
        "PairSums correlation_min_detectable correlation_samples pair_sums pit_correlation"
    ),
    "certificates.dual": "dual_certificate",
    "counts.g2": "G2 g2_min_detectable g2_samples g2_test",
    "counts.independence": (
        "disjoint_pairs duplicates_min_detectable duplicates_test pair_g2 pit_table pit_table_g2"
    ),
    "counts.matched": "MatchedFits matched_fits",
    "scores.indicator_bank": "indicator_min_detectable indicator_test",
    "scores.indicators": (
        "INDICATOR_BINS IndicatorSums indicator_bin indicator_sums indicator_sums_of_contexts"
    ),
    "means.capped_means": "capped_mean_test values_needed",
    "means.intervals": "empirical_bernstein stratified_bernstein",
    "planning.looks": "Look plan_looks",
    "pits.pit": "PIT_BINS ks_min_detectable ks_samples pit_ks",
    "pits.pit_orders": "order_key pit_bounds",
    "pits.streams": "stream_sums",
    "planning.formulas": (
        "certificate_bound certificate_samples mixing_min_detectable mixing_samples "
        "ratio_min_detectable ratio_samples refutation_min_detectable refutation_samples"
    ),
    "planning.plans": "PlanRow PlanTable budget_table plan_table",
    "counts.rare": "RareTokens SupportResult rare_hidden rare_test support_violations",
    "ratios.lasting": "LastingBets StepBets lasting_delay",
    "ratios.ratio_tests": (
        "FaultAtStrength RatioResult eprocess_growth eprocess_min_detectable eprocess_samples "
        "ratio_gate ratio_test"
    ),
    "ratios.bets": "RATIO_CAP BetSums bet_power bet_samples bet_sums bet_test",
    "ratios.rates": "LearnedRates",
    "ratios.sums": "RatioSums STRENGTHS ratio_sums",
    "results": "TestResult",
    "scores.drifts": "drift_test",
    "scores.score_bank": "score_min_detectable score_test",
    "scores.score_totals": "ScoreSums score_sums score_sums_of_contexts",
    "scores.functions": "ScoreMoments accept contrast q_above_p rare_token score_moments surprise",
    "signs.chaos": "agreement_test",
    "signs.directions": "direction_evalues directions_test needed_shift",
    "signs.discordant": "discordant_test",
    "signs.quadratic": "needed_excess quadratic_log_tail quadratic_spread quadratic_test",
    "signs.swaps": "MOST_SWAPS swap_test swaps_needed",
    "counts.transitions": "expected_g2 transition_g2",
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
