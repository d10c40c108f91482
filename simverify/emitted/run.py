"""An audit of emitted tokens, from the requests to the document."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simverify import results as doc
from simverify.battery.judgement import certificate_document, stamped, test_document
from simverify.emitted.evidence import OutputEvidence
from simverify.emitted.judge import Judged, judge_evidence
from simverify.emitted.notes import remarks
from simverify.emitted.requests import Request
from simverify.emitted.rescoring import distances, other_precision, rescore
from simverify.emitted.settings import POWER, OutputSettings
from simverify.emitted.textual import changed_tokens
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

_LEAST_BALL = 1e-6
"""A ball below which nobody's float32 logits stay."""

_PRECISION_REQUESTS = 8

_OWN = ", which is what computing them again here shows: it takes the engine to round alike"


@dataclass(frozen=True)
class Source:
    """Where requests come from: its ``name``, and the command that judges them again.

    ``endpoint``: whether a server was asked; ``notes``: remarks on what it answered.
    """

    name: str
    reproduce: str
    endpoint: bool = False
    notes: tuple[str, ...] = ()


def audit_outputs(
    requests: Sequence[Request],
    pair: TransformerPair,
    source: Source,
    settings: OutputSettings | None = None,
    *,
    proxy: bool = False,
    progress: Callable[[str], None] | None = None,
) -> doc.OutputRun:
    """Judge whether tokens that another engine emitted follow the target.

    Parameters
    ----------
    requests
        In an order fixed before they were answered, none left out; only the first N tokens
        are judged, the last request cut.
    pair
        The target with the law that the engine claims to sample; its draft is a proxy for the
        engine's own, which ``proxy`` says to use for a third order and further scores.

    Raises
    ------
    UsageError
        If there is no request, or a named ball is smaller than what rescoring shows.
    """
    settings, say, stamp = settings or OutputSettings(), progress or (lambda _: None), stamped()
    if not requests:
        raise UsageError("there is no request: give one or more")
    planned = settings.planned(proxy)
    kept = _first(requests, planned)
    found, n = OutputEvidence(settings.seed, proxy), sum(len(r.tokens) for r in kept)
    said = 0
    for scored in rescore(kept, pair, proxy):
        found.add(scored)
        if 10 * found.n // n > said:
            said = 10 * found.n // n
            say(f"rescored {found.n:,} of {n:,} tokens")
    rescoring = _rescoring(found, kept, pair)
    text = _text(kept, pair, settings.seed, say)
    shown = _shown(rescoring, text)
    ball = max(2.0 * shown, _LEAST_BALL) if settings.ball is None else settings.ball
    if ball < shown:
        raise UsageError(
            f"ball is {ball:g}: the same rows differ by {shown:.2g} on average when they are "
            f"computed again: name more, or none"
        )
    judged = judge_evidence(
        found, planned, settings.alpha, min(ball, 0.999), settings.seed,
        _OWN if settings.ball is None else ", as declared",
    )  # fmt: skip
    open_ = _open(judged, found, planned, text, settings)
    verdict: doc.Verdict = "FAIL" if judged.findings else "INCONCLUSIVE" if open_ else "PASS"
    if text is not None and text.not_round_tripping:
        verdict = "INCONCLUSIVE"
    return doc.OutputRun(
        schema_version=doc.SCHEMA_VERSION,
        source=source.name,
        endpoint=source.endpoint,
        target=pair.target_name,
        proxy=pair.draft_name if proxy else None,
        sha256=_sha256(kept),
        vocab_size=pair.vocab_size,
        requests=len(kept),
        tokens=found.n,
        planned=planned,
        left_out=sum(len(r.tokens) for r in requests) - n,
        ended=sum(r.tokens[-1] in pair.eos for r in kept),
        restored=sum(r.restored and r.tokens[-1] in pair.eos for r in kept),
        unfinished=sum(r.unfinished for r in kept),
        near=found.near,
        unsupported=found.unsupported,
        temperature=pair.sampling.temperature,
        top_k=pair.sampling.top_k,
        top_p=pair.sampling.top_p,
        device=str(pair.target_model.device),
        dtype=str(pair.target_model.dtype).removeprefix("torch."),
        alpha=settings.alpha,
        detect=settings.detect,
        power=POWER,
        ball=ball,
        ball_given=settings.ball is not None,
        rescoring=rescoring,
        text=text,
        seed=settings.seed,
        verdict=verdict,
        tests=tuple(test_document(test) for test in judged.tests),
        detectable=judged.detectable,
        deviation=judged.deviation,
        certificate=certificate_document(judged.certificate) if verdict == "PASS" else None,
        findings=judged.findings,
        inconclusive=open_ if verdict == "INCONCLUSIVE" else None,
        notes=(*remarks(judged, found, kept, pair, planned, settings), *source.notes),
        reproduce=source.reproduce,
        meta=stamp(),
    )


def _first(requests: Sequence[Request], planned: int) -> list[Request]:
    """Cut the requests after ``planned`` tokens, whatever they are."""
    kept, room = [], planned
    for request in requests:
        if not room:
            break
        cut = replace(request, tokens=request.tokens[:room])
        if len(cut.tokens) < len(request.tokens):
            cut = replace(cut, unfinished=False)
        kept.append(cut)
        room -= len(cut.tokens)
    return kept


def _rescoring(
    found: OutputEvidence, kept: Sequence[Request], pair: TransformerPair
) -> doc.Rescoring:
    tried = kept[:_PRECISION_REQUESTS]
    fine = other_precision(tried, pair)
    off = [
        distances(scored.p, rows)
        for scored, rows in zip(rescore(tried, pair, False) if fine else (), fine, strict=True)
    ]
    every = np.concatenate(off) if off else np.zeros(0)
    return doc.Rescoring(
        mean=found.distance / found.n,
        largest=found.worst,
        precision=float(every.mean()) if off else None,
        precision_tokens=len(every),
        margin=found.margin,
    )


def _text(
    kept: Sequence[Request], pair: TransformerPair, seed: int, say: Callable[[str], None]
) -> doc.Retokenised | None:
    given = [request for request in kept if request.from_text]
    if not given:
        return None
    say("text: the target writes for itself, as a control")
    drawn, changed = changed_tokens(given, pair, seed)
    return doc.Retokenised(
        requests=len(given),
        not_round_tripping=sum(not request.round_trips for request in given),
        control_tokens=drawn,
        changed=changed,
    )


def _shown(rescoring: doc.Rescoring, text: doc.Retokenised | None) -> float:
    """Mean TV by which rows are seen to move, and tokens of texts to be others."""
    rounding = max(rescoring.mean, rescoring.precision or 0.0)
    return rounding + (text.changed / text.control_tokens if text else 0.0)


def _open(
    judged: Judged,
    found: OutputEvidence,
    planned: int,
    text: doc.Retokenised | None,
    settings: OutputSettings,
) -> str | None:
    """Why there is no verdict, if there is none."""
    if text is not None and text.not_round_tripping:
        return (
            f"of {text.requests:,} texts {text.not_round_tripping:,} are not what their own "
            f"tokens spell, so that nobody knows what was emitted: give token ids"
        )
    if judged.detectable <= settings.detect:
        return None
    short = f"{found.n:,} of {planned:,} tokens are there: " if found.n < planned else ""
    return (
        f"{short}power {POWER:g} against TV {judged.detectable:.2g} alone, asked was "
        f"{settings.detect:g}"
    )


def _sha256(kept: Sequence[Request]) -> str:
    digest = hashlib.sha256()
    for request in kept:
        for ids in (request.prompt, request.tokens):
            digest.update((",".join(map(str, ids)) + "\n").encode())
    return digest.hexdigest()
