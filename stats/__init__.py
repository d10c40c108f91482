"""Tests, certificates and plans over plain arrays; no verifier, model or simulator in sight.

Names load on first use: importing the package costs nothing but this file.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simverify.stats.betting import (
        betting_interval,
        betting_min_detectable,
        betting_samples,
        betting_test,
    )
    from simverify.stats.binomial import (
        acceptance_min_detectable,
        acceptance_samples,
        acceptance_test,
        rate_interval,
    )
    from simverify.stats.bounded_means import bounded_means_test
    from simverify.stats.budget import split_alpha
    from simverify.stats.certificates import (
        Certificate,
        best_certificate,
        crossing_certificate,
        monotone_certificate,
        plug_in_certificate,
    )
    from simverify.stats.correlation import (
        PairSums,
        correlation_min_detectable,
        correlation_samples,
        pair_sums,
        pit_correlation,
    )
    from simverify.stats.dual import dual_certificate
    from simverify.stats.eprocess import eprocess_growth, eprocess_min_detectable, eprocess_samples
    from simverify.stats.equivalence import Equivalence, acceptance_equivalence
    from simverify.stats.g2 import G2, g2_min_detectable, g2_samples, g2_test
    from simverify.stats.independence import (
        collision_probability,
        disjoint_pairs,
        duplicates_min_detectable,
        duplicates_samples,
        duplicates_test,
        pair_g2,
        pit_table,
        pit_table_g2,
    )
    from simverify.stats.indicator_bank import (
        indicator_min_detectable,
        indicator_samples,
        indicator_test,
    )
    from simverify.stats.indicators import (
        INDICATOR_BINS,
        IndicatorSums,
        indicator_bin,
        indicator_sums,
        indicator_sums_of_contexts,
    )
    from simverify.stats.intervals import empirical_bernstein, stratified_bernstein
    from simverify.stats.large_alphabet import (
        large_alphabet_min_detectable,
        large_alphabet_samples,
        large_alphabet_test,
    )
    from simverify.stats.leakage import leakage_certificate
    from simverify.stats.looks import Look, plan_looks
    from simverify.stats.pit import PIT_BINS, ks_min_detectable, ks_samples, pit_ks
    from simverify.stats.pit_orders import order_key, pit_bounds
    from simverify.stats.planning import (
        certificate_bound,
        certificate_samples,
        mixing_min_detectable,
        mixing_samples,
        ratio_min_detectable,
        ratio_samples,
        refutation_min_detectable,
        refutation_samples,
    )
    from simverify.stats.plans import PlanRow, PlanTable, budget_table, plan_table
    from simverify.stats.rare import RareTokens, rare_hidden, rare_test
    from simverify.stats.ratio_tests import FaultAtStrength, RatioResult, ratio_gate, ratio_test
    from simverify.stats.ratios import STRENGTHS, RatioSums, ratio_sums, streamed_ratio_sums
    from simverify.stats.results import TestResult
    from simverify.stats.score_bank import score_min_detectable, score_samples, score_test
    from simverify.stats.score_totals import ScoreSums, score_sums, score_sums_of_contexts
    from simverify.stats.scores import (
        ScoreMoments,
        accept,
        contrast,
        q_above_p,
        rare_token,
        score_moments,
        surprise,
    )
    from simverify.stats.sequential import Decision, Evidence, RunLook, SequentialRun
    from simverify.stats.support import SupportResult, support_violations
    from simverify.stats.transitions import expected_g2, transition_g2

__all__ = [
    "G2",
    "INDICATOR_BINS",
    "PIT_BINS",
    "STRENGTHS",
    "Certificate",
    "Decision",
    "Equivalence",
    "Evidence",
    "FaultAtStrength",
    "IndicatorSums",
    "Look",
    "PairSums",
    "PlanRow",
    "PlanTable",
    "RareTokens",
    "RatioResult",
    "RatioSums",
    "RunLook",
    "ScoreMoments",
    "ScoreSums",
    "SequentialRun",
    "SupportResult",
    "TestResult",
    "accept",
    "acceptance_equivalence",
    "acceptance_min_detectable",
    "acceptance_samples",
    "acceptance_test",
    "best_certificate",
    "betting_interval",
    "betting_min_detectable",
    "betting_samples",
    "betting_test",
    "bounded_means_test",
    "budget_table",
    "certificate_bound",
    "certificate_samples",
    "collision_probability",
    "contrast",
    "correlation_min_detectable",
    "correlation_samples",
    "crossing_certificate",
    "disjoint_pairs",
    "dual_certificate",
    "duplicates_min_detectable",
    "duplicates_samples",
    "duplicates_test",
    "empirical_bernstein",
    "eprocess_growth",
    "eprocess_min_detectable",
    "eprocess_samples",
    "expected_g2",
    "g2_min_detectable",
    "g2_samples",
    "g2_test",
    "indicator_bin",
    "indicator_min_detectable",
    "indicator_samples",
    "indicator_sums",
    "indicator_sums_of_contexts",
    "indicator_test",
    "ks_min_detectable",
    "ks_samples",
    "large_alphabet_min_detectable",
    "large_alphabet_samples",
    "large_alphabet_test",
    "leakage_certificate",
    "mixing_min_detectable",
    "mixing_samples",
    "monotone_certificate",
    "order_key",
    "pair_g2",
    "pair_sums",
    "pit_bounds",
    "pit_correlation",
    "pit_ks",
    "pit_table",
    "pit_table_g2",
    "plan_looks",
    "plan_table",
    "plug_in_certificate",
    "q_above_p",
    "rare_hidden",
    "rare_test",
    "rare_token",
    "rate_interval",
    "ratio_gate",
    "ratio_min_detectable",
    "ratio_samples",
    "ratio_sums",
    "ratio_test",
    "refutation_min_detectable",
    "refutation_samples",
    "score_min_detectable",
    "score_moments",
    "score_samples",
    "score_sums",
    "score_sums_of_contexts",
    "score_test",
    "split_alpha",
    "stratified_bernstein",
    "streamed_ratio_sums",
    "support_violations",
    "surprise",
    "transition_g2",
]

_HOME = {
    "betting": ("betting_interval", "betting_min_detectable", "betting_samples", "betting_test"),
    "binomial": (
        "acceptance_min_detectable",
        "acceptance_samples",
        "acceptance_test",
        "rate_interval",
    ),
    "bounded_means": ("bounded_means_test",),
    "budget": ("split_alpha",),
    "certificates": (
        "Certificate",
        "best_certificate",
        "crossing_certificate",
        "monotone_certificate",
        "plug_in_certificate",
    ),
    "correlation": (
        "PairSums",
        "correlation_min_detectable",
        "correlation_samples",
        "pair_sums",
        "pit_correlation",
    ),
    "dual": ("dual_certificate",),
    "eprocess": ("eprocess_growth", "eprocess_min_detectable", "eprocess_samples"),
    "equivalence": ("Equivalence", "acceptance_equivalence"),
    "g2": ("G2", "g2_min_detectable", "g2_samples", "g2_test"),
    "independence": (
        "collision_probability",
        "disjoint_pairs",
        "duplicates_min_detectable",
        "duplicates_samples",
        "duplicates_test",
        "pair_g2",
        "pit_table",
        "pit_table_g2",
    ),
    "indicator_bank": ("indicator_min_detectable", "indicator_samples", "indicator_test"),
    "indicators": (
        "INDICATOR_BINS",
        "IndicatorSums",
        "indicator_bin",
        "indicator_sums",
        "indicator_sums_of_contexts",
    ),
    "intervals": ("empirical_bernstein", "stratified_bernstein"),
    "large_alphabet": (
        "large_alphabet_min_detectable",
        "large_alphabet_samples",
        "large_alphabet_test",
    ),
    "leakage": ("leakage_certificate",),
    "looks": ("Look", "plan_looks"),
    "pit": ("PIT_BINS", "ks_min_detectable", "ks_samples", "pit_ks"),
    "pit_orders": ("order_key", "pit_bounds"),
    "plans": ("PlanRow", "PlanTable", "budget_table", "plan_table"),
    "planning": (
        "certificate_bound",
        "certificate_samples",
        "mixing_min_detectable",
        "mixing_samples",
        "ratio_min_detectable",
        "ratio_samples",
        "refutation_min_detectable",
        "refutation_samples",
    ),
    "rare": ("RareTokens", "rare_hidden", "rare_test"),
    "ratio_tests": ("FaultAtStrength", "RatioResult", "ratio_gate", "ratio_test"),
    "ratios": ("RatioSums", "STRENGTHS", "ratio_sums", "streamed_ratio_sums"),
    "results": ("TestResult",),
    "score_bank": ("score_min_detectable", "score_samples", "score_test"),
    "score_totals": ("ScoreSums", "score_sums", "score_sums_of_contexts"),
    "scores": (
        "ScoreMoments",
        "accept",
        "contrast",
        "q_above_p",
        "rare_token",
        "score_moments",
        "surprise",
    ),
    "sequential": ("Decision", "Evidence", "RunLook", "SequentialRun"),
    "support": ("SupportResult", "support_violations"),
    "transitions": ("expected_g2", "transition_g2"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
