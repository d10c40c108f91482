"""Traces: real models decode once, and any number of verifiers is replayed on the recording."""

__simverify_role__ = "shared"


import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec

from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models import trace
from simverify.models.transformer import TransformerPair
from simverify.simulators.decoding import job as jobs
from simverify.simulators.decoding.loop import PLAIN_DRAFTING, Block, decode, verifier_factory
from simverify.simulators.decoding.replayed import STATELESS_RULES, finish_replays, start_replays
from simverify.verifiers import get_verifier

DEFAULT_MAX_BYTES = 2_000_000_000


def capture(
    pair: TransformerPair,
    prompts: Sequence[str],
    folder: Path,
    *,
    gamma: int,
    tokens: int,
    request_tokens: int = jobs.MAX_REQUEST_TOKENS,
    seed: int = 0,
    statistics: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
    prompts_file: str | None = None,
    method: DraftMethod = PLAIN_DRAFTING,
    progress: Callable[[str], None] | None = None,
) -> trace.Manifest:
    """Decode the prompts with token verification and record every block that it drafts.

    Options are those of :func:`~simverify.comparing.real.compare_pair`. ``folder``: a new or empty
    one, or that of the same recording, which was killed: it is continued. ``tokens``: emitted
    ones, which take a few blocks more than tokens / (gamma + 1). ``statistics``: record the sums of
    a run of every rule without state, and no rows: a few bytes a token at any vocabulary. The tests
    of a comparison need no more; code under audit needs rows, of ``max_bytes`` at most. ``method``:
    how drafts are made; the recorded rows are the laws that they came from.

    Raises ``UsageError`` if a value is out of range, rows may not fit, or the folder is taken.
    """
    trace.require_safetensors()
    if max_bytes < 1:
        raise UsageError(f"max bytes is {max_bytes}, expected 1 or more")
    job = jobs.make_job(
        pair, prompts, gamma=gamma, tokens=tokens, request_tokens=request_tokens, seed=seed
    )
    all_tokens = job.lanes * job.lane_tokens
    if not statistics:
        trace.check_space(folder, all_tokens, gamma, pair.vocab_size, max_bytes)
    rules = [get_verifier(name) for name in STATELESS_RULES] if statistics else []
    plan = trace.Manifest(
        version=trace.TRACE_VERSION,
        kind="statistics" if statistics else "rows",
        name=method.on(pair),
        gamma=gamma,
        vocab_size=pair.vocab_size,
        seed=seed,
        rules=tuple(r.name for r in rules),
        decoding=msgspec.structs.replace(
            jobs.decoding_document(pair, job, prompts, prompts_file, [method]),
            drafter=jobs.drafter_document(method),
        ),
        versions={"python": platform.python_version()}
        | {
            name: version(name)
            for name in ("simverify", "numpy", "torch", "transformers", "safetensors")
        },
        shards=(),
    )
    runs = start_replays(rules, gamma=gamma, lanes=job.lanes, tokens=all_tokens, seed=seed)
    say = progress or (lambda _: None)
    say(f"{plan.name}: decoding {all_tokens:,} tokens")
    # Other drafters remember more than the texts so far, and sums are written at the end.
    resumable = method == PLAIN_DRAFTING and not statistics
    with trace.TraceWriter(folder, plan) as writer:
        before = writer.resume(job.lanes, job.lane_tokens) if resumable else []
        if any(before):
            say(f"{sum(map(len, before)):,} blocks are kept from a recording that was killed")

        def record(block: Block, target_logits: trace.Logits, draft_logits: trace.Logits) -> None:
            if not statistics:
                writer.add(block.lane, block.drafts, block.emitted, target_logits, draft_logits)
            for run in runs.values():
                run.replay(block)

        token = verifier_factory(get_verifier("token"))
        clock = decode(pair, job, token, record=record, method=method, before=before)
        if statistics:
            arrays = {
                f"{rule}.{name}": array
                for rule, run in finish_replays(runs).items()
                for name, array in jobs.to_arrays(run).items()
            }
            writer.statistics(arrays, clock.calls)
        return writer.finish()
