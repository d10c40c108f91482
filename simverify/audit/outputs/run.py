"""An audit of emitted tokens, from the requests to the document."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simverify import results as doc
from simverify.audit.documents import certificate_document, stamped, test_document
from simverify.audit.outputs.evidence import OutputEvidence
from simverify.audit.outputs.judge import Judged, detectable, judge_evidence, plan_tokens
from simverify.audit.outputs.requests import Request
from simverify.audit.outputs.rescoring import distances, other_precision, rescore
from simverify.audit.outputs.textual import changed_tokens
from simverify.errors import UsageError
from simverify.limits import MIN_ALPHA, MIN_DETECT
from simverify.models.transformer import TransformerPair

POWER = 0.9
TOKENS = 20_000
"""N by default, at least."""

MOST_TOKENS = 100_000_000

_DELTA = 1e-3
_LEAST_BALL = 1e-6
"""A ball below which nobody's float32 logits stay."""

_PRECISION_REQUESTS = 8


@dataclass(frozen=True)
class OutputSettings:
    """How emitted tokens are judged.

    ``tokens``: N, fixed beforehand; None: what ``detect`` needs, ``TOKENS`` or more. ``ball``:
    TV of the engine's own rows from the rescored ones, on average over contexts; None: twice
    what repeated rescoring shows.
    """

    tokens: int | None = None
    alpha: float = 1e-6
    detect: float = 0.04
    ball: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        rules = (
            ("tokens", self.tokens, self.tokens is None or 1 <= self.tokens <= MOST_TOKENS,
             f"1 to {MOST_TOKENS}"),
            ("alpha", self.alpha, MIN_ALPHA <= self.alpha < 1, f"{MIN_ALPHA:g} or more, below 1"),
            ("detect", self.detect, MIN_DETECT <= self.detect < 1,
             f"{MIN_DETECT:g} or more, below 1"),
            ("ball", self.ball, self.ball is None or 0 <= self.ball < 1, "0 or more, below 1"),
            ("seed", self.seed, 0 <= self.seed < 2**64, "0 to 2^64 - 1"),
        )  # fmt: skip
        for name, value, fits, expected in rules:
            if not fits:
                raise UsageError(f"{name} is {value}: expected {expected}")

    def planned(self, proxy: bool) -> int:
        """N: the tokens that are judged, and no more, whatever they say."""
        if self.tokens is not None:
            return self.tokens
        radius = self.ball or 0.0
        if self.detect <= 2 * radius + 1e-4:
            raise UsageError(
                f"detect is {self.detect:g} with a ball of {radius:g}: expected more than twice "
                f"the ball, and 1e-4"
            )
        wanted = max(plan_tokens(self.detect, self.alpha, radius, proxy), TOKENS)
        if wanted > MOST_TOKENS:
            raise UsageError(
                f"detect is {self.detect:g}: that takes {wanted:,} tokens, more than "
                f"{MOST_TOKENS:,}; ask for a larger deviation"
            )
        return wanted

    def plan(self, proxy: bool) -> str:
        """Say before anything is scored what will be judged, and what it can find."""
        n = self.planned(proxy)
        found = detectable(n, n, self.alpha, self.ball or 0.0, proxy)
        beside = "" if self.ball else ", and the ball that rescoring shows"
        return (
            f"plan: the first {n:,} tokens, request after request; false-alarm rate "
            f"{self.alpha:g}; power {POWER:g} against TV {found:.2g}{beside}"
        )


@dataclass(frozen=True)
class Source:
    """Where requests come from: its ``name``, and the command that judges them again."""

    name: str
    reproduce: str
    endpoint: bool = False


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
    judged = judge_evidence(found, planned, settings.alpha, min(ball, 0.999), settings.seed, _DELTA)
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
        notes=tuple(_notes(judged, found, kept, pair)),
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


def _notes(
    judged: Judged, found: OutputEvidence, kept: Sequence[Request], pair: TransformerPair
) -> list[str]:
    notes = []
    surprise = next((test for test in judged.tests if test.name == "score -log p"), None)
    if judged.findings and surprise is not None and surprise.rejected:
        side = "likelier" if surprise.statistic < 0 else "less likely"
        notes.append(
            f"the emitted tokens are {side} under the target than its own: -log p is off by "
            f"{surprise.statistic:+.3g} on average"
        )
    if found.near:
        notes.append(
            f"{found.near:,} tokens lie just outside the rescored top-k or top-p, within what "
            f"logits off by {found.margin:.2g} allow: counted as support"
        )
    unfinished = sum(request.unfinished for request in kept)
    if unfinished and pair.eos:
        notes.append(
            f"{unfinished:,} requests end without an end-of-sequence token and say no "
            f"finish_reason: taken as cut off by a limit"
        )
    return notes


def _sha256(kept: Sequence[Request]) -> str:
    digest = hashlib.sha256()
    for request in kept:
        for ids in (request.prompt, request.tokens):
            digest.update((",".join(map(str, ids)) + "\n").encode())
    return digest.hexdigest()
