"""Tests, certificates and plans over plain arrays; no verifier, model or simulator in sight.

Names load on first use: importing the package costs nothing but this file.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simverify.stats.betting import betting_interval as betting_interval
    from simverify.stats.betting import betting_min_detectable as betting_min_detectable
    from simverify.stats.betting import betting_samples as betting_samples
    from simverify.stats.betting import betting_test as betting_test
    from simverify.stats.binomial import acceptance_min_detectable as acceptance_min_detectable
    from simverify.stats.binomial import acceptance_samples as acceptance_samples
    from simverify.stats.binomial import acceptance_test as acceptance_test
    from simverify.stats.binomial import rate_interval as rate_interval
    from simverify.stats.bounded_means import bounded_means_test as bounded_means_test
    from simverify.stats.budget import split_alpha as split_alpha
    from simverify.stats.certificates import Certificate as Certificate
    from simverify.stats.certificates import best_certificate as best_certificate
    from simverify.stats.certificates import crossing_certificate as crossing_certificate
    from simverify.stats.certificates import monotone_certificate as monotone_certificate
    from simverify.stats.certificates import plug_in_certificate as plug_in_certificate
    from simverify.stats.correlation import PairSums as PairSums
    from simverify.stats.correlation import correlation_min_detectable as correlation_min_detectable
    from simverify.stats.correlation import correlation_samples as correlation_samples
    from simverify.stats.correlation import pair_sums as pair_sums
    from simverify.stats.correlation import pit_correlation as pit_correlation
    from simverify.stats.dual import dual_certificate as dual_certificate
    from simverify.stats.eprocess import eprocess_growth as eprocess_growth
    from simverify.stats.eprocess import eprocess_min_detectable as eprocess_min_detectable
    from simverify.stats.eprocess import eprocess_samples as eprocess_samples
    from simverify.stats.equivalence import Equivalence as Equivalence
    from simverify.stats.equivalence import acceptance_equivalence as acceptance_equivalence
    from simverify.stats.g2 import G2 as G2
    from simverify.stats.g2 import g2_min_detectable as g2_min_detectable
    from simverify.stats.g2 import g2_samples as g2_samples
    from simverify.stats.g2 import g2_test as g2_test
    from simverify.stats.independence import collision_probability as collision_probability
    from simverify.stats.independence import disjoint_pairs as disjoint_pairs
    from simverify.stats.independence import duplicates_min_detectable as duplicates_min_detectable
    from simverify.stats.independence import duplicates_samples as duplicates_samples
    from simverify.stats.independence import duplicates_test as duplicates_test
    from simverify.stats.independence import pair_g2 as pair_g2
    from simverify.stats.independence import pit_table as pit_table
    from simverify.stats.independence import pit_table_g2 as pit_table_g2
    from simverify.stats.indicator_bank import indicator_min_detectable as indicator_min_detectable
    from simverify.stats.indicator_bank import indicator_samples as indicator_samples
    from simverify.stats.indicator_bank import indicator_test as indicator_test
    from simverify.stats.indicators import INDICATOR_BINS as INDICATOR_BINS
    from simverify.stats.indicators import IndicatorSums as IndicatorSums
    from simverify.stats.indicators import indicator_bin as indicator_bin
    from simverify.stats.indicators import indicator_sums as indicator_sums
    from simverify.stats.indicators import indicator_sums_of_contexts as indicator_sums_of_contexts
    from simverify.stats.intervals import empirical_bernstein as empirical_bernstein
    from simverify.stats.intervals import stratified_bernstein as stratified_bernstein
    from simverify.stats.large_alphabet import (
        large_alphabet_min_detectable as large_alphabet_min_detectable,
    )
    from simverify.stats.large_alphabet import large_alphabet_samples as large_alphabet_samples
    from simverify.stats.large_alphabet import large_alphabet_test as large_alphabet_test
    from simverify.stats.leakage import leakage_certificate as leakage_certificate
    from simverify.stats.looks import Look as Look
    from simverify.stats.looks import plan_looks as plan_looks
    from simverify.stats.pit import PIT_BINS as PIT_BINS
    from simverify.stats.pit import ks_min_detectable as ks_min_detectable
    from simverify.stats.pit import ks_samples as ks_samples
    from simverify.stats.pit import pit_ks as pit_ks
    from simverify.stats.pit_orders import order_key as order_key
    from simverify.stats.pit_orders import pit_bounds as pit_bounds
    from simverify.stats.planning import certificate_bound as certificate_bound
    from simverify.stats.planning import certificate_samples as certificate_samples
    from simverify.stats.planning import mixing_min_detectable as mixing_min_detectable
    from simverify.stats.planning import mixing_samples as mixing_samples
    from simverify.stats.planning import ratio_min_detectable as ratio_min_detectable
    from simverify.stats.planning import ratio_samples as ratio_samples
    from simverify.stats.planning import refutation_min_detectable as refutation_min_detectable
    from simverify.stats.planning import refutation_samples as refutation_samples
    from simverify.stats.plans import PlanRow as PlanRow
    from simverify.stats.plans import PlanTable as PlanTable
    from simverify.stats.plans import budget_table as budget_table
    from simverify.stats.plans import plan_table as plan_table
    from simverify.stats.rare import RareTokens as RareTokens
    from simverify.stats.rare import rare_hidden as rare_hidden
    from simverify.stats.rare import rare_test as rare_test
    from simverify.stats.ratio_tests import FaultAtStrength as FaultAtStrength
    from simverify.stats.ratio_tests import RatioResult as RatioResult
    from simverify.stats.ratio_tests import ratio_gate as ratio_gate
    from simverify.stats.ratio_tests import ratio_test as ratio_test
    from simverify.stats.ratios import STRENGTHS as STRENGTHS
    from simverify.stats.ratios import RatioSums as RatioSums
    from simverify.stats.ratios import ratio_sums as ratio_sums
    from simverify.stats.ratios import streamed_ratio_sums as streamed_ratio_sums
    from simverify.stats.results import TestResult as TestResult
    from simverify.stats.score_bank import score_min_detectable as score_min_detectable
    from simverify.stats.score_bank import score_samples as score_samples
    from simverify.stats.score_bank import score_test as score_test
    from simverify.stats.score_totals import ScoreSums as ScoreSums
    from simverify.stats.score_totals import score_sums as score_sums
    from simverify.stats.score_totals import score_sums_of_contexts as score_sums_of_contexts
    from simverify.stats.scores import ScoreMoments as ScoreMoments
    from simverify.stats.scores import accept as accept
    from simverify.stats.scores import contrast as contrast
    from simverify.stats.scores import q_above_p as q_above_p
    from simverify.stats.scores import rare_token as rare_token
    from simverify.stats.scores import score_moments as score_moments
    from simverify.stats.scores import surprise as surprise
    from simverify.stats.sequential import Decision as Decision
    from simverify.stats.sequential import Evidence as Evidence
    from simverify.stats.sequential import RunLook as RunLook
    from simverify.stats.sequential import SequentialRun as SequentialRun
    from simverify.stats.support import SupportResult as SupportResult
    from simverify.stats.support import support_violations as support_violations
    from simverify.stats.transitions import expected_g2 as expected_g2
    from simverify.stats.transitions import transition_g2 as transition_g2

_HOME = {
    "betting": "betting_interval betting_min_detectable betting_samples betting_test",
    "binomial": "acceptance_min_detectable acceptance_samples acceptance_test rate_interval",
    "bounded_means": "bounded_means_test",
    "budget": "split_alpha",
    "certificates": (
        "Certificate best_certificate crossing_certificate monotone_certificate plug_in_certificate"
    ),
    "correlation": (
        "PairSums correlation_min_detectable correlation_samples pair_sums pit_correlation"
    ),
    "dual": "dual_certificate",
    "eprocess": "eprocess_growth eprocess_min_detectable eprocess_samples",
    "equivalence": "Equivalence acceptance_equivalence",
    "g2": "G2 g2_min_detectable g2_samples g2_test",
    "independence": (
        "collision_probability disjoint_pairs duplicates_min_detectable duplicates_samples "
        "duplicates_test pair_g2 pit_table pit_table_g2"
    ),
    "indicator_bank": "indicator_min_detectable indicator_samples indicator_test",
    "indicators": (
        "INDICATOR_BINS IndicatorSums indicator_bin indicator_sums indicator_sums_of_contexts"
    ),
    "intervals": "empirical_bernstein stratified_bernstein",
    "large_alphabet": "large_alphabet_min_detectable large_alphabet_samples large_alphabet_test",
    "leakage": "leakage_certificate",
    "looks": "Look plan_looks",
    "pit": "PIT_BINS ks_min_detectable ks_samples pit_ks",
    "pit_orders": "order_key pit_bounds",
    "planning": (
        "certificate_bound certificate_samples mixing_min_detectable mixing_samples "
        "ratio_min_detectable ratio_samples refutation_min_detectable refutation_samples"
    ),
    "plans": "PlanRow PlanTable budget_table plan_table",
    "rare": "RareTokens rare_hidden rare_test",
    "ratio_tests": "FaultAtStrength RatioResult ratio_gate ratio_test",
    "ratios": "RatioSums STRENGTHS ratio_sums streamed_ratio_sums",
    "results": "TestResult",
    "score_bank": "score_min_detectable score_samples score_test",
    "score_totals": "ScoreSums score_sums score_sums_of_contexts",
    "scores": "ScoreMoments accept contrast q_above_p rare_token score_moments surprise",
    "sequential": "Decision Evidence RunLook SequentialRun",
    "support": "SupportResult support_violations",
    "transitions": "expected_g2 transition_g2",
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
