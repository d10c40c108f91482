"""A triage, from two logs of greedy answers to the document."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import get_args

import numpy as np

from simverify import results as doc
from simverify.arrays import Ints
from simverify.battery.battery import start_meta
from simverify.errors import UsageError
from simverify.models.transformer import TransformerPair
from simverify.served.requests import common_prefix_length
from simverify.served.rescore import dtype_name
from simverify.served.run import ids_sha256
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
    ended_equally,
    explain_spots,
    score_requests,
)

# Cases as documents, and the verdict of a triage.


TOKENS_BEFORE, TOKENS_AFTER = 32, 16
"""Tokens of a case's text, before the token that is reported and from it on."""

_MAX_AGREED_SHARE = 0.01
"""If both logs agree against the target on such a share of tokens, it is not their model."""

Paths = Sequence[Sequence[AnswerPath]]


def case_document(
    one: RequestOutcome,
    cause: doc.TriageCause | None,
    open_: doc.TriageCause | None,
    both: tuple[LoggedAnswer, LoggedAnswer],
    paths: tuple[AnswerPath, AnswerPath],
    pair: TransformerPair,
) -> doc.TriageCase:
    """Return the entry of a request; ``cause``, or perhaps ``open_``, explains its off token."""
    at, which = one.at, one.side == "b"
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

    decode = partial(pair.tokenizer.decode, clean_up_tokenization_spaces=False)

    def token_at(tokens: Sequence[int]) -> int | None:
        return tokens[at] if at is not None and at < len(tokens) else None

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
        token_a=token_at(a.tokens),
        token_b=token_at(b.tokens),
        choice=token_at(path.top.tolist()),
        before=decode((*answer.request.prompt, *answer.request.tokens[:place])[-TOKENS_BEFORE:]),
        text_a=decode(a.tokens[place : place + TOKENS_AFTER]),
        text_b=decode(b.tokens[place : place + TOKENS_AFTER]),
    )


def triage_verdict(
    cases: Sequence[doc.TriageCase], agreed: int, agreed_off: int, radius: float
) -> tuple[doc.Verdict, tuple[str, ...], str | None]:
    """Return verdict, findings (off tokens of one side, other ends), and why it is inconclusive."""
    findings = tuple(_triage_findings(cases, radius))
    if agreed_off > _MAX_AGREED_SHARE * max(agreed, 1):
        reason = (
            f"both logs agree on {agreed:,} tokens, and the target chooses others at "
            f"{agreed_off:,} of them: is --target the model of both, is the prompt what they read, "
            f"and do they apply no penalty by default?"
        )
        return "INCONCLUSIVE", findings, reason
    if findings:
        return "FAIL", findings, None
    open_ = [case for case in cases if case.fault is None]
    return ("INCONCLUSIVE", (), _open_words(open_)) if open_ else ("PASS", (), None)


def _triage_findings(cases: Sequence[doc.TriageCase], radius: float) -> Iterator[str]:
    for kind in ("unclear", "verifier", "cache or rows", "template", "early stop"):
        faults = [case for case in cases if case.kind == kind and case.fault]
        if not faults:
            continue
        words = f"{kind}: {len(faults):,} request{'s' * (len(faults) > 1)}"
        if (gap := faults[0].gap) is not None:
            times = f", {gap / radius:,.0f} times what rounding may come to" if radius else ""
            words += f"; the worst is {gap:.3g} logits behind the target's choice{times}"
        first, *rest = dict.fromkeys(case.cause for case in faults)
        yield f"{words}; {first}" + (f", and {len(rest)} other causes" if rest else "")


def _open_words(cases: Sequence[doc.TriageCase]) -> str:
    words: dict[doc.TriageClass, str] = {
        "precision": "differ where bfloat16 would explain it and float32 does not: name --dtype "
        "bfloat16 if an engine computes in it, or --dtype float32 if none does",
        "text": "are off by tokens that are known by their text alone: log token ids",
        "early stop": "end early and do not say why: log finish_reason",
    }
    sizes = Counter(case.kind for case in cases)
    parts = [f"{sizes[kind]:,} requests {words[kind]}" for kind in words if sizes[kind]]
    if alike := sum(case.side == "both" and case.kind not in words for case in cases):
        parts.append(
            f"{alike:,} requests have a token in both logs that is not the target's choice"
        )
    return "; ".join(parts)


def _triage_notes(cases: Sequence[doc.TriageCase], why: ExplanationResult) -> Iterator[str]:
    kinds = {case.kind for case in cases}
    if "verifier" in kinds:
        yield (
            f"verifier: what is left if none of {why.tried} explanations by caches, rows and "
            f"prompts fits most of the off tokens; one that was not tried may"
        )
    if why.open is not None and "unclear" in kinds:
        best = why.open
        yield (
            f"unclear: {best.name}: explains {best.fits} of {best.places} off tokens, but the best "
            f"of {why.tried} explanations would fit so well by chance with probability "
            f"{best.chance:.2g}: a log of more prompts may tell"
        )
    if any(cause.taken for cause in why.causes):
        yield (
            f"a cause is a guess: it is taken where the best of all that were tried would fit so "
            f"well by chance with probability {CAUSE_LEVEL:g} at most"
        )
    limits = sum(case.kind == "early stop" and case.fault is False for case in cases)
    if limits:
        yield (
            f"{limits:,} requests were cut at a limit by one log alone, which is no fault: "
            f"what the other emits behind it was held against the target too"
        )
    slots = [case.slot for case in cases if case.kind == "verifier" and case.slot is not None]
    if slots:
        last = sum(place + 1 == size for place, size in slots)
        yield f"verifier: {last:,} of {len(slots):,} off tokens are the last of their call"


_MIN_SPOTS_AFTER = 3


def _rejection_note(cases: Sequence[doc.TriageCase], logs: MatchedAnswers) -> Iterator[str]:
    """Say so if all off tokens come after a rejected draft, and by chance hardly would."""
    later, chance = 0, 1.0
    for case in cases:
        if case.side not in ("a", "b") or case.at is None or not case.fault:
            continue
        answer = logs.pairs[case.request - 1][case.side == "b"]
        if answer.calls is None:
            return
        first = _first_rejection_end(answer)
        if case.at < first:
            return
        later += 1
        chance *= 1.0 - min(first, len(answer.request.tokens)) / len(answer.request.tokens)
    if later >= _MIN_SPOTS_AFTER and chance <= CAUSE_LEVEL:
        yield (
            f"right until the first rejected draft, wrong after: all {later:,} off tokens come "
            f"after the first call that rejected one (by chance with probability {chance:.1g}): "
            f"state (recurrent, convolution, window or cache) may still hold what was rejected"
        )


def _first_rejection_end(answer: LoggedAnswer) -> int:
    """Return how many tokens came with or before the first call that rejected a draft."""
    calls = answer.calls or ()
    end = 0
    for number, emitted in enumerate(calls[:-1]):
        end += emitted
        # The first token of an answer comes without a draft.
        if emitted < max(calls) and not (number == 0 and emitted == 1):
            return end
    return len(answer.request.tokens)


# The whole triage.


MAX_CASES = 200  # in the document

TRIAGE_CLASSES: tuple[doc.TriageClass, ...] = get_args(doc.TriageClass)


@dataclass(frozen=True)
class TriageSource:
    """The names of the logs, the command that reads them again, and remarks on them.

    ``declared``: whether the precision was named. ``other``: loads the target in another one:
    float32 if it is coarser, bfloat16 if it is float32.
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
    """Say why two logs of greedy answers to the same requests differ.

    ``pair`` is the target that both should follow, at temperature 0; its draft counts if ``proxy``,
    as the engine's or near it. ``UsageError`` if no request is in both logs.
    """
    say, stamp = progress or (lambda _: None), start_meta()
    if not logs.pairs:
        raise UsageError("triage: no request is in both logs: expected answers to the same prompts")
    coarse = dtype_name(pair) != "float32"
    sides = [[both[k] for both in logs.pairs] for k in (0, 1)]
    tokens = sum(len(x.request.tokens) for x in chain(*sides))
    say(f"rescoring {tokens:,} tokens")
    other = source.other() if coarse else None
    paths = [score_requests([x.request for x in side], pair, other) for side in sides]
    both_paths = list(zip(paths[0], paths[1], strict=True))
    shift = _rounding_move(paths)
    radius = ROUNDING_FACTOR * shift
    outcomes = [
        classify_request(i, both, both_paths[i], radius, pair.eos)
        for i, both in enumerate(logs.pairs)
    ]
    if not coarse and not source.declared:
        say("rescoring in bfloat16 what is off, for what that precision would explain")
        outcomes = _classify_in_bfloat16(outcomes, logs, pair, source.other)
    greedy = [
        GreedyLog(side, p, [_draft_argmax(x, pair) for x in side] if proxy else None)
        for side, p in zip(sides, paths, strict=True)
    ]
    # What a coarser precision would explain may have a cause that explains it better.
    off = [one for one in outcomes if one.kind in (None, "precision")]
    say(f"looking for what explains {len(off):,} tokens")
    spots = []
    for one in off:
        log = greedy[one.side == "b"]
        assert one.at is not None
        token = log.answers[one.number].request.tokens[one.at]
        spots.append(OffToken(log, one.number, one.at, token, log.shared(one.number)))
    why = explain_spots(spots, greedy, pair, radius)
    taken = {one.number: why.taken.get(i) for i, one in enumerate(off)}
    causes = [taken.get(one.number) for one in outcomes]
    cases = [
        case_document(one, cause, why.open, both, path, pair)
        for one, cause, both, path in zip(outcomes, causes, logs.pairs, both_paths, strict=True)
        if one.kind != "same"
    ]
    ranks = {True: 0, None: 1, False: 2}
    cases.sort(key=lambda c: (ranks[c.fault], -TRIAGE_CLASSES.index(c.kind), -(c.gap or 0.0)))
    agreed, agreed_off = _agreement_counts(logs, paths, radius)
    verdict, findings, reason = triage_verdict(cases, agreed, agreed_off, radius)
    notes = [*_triage_notes(cases, why), *_rejection_note(cases, logs)]
    if verdict != "FAIL":  # a log of another model says nothing of faults
        notes, findings = [*notes, *findings], ()
    return doc.TriageRun(
        schema_version=doc.SCHEMA_VERSION,
        a=source.a,
        b=source.b,
        target=pair.target_name,
        draft=pair.draft_name if proxy else None,
        sha256=ids_sha256([answer.request for both in logs.pairs for answer in both]),
        requests=len(logs.pairs),
        alone_a=logs.alone_a,
        alone_b=logs.alone_b,
        tokens=tokens,
        device=str(pair.target_model.device),
        dtype=dtype_name(pair),
        declared=source.declared,
        moved=shift,
        radius=radius,
        due_numerics=_expected_partings(logs, paths),
        agreed=agreed,
        agreed_off=agreed_off,
        counts=_class_counts(cases, len(logs.pairs)),
        causes=why.causes,
        tried=why.tried,
        cases=tuple(cases[:MAX_CASES]),
        left_out=max(len(cases) - MAX_CASES, 0),
        verdict=verdict,
        certificate=_triage_certificate(len(logs.pairs)) if verdict == "PASS" else None,
        findings=findings,
        inconclusive=reason,
        notes=(*notes, *source.notes),
        reproduce=source.reproduce,
        meta=stamp(),
    )


def _rounding_move(paths: Paths) -> float:
    return max(float(path.moved.max()) for path in chain(*paths))


def _classify_in_bfloat16(
    outcomes: Sequence[RequestOutcome],
    logs: MatchedAnswers,
    pair: TransformerPair,
    load: Callable[[], TransformerPair],
) -> list[RequestOutcome]:
    """Judge what is off once more by the rounding of bfloat16, which nobody declared."""
    if not (off := [one.number for one in outcomes if one.kind is None]):
        return list(outcomes)
    other = load()
    again = [score_requests([logs.pairs[i][k].request for i in off], pair, other) for k in (0, 1)]
    radius = ROUNDING_FACTOR * _rounding_move(again)
    results = list(outcomes)
    for i, path_a, path_b in zip(off, *again, strict=True):
        judged = classify_request(i, logs.pairs[i], (path_a, path_b), radius, pair.eos)
        words = f"{radius:.2g} logits, as bfloat16 would move them, and not {dtype_name(pair)}"
        if judged.kind is not None and not judged.fault:
            judged = replace(results[i], kind="precision", fault=None, why=words)
        results[i] = judged
    return results


def _draft_argmax(answer: LoggedAnswer, pair: TransformerPair) -> Ints:
    request = answer.request
    rows = pair.cached(pair.draft_model, 1).feed([(*request.prompt, *request.tokens[:-1])])[0]
    return np.asarray(rows[-len(request.tokens) :].argmax(axis=1))


def _class_counts(cases: Sequence[doc.TriageCase], requests: int) -> tuple[doc.TriageCount, ...]:
    sizes = Counter(case.kind for case in cases)
    sizes["same"] = requests - len(cases)
    sides = Counter((case.kind, case.side) for case in cases)
    return tuple(
        doc.TriageCount(
            kind=kind,
            requests=sizes[kind],
            side_a=sides[kind, "a"],
            side_b=sides[kind, "b"],
            both=sides[kind, "both"],
        )
        for kind in TRIAGE_CLASSES
    )


def _agreement_counts(logs: MatchedAnswers, paths: Paths, radius: float) -> tuple[int, int]:
    """Count the tokens that both emit after the same ones, and those of them that are off."""
    agreed = off = 0
    for both, path in zip(logs.pairs, paths[0], strict=True):
        a, b = (answer.request for answer in both)
        if a.prompt == b.prompt:
            common = common_prefix_length(a.tokens, b.tokens) - ended_equally(both)
            agreed += common
            off += int((path.gap[:common] > radius).sum())
    return agreed, off


def _expected_partings(logs: MatchedAnswers, paths: Paths) -> float:
    """Bound the requests that part by rounding, on average, by how far it moved here.

    At each place of a request, up to where it parts, the share of all movements that are larger
    than the lead there; a request parts once.
    """
    moves = np.sort(np.concatenate([path.moved for path in chain(*paths)]))
    total = 0.0
    for (a, b), path in zip(logs.pairs, paths[0], strict=True):
        k = min(common_prefix_length(a.request.tokens, b.request.tokens) + 1, len(path.lead))
        larger = 1.0 - np.searchsorted(moves, path.lead[:k]) / len(moves)
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
