from support.engine_doubles import check_double

DOUBLE = """
from types import SimpleNamespace

import mlx.core as mx
import numpy as np


def speculative_sample_accept(draft_tokens, draft_probs, base_probs, rng: mx.array):
    kept = []
    for token, p, q in zip(draft_tokens, base_probs, draft_probs):
        if rng.random() * q[token] >= p[token]:
            p = np.maximum(p - q, 0)
            break
        kept.append(int(token))
    else:
        p = base_probs[-1]
    last = rng.choice(len(p), p=p / p.sum())
    return SimpleNamespace(tokens=np.array([*kept, last]))
"""


def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path):
    check_double("dspark-mlx", tmp_path, DOUBLE, "p = np.maximum(p - q, 0)", "p = q")
