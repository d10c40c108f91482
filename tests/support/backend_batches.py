"""Batches for the rules on tensors, and what may come of them: plain numpy, float64."""

import numpy as np
import torch

from simverify.backends import uniforms
from simverify.backends.fused import TOLERANCE

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def batch(size, gamma, vocab, *, seed, dtype=torch.float64, logits=False, device="cpu"):
    """Rows of a target and of a draft near it, drafts drawn from its rows, uniforms."""
    made = torch.Generator().manual_seed(seed)
    target = torch.randn(size, gamma + 1, vocab, generator=made, dtype=torch.float64)
    draft = target[:, :-1] + 0.7 * torch.randn(size, gamma, vocab, generator=made)
    flat = draft.softmax(-1).reshape(-1, vocab)
    tokens = torch.multinomial(flat, 1, generator=made).reshape(size, gamma)
    rows = (target, draft) if logits else (target.softmax(-1), draft.softmax(-1))
    given = (*(x.to(dtype) for x in rows), tokens, uniforms(size, gamma, seed=seed))
    return tuple(x.to(device) for x in given)


def beside_thresholds(rule, given, side):
    """Blocks of two drafts that keep one token or none: the first coin within 1e-9 of h_1.

    Returns the batch, cut to those, and the tau that is due on that ``side`` (-1 or 1).
    """
    p, q, x, _ = (tensor.cpu().numpy() for tensor in given)
    chosen, coins = [], []
    for b in range(len(x)):
        first, second = (p[b, i, x[b, i]] / q[b, i, x[b, i]] for i in range(2))
        weight = min(1, first)
        residual = np.maximum(weight * p[b, 1] - q[b, 1], 0).sum()
        h = weight if rule == "token" else residual / (residual + 1 - weight)
        if h < 0.99 and second < 1:  # the second coin, next to 1, rejects
            chosen.append(b)
            coins.append([h + side * 1e-9, 1 - 2**-53, 0.5])
    assert len(chosen) > 3
    cut = [tensor[chosen] for tensor in given[:3]]
    return (*cut, torch.tensor(coins, dtype=torch.float64, device=cut[0].device)), int(side < 0)


def unexplained(rule, target, draft, tokens, coins, result, *, logits=False):
    """Blocks whose tokens do not follow from their uniforms, give or take the tolerance."""
    slack = TOLERANCE[target.dtype]
    p, q = (x.double().softmax(-1) if logits else x.double() for x in (target, draft))
    given = [x.cpu().numpy() for x in (p, q, tokens, coins, result.tokens, result.tau)]
    return [b for b, block in enumerate(zip(*given, strict=True)) if not _holds(rule, block, slack)]


def _holds(rule, block, slack):
    p, q, x, u, emitted, tau = block
    gamma = len(x)
    if not 0 <= tau <= gamma or emitted[tau] < 0 or (emitted[tau + 1 :] != -1).any():
        return False
    if not np.array_equal(emitted[:tau], x[:tau]):
        return False
    ratios = p[np.arange(gamma), x] / q[np.arange(gamma), x]
    weights = np.ones(gamma + 1)
    if rule == "token":
        kept = bool((u[:tau] < ratios[:tau] + slack).all())
        kept &= tau == gamma or u[tau] >= ratios[tau] - slack
    else:
        for i in range(gamma):
            weights[i + 1] = min(1, weights[i] * ratios[i])
        spare = np.array([_spare(i, weights[i], u[i - 1], p, q) for i in range(1, gamma + 1)])
        kept = tau == 0 or spare[tau - 1] > -slack
        kept &= bool((spare[tau:] <= slack).all())
    law = np.maximum(weights[tau] * p[tau] - q[tau], 0) if tau < gamma else p[tau]
    last = emitted[tau]
    before = law[:last].sum()
    goal = u[-1] * law.sum()
    return kept and before - slack <= goal <= before + law[last] + slack


def _spare(i, weight, u, p, q):
    """How far row i is from being rejected: R - u (R + 1 - w), at the end w - u."""
    if i == len(q):
        return weight - u
    residual = np.maximum(weight * p[i] - q[i], 0).sum()
    return residual - u * (residual + 1 - weight)
