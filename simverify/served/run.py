"""An audit of emitted tokens, from the requests to the document."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from simverify import results as doc
from simverify.arrays import Floats
from simverify.battery.battery import (
    certificate_document,
    pvalue_words,
    rejection_findings,
    start_meta,
    test_document,
)
from simverify.errors import UsageError
from simverify.models.distribution import processing_document, sampling_fields
from simverify.models.rounding import WEIGHT_FORMATS
from simverify.models.transformer import TransformerPair
from simverify.served.answer_faults import describe_faults
from simverify.served.counters import (
    CountedTokens,
    Counters,
    draft_acceptance,
    judge_counters,
)
from simverify.served.evidence import (
    COPY_TOKENS,
    REPORTED_TEST_NAME,
    OutputEvidence,
    WeightBets,
    add_sums,
    deviation_by_position,
    drafted_blocks,
    first_crossing,
    looks_log_evalue,
)
from simverify.served.judge import (
    POWER,
    ROUNDING_TOKENS,
    JudgedTokens,
    OutputSettings,
    OutputTestReport,
    PrecisionTrial,
    RunTolerance,
    blames_exact_weights,
    choose_tolerance,
    coarser_precision_note,
    count_changed_tokens,
    find_hidden_failures,
    judge_evidence,
    measure_rounding,
    prompt_mismatch_note,
    retokenisation_words,
    verdict_notes,
    weigh_reported_logprobs,
    without_weights,
)
from simverify.served.matrix import Alternative, CellComparison, RequestLogits
from simverify.served.requests import Request, independent_requests, limit_tokens
from simverify.served.rescore import (
    complete_batches,
    dtype_name,
    logits_before,
    request_batches,
    rescore,
)
from simverify.served.variants import SamplingVariant, asked_fields, explaining_variants

# Streaming evidence: requests are scored batch by batch and looked at as they come.


_TOLERANCE_GROWTH = 1.25  # the ball may still grow until a stopped run is judged
_EARLY_REQUESTS = (1, 2, 4, 8)
"""Requests after which reported log probabilities are looked at, before any batch is full."""

_REPORT_GROWTH = 1.5  # a look is reported at so many times the tokens of the last report


class StreamingEvidence:
    """The ``evidence`` of the first ``done`` requests, in the batches of the whole run."""

    def __init__(
        self,
        pair: TransformerPair,
        settings: OutputSettings,
        proxy: bool,
        say: Callable[[str], None],
    ) -> None:
        self.evidence, self.done = OutputEvidence(settings.seed, proxy), 0
        self.fine: PrecisionTrial | None = None
        self.stopped = False
        self._pair, self._settings, self._proxy, self._say = pair, settings, proxy, say
        self._planned, self._reported = settings.planned(proxy), 0
        self._weights = WeightBets(WEIGHT_FORMATS)
        self._coarse = dtype_name(pair) != "float32"

    def powers(self, ball: float) -> tuple[doc.FormatPower, ...]:
        """Return which rounded weights so many tokens would have shown."""
        return self._weights.powers(self._settings.shares["weights"], ball)

    def go_on(self, coming: Sequence[Request], total: int | None = None) -> None:
        """Score the next requests; with the ``total`` of tokens, report progress."""
        evidence, tenths = self.evidence, 0
        wanted = self._weights.wanted
        for scored in rescore(coming, self._pair, self._proxy, wanted, first=self.done):
            bets = self._weights.scored(scored, self._pair)
            evidence.weights = add_sums(evidence.weights, bets)
            evidence.add(scored)
            if total is not None and 10 * evidence.n // total > tenths:
                tenths = 10 * evidence.n // total
                self._say(f"rescored {evidence.n:,} of {total:,} tokens")
        self.done += len(coming)

    def try_rounding(self, requests: Sequence[Request]) -> None:
        """Score the first tokens in float32 too, if the target is coarser, once."""
        if self._coarse and self.fine is None:
            self._say("the first tokens in float32, for what the precision moves")
            self.fine = measure_rounding(requests, self._pair, self._proxy)
            # Together and alone a text may be computed alike here, and not on another machine.
            self.evidence.allow(self.fine.shift)

    def enough(self, requests: Sequence[Request]) -> bool:
        """Look at all requests so far; return whether the bets say FAIL, so that no more is needed.

        Texts are not looked at: their uncertainty outweighs every bet.
        """
        if self.stopped or requests[-1].from_text:
            return self.stopped
        paid = sum(len(request.tokens) for request in requests)
        if len(requests) in _EARLY_REQUESTS and self._by_values(requests):
            self.stopped = True
            self._say(
                f"look: log probabilities of {paid:,} tokens, which the engine reports itself, say "
                f"FAIL: stopped"
            )
            return True
        coming = limit_tokens(requests[self.done :], self._planned - self.evidence.n)
        ready = complete_batches(coming, self._pair.vocab_size)
        if not ready:
            return False
        self.go_on(coming[:ready])
        if self._coarse and self.evidence.n < ROUNDING_TOKENS:
            return False
        self.try_rounding(requests)
        needed = math.log(1.0 / self._settings.shares["looks"])
        allowed = choose_tolerance(self.evidence, self.fine, None, self._settings.ball)
        ball = min(_TOLERANCE_GROWTH * allowed.ball.tv, 0.999)
        log_e = looks_log_evalue(self.evidence.snapshots[-1], ball)
        self.stopped = log_e > needed
        if self.stopped or self.evidence.n >= _REPORT_GROWTH * self._reported:
            self._reported = self.evidence.n
            prompt_tokens = sum(len(request.prompt) for request in requests)
            self._say(
                f"look: {self.evidence.n:,} of {self._planned:,} tokens judged; {paid:,} emitted "
                f"and {prompt_tokens:,} of prompts paid for; log e {log_e:.1f}, FAIL from "
                f"{needed:.1f}" + (": stopped" if self.stopped else "")
            )
        return self.stopped

    def _by_values(self, requests: Sequence[Request]) -> bool:
        """Whether the reported values of the first tokens are enough to end the run.

        They are scored separately, as these requests may be less than a batch of the whole run.
        What a precision coarser than float32 moves is measured on the same requests.
        """
        pair, settings = self._pair, self._settings
        if all(request.logprobs is None for request in requests):
            return False
        rounding = measure_rounding(requests, pair, self._proxy) if self._coarse else None
        evidence = OutputEvidence(settings.seed, self._proxy)
        for scored in rescore(requests, pair, self._proxy):
            evidence.add(scored)
        least = choose_tolerance(evidence, rounding, None, None).ball.tv
        ball = min(_TOLERANCE_GROWTH * max(least, settings.ball or 0.0), 0.999)
        run = JudgedTokens(evidence, requests, pair, settings, rounding)
        reported = weigh_reported_logprobs(run, ball)
        if reported is None or not (reported.beyond and reported.values.tells):
            return False
        limit = min(_TOLERANCE_GROWTH * max(ball, reported.allowed), 0.999)
        return reported.values.test(settings.shares["reported"], limit).rejected


@dataclass(frozen=True)
class RequestSource:
    """The ``name`` of where requests come from, and the command that judges them again.

    ``endpoint``: whether a server was asked; ``notes``: remarks on its answers. ``budget``: tokens
    that it might emit; ``spent``: whether they ended before there were enough. ``counters``: the
    engine's own, of what it emitted for these requests.
    """

    name: str
    reproduce: str
    endpoint: bool = False
    notes: tuple[str, ...] = ()
    budget: int | None = None
    spent: bool = False
    counters: Counters | None = None


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

    ``requests`` are in an order fixed before they were answered, and none is left out; only the
    first N tokens are judged, the last request cut. ``pair``: the target with what the engine
    claims to sample; with ``proxy`` its draft, as a proxy for the engine's own, gives a third order
    and further scores. ``begun``: what was scored of the first requests while they came, by the
    same settings. ``UsageError`` if there is no request, or a named ball is smaller than what
    rescoring shows.
    """
    settings, say, stamp = settings or OutputSettings(), progress or (lambda _: None), start_meta()
    if not requests:
        raise UsageError("there is no request: give one or more")
    planned = settings.planned(proxy)
    emitted, independent = requests, independent_requests(requests, pair)
    requests = independent.requests
    selected = limit_tokens(requests, planned)
    law = selected[0].judged_by(pair)
    text = _retokenised_document(selected, pair, settings, proxy, say, source)
    begun = begun or StreamingEvidence(pair, settings, proxy, say)
    n = sum(len(r.tokens) for r in selected)
    begun.go_on(selected[begun.done :], n)
    begun.try_rounding(selected)
    evidence, fine = begun.evidence, begun.fine
    run = JudgedTokens(evidence, selected, pair, settings, fine)
    allowed = choose_tolerance(evidence, fine, text, settings.ball)
    ball = allowed.ball.tv
    reported = weigh_reported_logprobs(run, ball)
    judged = judge_evidence(evidence, settings, allowed.ball, allowed.words)
    copies = 0
    copied: tuple[str, ...] = ()
    if (chance := _copies_log_chance(judged)) is not None:
        say("answers that are no copies are judged by themselves")
        distinct = distinct_answers(selected)
        copies = len(selected) - len(distinct)
        are = "is a copy" if copies == 1 else "are copies"
        copied = (
            f"answers: {copies:,} of {len(selected):,} answers {are} of another: one seed for all "
            f"requests, or a cache? By chance that has probability {pvalue_words(chance)} at "
            f"most",
        )
        evidence, judged = judge_apart(distinct, run, judged, allowed)
        run = JudgedTokens(evidence, distinct, pair, settings, fine)
    hidden = find_hidden_failures(judged, allowed, run)
    shape, notes = hidden.shape, list(verdict_notes(judged, run))
    if independent.note is not None:
        notes.insert(0, independent.note)
    if reported is not None:
        rejected = [test.name for test in judged.tests if test.rejected]
        notes += reported.notes(REPORTED_TEST_NAME in rejected)
    if judged.findings and settings.ball is None and (alike := coarser_precision_note(judged, run)):
        words, shape = alike
        notes.append(words)
    contradictions, unsettled = describe_faults([request.faults for request in requests])
    if reported is not None and (denied := reported.values.finding()) is not None:
        contradictions = (*contradictions, denied)
    judged = replace(judged, findings=(*contradictions, *copied, *judged.findings))
    counters = None
    if source.counters is not None:
        whole = n == sum(len(request.tokens) for request in emitted)
        seen = CountedTokens(
            emitted=sum(len(request.tokens) for request in emitted),
            requests=len(emitted),
            restored=sum(request.restored for request in emitted),
            first=begun.evidence.first_drafts if whole else (),
            ball=ball,
        )
        counters = judge_counters(source.counters, seen)
        judged = replace(judged, findings=(*judged.findings, *counters.findings))
        notes += counters.notes
    acceptance = None
    if begun.evidence.first_drafts and any(request.slots is not None for request in selected):
        blocks = [drafted_blocks(request) for request in selected]
        acceptance = draft_acceptance(blocks, begun.evidence.first_drafts)
    open_ = unsettled[0] if unsettled else _open_reason(judged, run, text, source)
    if open_ is not None and independent.left_out:
        open_ = f"{independent.left_out:,} requests have the seed of an earlier one; {open_}"
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
    passed, failed = verdict == "PASS", verdict == "FAIL"
    excluded = evidence.unsupported > 0 or any(
        test.rejected and test.name in evidence.deviations for test in judged.tests
    )
    by_tokens = failed and any(
        test.rejected and not test.name.startswith("pairs") for test in judged.tests
    )
    by_tokens = by_tokens or (failed and evidence.unsupported > 0)
    explained = None
    if by_tokens:
        say("the tokens are compared with what else an engine may do")
        explained = explain_failure(run.requests, pair, settings, ball, excluded)
    if blames_exact_weights(judged, reported, bool(explained and explained.fits)):
        judged = replace(judged, findings=without_weights(judged.findings))
        notes = list(without_weights(notes))

    decode = partial(pair.tokenizer.decode, clean_up_tokenization_spaces=False)
    return doc.OutputRun(
        schema_version=doc.SCHEMA_VERSION,
        source=source.name,
        endpoint=source.endpoint,
        target=pair.target_name,
        proxy=pair.draft_name if proxy else None,
        sha256=ids_sha256(selected),
        vocab_size=pair.vocab_size,
        requests=len(selected),
        tokens=n,
        planned=planned,
        left_out=sum(len(r.tokens) for r in requests) - n,
        ended=sum(r.tokens[-1] in pair.eos for r in selected),
        restored=sum(r.restored and r.tokens[-1] in pair.eos for r in selected),
        unfinished=sum(r.unfinished for r in selected),
        near=evidence.near,
        unsupported=evidence.unsupported,
        **sampling_fields(law),
        otherwise=sum(r.judged_by(pair) != law for r in selected),
        device=str(pair.target_model.device),
        dtype=dtype_name(pair),
        alpha=settings.alpha,
        detect=settings.detect,
        power=POWER,
        ball=ball,
        ball_given=settings.ball is not None,
        ball_measured=allowed.measured.tv,
        hidden=hidden.findings,
        shape=None if shape is None else test_document(shape),
        rescoring=doc.Rescoring(
            mean=evidence.distance / evidence.n,
            largest=evidence.worst,
            precision=None if fine is None else fine.tv,
            precision_tokens=0 if fine is None else fine.tokens,
            margin=evidence.margin,
        ),
        text=text,
        stopped=begun.stopped,
        failed_from=first_crossing(
            begun.evidence.snapshots, alpha=settings.shares["looks"], ball=ball
        ),
        budget=source.budget,
        seed=settings.seed,
        verdict=verdict,
        tests=tuple(test_document(test) for test in judged.tests),
        detectable=judged.detectable,
        deviation=judged.deviation,
        certificate=certificate_document(certificate) if passed else None,
        findings=judged.findings,
        worst=evidence.tokens.documents(run.requests, decode) if by_tokens else (),
        places=_worst_places(judged, run) if by_tokens else (),
        inconclusive=open_ if verdict == "INCONCLUSIVE" else None,
        notes=(*notes, *source.notes),
        reproduce=source.reproduce,
        meta=stamp(),
        processing=processing_document(law),
        other_prompts=len(differing),
        longest_prompt=max(len(r.prompt) for r in selected),
        longest_answer=max(len(r.tokens) for r in selected),
        reported=None if reported is None else reported.document(settings.shares["reported"]),
        weights=begun.powers(ball) if passed else (),
        counters=counters,
        explained=explained,
        unsettled=unsettled,
        copies=copies,
        acceptance=acceptance,
        untested=_untested_parameters(selected, pair),
    )


_COPIES_TEST = "pairs, copies of"  # how the names of tests of copies begin


def _copies_log_chance(report: OutputTestReport) -> float | None:
    """Return the log p-value of copies among the answers; None if there are none but by chance."""
    tests = [one for one in report.tests if one.name.startswith(_COPIES_TEST) and one.rejected]
    return min((test.log_pvalue for test in tests), default=None)


def distinct_answers(requests: Sequence[Request]) -> list[Request]:
    """Leave out answers that begin as an earlier one to the same request, or the one before."""
    seen, distinct, before = set(), [], None
    for request in requests:
        head = request.tokens[:COPY_TOKENS]
        key = request.prompt, request.law, head
        if key not in seen and head != before:
            distinct.append(request)
        seen.add(key)
        before = head
    return distinct


def judge_apart(
    distinct: Sequence[Request], run: JudgedTokens, whole: OutputTestReport, allowed: RunTolerance
) -> tuple[OutputEvidence, OutputTestReport]:
    """Judge answers that are no copies, beside the tests of pairs of all answers.

    Copies count a token's deviation many times, so that a right one would be found wrong.
    """
    evidence = OutputEvidence(run.settings.seed, run.evidence.proxy)
    for scored in rescore(distinct, run.pair, evidence.proxy):
        evidence.add(scored)
    evidence.allow(0.0 if run.fine is None else run.fine.shift)
    evidence.reported.allowed = run.evidence.reported.allowed
    report = judge_evidence(evidence, run.settings, allowed.ball, allowed.words)
    pairs = [test for test in whole.tests if test.name.startswith("pairs")]
    tests = [*(test for test in report.tests if not test.name.startswith("pairs")), *pairs]
    support = [finding for finding in report.findings if finding.startswith("support")]
    findings = (*support, *rejection_findings(tests))
    return evidence, replace(report, tests=tuple(tests), findings=findings)


EXPLANATION_ALPHA = 1e-3
"""Rate at which what an engine does is wrongly excluded."""

_SMALLEST_LOG_PVALUE = -700.0  # any smaller is written as that

EXPLAINED_TOKENS = 4_096  # first tokens, which are compared with all variants


def explain_failure(
    requests: Sequence[Request],
    pair: TransformerPair,
    settings: OutputSettings,
    ball: float,
    excluded: bool,
) -> doc.Explained | None:
    """Return which other ways to sample the first tokens are consistent with.

    Each is tested by bets on all the others and by its PITs; the one that the engine follows is
    excluded at a rate of ``EXPLANATION_ALPHA`` at most. ``excluded``: whether what was asked for is
    excluded already. None where nothing excludes it, so that there is nothing to explain.
    """
    first = limit_tokens(requests, min(EXPLAINED_TOKENS, settings.planned(False)))
    laws = {request.judged_by(pair) for request in first}
    variants = explaining_variants(laws)

    def alternative(variant: SamplingVariant | None) -> Alternative:
        def rows(seen: RequestLogits) -> Floats:
            law, request = seen.request.judged_by(pair), seen.request
            if variant is None:
                return seen.p(law)
            return variant.rows(law, seen.target, request.prompt, request.tokens)

        if variant is None:
            return Alternative("honoured", "as asked", rows)
        return Alternative(variant.outcome, variant.words, rows)

    comparison = CellComparison([alternative(one) for one in (None, *variants)], settings.seed)
    for batch in request_batches(first, pair.vocab_size):
        group = first[batch.start : batch.stop]
        for request, logits in zip(
            group, logits_before(pair, pair.target_model, group), strict=True
        ):
            comparison.add(RequestLogits(request, logits, None))
    planned = min(EXPLAINED_TOKENS, settings.planned(False))
    compared = comparison.judge(EXPLANATION_ALPHA, ball, planned)
    asked, *others = compared.log_pvalues
    limit = math.log(EXPLANATION_ALPHA)
    if asked > limit and not excluded:
        return None
    log_p = {variant.words: p for variant, p in zip(variants, others, strict=True)}
    rest = [p for p in (asked, *others) if p <= limit]
    return doc.Explained(
        tokens=comparison.n,
        alpha=EXPLANATION_ALPHA,
        tried=len(variants) + 1,
        fits=tuple(
            doc.Explanation(words=words, pvalue=math.exp(log_p[words]))
            for _, words in compared.left
            if words in log_p
        ),
        rest_log_pvalue=max([_SMALLEST_LOG_PVALUE, *rest]),
    )


_BOUNDED = {"temperature", "top_k", "top_p", "min_p", "typical_p", "ends"}
"""Parameters that a PASS bounds: what else they make of a row is monotone in descending P."""


def _untested_parameters(requests: Sequence[Request], pair: TransformerPair) -> tuple[str, ...]:
    """Return the parameters that requests name and that a PASS states no bound for."""
    laws = {request.judged_by(pair) for request in requests}
    fields = set().union(*map(asked_fields, laws)) - _BOUNDED
    return tuple(sorted(field.replace("_", "-") for field in fields))


def _worst_places(report: OutputTestReport, run: JudgedTokens) -> tuple[doc.AtPlace, ...]:
    deviations = run.evidence.deviations
    means = [test for test in report.tests if test.name in deviations]
    worst = min(means, key=lambda test: test.log_pvalue).name
    return deviation_by_position(worst, deviations[worst], run.requests)


def _retokenised_document(
    kept: Sequence[Request],
    pair: TransformerPair,
    settings: OutputSettings,
    proxy: bool,
    say: Callable[[str], None],
    source: RequestSource,
) -> doc.Retokenised | None:
    if not (given := [request for request in kept if request.from_text]):
        return None
    say("text: the target writes for itself, as a control")
    drawn, changed = count_changed_tokens(given, pair, settings.seed)
    if not source.endpoint:  # it was said before the server was asked
        say(retokenisation_words(drawn, changed, settings, proxy))
    return doc.Retokenised(
        requests=len(given),
        not_round_tripping=sum(not request.round_trips for request in given),
        control_tokens=drawn,
        changed=changed,
    )


def _open_reason(
    report: OutputTestReport,
    run: JudgedTokens,
    text: doc.Retokenised | None,
    source: RequestSource,
) -> str | None:
    if text is not None and text.not_round_tripping:
        return (
            f"of {text.requests:,} texts {text.not_round_tripping:,} are not what their own "
            f"tokens spell, so that nobody knows what was emitted: give token ids"
        )
    if report.detectable <= run.settings.detect:
        return None
    n, planned = run.evidence.n, run.settings.planned(run.evidence.proxy)
    short = f"{n:,} of {planned:,} tokens are there: " if n < planned else ""
    if source.spent:
        short = f"the budget of {source.budget:,} tokens ended first, {short}"
    why = "" if text is None or not text.changed else ", as texts do not tell their tokens"
    return (
        f"{short}power {POWER:g} against TV {report.detectable:.2g} alone{why}, asked was "
        f"{run.settings.detect:g}"
    )


def ids_sha256(requests: Sequence[Request]) -> str:
    """Return the hash of the ids of requests, prompts and answers in turn."""
    digest = hashlib.sha256()
    for request in requests:
        for ids in (request.prompt, request.tokens):
            digest.update((",".join(map(str, ids)) + "\n").encode())
    return digest.hexdigest()
