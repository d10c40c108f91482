"""What the tests of one question found, and how much they would have found."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from simverify import stats
from simverify.audit.localise import Located
from simverify.audit.naming import Named
from simverify.results import Verdict


@dataclass(frozen=True)
class Judgement:
    """Tests of one kernel, their findings in words, and their power.

    ``detectable``: smallest deviation, of the kind named in ``deviation``, that is found with
    power .9; the verdict rests on it. ``beside``: further kinds of deviations and their sizes
    found with that power, for which no verdict waits. ``named``: what the tokens say of the
    catalogued faults, None where contexts tell none of them apart. ``located``: the part that
    failed, None if nothing did.
    """

    tests: tuple[stats.TestResult, ...]
    findings: tuple[str, ...]
    detectable: float
    deviation: str
    beside: tuple[tuple[str, float], ...] = ()
    named: Named | None = None
    located: Located | None = None

    def verdict(self, detect: float) -> Verdict:
        """FAIL on a finding, PASS only if a deviation of ``detect`` would have been found."""
        if self.findings:
            return "FAIL"
        return "PASS" if self.detectable <= detect else "INCONCLUSIVE"


def rejections(tests: Iterable[stats.TestResult]) -> list[str]:
    """Return a finding for each rejected test, its p-value to a power of ten."""
    return [f"{test.name}: p = {shown(test.log_pvalue)}" for test in tests if test.rejected]


def shown(log_pvalue: float) -> str:
    """Return a p-value given by its logarithm, to a power of ten."""
    return "0" if log_pvalue == -np.inf else f"1e{log_pvalue / np.log(10):.0f}"
