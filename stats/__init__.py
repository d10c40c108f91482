"""Tests, certificates and plans over plain arrays; no verifier, model or simulator in sight.

Names load on first use: importing the package costs nothing but this file.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
        monotone_certificate,
        plug_in_certificate,
    )
    from simverify.stats.eprocess import (
        eprocess_growth,
        eprocess_min_detectable,
        eprocess_samples,
    )
    from simverify.stats.g2 import G2, g2_min_detectable, g2_samples, g2_test
    from simverify.stats.intervals import empirical_bernstein
    from simverify.stats.pit import PIT_BINS, ks_min_detectable, ks_samples, pit_ks
    from simverify.stats.rare import RareTokens, rare_hidden, rare_test
    from simverify.stats.ratio_tests import (
        FaultAtStrength,
        RatioResult,
        ratio_gate,
        ratio_test,
    )
    from simverify.stats.ratios import (
        STRENGTHS,
        RatioSums,
        ratio_sums,
        streamed_ratio_sums,
    )
    from simverify.stats.results import TestResult
    from simverify.stats.support import SupportResult, support_violations
    from simverify.stats.transitions import expected_g2, transition_g2

__all__ = [
    "G2",
    "PIT_BINS",
    "STRENGTHS",
    "Certificate",
    "FaultAtStrength",
    "RareTokens",
    "RatioResult",
    "RatioSums",
    "SupportResult",
    "TestResult",
    "acceptance_min_detectable",
    "acceptance_samples",
    "acceptance_test",
    "bounded_means_test",
    "empirical_bernstein",
    "eprocess_growth",
    "eprocess_min_detectable",
    "eprocess_samples",
    "expected_g2",
    "g2_min_detectable",
    "g2_samples",
    "g2_test",
    "ks_min_detectable",
    "ks_samples",
    "monotone_certificate",
    "pit_ks",
    "plug_in_certificate",
    "rare_hidden",
    "rare_test",
    "rate_interval",
    "ratio_gate",
    "ratio_sums",
    "ratio_test",
    "split_alpha",
    "streamed_ratio_sums",
    "support_violations",
    "transition_g2",
]

_HOME = {
    "rare": (
        "RareTokens",
        "rare_hidden",
        "rare_test",
    ),
    "bounded_means": ("bounded_means_test",),
    "eprocess": (
        "eprocess_growth",
        "eprocess_min_detectable",
        "eprocess_samples",
    ),
    "ratio_tests": (
        "FaultAtStrength",
        "RatioResult",
        "ratio_gate",
        "ratio_test",
    ),
    "ratios": (
        "RatioSums",
        "STRENGTHS",
        "ratio_sums",
        "streamed_ratio_sums",
    ),
    "binomial": (
        "acceptance_min_detectable",
        "acceptance_samples",
        "acceptance_test",
        "rate_interval",
    ),
    "budget": ("split_alpha",),
    "certificates": ("Certificate", "monotone_certificate", "plug_in_certificate"),
    "g2": ("G2", "g2_min_detectable", "g2_samples", "g2_test"),
    "intervals": ("empirical_bernstein",),
    "pit": ("PIT_BINS", "ks_min_detectable", "ks_samples", "pit_ks"),
    "results": ("TestResult",),
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
