"""How long a watch takes to tell a change, beside what it said beforehand; and false alarms.

Rows are drawn, V = 256; an engine that is off samples them at another temperature, in every row by
the one that makes its TV the deviation. 200 lives each, of an engine that is right, one that is off
from the start, and one that changes on the way.

    python benchmarks/canary.py                      # about a quarter of an hour on one core
    python benchmarks/canary.py --runs 20 --detect .1
"""

import argparse
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from simverify.arrays import Floats
from simverify.served.monitor import MonitorEvidence, WatchSettings

VOCABULARY, REQUEST = 256, 500


def rows_of(rng: np.random.Generator, n: int) -> Floats:
    """Rows as a model's: a few likely tokens and a long tail."""
    logits = rng.normal(0.0, 2.0, (n, VOCABULARY))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: Floats = p / p.sum(axis=1, keepdims=True)
    return found


def off_by(p: Floats, deviation: float, hotter: bool) -> Floats:
    """Rows at the other temperature whose TV from p is ``deviation``, by bisection."""
    low, high = (
        (np.zeros(len(p)), np.ones(len(p))) if hotter else (np.ones(len(p)), np.full(len(p), 16.0))
    )
    logs = np.log(p)
    for _ in range(40):
        middle = (low + high) / 2.0
        found = np.exp(middle[:, None] * logs)
        found /= found.sum(axis=1, keepdims=True)
        far = np.abs(found - p).sum(axis=1) / 2.0 > deviation
        # Far means too far from 1, which lies above for a hotter one.
        up = far if hotter else ~far
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    return np.asarray(found)


def life(
    seed: int, settings: WatchSettings, deviation: float, change: int, most: int
) -> int | None:
    """Token of the alarm in a life of ``most`` tokens whose law changes after ``change``."""
    rng = np.random.default_rng(seed)
    canary = MonitorEvidence(settings, False)
    while canary.tokens < most and canary.alarm is None:
        p = rows_of(rng, REQUEST)
        wrong = canary.tokens >= change
        law = off_by(p, deviation, seed % 2 == 0) if wrong else p
        tokens = (
            (law.cumsum(axis=1) < rng.random((REQUEST, 1))).sum(axis=1).clip(max=VOCABULARY - 1)
        )
        request = SimpleNamespace(tokens=tokens.tolist(), faults=())
        none = np.zeros(REQUEST)
        scored: Any = SimpleNamespace(request=request, p=p, p_again=p, q=None, gap=none, shift=none)
        canary.add(scored)
    return canary.alarm_at


def main() -> None:
    """Live, count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--detect", type=float, default=0.05)
    parser.add_argument(
        "--tokens", type=int, default=20_000, help="of a life in which all is right"
    )
    parser.add_argument("--change", type=int, default=5_000)
    given = parser.parse_args()
    began = time.process_time()
    alarms = 0
    for seed in range(given.runs):
        settings = WatchSettings(detect=given.detect, seed=seed)
        alarms += life(seed, settings, 0.0, given.tokens, given.tokens) is not None
    print(f"right: {alarms} alarms in {given.runs} lives of {given.tokens:,} tokens", flush=True)
    balls = MonitorEvidence(WatchSettings(), False).balls
    for change in (0, given.change):
        promised = WatchSettings(detect=given.detect).delay(change, False, balls)
        delays = []
        for seed in range(given.runs):
            settings = WatchSettings(detect=given.detect, seed=seed)
            most = change + 3 * int(promised)
            at = life(10_000 + seed, settings, given.detect, change, most)
            delays.append(np.inf if at is None else at - change)
        early, told = np.array(delays), sum(d <= promised for d in delays)
        print(
            f"TV {given.detect:g} after {change:,} tokens: promised within {promised:,.0f} with "
            f"probability .9; told within it in {told} of {given.runs} lives, half within "
            f"{np.median(early):,.0f}, nine tenths within {np.quantile(early, 0.9):,.0f}",
            flush=True,
        )  # fmt: skip
    print(f"{time.process_time() - began:.0f} s of processor")


if __name__ == "__main__":
    main()
