"""A comparison on a pair of real models: every verifier decodes, is judged and timed."""

from collections.abc import Callable, Sequence

import msgspec

from simverify import results as doc
from simverify.battery.by_position import output_tokens
from simverify.battery.judgement import stamped
from simverify.checks import comparison_iv
from simverify.comparing.real.pair_rows import DETECT, POWER, expected_accepted, pair_row
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair
from simverify.simulators.decoding.emitted import Decoded, Emitted
from simverify.simulators.decoding.expected import RULES
from simverify.simulators.decoding.job import LANES, REQUEST_TOKENS, decoding_document, make_job
from simverify.simulators.decoding.judges import judges
from simverify.simulators.decoding.loop import Clock, decode, plain
from simverify.simulators.latency import predicted_speedup
from simverify.verifiers import Verifier, get_verifier

TOKENS = 20_000
"""Fewest emitted tokens a verifier by default: enough for the acceptance test as well."""


def compare_pair(
    pair: TransformerPair,
    prompts: Sequence[str],
    verifiers: Sequence[str] = ("token", "block", "greedy"),
    *,
    gamma: int,
    tokens: int | None = None,
    lanes: int = LANES,
    request_tokens: int = REQUEST_TOKENS,
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
        Target, draft, tokenizer and sampling, as
        :func:`~simverify.models.real.transformer.load_pair` returns them.
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
    comparison_iv(
        verifiers, gamma=gamma, cost_ratio=cost_ratio, alpha=alpha, detect=detect, seed=seed
    )
    rules = [_rule_iv(get_verifier(name)) for name in verifiers]
    share = alpha / len(rules)
    wanted = max(output_tokens(detect, share), TOKENS) if tokens is None else tokens
    job = make_job(
        pair, prompts, gamma=gamma, tokens=wanted, lanes=lanes, request_tokens=request_tokens,
        seed=seed,
    )  # fmt: skip
    say, stamp = progress or (lambda _: None), stamped()
    say(f"{pair.name}: the target alone")
    alone = plain(pair, job)
    runs: dict[str, Decoded] = {}
    clocks = []
    for rule in rules:
        say(f"{pair.name}: {rule.name}")
        emitted = Emitted(job, rule, calls=-(-job.lane_tokens // (gamma + 1)))
        clocks.append(decode(pair, job, judges(rule), emitted))
        runs[rule.name] = emitted.decoded
    rows = [
        pair_row(
            pair.name, pair.vocab_size, rule, runs[rule.name], share=share, detect=detect,
            cost_ratio=cost_ratio, baseline=runs.get("token"),
        )
        for rule in rules
    ]  # fmt: skip
    # Greedy's first calls attain the bound: on its own blocks no row contradicts it.
    blocks_of = "greedy" if "greedy" in runs else rules[0].name
    coupling = expected_accepted(runs[blocks_of], "greedy")
    timings = [_timing(row, clock) for row, clock in zip(rows, clocks, strict=True)]
    latencies = [
        _latency(row, clock, alone, gamma) for row, clock in zip(rows, clocks, strict=True)
    ]
    info = doc.ModelInfo(
        name=pair.name, given=None, vocab_size=pair.vocab_size,
        bounds=doc.Bounds(coupling=coupling, blocks_of=blocks_of), file_sha256=None,
        draft_distance=None, temperature=None, corpus_sha256=None,
        target_perplexity=None, draft_perplexity=None,
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
        decoding=decoding_document(pair, job, prompts, prompts_file),
        meta=msgspec.structs.replace(stamp(), timings=tuple(timings), latencies=tuple(latencies)),
    )


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


def _rule_iv(rule: Verifier) -> Verifier:
    if rule.name not in RULES:
        raise UsageError(
            f"verifier {rule.name!r} has no expected acceptance on real models: expected one of "
            f"{', '.join(RULES)} (for temperature 0, set the temperature)"
        )
    return rule
