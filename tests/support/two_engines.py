"""Two simulated engines on a small chain: what each answers to prompts, asked in pairs.

A prompt is a state; each token is drawn from the row of the one before. A fault changes the rows
of the second engine alone, by its exact law, so that the TV of the deviation is known.
"""

import numpy as np

from simverify.served.answers import AnswerPairs, check_answer

V = 64


class Chain:
    """Rows of a target and of a draft, float64 (V, V), fixed by ``seed``."""

    def __init__(self, seed=0, size=V):
        rng = np.random.default_rng(seed)
        logits = 2.0 * rng.normal(size=(size, size))
        self.logits = logits
        self.p = _softmax(logits)
        self.q = _softmax(logits + 0.7 * rng.normal(size=(size, size)))

    def lenient(self, bound):
        """Rows of a verifier that accepts with chance min(1, p / (bound q))."""
        kept = np.minimum(self.q, self.p / bound)
        residual = np.maximum(self.p - self.q, 0.0)
        residual /= residual.sum(axis=1, keepdims=True)
        return kept + (1.0 - kept.sum(axis=1, keepdims=True)) * residual

    def tempered(self, temperature):
        """Rows at another temperature."""
        return _softmax(self.logits / temperature)

    def biased(self, token, shift):
        """Rows whose chance of ``token`` is ``shift`` larger, at the cost of all others alike."""
        rows = self.p.copy()
        rows[:, token] = np.minimum(rows[:, token] + shift, 0.999)
        others = np.arange(len(rows)) != token
        rest = 1.0 - rows[:, token]
        rows[:, others] *= (rest / self.p[:, others].sum(axis=1))[:, None]
        return rows

    def distance(self, rows):
        """Mean one-token TV of ``rows`` from the target's, over the states that it visits."""
        visits = np.full(len(rows), 1.0 / len(rows))
        for _ in range(50):
            visits = visits @ self.p
        return float(visits @ np.abs(rows - self.p).sum(axis=1) / 2.0)


def answers(rows, prompts, repeats, length, rng, first=None):
    """Tokens int (prompts, repeats, length): answers to the first ``prompts`` states.

    ``first``: rows of the first token, where they are others, as in an engine that verifies
    drafts from the second token on.
    """
    cdfs = [np.cumsum(own, axis=1) for own in (rows if first is None else first, rows)]
    for cdf in cdfs:
        cdf[:, -1] = 1.0
    state = np.repeat(np.arange(prompts) % len(rows), repeats)
    found = np.empty((prompts * repeats, length), np.int64)
    for place in range(length):
        u = rng.random(len(state))
        state = (cdfs[place > 0][state] <= u[:, None]).sum(axis=1)
        found[:, place] = state
    return found.reshape(prompts, repeats, length)


def asked(first, second, *, prompts=16, repeats=22, length=64, seed=0, late=False):
    """Pairs of answers of two engines with such rows; ``late``: the second's first is right."""
    rng = np.random.default_rng(seed)
    one = answers(first, prompts, repeats, length, rng)
    other = answers(second, prompts, repeats, length, rng, first if late else None)
    groups = tuple(
        tuple((tuple(a), tuple(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True))
        for x, y in zip(one, other, strict=True)
    )
    return AnswerPairs(groups, tuple(f"prompt {i}" for i in range(prompts)), "ids")


def said(prompt="x", **answer):
    """One answer, as a line of a file has it."""
    return check_answer({"prompt": prompt} | answer, "line 1")


def _softmax(logits):
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
