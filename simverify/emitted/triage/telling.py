"""Cases in words and texts, and the verdict of a triage."""

from collections.abc import Sequence
from dataclasses import dataclass

from simverify import results as doc
from simverify.emitted.triage.causes import LEVEL, Explained
from simverify.emitted.triage.places import Outcome
from simverify.emitted.triage.reading import Answer
from simverify.emitted.triage.scoring import Path
from simverify.models.real.transformer import TransformerPair

BEFORE, AFTER = 32, 16
"""Tokens of a case's text, before the token that is told and from it on."""

_AGREED = 0.01
"""Share of tokens on which both logs agree against the target, from which on it is not theirs."""


@dataclass(frozen=True)
class Ruling:
    """A verdict, and what it rests on."""

    verdict: doc.Verdict
    findings: tuple[str, ...]
    inconclusive: str | None
    notes: tuple[str, ...]


def case_of(
    one: Outcome, cause: doc.TriageCause | None, open_: doc.TriageCause | None,
    both: tuple[Answer, Answer], paths: tuple[Path, Path], pair: TransformerPair,
) -> doc.TriageCase:  # fmt: skip
    """Return the entry of a request; ``cause``: what explains its token, if it is off.

    ``open_``: what may explain it, where nobody can tell.
    """
    at, which = one.at, 1 if one.side == "b" else 0
    path, answer = paths[which], both[which]
    told = one.side is not None and at is not None
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
        gap=float(path.gap[place]) if told else None,
        rank=int(path.rank[place]) if told else None,
        cause=words,
        chance=chance,
        slot=answer.slot(place) if told else None,
        token_a=_token(a.tokens, at),
        token_b=_token(b.tokens, at),
        choice=int(path.top[place]) if at is not None and place < len(path.top) else None,
        before=_text((*answer.request.prompt, *answer.request.tokens[:place])[-BEFORE:], pair),
        text_a=_text(a.tokens[place : place + AFTER], pair),
        text_b=_text(b.tokens[place : place + AFTER], pair),
    )


def verdict_of(
    cases: Sequence[doc.TriageCase], counts: Sequence[doc.TriageCount], why: Explained,
    agreed: int, agreed_off: int, radius: float,
) -> Ruling:  # fmt: skip
    """Return the verdict: FAIL by a token of one side that is off, or by an end that differs."""
    findings = tuple(_findings(cases, radius))
    notes = tuple(_notes(cases, counts, why))
    if agreed_off > _AGREED * max(agreed, 1):
        told = (
            f"both logs agree on {agreed:,} tokens, and the target chooses others at "
            f"{agreed_off:,} of them: is --target the model of both, the prompt what they read, "
            f"and no penalty a default of theirs?"
        )
        return Ruling("INCONCLUSIVE", (), told, (*notes, *findings))
    if findings:
        return Ruling("FAIL", findings, None, notes)
    open_ = [case for case in cases if case.fault is None]
    if open_:
        return Ruling("INCONCLUSIVE", (), _open(open_), notes)
    return Ruling("PASS", (), None, notes)


def _findings(cases: Sequence[doc.TriageCase], radius: float) -> list[str]:
    found = []
    for kind in ("unclear", "verifier", "cache or rows", "template", "early stop"):
        own = [case for case in cases if case.kind == kind and case.fault]
        if not own:
            continue
        words = f"{kind}: {len(own):,} request{'s' * (len(own) > 1)}"
        if own[0].gap is not None:
            times = (
                f", {own[0].gap / radius:,.0f} times what rounding may come to" if radius else ""
            )
            words += f"; the worst is {own[0].gap:.3g} logits behind the target's choice{times}"
        first, *rest = dict.fromkeys(case.cause for case in own)
        words += f"; {first}" + (f", and {len(rest)} other causes" if rest else "")
        found.append(words)
    return found


def _open(cases: Sequence[doc.TriageCase]) -> str:
    of = {
        "precision": "part where bfloat16 would explain it and float32 does not: say --dtype "
        "bfloat16 if an engine computes in it, or --dtype float32 if none does",
        "text": "are off by tokens that are known by their text alone: log token ids",
        "early stop": "end early and do not say why: log finish_reason",
    }
    said = [
        f"{sum(case.kind == kind for case in cases):,} requests {words}"
        for kind, words in of.items()
        if any(case.kind == kind for case in cases)
    ]
    alike = sum(case.side == "both" and case.kind not in of for case in cases)
    if alike:
        said.append(f"{alike:,} requests have a token in both logs that is not the target's choice")
    return "; ".join(said)


def _notes(
    cases: Sequence[doc.TriageCase], counts: Sequence[doc.TriageCount], why: Explained
) -> list[str]:
    found = []
    if any(case.kind == "verifier" for case in cases):
        found.append(
            f"verifier: what is left where none of {why.tried} explanations by caches, rows and "
            f"prompts fits most of the off tokens; one that was not tried may"
        )
    if why.open is not None and any(case.kind == "unclear" for case in cases):
        best = why.open
        found.append(
            f"unclear: {best.name}: explains {best.fits} of {best.places} off tokens, but the best "
            f"of {why.tried} explanations would fit so well by chance with probability "
            f"{best.chance:.2g}: a log of more prompts may tell"
        )
    if any(cause.taken for cause in why.causes):
        found.append(
            f"a cause is a guess: it is taken where the best of all that were tried would fit so "
            f"well by chance with probability {LEVEL:g} at most"
        )
    limits = [case for case in cases if case.kind == "early stop" and case.fault is False]
    if limits:
        found.append(
            f"{len(limits):,} requests were cut at a limit by one log alone, which is no fault: "
            f"what the other emits behind it was held against the target too"
        )
    slots = [case.slot for case in cases if case.kind == "verifier" and case.slot is not None]
    if slots:
        last = sum(place + 1 == size for place, size in slots)
        found.append(f"verifier: {last:,} of {len(slots):,} off tokens are the last of their call")
    return found


def _token(tokens: Sequence[int], at: int | None) -> int | None:
    return tokens[at] if at is not None and at < len(tokens) else None


def _text(tokens: Sequence[int], pair: TransformerPair) -> str:
    text: str = pair.tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False)
    return text
