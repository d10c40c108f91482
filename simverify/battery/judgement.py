"""What the tests of one question found, and how much they would have found."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from simverify import stats
from simverify.battery.localise import Located
from simverify.battery.naming import Named
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
    """Return a finding for each kind of rejected test: the smallest p-value, and how many more.

    A kind is what a name begins with: all scores are one, and the transitions of all positions.
    """
    kinds: dict[str, list[stats.TestResult]] = {}
    for test in tests:
        if test.rejected:
            kinds.setdefault(test.name.split()[0].rstrip(","), []).append(test)
    found = []
    for kind in kinds.values():
        worst = min(kind, key=lambda test: test.log_pvalue)
        more = f", and {len(kind) - 1} more of its kind" if kind[1:] else ""
        found.append(f"{worst.name}: p = {shown(worst.log_pvalue)}{more}")
    return found


def shown(log_pvalue: float) -> str:
    """Return a p-value given by its logarithm, to a power of ten."""
    return "0" if log_pvalue == -np.inf else f"1e{log_pvalue / np.log(10):.0f}"
