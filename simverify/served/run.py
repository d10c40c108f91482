"""An audit of emitted tokens, from the requests to the document."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simverify import results as doc
from simverify.battery.battery import certificate_document, start_meta, test_document
from simverify.errors import UsageError
from simverify.models.rounding import WEIGHT_FORMATS
from simverify.models.transformer import TransformerPair
from simverify.served.distribution import processing_document
from simverify.served.evidence import (
    OutputEvidence,
    WeightBets,
    deviation_by_position,
    first_crossing,
    looks_log_evalue,
)
from simverify.served.judge import (
    POWER,
    ROUNDING_TOKENS,
    OutputSettings,
    OutputTestReport,
    PrecisionTrial,
    choose_tolerance,
    coarser_precision_note,
    count_changed_tokens,
    find_hidden_failures,
    judge_evidence,
    measure_rounding,
    prompt_mismatch_note,
    reported_test_failed,
    retokenisation_words,
    split_output_alpha,
    verdict_notes,
    weigh_reported_logprobs,
)
from simverify.served.requests import Request, limit_tokens
from simverify.served.rescore import complete_batches, rescore

# Streaming evidence: requests are scored batch by batch and looked at as they come.


_TOLERANCE_GROWTH = 1.25
"""By how much the ball may still grow, until a run that was stopped is judged."""

_EARLY_REQUESTS = (1, 2, 4, 8)
"""Requests after which reported log probabilities are looked at, before any batch is full."""

_REPORT_GROWTH = 1.5
"""A look is told when there are so many times the tokens of the one that was told before."""


class StreamingEvidence:
    """What is known of a run's first requests; ``found`` is the evidence of ``done`` of them.

    Batches are those of the whole run, so that it does not matter how often one looked.
    """

    def __init__(
        self,
        pair: TransformerPair,
        settings: OutputSettings,
        proxy: bool,
        say: Callable[[str], None],
    ) -> None:
        self.found, self.done = OutputEvidence(settings.seed, proxy), 0
        self.fine: PrecisionTrial | None = None
        self.stopped = False
        self._pair, self._settings, self._proxy, self._say = pair, settings, proxy, say
        self._planned, self._told = settings.planned(proxy), 0
        self._weights = WeightBets(WEIGHT_FORMATS)

    def powers(self, ball: float) -> tuple[doc.FormatPower, ...]:
        """Return which rounded weights so many tokens would have told."""
        return self._weights.powers(split_output_alpha(self._settings.alpha)["weights"], ball)

    def go_on(self, coming: Sequence[Request], due: int | None = None) -> None:
        """Score the next requests; of ``due`` tokens in all it is said how many are."""
        evidence, tenths = self.found, 0
        wanted = self._weights.wanted
        for scored in rescore(coming, self._pair, self._proxy, wanted, first=self.done):
            evidence.bet_on_weights(self._weights.scored(scored, self._pair))
            evidence.add(scored)
            if due is not None and 10 * evidence.n // due > tenths:
                tenths = 10 * evidence.n // due
                self._say(f"rescored {evidence.n:,} of {due:,} tokens")
        self.done += len(coming)

    def try_rounding(self, kept: Sequence[Request]) -> None:
        """Score the first tokens in float32 too, if the target is not, and that was not done."""
        if str(self._pair.target_model.dtype) != "torch.float32" and self.fine is None:
            self._say("the first tokens in float32, for what the precision moves")
            self.fine = measure_rounding(kept, self._pair, self._proxy)
            # Together and alone a text may be computed alike here, and not on another machine.
            self.found.allow(self.fine.shift)

    def enough(self, requests: Sequence[Request]) -> bool:
        """Look at all requests so far; return whether the bets say FAIL, so that no more is needed.

        Texts are not looked at: what they leave open outweighs every bet.
        """
        if self.stopped or requests[-1].from_text:
            return self.stopped
        if len(requests) in _EARLY_REQUESTS and self._by_values(requests):
            self.stopped = True
            self._say(
                f"look: log probabilities of {sum(len(own.tokens) for own in requests):,} tokens, "
                f"which the engine reports itself, say FAIL: stopped"
            )
            return True
        coming = limit_tokens(requests[self.done :], self._planned - self.found.n)
        ready = complete_batches(coming, self._pair.vocab_size)
        if not ready:
            return False
        self.go_on(coming[:ready])
        coarse = str(self._pair.target_model.dtype) != "torch.float32"
        if coarse and self.found.n < ROUNDING_TOKENS:
            return False
        self.try_rounding(requests)
        alpha = split_output_alpha(self._settings.alpha)["looks"]
        allowed = choose_tolerance(self.found, self.fine, None, self._settings.ball)
        ball = min(_TOLERANCE_GROWTH * allowed.ball.tv, 0.999)
        log_e, needed = looks_log_evalue(self.found.snapshots[-1], ball), math.log(1.0 / alpha)
        self.stopped = log_e > needed
        if self.stopped or self.found.n >= _REPORT_GROWTH * self._told:
            self._told = self.found.n
            paid = sum(len(request.tokens) for request in requests)
            prompt_tokens = sum(len(request.prompt) for request in requests)
            self._say(
                f"look: {self.found.n:,} of {self._planned:,} tokens judged; {paid:,} emitted and "
                f"{prompt_tokens:,} of prompts paid for; log e {log_e:.1f}, FAIL from {needed:.1f}"
                + (": stopped" if self.stopped else "")
            )
        return self.stopped

    def _by_values(self, requests: Sequence[Request]) -> bool:
        """Whether what the engine says of its first tokens is enough to end the run.

        Scored for itself, as these requests may be less than a batch of the whole run. What a
        precision that is coarser than float32 moves is measured on the same requests.
        """
        pair, settings = self._pair, self._settings
        if all(request.logprobs is None for request in requests):
            return False
        coarse = str(pair.target_model.dtype) != "torch.float32"
        rounding = measure_rounding(requests, pair, self._proxy) if coarse else None
        evidence = OutputEvidence(settings.seed, self._proxy)
        for scored in rescore(requests, pair, self._proxy):
            evidence.add(scored)
        share = split_output_alpha(settings.alpha)["reported"]
        least = choose_tolerance(evidence, rounding, None, None).ball.tv
        ball = min(_TOLERANCE_GROWTH * max(least, settings.ball or 0.0), 0.999)
        reported = weigh_reported_logprobs(evidence, requests, pair, ball, share, rounding)
        if reported is None or not (reported.beyond and reported.said.tells):
            return False
        return reported.said.test(
            share, min(_TOLERANCE_GROWTH * max(ball, reported.allowed), 0.999)
        ).rejected


@dataclass(frozen=True)
class RequestSource:
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
    source: RequestSource,
    settings: OutputSettings | None = None,
    *,
    proxy: bool = False,
    begun: StreamingEvidence | None = None,
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
    settings, say, stamp = settings or OutputSettings(), progress or (lambda _: None), start_meta()
    if not requests:
        raise UsageError("there is no request: give one or more")
    planned = settings.planned(proxy)
    selected = limit_tokens(requests, planned)
    law = selected[0].judged_by(pair)
    text = _retokenised_document(selected, pair, settings, proxy, say, told=source.endpoint)
    begun, n = (
        begun or StreamingEvidence(pair, settings, proxy, say),
        sum(len(r.tokens) for r in selected),
    )
    begun.go_on(selected[begun.done :], n)
    begun.try_rounding(selected)
    evidence, fine = begun.found, begun.fine
    allowed = choose_tolerance(evidence, fine, text, settings.ball)
    share = split_output_alpha(settings.alpha)["reported"]
    reported = weigh_reported_logprobs(evidence, selected, pair, allowed.ball.tv, share, fine)
    judged = judge_evidence(
        evidence, planned, settings.alpha, allowed.ball, settings.seed, allowed.words
    )
    hidden = find_hidden_failures(judged, allowed, evidence, selected, pair, planned, settings)
    shape, notes = hidden.shape, list(verdict_notes(judged, evidence, selected, pair, proxy))
    if reported is not None:
        notes += reported.notes(reported_test_failed(judged))
    asks = judged.findings and settings.ball is None
    if asks and (
        alike := coarser_precision_note(judged, evidence, selected, pair, planned, settings)
    ):
        words, shape = alike
        notes.append(words)
    open_ = _open_reason(judged, evidence, planned, text, settings, source)
    verdict: doc.Verdict = "FAIL" if judged.findings else "INCONCLUSIVE" if open_ else "PASS"
    if hidden.why and verdict == "PASS":
        verdict, open_ = "INCONCLUSIVE", hidden.why
    differing = [request for request in selected if request.differs is not None]
    if any(request.differs == "untold" for request in differing):
        verdict, open_ = "INCONCLUSIVE", prompt_mismatch_note(differing, len(selected))
    elif differing:
        notes.append(prompt_mismatch_note(differing, len(selected)))
    if text is not None and text.not_round_tripping:
        verdict = "INCONCLUSIVE"
    certificate = judged.certificate if reported is None else reported.widened(judged.certificate)

    def decode(ids: Sequence[int]) -> str:
        return str(pair.tokenizer.decode(ids, clean_up_tokenization_spaces=False))

    return doc.OutputRun(
        schema_version=doc.SCHEMA_VERSION,
        source=source.name,
        endpoint=source.endpoint,
        target=pair.target_name,
        proxy=pair.draft_name if proxy else None,
        sha256=_requests_sha256(selected),
        vocab_size=pair.vocab_size,
        requests=len(selected),
        tokens=evidence.n,
        planned=planned,
        left_out=sum(len(r.tokens) for r in requests) - n,
        ended=sum(r.tokens[-1] in pair.eos for r in selected),
        restored=sum(r.restored and r.tokens[-1] in pair.eos for r in selected),
        unfinished=sum(r.unfinished for r in selected),
        near=evidence.near,
        unsupported=evidence.unsupported,
        temperature=law.temperature,
        top_k=law.top_k,
        top_p=law.top_p,
        otherwise=sum(r.judged_by(pair) != law for r in selected),
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
        rescoring=_rescoring_document(evidence, fine),
        text=text,
        stopped=begun.stopped,
        failed_from=first_crossing(
            evidence.snapshots,
            alpha=split_output_alpha(settings.alpha)["looks"],
            ball=allowed.ball.tv,
        ),
        budget=source.budget,
        seed=settings.seed,
        verdict=verdict,
        tests=tuple(test_document(test) for test in judged.tests),
        detectable=judged.detectable,
        deviation=judged.deviation,
        certificate=certificate_document(certificate) if verdict == "PASS" else None,
        findings=judged.findings,
        worst=evidence.tokens.documents(selected, decode) if verdict == "FAIL" else (),
        places=_worst_places(judged, evidence, selected) if verdict == "FAIL" else (),
        inconclusive=open_ if verdict == "INCONCLUSIVE" else None,
        notes=(*notes, *source.notes),
        reproduce=source.reproduce,
        meta=stamp(),
        processing=processing_document(law),
        other_prompts=len(differing),
        longest_prompt=max(len(r.prompt) for r in selected),
        longest_answer=max(len(r.tokens) for r in selected),
        reported=None if reported is None else reported.document(share),
        weights=begun.powers(allowed.ball.tv) if verdict == "PASS" else (),
    )


def _worst_places(
    judged: OutputTestReport, found: OutputEvidence, kept: Sequence[Request]
) -> tuple[doc.AtPlace, ...]:
    """Where the mean is off that says most against the target."""
    means = [test for test in judged.tests if test.name in found.deviations]
    worst = min(means, key=lambda test: test.log_pvalue).name
    return deviation_by_position(worst, found.deviations[worst], kept)


def _rescoring_document(found: OutputEvidence, fine: PrecisionTrial | None) -> doc.Rescoring:
    return doc.Rescoring(
        mean=found.distance / found.n,
        largest=found.worst,
        precision=None if fine is None else fine.tv,
        precision_tokens=0 if fine is None else fine.tokens,
        margin=found.margin,
    )


def _retokenised_document(
    kept: Sequence[Request],
    pair: TransformerPair,
    settings: OutputSettings,
    proxy: bool,
    say: Callable[[str], None],
    *,
    told: bool,
) -> doc.Retokenised | None:
    given = [request for request in kept if request.from_text]
    if not given:
        return None
    say("text: the target writes for itself, as a control")
    drawn, changed = count_changed_tokens(given, pair, settings.seed)
    if not told:
        say(retokenisation_words(drawn, changed, settings, proxy))
    return doc.Retokenised(
        requests=len(given),
        not_round_tripping=sum(not request.round_trips for request in given),
        control_tokens=drawn,
        changed=changed,
    )


def _open_reason(
    judged: OutputTestReport,
    found: OutputEvidence,
    planned: int,
    text: doc.Retokenised | None,
    settings: OutputSettings,
    source: RequestSource,
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


def _requests_sha256(kept: Sequence[Request]) -> str:
    digest = hashlib.sha256()
    for request in kept:
        for ids in (request.prompt, request.tokens):
            digest.update((",".join(map(str, ids)) + "\n").encode())
    return digest.hexdigest()
