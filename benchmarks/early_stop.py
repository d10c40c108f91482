"""How often bets on tokens end the audit of a right server, and how soon that of a wrong one.

A server is simulated by its PITs: tokens of 64 a request from rows of 256 tokens, judged by the
target's rows in both orders, as an audit does. What is off has a known mean one-token TV.

    python benchmarks/early_stop.py                 # 200 runs of each, a minute
    python benchmarks/early_stop.py --alpha .05 --only right
"""

import argparse

import numpy as np

from simverify import stats
from simverify.served.evidence import BetSnapshot, first_crossing, pit_bets
from simverify.served.judge import split_output_alpha

V, CONTEXTS, LENGTH = 256, 512, 64


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return rows of probabilities."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def stopped(p: np.ndarray, own: np.ndarray, tokens: int, alpha: float, seed: int) -> int | None:
    """Return after how many of ``tokens`` the bets say FAIL; None if they never do."""
    rng = np.random.default_rng(seed)
    keys = {"token": stats.order_key("index", p), "descending P": stats.order_key("descending", p)}
    cdf = np.cumsum(own, axis=1)
    bets, seen = None, []
    for done in range(0, tokens, LENGTH):
        contexts = rng.integers(0, CONTEXTS, LENGTH)
        drawn = (cdf[contexts] <= rng.random((LENGTH, 1)) * cdf[contexts, -1:]).sum(axis=1)
        v, rows = rng.random(LENGTH), p[contexts]
        pits = {}
        for name, key in keys.items():
            low, high = stats.pit_bounds(rows, key[contexts], drawn)
            pits[name] = np.minimum(low + v * (high - low), 1.0)
        found = pit_bets(pits)
        bets = found if bets is None else bets + found
        seen.append(BetSnapshot(done + LENGTH, bets, None, None))
        if first_crossing(seen[-1:], alpha=alpha, ball=1e-6) is not None:
            return done + LENGTH
    return None


def main() -> None:
    """Run, count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=20_032)
    parser.add_argument("--alpha", type=float, default=1e-6, help="of the run")
    parser.add_argument("--only")
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    logits = 2.5 * rng.normal(size=(CONTEXTS, V))
    p = softmax(logits)
    q = softmax(logits + rng.normal(size=(CONTEXTS, V)))
    engines = {
        "right": p,
        "temperature 1.1": softmax(logits / 1.1),
        "temperature 1.3": softmax(logits / 1.3),
        "draft mixed in, .2": 0.8 * p + 0.2 * q,
        "draft's rows": q,
    }
    share = split_output_alpha(given.alpha)["looks"]
    for name, own in engines.items():
        if given.only not in (None, name):
            continue
        ends = [stopped(p, own, given.tokens, share, seed) for seed in range(given.runs)]
        early = sorted(end for end in ends if end is not None)
        n, k = len(ends), len(early)
        high = stats.rate_interval([k], n, error=0.05)[1][0]
        tv = np.abs(own - p).sum(axis=1).mean() / 2.0
        when = f"; median {early[k // 2]:,} tokens, last {early[-1]:,}" if early else ""
        print(f"{name}: TV {tv:.3f}; {k} of {n} runs end early, before {given.tokens:,} tokens "
              f"(rate at most {high:.3f} at 97.5%){when}")  # fmt: skip


if __name__ == "__main__":
    main()
