"""What the sampled tier costs beyond the code's own time: the bare calls beside the harness.

    python benchmarks/harness_cost.py [--calls 20000]

Processor time of this process, the two turn by turn. "tests and plan" is what a whole run spends
outside its calls, on all instances together.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.auditing.sampled_runs import SampledInstance, TrialRunner, default_sampled_instances
from simverify.auditing.sampled_tier import sample_callable
from simverify.verifiers import VERIFIERS

TURNS = 5
RULES = ("token", "block")


def bare(rule: Callable[..., Any], instance: SampledInstance, calls: int) -> float:
    """Seconds of ``calls`` calls in a loop, on the blocks of ``instance``."""
    tables = runner_of(rule, instance).tables
    target, draft = tables.blocks
    drafts = tables.drafts(instance.gamma, np.random.default_rng(1).random((calls, instance.gamma)))
    codes = tables.codes(drafts, instance.gamma).tolist()
    rng = np.random.default_rng(2)
    started = time.process_time()
    for code, tokens in zip(codes, drafts, strict=True):
        rule(target[code], draft[code], tokens, rng)
    return time.process_time() - started


def runner_of(rule: Callable[..., Any], instance: SampledInstance) -> TrialRunner:
    return TrialRunner(
        rule, "verify", instance, seed=0, number=0, pilot=False, rows=None,
        seconds=600,
    )  # fmt: skip


def harnessed(rule: Callable[..., Any], instance: SampledInstance, calls: int) -> float:
    """Seconds of as many calls by the harness."""
    runner = runner_of(rule, instance)
    started = time.process_time()
    runner.run(calls)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    calls = parser.parse_args().calls
    instance = default_sampled_instances(4, 12)[0]
    print("rule      bare us/call  harness adds us/call  whole run us/call  of it tests and plan")
    for name in RULES:
        rule = VERIFIERS[name].rule
        turns = [
            (bare(rule, instance, calls), harnessed(rule, instance, calls)) for _ in range(TURNS)
        ]
        own = min(a for a, _ in turns) / calls * 1e6
        added = min(b for _, b in turns) / calls * 1e6 - own
        started = time.process_time()
        run = sample_callable(
            rule,
            "verify",
            instances=default_sampled_instances(4, 12),
            seed=0,
            detect=0.02,
            seconds=600,
        )
        whole = (time.process_time() - started) / run.tier.samples * 1e6
        print(f"{name:9} {own:12.1f} {added:21.1f} {whole:18.1f} {whole - own - added:21.1f}")


if __name__ == "__main__":
    main()
