"""From an engine and its audit to a row of the table."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from simverify.engines import Engine
from simverify.engines.base import sha256
from simverify.results import AuditRun, EngineRow, Finding, LeastShare
from simverify.surveying.audited import Audited
from simverify.surveying.places import Place


def absent_row(engine: Engine, *, asked: bool, missing: Sequence[str] = ()) -> EngineRow:
    """Return the row of an engine that is nowhere; ``asked``: it was named, so it is missed.

    ``missing``: packages that it needs besides.
    """
    return EngineRow(
        engine=engine.name,
        package=engine.repository or engine.distribution or engine.package,
        function=engine.function,
        file="/".join(part for part in (engine.package, engine.source) if part),
        contract=engine.contract,
        how_to_get=engine.how_to_get,
        found=None,
        version=None,
        commit=None,
        sha256=None,
        state="not loaded" if asked else "absent",
        verdict=None,
        reason=f"needs {' and '.join(missing)}: {engine.how_to_get}" if missing else "not here",
        exit_code=None,
    )


def found_row(engine: Engine, place: Place) -> EngineRow:
    """Return the row of an engine that is here, before its audit."""
    return replace(
        absent_row(engine, asked=False),
        found="installed" if place.folder is None else "checkout",
        version=place.version,
        commit=place.commit,
        sha256=sha256(place.file),
        state="crashed",
        reason="its audit has not ended",
    )


def audited_row(engine: Engine, place: Place, audited: Audited) -> EngineRow:
    """Return the row of an engine whose audit has ended, one way or another."""
    row = replace(
        found_row(engine, place),
        state=audited.state,
        reason=without_folder(audited.reason, place),
        exit_code=audited.exit_code,
    )
    run = audited.run
    if run is None:
        return row
    deviations = [one.max_abs_deviation for one in run.instances]
    certificate = run.sampled.certificate if run.sampled is not None else None
    return replace(
        row,
        verdict=run.verdict,
        contract=run.contract,
        tier=_tier(engine, run),
        instances=len(run.instances),
        paths=run.paths,
        tolerance=run.tolerance,
        max_abs_deviation=max(deviations, default=None),
        bound=None if certificate is None else certificate.bound,
        least=least_share(run),
        findings=tuple(
            Finding(kind=found.kind, text=without_folder(found.text, place))
            for found in run.findings
        ),
        localisation=None
        if run.localisation is None
        else replace(run.localisation, lines=lines_of(run, place)),
        lines=lines_of(run, place),
        counterexample=run.counterexample,
        reproduce=without_folder(run.reproduce, place, "CHECKOUT"),
    )


def least_share(run: AuditRun) -> LeastShare | None:
    """Return the instance on which least of the optimum is accepted; None unless ``run`` passes.

    What a lossy rule accepts has no optimum, nor what a rule that drafts for itself does.
    """
    if run.verdict != "PASS":
        return None
    shares = [
        LeastShare(
            instance=one.name,
            expected_accepted=one.expected_accepted,
            optimum=one.optimum,
            share=one.expected_accepted / one.optimum,
        )
        for one in run.instances
        if one.expected_accepted is not None and one.optimum
    ]
    return min(shares, key=lambda one: one.share, default=None)


def lines_of(run: AuditRun, place: Place | None = None) -> tuple[str, ...]:
    """Return the lines that the audit names for the failure, by files below the checkout's top."""
    named = run.localisation.lines if run.localisation else ()
    return tuple(without_folder(str(line), place) for line in named)


def without_folder(text: str, place: Place | None, instead: str = "") -> str:
    """Return ``text`` without the folders of this machine that lead to the engine.

    ``instead``: what stands for the checkout where it is named by itself.
    """
    if place is None:
        return text
    tops = {str(place.folder or place.file.parent)}
    tops |= {str(Path(top).resolve()) for top in tops}
    for top in sorted(tops, key=len, reverse=True):
        text = text.replace(f"{top}/", "")
        if instead:
            text = re.sub(rf"{re.escape(top)}(?=$|[\s'\"])", instead, text)
    return text


def _tier(engine: Engine, run: AuditRun) -> Literal["exact", "coins", "sampled"]:
    return "coins" if run.tier == "exact" and engine.here.tier == "coins" else run.tier
