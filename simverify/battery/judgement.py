"""What the tests of one question found, how much they would have found, and the document of it."""

import math
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np

from simverify import results, stats
from simverify.battery.localise import Located
from simverify.battery.naming import BETA, Named
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


def test_document(test: stats.TestResult) -> results.Test:
    """Return the document's entry of ``test``."""
    return results.Test(
        name=test.name,
        statistic=test.statistic,
        log_pvalue=finite(test.log_pvalue),
        alpha=test.alpha,
        n=test.n,
        df=test.df,
        method=test.method,
        min_detectable=finite(test.min_detectable),
        deviation=test.deviation,
        rejected=test.rejected,
    )


def certificate_document(certificate: stats.Certificate) -> results.Certificate:
    """Return the document's entry of ``certificate``."""
    return results.Certificate(
        bound=certificate.bound,
        delta=certificate.delta,
        method=certificate.method,
        assumption=certificate.assumption,
    )


def faults_document(named: Named | None) -> results.NamedFaults | None:
    """Return the document's entry of what the tokens say of the catalogue."""
    if named is None:
        return None
    return results.NamedFaults(
        refuted=tuple(_at_strength(fault) for fault in named.refuted),
        not_refuted=named.not_refuted,
        beta=BETA,
        best=None if named.best is None else _at_strength(named.best),
        explains=None if named.best is None else named.explains,
    )


def _at_strength(fault: stats.FaultAtStrength) -> results.FaultAtStrength:
    return results.FaultAtStrength(
        fault=fault.fault, strength=fault.strength, log_evalue=finite(fault.log_evalue)
    )


def suspect_document(located: Located | None) -> results.Suspect | None:
    """Return the document's entry of where a fault sits."""
    if located is None:
        return None
    return results.Suspect(part=located.part, position=located.position, why=located.why)


def finite(value: float) -> float | None:
    """Return ``value``, or None where there is no finite number."""
    return value if math.isfinite(value) else None


def stamped() -> Callable[[], results.Meta]:
    """Note when a run starts; what is returned gives the ``meta`` of its document at its end."""
    started, clock = datetime.now(UTC), time.perf_counter()
    return lambda: results.Meta(
        version=version("simverify"),
        started=started.isoformat(timespec="seconds"),
        seconds=time.perf_counter() - clock,
        machine=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        threads=1,
        timings=(),
    )
