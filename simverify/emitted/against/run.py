"""Two engines against each other, from their answers to the document."""

import hashlib
import json
import math
from dataclasses import dataclass, replace

from simverify import results as doc
from simverify.battery.judgement import certificate_document, stamped, test_document
from simverify.emitted.against.answers import Pairs, copied, flat
from simverify.emitted.against.beginnings import most_asked
from simverify.emitted.against.judging import Compared, compare
from simverify.emitted.against.settings import DEVIATION, OFTEN, POWER, AgainstSettings
from simverify.errors import UsageError

_COPIES = (
    "answers to one prompt are copies of each other",
    "the two answers are copies of each other, in each",
)


@dataclass(frozen=True)
class Sources:
    """Where answers come from: names of the two, and the command that compares them again.

    ``planned``: pairs as fixed beforehand; None: those that are there. ``asked``: what both were
    asked for. ``endpoint``: whether servers were asked; ``side_by_side``: whether the answers of a
    pair came at one time; ``notes``: remarks on them.
    """

    first: str
    second: str
    reproduce: str
    planned: int | None = None
    asked: doc.AskedFor | None = None
    endpoint: bool = False
    side_by_side: bool = False
    notes: tuple[str, ...] = ()


def audit_against(
    pairs: Pairs, sources: Sources, settings: AgainstSettings | None = None
) -> doc.AgainstRun:
    """Judge whether two engines' answers to the same prompts follow one law.

    Raises
    ------
    UsageError
        If there is no pair of answers.
    """
    settings, stamp = settings or AgainstSettings(), stamped()
    if not pairs.n:
        raise UsageError("there is no pair of answers: ask both the same prompts")
    found = compare(pairs, settings)
    open_ = _open(pairs, found, settings, sources)
    copies = open_ is not None and open_.startswith(_COPIES)
    verdict: doc.Verdict = (
        "INCONCLUSIVE" if copies else "FAIL" if found.findings
        else "INCONCLUSIVE" if open_ else "PASS"
    )  # fmt: skip
    return doc.AgainstRun(
        schema_version=doc.SCHEMA_VERSION,
        first=sources.first,
        second=sources.second,
        endpoint=sources.endpoint,
        units=pairs.kind,
        prompts=len(pairs.groups),
        repeats=max(map(len, pairs.groups)),
        asked_most=found.asked_most,
        once=found.once,
        pairs=pairs.n,
        planned=pairs.n if sources.planned is None else sources.planned,
        left_out=pairs.left_out,
        tokens=(pairs.units(0), pairs.units(1)),
        copied=(copied(pairs, 0), copied(pairs, 1)),
        asked=sources.asked,
        sha256=_sha256(pairs),
        alpha=settings.alpha,
        detect=settings.detect,
        power=POWER,
        seed=settings.seed,
        verdict=verdict,
        tests=tuple(test_document(test) for test in found.tests),
        detectable=found.detectable,
        deviation=DEVIATION,
        certificate=certificate_document(found.certificate) if verdict == "PASS" else None,
        findings=found.findings,
        shown=found.shown,
        inconclusive=open_ if verdict == "INCONCLUSIVE" else None,
        notes=(*_notes(pairs, found, sources, verdict), *sources.notes),
        reproduce=sources.reproduce,
        meta=stamp(),
    )


def _open(pairs: Pairs, found: Compared, settings: AgainstSettings, sources: Sources) -> str | None:
    """Why there is no verdict, if there is none; copies leave none whatever was found."""
    if _one_stream(pairs):
        return (
            f"{_COPIES[1]} of all {pairs.n:,} pairs, though those to one prompt differ: one seed "
            f"for both, a cache before them, or one server behind both addresses; ask without a "
            f"seed, and each by itself"
        )
    # Those that were only tried may have one answer by their law, and are asked no more for that.
    most = replace(pairs, groups=tuple(map(tuple, most_asked(pairs))))
    asked = sum(len(group) >= 3 for group in most.groups)
    if asked and all(2 * copied(most, side) > asked for side in (0, 1)):
        return (
            f"{_COPIES[0]}, in {copied(most, 0):,} of {asked:,} "
            f"prompts of the first and {copied(most, 1):,} of the second: they were drawn at "
            f"temperature 0 or with one seed, and asking again tells nothing; ask above 0, and "
            f"without a seed"
        )
    longer = sum(len(answer) > 1 for group in pairs.groups for pair in group for answer in pair)
    if longer < pairs.n:
        return (
            "most answers are one token: what speculation does shows from the second on; ask for "
            "longer ones, by --max-tokens"
        )
    if found.detectable <= settings.detect:
        return None
    planned = pairs.n if sources.planned is None else sources.planned
    short = f"{pairs.n:,} of {planned:,} pairs are there: " if pairs.n < planned else ""
    often = max(map(len, pairs.groups))
    if found.detectable >= 1.0:
        few = min(len(pairs.groups), OFTEN)
        try:
            due = f"some {replace(settings, repeats=None).planned(few):,} answers"
        except UsageError:
            due = "more than a million answers"
        return (
            f"{short}no power is promised, asked was {settings.detect:g}: that takes {due} to each "
            f"of {few} prompts, of each, by --repeats"
        )
    wanted = math.ceil(often * (found.detectable / settings.detect) ** 2.7)
    return (
        f"{short}power {POWER:g} against TV {found.detectable:.2g} alone, asked was "
        f"{settings.detect:g}: that takes some {wanted:,} answers to each prompt of each, by "
        f"--repeats, or prompts that are answered in fewer ways"
    )


def _one_stream(pairs: Pairs) -> bool:
    """Whether the two answer alike pair by pair, where the answers to one prompt differ."""
    if any(one != other for _, one, other in flat(pairs)):
        return False
    return any(len(group) >= 3 and len({a for a, _ in group}) > 2 for group in pairs.groups)


def _notes(pairs: Pairs, found: Compared, sources: Sources, verdict: doc.Verdict) -> list[str]:
    notes = []
    if pairs.kind != "ids":
        notes.append(
            "text was compared, as the two give no token ids that mean the same: two ways to spell "
            "one text are one here, and a fault that changes nothing else is not seen"
        )
    if not sources.side_by_side:
        notes.append(
            "two files do not say when their answers came: what changes over time, a model that "
            "was reloaded say, looks like a difference here; servers are asked side by side"
        )
    for side, name in ((0, "first"), (1, "second")):
        count, other = copied(pairs, side), copied(pairs, 1 - side)
        if verdict == "FAIL" and count > len(pairs.groups) / 2 >= other:
            notes.append(f"the {name} gives one answer alone to {count:,} prompts: one seed?")
    if found.not_run is not None and verdict != "FAIL":
        notes.append(f"not run: {found.not_run}")
    if pairs.left_out:
        notes.append(f"{pairs.left_out:,} answers have no other beside them: left out")
    return notes


def _sha256(pairs: Pairs) -> str:
    digest = hashlib.sha256()
    for prompt, group in zip(pairs.prompts, pairs.groups, strict=True):
        digest.update((json.dumps([prompt, group]) + "\n").encode())
    return digest.hexdigest()
