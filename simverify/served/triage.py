"""A triage, from two logs of greedy answers to the document."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from simverify import results as doc
from simverify.arrays import Ints
from simverify.battery.battery import start_meta
from simverify.errors import UsageError
from simverify.models.transformer import TransformerPair
from simverify.served.triage_explanations import (
    CAUSE_LEVEL,
    ROUNDING_FACTOR,
    AnswerPath,
    ExplanationResult,
    GreedyLog,
    LoggedAnswer,
    MatchedAnswers,
    OffToken,
    RequestOutcome,
    classify_request,
    common_prefix_length,
    ended_equally,
    explain_spots,
    score_requests,
)

# Cases as documents, and the verdict of a triage.


TOKENS_BEFORE, TOKENS_AFTER = 32, 16
"""Tokens of a case's text, before the token that is told and from it on."""

_MAX_AGREED_SHARE = 0.01
"""Share of tokens on which both logs agree against the target, from which on it is not theirs."""


@dataclass(frozen=True)
class TriageVerdict:
    """A verdict, and what it rests on."""

    verdict: doc.Verdict
    findings: tuple[str, ...]
    inconclusive: str | None
    notes: tuple[str, ...]


def case_document(
    one: RequestOutcome,
    cause: doc.TriageCause | None,
    open_: doc.TriageCause | None,
    both: tuple[LoggedAnswer, LoggedAnswer],
    paths: tuple[AnswerPath, AnswerPath],
    pair: TransformerPair,
) -> doc.TriageCase:
    """Return the entry of a request; ``cause``: what explains its token, if it is off.

    ``open_``: what may explain it, where nobody can tell.
    """
    at, which = one.at, 1 if one.side == "b" else 0
    path, answer = paths[which], both[which]
    located = one.side is not None and at is not None
    words, chance, kind, fault = one.why, None, one.kind, one.fault
    if cause is not None:
        kind, words, chance = cause.kind, cause.name, cause.chance
        fault = None if one.side == "both" else True
    elif kind is None and open_ is not None:
        kind, words, chance = "unclear", f"a verifier, or: {open_.name}", open_.chance
    elif kind is None:
        kind, words = "verifier", "no cache, row or prompt that was tried explains most of them"
    place = 0 if at is None else at
    a, b = both[0].request, both[1].request
    return doc.TriageCase(
        request=one.number + 1,
        line_a=both[0].line,
        line_b=both[1].line,
        kind=kind,
        fault=fault,
        side=one.side,
        parted=one.parted,
        at=at,
        gap=float(path.gap[place]) if located else None,
        rank=int(path.rank[place]) if located else None,
        cause=words,
        chance=chance,
        slot=answer.slot(place) if located else None,
        token_a=_token_at(a.tokens, at),
        token_b=_token_at(b.tokens, at),
        choice=int(path.top[place]) if at is not None and place < len(path.top) else None,
        before=_decode_text(
            (*answer.request.prompt, *answer.request.tokens[:place])[-TOKENS_BEFORE:], pair
        ),
        text_a=_decode_text(a.tokens[place : place + TOKENS_AFTER], pair),
        text_b=_decode_text(b.tokens[place : place + TOKENS_AFTER], pair),
    )


def triage_verdict(
    cases: Sequence[doc.TriageCase],
    counts: Sequence[doc.TriageCount],
    why: ExplanationResult,
    agreed: int,
    agreed_off: int,
    radius: float,
) -> TriageVerdict:
    """Return the verdict: FAIL by a token of one side that is off, or by an end that differs."""
    findings = tuple(_triage_findings(cases, radius))
    notes = tuple(_triage_notes(cases, counts, why))
    if agreed_off > _MAX_AGREED_SHARE * max(agreed, 1):
        reason = (
            f"both logs agree on {agreed:,} tokens, and the target chooses others at "
            f"{agreed_off:,} of them: is --target the model of both, the prompt what they read, "
            f"and no penalty a default of theirs?"
        )
        return TriageVerdict("INCONCLUSIVE", (), reason, (*notes, *findings))
    if findings:
        return TriageVerdict("FAIL", findings, None, notes)
    open_ = [case for case in cases if case.fault is None]
    if open_:
        return TriageVerdict("INCONCLUSIVE", (), _open_words(open_), notes)
    return TriageVerdict("PASS", (), None, notes)


def _triage_findings(cases: Sequence[doc.TriageCase], radius: float) -> list[str]:
    findings = []
    for kind in ("unclear", "verifier", "cache or rows", "template", "early stop"):
        faults = [case for case in cases if case.kind == kind and case.fault]
        if not faults:
            continue
        words = f"{kind}: {len(faults):,} request{'s' * (len(faults) > 1)}"
        if faults[0].gap is not None:
            times = (
                f", {faults[0].gap / radius:,.0f} times what rounding may come to" if radius else ""
            )
            words += f"; the worst is {faults[0].gap:.3g} logits behind the target's choice{times}"
        first, *rest = dict.fromkeys(case.cause for case in faults)
        words += f"; {first}" + (f", and {len(rest)} other causes" if rest else "")
        findings.append(words)
    return findings


def _open_words(cases: Sequence[doc.TriageCase]) -> str:
    of = {
        "precision": "part where bfloat16 would explain it and float32 does not: say --dtype "
        "bfloat16 if an engine computes in it, or --dtype float32 if none does",
        "text": "are off by tokens that are known by their text alone: log token ids",
        "early stop": "end early and do not say why: log finish_reason",
    }
    parts = [
        f"{sum(case.kind == kind for case in cases):,} requests {words}"
        for kind, words in of.items()
        if any(case.kind == kind for case in cases)
    ]
    alike = sum(case.side == "both" and case.kind not in of for case in cases)
    if alike:
        parts.append(
            f"{alike:,} requests have a token in both logs that is not the target's choice"
        )
    return "; ".join(parts)


def _triage_notes(
    cases: Sequence[doc.TriageCase], counts: Sequence[doc.TriageCount], why: ExplanationResult
) -> list[str]:
    notes = []
    if any(case.kind == "verifier" for case in cases):
        notes.append(
            f"verifier: what is left where none of {why.tried} explanations by caches, rows and "
            f"prompts fits most of the off tokens; one that was not tried may"
        )
    if why.open is not None and any(case.kind == "unclear" for case in cases):
        best = why.open
        notes.append(
            f"unclear: {best.name}: explains {best.fits} of {best.places} off tokens, but the best "
            f"of {why.tried} explanations would fit so well by chance with probability "
            f"{best.chance:.2g}: a log of more prompts may tell"
        )
    if any(cause.taken for cause in why.causes):
        notes.append(
            f"a cause is a guess: it is taken where the best of all that were tried would fit so "
            f"well by chance with probability {CAUSE_LEVEL:g} at most"
        )
    limits = [case for case in cases if case.kind == "early stop" and case.fault is False]
    if limits:
        notes.append(
            f"{len(limits):,} requests were cut at a limit by one log alone, which is no fault: "
            f"what the other emits behind it was held against the target too"
        )
    slots = [case.slot for case in cases if case.kind == "verifier" and case.slot is not None]
    if slots:
        last = sum(place + 1 == size for place, size in slots)
        notes.append(f"verifier: {last:,} of {len(slots):,} off tokens are the last of their call")
    return notes


def _token_at(tokens: Sequence[int], at: int | None) -> int | None:
    return tokens[at] if at is not None and at < len(tokens) else None


def _decode_text(tokens: Sequence[int], pair: TransformerPair) -> str:
    text: str = pair.tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False)
    return text


# The whole triage.


MAX_CASES = 200  # Requests that the document tells of, one by one
TRIAGE_CLASSES: tuple[doc.TriageClass, ...] = (
    "same",
    "numerics",
    "precision",
    "text",
    "early stop",
    "template",
    "cache or rows",
    "verifier",
    "unclear",
)


@dataclass(frozen=True)
class TriageSource:
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
    logs: MatchedAnswers,
    pair: TransformerPair,
    source: TriageSource,
    *,
    proxy: bool = False,
    progress: Callable[[str], None] | None = None,
) -> doc.TriageRun:
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
    say, stamp = progress or (lambda _: None), start_meta()
    if not logs.pairs:
        raise UsageError("triage: no request is in both logs: expected answers to the same prompts")
    coarse = _dtype(pair) != "float32"
    sides = [[both[k] for both in logs.pairs] for k in (0, 1)]
    say(f"rescoring {sum(len(x.request.tokens) for own in sides for x in own):,} tokens")
    other = source.other() if coarse else None
    paths = [score_requests([x.request for x in own], pair, other) for own in sides]
    shift = _rounding_move(paths)
    radius = ROUNDING_FACTOR * shift
    outcomes = [
        classify_request(i, both, (paths[0][i], paths[1][i]), radius, pair.eos)
        for i, both in enumerate(logs.pairs)
    ]
    if not coarse and not source.declared:
        say("rescoring in bfloat16 what is off, for what that precision would explain")
        outcomes = _classify_in_bfloat16(outcomes, logs, paths, pair, source.other)
    drafts = [[_draft_argmax(x, pair) for x in own] if proxy else None for own in sides]
    both = [GreedyLog(own, p, d) for own, p, d in zip(sides, paths, drafts, strict=True)]
    # What a coarser precision would explain may have a cause that explains it better.
    off = [one for one in outcomes if one.kind in (None, "precision")]
    say(f"looking for what explains {len(off):,} tokens")
    why = explain_spots([_make_spot(one, both) for one in off], both, pair, radius)
    cases = _case_documents(outcomes, off, why, logs, paths, pair)
    agreed, agreed_off = _agreement_counts(logs, paths, radius)
    counts = _class_counts(cases, len(logs.pairs))
    ruling = triage_verdict(cases, counts, why, agreed, agreed_off, radius)
    return doc.TriageRun(
        schema_version=doc.SCHEMA_VERSION,
        a=source.a,
        b=source.b,
        target=pair.target_name,
        draft=pair.draft_name if proxy else None,
        sha256=_logs_sha256(logs),
        requests=len(logs.pairs),
        alone_a=logs.alone_a,
        alone_b=logs.alone_b,
        tokens=sum(len(x.request.tokens) for own in sides for x in own),
        device=str(pair.target_model.device),
        dtype=_dtype(pair),
        declared=source.declared,
        moved=shift,
        radius=radius,
        due_numerics=_expected_partings(logs, paths),
        agreed=agreed,
        agreed_off=agreed_off,
        counts=counts,
        causes=why.causes,
        tried=why.tried,
        cases=cases[:MAX_CASES],
        left_out=max(len(cases) - MAX_CASES, 0),
        verdict=ruling.verdict,
        certificate=_triage_certificate(len(logs.pairs)) if ruling.verdict == "PASS" else None,
        findings=ruling.findings,
        inconclusive=ruling.inconclusive,
        notes=(*ruling.notes, *source.notes),
        reproduce=source.reproduce,
        meta=stamp(),
    )


def _rounding_move(paths: Sequence[Sequence[AnswerPath]]) -> float:
    return max(float(path.moved.max()) for own in paths for path in own)


def _classify_in_bfloat16(
    found: Sequence[RequestOutcome],
    logs: MatchedAnswers,
    paths: Sequence[list[AnswerPath]],
    pair: TransformerPair,
    load: Callable[[], TransformerPair],
) -> list[RequestOutcome]:
    """Judge what is off once more by the rounding of bfloat16, which nobody declared."""
    off = [one.number for one in found if one.kind is None]
    if not off:
        return list(found)
    other = load()
    again = [score_requests([logs.pairs[i][k].request for i in off], pair, other) for k in (0, 1)]
    radius = ROUNDING_FACTOR * _rounding_move(again)
    outcomes = list(found)
    for place, i in enumerate(off):
        judged = classify_request(
            i, logs.pairs[i], (again[0][place], again[1][place]), radius, pair.eos
        )
        one = outcomes[i]
        words = f"{radius:.2g} logits, as bfloat16 would move them, and not {_dtype(pair)}"
        explained_by_it = RequestOutcome(i, "precision", None, words, one.parted, one.at, one.side)
        outcomes[i] = judged if judged.kind is None or judged.fault else explained_by_it
    return outcomes


def _dtype(pair: TransformerPair) -> str:
    return str(pair.target_model.dtype).removeprefix("torch.")


def _draft_argmax(answer: LoggedAnswer, pair: TransformerPair) -> Ints:
    request = answer.request
    rows = pair.cached(pair.draft_model, 1).feed([(*request.prompt, *request.tokens[:-1])])[0]
    drafts: Ints = rows[-len(request.tokens) :].argmax(axis=1)
    return drafts


def _make_spot(one: RequestOutcome, logs: Sequence[GreedyLog]) -> OffToken:
    assert one.at is not None
    log = logs[1 if one.side == "b" else 0]
    token = log.answers[one.number].request.tokens[one.at]
    return OffToken(log, one.number, one.at, token, log.shared(one.number))


def _case_documents(
    found: Sequence[RequestOutcome],
    off: Sequence[RequestOutcome],
    why: ExplanationResult,
    logs: MatchedAnswers,
    paths: Sequence[Sequence[AnswerPath]],
    pair: TransformerPair,
) -> tuple[doc.TriageCase, ...]:
    causes = {one.number: why.taken.get(i) for i, one in enumerate(off)}
    cases = [
        case_document(
            one,
            causes.get(one.number),
            why.open,
            logs.pairs[one.number],
            (paths[0][one.number], paths[1][one.number]),
            pair,
        )
        for one in found
        if one.kind != "same"
    ]
    return tuple(sorted(cases, key=_severity_key))


def _severity_key(case: doc.TriageCase) -> tuple[int, int, float]:
    rank = {True: 0, None: 1, False: 2}[case.fault]
    return rank, -TRIAGE_CLASSES.index(case.kind), -(case.gap or 0.0)


def _class_counts(cases: Sequence[doc.TriageCase], requests: int) -> tuple[doc.TriageCount, ...]:
    sides = {kind: Counter(c.side for c in cases if c.kind == kind) for kind in TRIAGE_CLASSES}
    sizes = {kind: sum(c.kind == kind for c in cases) for kind in TRIAGE_CLASSES}
    sizes["same"] = requests - len(cases)
    return tuple(
        doc.TriageCount(
            kind=kind,
            requests=sizes[kind],
            side_a=sides[kind]["a"],
            side_b=sides[kind]["b"],
            both=sides[kind]["both"],
        )
        for kind in TRIAGE_CLASSES
    )


def _agreement_counts(
    logs: MatchedAnswers, paths: Sequence[Sequence[AnswerPath]], radius: float
) -> tuple[int, int]:
    """Count the tokens that both emit after the same ones, and those of them that are off."""
    agreed = off = 0
    for i, (a, b) in enumerate(logs.pairs):
        if a.request.prompt == b.request.prompt:
            common = common_prefix_length(a.request.tokens, b.request.tokens) - ended_equally(
                (a, b)
            )
            agreed += common
            off += int((paths[0][i].gap[:common] > radius).sum())
    return agreed, off


def _expected_partings(logs: MatchedAnswers, paths: Sequence[Sequence[AnswerPath]]) -> float:
    """Bound the requests that part by rounding, on average, by how far it moved here.

    At each place of a request, up to where it parts, the share of all movements that are larger
    than the lead there; a request parts once.
    """
    moves = np.sort(np.concatenate([path.moved for own in paths for path in own]))
    total = 0.0
    for i, (a, b) in enumerate(logs.pairs):
        k = min(common_prefix_length(a.request.tokens, b.request.tokens) + 1, len(paths[0][i].lead))
        larger = 1.0 - np.searchsorted(moves, paths[0][i].lead[:k]) / len(moves)
        total += min(float(larger.sum()), 1.0)
    return total


def _triage_certificate(requests: int) -> doc.Certificate:
    delta = 1e-3
    return doc.Certificate(
        bound=-math.expm1(math.log(delta) / requests),
        delta=delta,
        method=f"Clopper-Pearson for the share of requests with a fault, none of {requests:,} seen",
        assumption="the requests are a random sample of those that are asked",
    )


def _logs_sha256(logs: MatchedAnswers) -> str:
    digest = hashlib.sha256()
    for both in logs.pairs:
        for answer in both:
            for ids in (answer.request.prompt, answer.request.tokens):
                digest.update((",".join(map(str, ids)) + "\n").encode())
    return digest.hexdigest()
