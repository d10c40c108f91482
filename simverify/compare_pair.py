"""A comparison on a pair of real models: every verifier decodes, is judged and timed."""

import hashlib
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from simverify import results as doc
from simverify import stats
from simverify.audit.documents import (
    certificate_document,
    faults_document,
    finite,
    stamped,
    suspect_document,
    test_document,
)
from simverify.audit.output import certify_output, judge_output, output_tokens
from simverify.audit.shares import output_shares
from simverify.errors import UsageError
from simverify.models.transformer import TransformerPair
from simverify.simulators.decoding.emitted import Emitted
from simverify.simulators.decoding.expected import RULES, Interval
from simverify.simulators.decoding.judges import judges
from simverify.simulators.decoding.loop import Clock, Job, decode, plain
from simverify.simulators.latency import predicted_speedup
from simverify.verifiers import Verifier, get_verifier

CONFIDENCE = 0.999
POWER = 0.9
DETECT = 0.04
"""Deviation that a run on real models is to find: they are too slow for a simulation's .01."""

TOKENS = 20_000
"""Fewest emitted tokens a verifier by default: enough for the acceptance test as well."""

_DELTA = 1e-3
_WORDS: dict[doc.Verdict, str] = {
    "PASS": "accepts as the declared rule does",
    "FAIL": "not the declared rule",
    "INCONCLUSIVE": "too few blocks to tell it from other rules",
}


def compare_pair(
    pair: TransformerPair,
    prompts: Sequence[str],
    verifiers: Sequence[str] = ("token", "block", "greedy"),
    *,
    gamma: int,
    tokens: int | None = None,
    lanes: int = 32,
    request_tokens: int = 128,
    cost_ratio: float = 0.1,
    alpha: float = 1e-6,
    detect: float = DETECT,
    seed: int = 0,
    prompts_file: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.CompareRun:
    """Decode the prompts with every verifier, judge the tokens, and time it against no draft.

    Parameters
    ----------
    pair
        Target, draft, tokenizer and sampling (:func:`~simverify.models.load_pair`).
    prompts
        Texts; lanes take them in turn, over and over.
    verifiers
        Of token, block, greedy and match.
    gamma
        Draft length.
    tokens
        Emitted tokens a verifier; by default as many as the promised power needs.
    lanes
        Requests decoded side by side, 2 or more.
    request_tokens
        Most new tokens of one request; fewer where the context is short.
    cost_ratio
        Time of a draft token over that of a target call, for the model of the result; what
        was measured stands beside it.
    alpha, detect
        As in :func:`simverify.compare`; the deviation is of the kind that the result names.
    seed
        Of all draws. Batches of another size round otherwise and may emit other tokens.
    prompts_file
        Path of the prompts, for the document.

    Raises
    ------
    UsageError
        If a value is out of range, a verifier is unknown, or a prompt is too long.
    """
    if not prompts:
        raise UsageError("there is no prompt: give one or more")
    rules = [_rule_iv(get_verifier(name)) for name in verifiers]
    share = alpha / len(rules)
    wanted = max(output_tokens(detect, share), TOKENS) if tokens is None else tokens
    _numbers_iv(gamma, wanted, lanes, request_tokens)
    texts = tuple(tuple(pair.encode(text)) for text in prompts)
    job = Job(
        prompts=texts, gamma=gamma, lanes=lanes, lane_tokens=-(-wanted // lanes),
        request_tokens=min(request_tokens, _room(pair, texts, gamma)), seed=seed,
    )  # fmt: skip
    say, stamp = progress or (lambda _: None), stamped()
    say(f"{pair.name}: the target alone")
    alone = plain(pair, job)
    rows, timings, latencies, coupling = [], [], [], None
    runs: dict[str, Emitted] = {}
    for rule in rules:
        say(f"{pair.name}: {rule.name}")
        seen = runs[rule.name] = Emitted(job, rule)
        clock = decode(pair, job, judges(rule), seen)
        baseline = runs.get("token")
        row = _row(pair, rule, job, seen, share, detect, cost_ratio, baseline)
        rows.append(row)
        coupling = coupling or _expected(_worth(seen, job, "greedy"))
        timings.append(_timing(row, clock))
        latencies.append(_latency(row, clock, alone, gamma))
    assert coupling is not None
    info = doc.ModelInfo(
        name=pair.name, given=None, vocab_size=pair.vocab_size,
        bounds=doc.Bounds(coupling=coupling), file_sha256=None, draft_distance=None,
        temperature=None, corpus_sha256=None, target_perplexity=None, draft_perplexity=None,
    )  # fmt: skip
    return doc.CompareRun(
        schema_version=doc.SCHEMA_VERSION,
        seed=seed,
        gamma=gamma,
        blocks=None,
        alpha=alpha,
        detect=detect,
        power=POWER,
        eos=min(pair.eos) if pair.eos else None,
        verdict=doc.overall([row.verdict for row in rows]),
        results=tuple(rows),
        models=(info,),
        decoding=doc.Decoding(
            target=pair.target_name,
            draft=pair.draft_name,
            prompts=prompts_file,
            prompts_sha256=hashlib.sha256("\0".join(prompts).encode()).hexdigest(),
            tokens=job.lanes * job.lane_tokens,
            lanes=lanes,
            request_tokens=job.request_tokens,
            temperature=pair.sampling.temperature,
            top_k=pair.sampling.top_k,
            top_p=pair.sampling.top_p,
            device=str(pair.target_model.device),
            dtype=str(pair.target_model.dtype).removeprefix("torch."),
        ),
        meta=msgspec.structs.replace(stamp(), timings=tuple(timings), latencies=tuple(latencies)),
    )


def _row(
    pair: TransformerPair,
    rule: Verifier,
    job: Job,
    seen: Emitted,
    share: float,
    detect: float,
    cost_ratio: float,
    baseline: Emitted | None,
) -> doc.CompareResult:
    """Judge one verifier's tokens and acceptance."""
    found = seen.features
    judged = judge_output(found, share)
    lossless = doc.Lossless(
        verdict=judged.verdict(detect),
        tier="output",
        max_abs_deviation=None,
        tv=None,
        exact=None,
        tests=tuple(test_document(test) for test in judged.tests),
        detectable=finite(judged.detectable),
        deviation=judged.deviation,
        beside=(),
        certificate=certificate_document(certify_output(found, _DELTA)),
        faults=faults_document(judged.named),
        localisation=suspect_document(judged.located),
        findings=judged.findings,
    )
    acceptance = _acceptance(seen, job.gamma, output_shares(share)["acceptance"], detect)
    expected = _expected(_worth(seen, job, rule.name))
    coupling = rule.contract == "step"
    optimum = _worth(seen, job, "greedy" if coupling else "block").mean
    tau = seen.worth.interval(_picked(job, None), CONFIDENCE)
    curve = [
        seen.worth.interval(_picked(job, rule.name, level), CONFIDENCE)
        for level in range(job.gamma)
    ]
    # The debt of a rule with state is paid in later calls, so its whole generation counts.
    kept = tau.mean if coupling else _worth(seen, job, rule.name).mean
    return doc.CompareResult(
        model=pair.name,
        verifier=rule.name,
        gamma=job.gamma,
        vocab_size=pair.vocab_size,
        verdict=doc.overall([lossless.verdict, acceptance.verdict]),
        expected_accepted=expected,
        measured=doc.Measured(
            mean=tau.mean, ci_low=tau.low, ci_high=tau.high, confidence=CONFIDENCE,
            blocks=seen.worth.blocks,
        ),
        block_efficiency=kept + 1.0,
        optimum=doc.Optimum(name="coupling" if coupling else "block", expected_accepted=optimum),
        optimality=_worth(seen, job, rule.name).mean / optimum if optimum > 0 else 1.0,
        lossless=lossless,
        acceptance=acceptance,
        acceptance_ccdf=doc.Curve(
            exact=None,
            lower=tuple(max(level.low, 0.0) for level in curve),
            upper=tuple(min(level.high, 1.0) for level in curve),
            measured=tuple((seen.tails / seen.worth.blocks).tolist()),
        ),
        speedup=doc.Speedup(
            cost_ratio=cost_ratio, predicted=predicted_speedup(kept, job.gamma, cost_ratio)
        ),
        calls=(),
        paired=None if baseline is None or rule.name == "token" else _paired(baseline, job, rule),
    )  # fmt: skip


def _acceptance(seen: Emitted, gamma: int, alpha: float, detect: float) -> doc.Acceptance:
    """Test the tau of every block against its law, which coins alone leave open."""
    values = np.arange(gamma + 1)
    laws = np.array(seen.laws)
    sums = stats.score_sums_of_contexts(
        (values == np.array(seen.taus)[:, None]).astype(np.int64),
        laws / laws.sum(axis=1, keepdims=True),
        np.broadcast_to(values.astype(np.float64), laws.shape),
    )
    test = stats.score_test(sums, alpha=alpha, name="accepted tokens of a first call")
    each = test.min_detectable / gamma
    verdict: doc.Verdict = "FAIL" if test.rejected else "PASS" if each <= detect else "INCONCLUSIVE"
    finding = f"accepts {test.statistic:+.3g} tokens a call more than it should, {test.n:,} blocks"
    return doc.Acceptance(
        verdict=verdict,
        words=_WORDS[verdict],
        tests=(test_document(test),),
        detectable=finite(each),
        deviation="shift of E[tau] / gamma",
        findings=(finding,) if test.rejected else (),
    )


def _picked(job: Job, rule: str | None, level: int | None = None) -> list[float]:
    """Weights of what :class:`Emitted` keeps: a rule's curve, one level of it, or tau (None)."""
    weights = np.zeros(len(RULES) * job.gamma + 1)
    if rule is None:
        weights[-1] = 1.0
        return weights.tolist()
    first = RULES.index(rule) * job.gamma
    weights[first : first + job.gamma] = 1.0
    if level is not None:
        weights[first : first + job.gamma] = np.arange(job.gamma) == level
    return weights.tolist()


def _worth(seen: Emitted, job: Job, rule: str) -> Interval:
    """E[tau] of a rule on the blocks of a run."""
    return seen.worth.interval(_picked(job, rule), CONFIDENCE)


def _paired(baseline: Emitted, job: Job, rule: Verifier) -> doc.Paired:
    weights = np.subtract(_picked(job, rule.name), _picked(job, "token"))
    found = baseline.worth.interval(weights, CONFIDENCE)
    return doc.Paired(
        baseline="token", difference=found.mean, ci_low=found.low, ci_high=found.high,
        confidence=CONFIDENCE, blocks=baseline.worth.blocks,
    )  # fmt: skip


def _expected(found: Interval) -> doc.Expected:
    return doc.Expected(
        exact=None, fraction=None, lower=found.low, upper=found.high, method="rao-blackwell",
        confidence=CONFIDENCE,
    )  # fmt: skip


def _timing(row: doc.CompareResult, clock: Clock) -> doc.Timing:
    seconds = clock.draft + clock.score + clock.verify
    return doc.Timing(
        model=row.model, verifier=row.verifier, blocks_per_second=clock.calls / seconds
    )


def _latency(row: doc.CompareResult, clock: Clock, alone: Clock, gamma: int) -> doc.Latency:
    each = [part / clock.tokens for part in (clock.draft, clock.score, clock.verify)]
    rounds = clock.calls / clock.score
    ratio = clock.draft / clock.drafted * rounds
    return doc.Latency(
        model=row.model, verifier=row.verifier,
        plain=alone.seconds_per_token, speculative=clock.seconds_per_token,
        draft=each[0], score=each[1], verify=each[2], cost_ratio=ratio,
        predicted=predicted_speedup(row.block_efficiency - 1.0, gamma, ratio),
        measured=alone.seconds_per_token / clock.seconds_per_token,
        block_cost=clock.score / clock.calls * alone.calls / alone.score,
    )  # fmt: skip


def _room(pair: TransformerPair, prompts: Sequence[Sequence[int]], gamma: int) -> int:
    """Tokens that every prompt leaves room for in the context, drafts included."""
    longest = max(range(len(prompts)), key=lambda i: len(prompts[i]))
    room = pair.context - gamma - 1 - len(prompts[longest])
    if room < 1:
        raise UsageError(
            f"prompt {longest + 1} has {len(prompts[longest])} tokens: the context holds "
            f"{pair.context}, {gamma + 1} of them for a block; shorten it"
        )
    return room


def _rule_iv(rule: Verifier) -> Verifier:
    if rule.name not in RULES:
        raise UsageError(
            f"verifier {rule.name!r} has no expected acceptance on real models: expected one of "
            f"{', '.join(RULES)} (for temperature 0, set the temperature)"
        )
    return rule


def _numbers_iv(gamma: int, tokens: int, lanes: int, request_tokens: int) -> None:
    rules = (
        ("gamma", gamma, 1), ("tokens", tokens, 1), ("lanes", lanes, 2),
        ("tokens of a request", request_tokens, 1),
    )  # fmt: skip
    for name, value, least in rules:
        if value < least:
            raise UsageError(f"{name} is {value}: expected {least} or more")
