"""Coins are stored in a structured array with ratios beside them and compared field by field."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    n = len(draft_tokens)
    table = np.zeros(n, dtype=[("coin", "f8"), ("ratio", "f8")])
    table["coin"] = rng.random(n)
    table["ratio"] = [
        p[x] / q[x] for p, q, x in zip(target_probs, draft_probs, draft_tokens, strict=False)
    ]
    rejected = np.flatnonzero(table["coin"] >= table["ratio"])
    tau = int(rejected[0]) if rejected.size else n
    w = np.maximum(target_probs[tau] - (draft_probs[tau] if tau < n else 0), 0)
    return [*draft_tokens[:tau], int(rng.choice(len(w), p=w / w.sum()))]
