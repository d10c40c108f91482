"""An audit of emitted tokens, from the requests to the document."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simverify import results as doc
from simverify.battery.judgement import certificate_document, stamped, test_document
from simverify.emitted.begun import Begun
from simverify.emitted.judging.allowed import allowance, hides
from simverify.emitted.judging.evidence import OutputEvidence
from simverify.emitted.judging.judge import Judged, judge_evidence, shares_of
from simverify.emitted.judging.looks import crossing
from simverify.emitted.judging.notes import coarser, other_prompt, remarks
from simverify.emitted.judging.own_rows import own_rows, weights_failed
from simverify.emitted.judging.rounding import Rounding
from simverify.emitted.judging.worst import by_place
from simverify.emitted.law.documented import processing_of
from simverify.emitted.reading.requests import Request, first_tokens
from simverify.emitted.reading.textual import changed_tokens, text_words
from simverify.emitted.settings import POWER, OutputSettings
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair


@dataclass(frozen=True)
class Source:
    """Where requests come from: its ``name``, and the command that judges them again.

    ``endpoint``: whether a server was asked; ``notes``: remarks on what it answered. ``budget``:
    tokens that it might emit; ``spent``: whether they ended before there was enough.
    """

    name: str
    reproduce: str
    endpoint: bool = False
    notes: tuple[str, ...] = ()
    budget: int | None = None
    spent: bool = False


def audit_outputs(
    requests: Sequence[Request],
    pair: TransformerPair,
    source: Source,
    settings: OutputSettings | None = None,
    *,
    proxy: bool = False,
    begun: Begun | None = None,
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
    begun
        What was scored of the first requests while they came, by the same settings.

    Raises
    ------
    UsageError
        If there is no request, or a named ball is smaller than what rescoring shows.
    """
    settings, say, stamp = settings or OutputSettings(), progress or (lambda _: None), stamped()
    if not requests:
        raise UsageError("there is no request: give one or more")
    planned = settings.planned(proxy)
    kept = first_tokens(requests, planned)
    law = kept[0].judged_by(pair)
    text = _text(kept, pair, settings, proxy, say, told=source.endpoint)
    begun, n = begun or Begun(pair, settings, proxy, say), sum(len(r.tokens) for r in kept)
    begun.go_on(kept[begun.done :], n)
    begun.try_rounding(kept)
    found, fine = begun.found, begun.fine
    allowed = allowance(found, fine, text, settings.ball)
    share = shares_of(settings.alpha)["reported"]
    own = own_rows(found, kept, pair, allowed.ball.tv, share, fine)
    judged = judge_evidence(
        found, planned, settings.alpha, allowed.ball, settings.seed, allowed.words
    )
    hidden = hides(judged, allowed, found, kept, pair, planned, settings)
    shape, notes = hidden.shape, list(remarks(judged, found, kept, pair, proxy))
    if own is not None:
        notes += own.notes(weights_failed(judged))
    asks = judged.findings and settings.ball is None
    if asks and (alike := coarser(judged, found, kept, pair, planned, settings)):
        words, shape = alike
        notes.append(words)
    open_ = _open(judged, found, planned, text, settings, source)
    verdict: doc.Verdict = "FAIL" if judged.findings else "INCONCLUSIVE" if open_ else "PASS"
    if hidden.why and verdict == "PASS":
        verdict, open_ = "INCONCLUSIVE", hidden.why
    differing = [request for request in kept if request.differs is not None]
    if any(request.differs == "untold" for request in differing):
        verdict, open_ = "INCONCLUSIVE", other_prompt(differing, len(kept))
    elif differing:
        notes.append(other_prompt(differing, len(kept)))
    if text is not None and text.not_round_tripping:
        verdict = "INCONCLUSIVE"
    certificate = judged.certificate if own is None else own.widened(judged.certificate)

    def decode(ids: Sequence[int]) -> str:
        return str(pair.tokenizer.decode(ids, clean_up_tokenization_spaces=False))

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
        temperature=law.temperature,
        top_k=law.top_k,
        top_p=law.top_p,
        otherwise=sum(r.judged_by(pair) != law for r in kept),
        device=str(pair.target_model.device),
        dtype=str(pair.target_model.dtype).removeprefix("torch."),
        alpha=settings.alpha,
        detect=settings.detect,
        power=POWER,
        ball=allowed.ball.tv,
        ball_given=settings.ball is not None,
        ball_measured=allowed.measured.tv,
        hidden=hidden.findings,
        shape=None if shape is None else test_document(shape),
        rescoring=_rescoring(found, fine),
        text=text,
        stopped=begun.stopped,
        failed_from=crossing(
            found.snapshots, alpha=shares_of(settings.alpha)["looks"], ball=allowed.ball.tv
        ),
        budget=source.budget,
        seed=settings.seed,
        verdict=verdict,
        tests=tuple(test_document(test) for test in judged.tests),
        detectable=judged.detectable,
        deviation=judged.deviation,
        certificate=certificate_document(certificate) if verdict == "PASS" else None,
        findings=judged.findings,
        worst=found.tokens.documents(kept, decode) if verdict == "FAIL" else (),
        places=_places(judged, found, kept) if verdict == "FAIL" else (),
        inconclusive=open_ if verdict == "INCONCLUSIVE" else None,
        notes=(*notes, *source.notes),
        reproduce=source.reproduce,
        meta=stamp(),
        processing=processing_of(law),
        other_prompts=len(differing),
        longest_prompt=max(len(r.prompt) for r in kept),
        longest_answer=max(len(r.tokens) for r in kept),
        reported=None if own is None else own.document(share),
        weights=begun.powers(allowed.ball.tv) if verdict == "PASS" else (),
    )


def _places(
    judged: Judged, found: OutputEvidence, kept: Sequence[Request]
) -> tuple[doc.AtPlace, ...]:
    """Where the mean is off that says most against the target."""
    means = [test for test in judged.tests if test.name in found.deviations]
    worst = min(means, key=lambda test: test.log_pvalue).name
    return by_place(worst, found.deviations[worst], kept)


def _rescoring(found: OutputEvidence, fine: Rounding | None) -> doc.Rescoring:
    return doc.Rescoring(
        mean=found.distance / found.n,
        largest=found.worst,
        precision=None if fine is None else fine.tv,
        precision_tokens=0 if fine is None else fine.tokens,
        margin=found.margin,
    )


def _text(
    kept: Sequence[Request], pair: TransformerPair, settings: OutputSettings, proxy: bool,
    say: Callable[[str], None], *, told: bool,
) -> doc.Retokenised | None:  # fmt: skip
    given = [request for request in kept if request.from_text]
    if not given:
        return None
    say("text: the target writes for itself, as a control")
    drawn, changed = changed_tokens(given, pair, settings.seed)
    if not told:
        say(text_words(drawn, changed, settings, proxy))
    return doc.Retokenised(
        requests=len(given),
        not_round_tripping=sum(not request.round_trips for request in given),
        control_tokens=drawn,
        changed=changed,
    )


def _open(
    judged: Judged,
    found: OutputEvidence,
    planned: int,
    text: doc.Retokenised | None,
    settings: OutputSettings,
    source: Source,
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
    if source.spent:
        short = f"the budget of {source.budget:,} tokens ended first, {short}"
    why = "" if text is None or not text.changed else ", as texts do not tell their tokens"
    return (
        f"{short}power {POWER:g} against TV {judged.detectable:.2g} alone{why}, asked was "
        f"{settings.detect:g}"
    )


def _sha256(kept: Sequence[Request]) -> str:
    digest = hashlib.sha256()
    for request in kept:
        for ids in (request.prompt, request.tokens):
            digest.update((",".join(map(str, ids)) + "\n").encode())
    return digest.hexdigest()
