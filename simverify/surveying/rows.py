"""From an engine and its audit to a row of the table."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from simverify.engines import Engine
from simverify.engines.base import sha256
from simverify.engines.places import Place
from simverify.results import AuditRun, EngineRow, LeastShare
from simverify.surveying.audited import Audited


def absent_row(engine: Engine, *, asked: bool, missing: Sequence[str] = ()) -> EngineRow:
    """Return the row of an engine that is nowhere; ``asked``: it was named, so it is missed.

    ``missing``: what it needs besides its package.
    """
    lacks = missing or (("an NVIDIA GPU",) if engine.gpu else ())
    return EngineRow(
        engine=engine.name,
        package=engine.repository or engine.distribution or engine.package,
        function=engine.function,
        file=engine.file,
        contract=engine.contract,
        how_to_get=engine.how_to_get,
        found=None,
        version=None,
        commit=None,
        sha256=None,
        state="not loaded" if asked else "absent",
        verdict=None,
        reason=f"needs {' and '.join(lacks)}: {engine.how_to_get}" if lacks else "not here",
        exit_code=None,
    )


def found_row(engine: Engine, place: Place) -> EngineRow:
    """Return the row of an engine that is here, before its audit."""
    row = absent_row(engine, asked=False)
    provider = engine.provider if place.folder is None else None
    return replace(
        row,
        package=row.package if provider is None else provider[0],
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
        reason=without_folder(audited.reason, place.top),
        exit_code=audited.exit_code,
    )
    run = audited.run
    if run is None:
        return row
    deviations = [one.max_abs_deviation for one in run.instances]
    return replace(
        row,
        verdict=run.verdict,
        contract=run.contract,
        tier=_tier(engine, run),
        instances=len(run.instances),
        paths=run.paths,
        tolerance=run.tolerance,
        max_abs_deviation=max(deviations, default=None),
        certificate=None if run.sampled is None else run.sampled.certificate,
        least=least_share(run),
        findings=tuple(
            replace(
                found,
                text=without_folder(found.text, place.top),
                line=found.line and without_folder(found.line, place.top),
                callers=_without_folder(found.callers, place.top),
                sources=_without_folder(found.sources, place.top),
            )
            for found in run.findings
        ),
        localisation=None
        if run.localisation is None
        else replace(
            run.localisation,
            lines=tuple(without_folder(line, place.top) for line in run.localisation.lines),
            sources=_without_folder(run.localisation.sources, place.top),
        ),
        lines=lines_of(run, place.top),
        counterexample=run.counterexample,
        reproduce=without_folder(run.reproduce, place.top, "CHECKOUT"),
        note=audited.note or UNSET,
    )


def least_share(run: AuditRun) -> LeastShare | None:
    """Return the instance on which least of the optimum is accepted; None unless ``run`` passes.

    What a lossy rule accepts has no optimum. Code that drafts itself, and never emits a second
    token, hands its tokens out one by one: how many a call of the target made is not seen.
    """
    taken = [one.expected_accepted for one in run.instances]
    if run.verdict != "PASS" or (run.contract == "step" and not any(taken)):
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


def lines_of(run: AuditRun, top: Path) -> tuple[str, ...]:
    """Return the lines that the audit names for the failure, by files below ``top``.

    Those that seed a generator with a constant, by which draws are decided already; and those
    that decide what the law leaves the target by. Else those that findings are about, as where
    the code raised.
    """
    found = [one for one in run.findings if one.line]
    seeded = [one.line for one in found if one.broke == "constant-seed"]
    decided = run.localisation.lines if run.localisation else ()
    named = [*seeded, *decided] or [one.line for one in found]
    return tuple(without_folder(line, top) for line in dict.fromkeys(filter(None, named)))


def _without_folder(lines: tuple[str, ...] | UnsetType, top: Path) -> tuple[str, ...] | UnsetType:
    return tuple(without_folder(line, top) for line in lines) if lines else UNSET


def without_folder(text: str, top: Path, instead: str = "") -> str:
    """Return ``text`` without the folders of this machine that lead to the engine.

    ``instead``: what stands for the checkout where it is named by itself.
    """
    for folder in sorted({str(top), str(top.resolve())}, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
        if instead:
            text = re.sub(rf"{re.escape(folder)}(?=$|[\s'\"])", instead, text)
    return text


def _tier(engine: Engine, run: AuditRun) -> Literal["exact", "coins", "sampled"]:
    return "coins" if run.tier == "exact" and engine.here.tier == "coins" else run.tier
