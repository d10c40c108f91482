"""The fused kernels against the torch rules and against a copy, on one GPU.

``python benchmarks/gpu_speed.py`` takes about a minute on a GPU with 24 GiB; ``--quick`` takes
seconds and shows only that everything runs. Without a GPU it says so and exits 2. See
``benchmarks/README.md``.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from measure import Spread, machine, spread

from simverify.backends import fused, rules, uniforms

BATCH, GAMMA, VOCAB = 64, 8, 152_064
SEED = 20250424
SHARE_GOAL = 0.7
"""Least share of the copy's bandwidth, with logits: then every row has to be read."""

CALLS = 10
"""Calls that are queued and timed together."""

HEAD_START = 100_000_000
"""Cycles of the GPU, some 50 ms, in which the host queues them."""

RESULTS = Path(__file__).parent / "results" / "gpu_speed.json"


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="Speed of the fused kernels on a GPU.")
    parser.add_argument("--quick", action="store_true", help="seconds: shows that it runs")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="default: results/gpu_speed.json, or none"
    )
    options = parser.parse_args()
    if absent := missing():
        print(f"gpu_speed.py: {absent}", file=sys.stderr)
        return 2
    path = options.json or (None if options.quick else RESULTS)
    size, vocab, turns = (4, 5_000, 3) if options.quick else (BATCH, VOCAB, 20)
    found = [
        measured(rule, dtype, logits, size, vocab, turns)
        for dtype in (torch.float32, torch.bfloat16)
        for logits in (True, False)
        for rule in fused.FUSED_RULES
    ]
    show(found)
    if path is not None:
        document = {
            "batch": size, "gamma": GAMMA, "vocab_size": vocab, "seed": SEED,
            "quick": options.quick, "share_goal": SHARE_GOAL, "machine": on_gpu(), "cases": found,
        }  # fmt: skip
        path.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def missing() -> str | None:
    """Return what keeps the benchmark from running; None if nothing does."""
    if not torch.cuda.is_available():
        return "torch sees no GPU, and there is nothing else to time: run it where one is"
    if not fused.has_triton():
        return "the fused kernels need Triton: pip install triton"
    return None


def measured(
    rule: str, dtype: torch.dtype, logits: bool, size: int, vocab: int, turns: int
) -> dict[str, Any]:
    """Time one rule on rows of one kind: fused, in torch, and a copy of the same rows."""
    given = rows(size, vocab, dtype, logits)
    due = rules.torch_verify(rule, *given, logits=logits, check=False)
    result = fused.verify(rule, *given, logits=logits, check=False)
    # The copy is of the target rows alone, so that three batches need not fit.
    source = given[0]
    copied = torch.empty_like(source)
    times = in_turn(
        {
            "fused": lambda: fused.verify(rule, *given, logits=logits, check=False),
            "torch": lambda: rules.torch_verify(rule, *given, logits=logits, check=False),
            "copy": lambda: copied.copy_(source),
        },
        turns,
    )
    return {
        "rule": rule,
        "dtype": str(dtype).removeprefix("torch."),
        "logits": logits,
        "mean_tau": float(due.tau.double().mean()),
        "same_tau": float((due.tau == result.tau).double().mean()),
        **figures(times, row_bytes=nbytes(given[0]) + nbytes(given[1]), copied=nbytes(source)),
    }


def rows(size: int, vocab: int, dtype: torch.dtype, logits: bool) -> list[torch.Tensor]:
    """Random logits of a target, a draft near it, its drafts and their uniforms, on the GPU."""
    made = torch.Generator("cuda").manual_seed(SEED)
    options: dict[str, Any] = {"generator": made, "device": "cuda"}
    target = 3 * torch.randn(size, GAMMA + 1, vocab, **options)
    draft = target[:, :-1] + torch.randn(size, GAMMA, vocab, **options)
    law = draft.softmax(-1)
    tokens = torch.multinomial(law.flatten(0, 1), 1, generator=made).reshape(size, GAMMA)
    pair = [target, draft] if logits else [target.softmax(-1), law]
    coins = uniforms(size, GAMMA, seed=SEED, device="cuda")
    return [*(x.to(dtype) for x in pair), tokens, coins]


def in_turn(runs: dict[str, Callable[[], Any]], turns: int) -> dict[str, list[float]]:
    """Seconds of each run, by the GPU's own clock, all in turn; the first turn is thrown away.

    The GPU is kept waiting while the host queues all calls of a turn: launching the kernels takes
    longer than running them, and is not what is measured.
    """
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(turns + 1):
        for name, run in runs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(HEAD_START)
            begin.record()
            for _ in range(CALLS):
                run()
            end.record()
            end.synchronize()
            found[name].append(begin.elapsed_time(end) / 1e3 / CALLS)
    return {name: times[1:] for name, times in found.items()}


def figures(times: dict[str, list[float]], row_bytes: int, copied: int) -> dict[str, Any]:
    """Return bandwidths and ratios, each taken within one turn.

    A copy reads and writes; of the rows each byte counts once, however often it is read.
    """

    def paired(count: Callable[[float, float, float], float]) -> dict[str, float]:
        turns = zip(times["fused"], times["torch"], times["copy"], strict=True)
        return asdict(spread([count(*turn) for turn in turns]))

    return {
        "fused_microseconds": asdict(_scaled(times["fused"], 1e6)),
        "torch_microseconds": asdict(_scaled(times["torch"], 1e6)),
        "copy_gigabytes_per_second": asdict(spread([2 * copied / t / 1e9 for t in times["copy"]])),
        "share_of_copy": paired(lambda f, t, c: (row_bytes / f) / (2 * copied / c)),
        "times_torch": paired(lambda f, t, c: t / f),
    }


def _scaled(times: list[float], factor: float) -> Spread:
    return spread([factor * t for t in times])


def nbytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's elements."""
    return tensor.numel() * tensor.element_size()


def on_gpu() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        **machine(),
        "gpu": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda,
    }


def show(found: list[dict[str, Any]]) -> None:
    """Print a line per case."""
    for case in found:
        kind = "logits" if case["logits"] else "probabilities"
        print(
            f"{case['rule']:5} {case['dtype']:8} {kind:13} "
            f"{case['fused_microseconds']['median']:8.0f} us, "
            f"{case['times_torch']['median']:5.1f} times torch, "
            f"{case['share_of_copy']['median']:5.0%} of a copy's bandwidth, "
            f"mean tau {case['mean_tau']:.2f}, {case['same_tau']:.1%} as torch"
        )
    due = [case for case in found if case["logits"]]
    missed = [c for c in due if c["share_of_copy"]["median"] < SHARE_GOAL]
    print(f"goal: {SHARE_GOAL:.0%} of the copy with logits; missed in {len(missed)} of {len(due)}")


if __name__ == "__main__":
    sys.exit(main())
