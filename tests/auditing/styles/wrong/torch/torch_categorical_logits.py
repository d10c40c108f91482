"""Probabilities given to Categorical as its logits. TV .03."""

import numpy as np
import torch

CONTRACT = "verify"


def draw(weights, rng):
    return int(torch.distributions.Categorical(logits=torch.as_tensor(weights)).sample())


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[token] < p[token]:
            continue
        return [*draft_tokens[:i], draw(np.maximum(p - q, 0.0), rng)]
    return [*draft_tokens, draw(target_probs[-1], rng)]
