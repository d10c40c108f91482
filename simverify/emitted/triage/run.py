"""A triage from two logs to the document."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from simverify import results as doc
from simverify.arrays import Ints
from simverify.battery.judgement import stamped
from simverify.emitted.triage.causes import Explained, explained
from simverify.emitted.triage.fits import Log, Spot
from simverify.emitted.triage.places import Outcome, agreeing, ended_alike, outcome
from simverify.emitted.triage.reading import Answer, Pairs
from simverify.emitted.triage.scoring import FACTOR, Path, scored
from simverify.emitted.triage.telling import case_of, verdict_of
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

MOST_CASES = 200
"""Requests that the document tells of, one by one."""

CLASSES: tuple[doc.TriageClass, ...] = (
    "same", "numerics", "precision", "text", "early stop", "template", "cache or rows", "verifier",
    "unclear",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """What the logs are called, the command that reads them again, and remarks on them.

    ``declared``: whether the precision was named. ``other``: loads the target in another one:
    float32 where it is coarser, bfloat16 where it is float32.
    """

    a: str
    b: str
    reproduce: str
    declared: bool
    other: Callable[[], TransformerPair]
    notes: tuple[str, ...] = ()


def triage(
    logs: Pairs, pair: TransformerPair, source: Source, *, proxy: bool = False,
    progress: Callable[[str], None] | None = None,
) -> doc.TriageRun:  # fmt: skip
    """Say why two logs of greedy answers differ.

    Parameters
    ----------
    logs
        Answers of both to the same requests.
    pair
        The target that both should follow, at temperature 0; its draft is the engine's, or near
        it, if ``proxy`` says so.

    Raises
    ------
    UsageError
        If no request is in both logs.
    """
    say, stamp = progress or (lambda _: None), stamped()
    if not logs.pairs:
        raise UsageError("triage: no request is in both logs: expected answers to the same prompts")
    coarse = _dtype(pair) != "float32"
    sides = [[both[k] for both in logs.pairs] for k in (0, 1)]
    say(f"rescoring {sum(len(x.request.tokens) for own in sides for x in own):,} tokens")
    other = source.other() if coarse else None
    paths = [scored([x.request for x in own], pair, other) for own in sides]
    moved = _moved(paths)
    radius = FACTOR * moved
    found = [
        outcome(i, both, (paths[0][i], paths[1][i]), radius, pair.eos)
        for i, both in enumerate(logs.pairs)
    ]
    if not coarse and not source.declared:
        say("rescoring in bfloat16 what is off, for what that precision would explain")
        found = _coarser(found, logs, paths, pair, source.other)
    drafts = [[_drafts(x, pair) for x in own] if proxy else None for own in sides]
    both = [Log(own, p, d) for own, p, d in zip(sides, paths, drafts, strict=True)]
    # What a coarser precision would explain may have a cause that explains it better.
    off = [one for one in found if one.kind in (None, "precision")]
    say(f"looking for what explains {len(off):,} tokens")
    why = explained([_spot(one, both) for one in off], both, pair, radius)
    cases = _cases(found, off, why, logs, paths, pair)
    agreed, agreed_off = _agreed(logs, paths, radius)
    counts = _counts(cases, len(logs.pairs))
    ruling = verdict_of(cases, counts, why, agreed, agreed_off, radius)
    return doc.TriageRun(
        schema_version=doc.SCHEMA_VERSION,
        a=source.a,
        b=source.b,
        target=pair.target_name,
        draft=pair.draft_name if proxy else None,
        sha256=_sha256(logs),
        requests=len(logs.pairs),
        alone_a=logs.alone_a,
        alone_b=logs.alone_b,
        tokens=sum(len(x.request.tokens) for own in sides for x in own),
        device=str(pair.target_model.device),
        dtype=_dtype(pair),
        declared=source.declared,
        moved=moved,
        radius=radius,
        due_numerics=_due(logs, paths),
        agreed=agreed,
        agreed_off=agreed_off,
        counts=counts,
        causes=why.causes,
        tried=why.tried,
        cases=cases[:MOST_CASES],
        left_out=max(len(cases) - MOST_CASES, 0),
        verdict=ruling.verdict,
        certificate=_certificate(len(logs.pairs)) if ruling.verdict == "PASS" else None,
        findings=ruling.findings,
        inconclusive=ruling.inconclusive,
        notes=(*ruling.notes, *source.notes),
        reproduce=source.reproduce,
        meta=stamp(),
    )


def _moved(paths: Sequence[Sequence[Path]]) -> float:
    return max(float(path.moved.max()) for own in paths for path in own)


def _coarser(
    found: Sequence[Outcome], logs: Pairs, paths: Sequence[list[Path]], pair: TransformerPair,
    load: Callable[[], TransformerPair],
) -> list[Outcome]:  # fmt: skip
    """Judge what is off once more by the rounding of bfloat16, which nobody declared."""
    off = [one.number for one in found if one.kind is None]
    if not off:
        return list(found)
    other = load()
    again = [scored([logs.pairs[i][k].request for i in off], pair, other) for k in (0, 1)]
    radius = FACTOR * _moved(again)
    kept = list(found)
    for place, i in enumerate(off):
        judged = outcome(i, logs.pairs[i], (again[0][place], again[1][place]), radius, pair.eos)
        one = kept[i]
        words = f"{radius:.2g} logits, as bfloat16 would move them, and not {_dtype(pair)}"
        explained_by_it = Outcome(i, "precision", None, words, one.parted, one.at, one.side)
        kept[i] = judged if judged.kind is None or judged.fault else explained_by_it
    return kept


def _dtype(pair: TransformerPair) -> str:
    return str(pair.target_model.dtype).removeprefix("torch.")


def _drafts(answer: Answer, pair: TransformerPair) -> Ints:
    request = answer.request
    rows = pair.cached(pair.draft_model, 1).feed([(*request.prompt, *request.tokens[:-1])])[0]
    found: Ints = rows[-len(request.tokens) :].argmax(axis=1)
    return found


def _spot(one: Outcome, logs: Sequence[Log]) -> Spot:
    assert one.at is not None
    log = logs[1 if one.side == "b" else 0]
    token = log.answers[one.number].request.tokens[one.at]
    return Spot(log, one.number, one.at, token, log.shared(one.number))


def _cases(
    found: Sequence[Outcome], off: Sequence[Outcome], why: Explained, logs: Pairs,
    paths: Sequence[Sequence[Path]], pair: TransformerPair,
) -> tuple[doc.TriageCase, ...]:  # fmt: skip
    causes = {one.number: why.taken.get(i) for i, one in enumerate(off)}
    cases = [
        case_of(one, causes.get(one.number), why.open, logs.pairs[one.number],
                (paths[0][one.number], paths[1][one.number]), pair)
        for one in found if one.kind != "same"
    ]  # fmt: skip
    return tuple(sorted(cases, key=_gravity))


def _gravity(case: doc.TriageCase) -> tuple[int, int, float]:
    told = {True: 0, None: 1, False: 2}[case.fault]
    return told, -CLASSES.index(case.kind), -(case.gap or 0.0)


def _counts(cases: Sequence[doc.TriageCase], requests: int) -> tuple[doc.TriageCount, ...]:
    sides = {kind: Counter(c.side for c in cases if c.kind == kind) for kind in CLASSES}
    sizes = {kind: sum(c.kind == kind for c in cases) for kind in CLASSES}
    sizes["same"] = requests - len(cases)
    return tuple(
        doc.TriageCount(
            kind=kind, requests=sizes[kind], side_a=sides[kind]["a"], side_b=sides[kind]["b"],
            both=sides[kind]["both"],
        )
        for kind in CLASSES
    )  # fmt: skip


def _agreed(logs: Pairs, paths: Sequence[Sequence[Path]], radius: float) -> tuple[int, int]:
    """Count the tokens that both emit after the same ones, and those of them that are off."""
    agreed = off = 0
    for i, (a, b) in enumerate(logs.pairs):
        if a.request.prompt == b.request.prompt:
            common = agreeing(a.request.tokens, b.request.tokens) - ended_alike((a, b))
            agreed += common
            off += int((paths[0][i].gap[:common] > radius).sum())
    return agreed, off


def _due(logs: Pairs, paths: Sequence[Sequence[Path]]) -> float:
    """Bound the requests that part by rounding, on average, by how far it moved here.

    At each place of a request, up to where it parts, the share of all movements that are larger
    than the lead there; a request parts once.
    """
    moves = np.sort(np.concatenate([path.moved for own in paths for path in own]))
    total = 0.0
    for i, (a, b) in enumerate(logs.pairs):
        k = min(agreeing(a.request.tokens, b.request.tokens) + 1, len(paths[0][i].lead))
        larger = 1.0 - np.searchsorted(moves, paths[0][i].lead[:k]) / len(moves)
        total += min(float(larger.sum()), 1.0)
    return total


def _certificate(requests: int) -> doc.Certificate:
    delta = 1e-3
    return doc.Certificate(
        bound=-math.expm1(math.log(delta) / requests),
        delta=delta,
        method=f"Clopper-Pearson for the share of requests with a fault, none of {requests:,} seen",
        assumption="the requests are a random sample of those that are asked",
    )


def _sha256(logs: Pairs) -> str:
    digest = hashlib.sha256()
    for both in logs.pairs:
        for answer in both:
            for ids in (answer.request.prompt, answer.request.tokens):
                digest.update((",".join(map(str, ids)) + "\n").encode())
    return digest.hexdigest()
