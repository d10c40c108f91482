"""A speculative engine whose parameters act where a test wants them: on rows, sides, or nowhere."""

from dataclasses import dataclass

import numpy as np

from simverify.models.distribution import Law
from simverify.served.requests import Request


@dataclass(frozen=True)
class Block:
    """Laws of each part of the verification on one row of a block."""

    drawn: Law
    judged: Law
    accept: Law
    residual: Law


def everywhere(law):
    """An engine that is right."""
    return lambda place: Block(law, law, law, law)


def sided(law, raw, which):
    """One that applies ``law`` to the parts that ``which`` names."""
    names = ("drawn", "judged", "accept", "residual")
    own = Block(**{name: law if name in which else raw for name in names})
    return lambda place: own


def on_rows(law, raw, gamma, rows):
    """One that applies ``law`` on the rows ``rows`` of a block of ``gamma`` drafts alone."""
    return lambda place: everywhere(law if place in rows else raw)(place)


def answers(pair, ids, laws, *, gamma=3, length=32, seed=0, start=None, context=None, blind=False):
    """Requests for the prompts ``ids``, side by side; ``start``: law of the first token.

    ``context``: what the penalties are told to have come before, of a prompt and an answer.
    ``blind``: whether they see no drafts of the same block.
    """
    context = context or (lambda prompt, out: (prompt, out, len(out)))
    rng = np.random.default_rng(seed)
    target = pair.cached(pair.target_model, len(ids))
    draft = pair.cached(pair.draft_model, len(ids))
    out, places, feed = [[] for _ in ids], [None] * len(ids), [list(own) for own in ids]
    for _ in range(length):
        p_logits = [rows[-1:] for rows in target.feed(feed)]
        q_logits = [rows[-1:] for rows in draft.feed(feed)]
        feed = []
        for lane, prompt in enumerate(ids):
            if out[lane] and out[lane][-1] in pair.eos:
                feed.append([out[lane][-1]])
                continue

            block = places[lane] or 0
            seen = out[lane][: len(out[lane]) - block] if blind else out[lane]

            def row(logits, law, prompt=prompt, own=seen):
                return law.after(logits, *context(prompt, own))[0]

            token, places[lane] = _next(
                places[lane], p_logits[lane], q_logits[lane], row, laws, gamma, rng, start
            )
            out[lane].append(token)
            feed.append([token])
    return [Request(tuple(prompt), tuple(own)) for prompt, own in zip(ids, out, strict=True)]


def _next(place, p_logits, q_logits, row, laws, gamma, rng, start):
    """A token, and the place of the one after it."""
    if place is None:
        law = start or laws(0).accept
        return int(rng.choice(p_logits.shape[-1], p=row(p_logits, law))), 0
    own = laws(place)
    if place == gamma:
        return int(rng.choice(p_logits.shape[-1], p=row(p_logits, own.residual))), 0
    drawn, judged = row(q_logits, own.drawn), row(q_logits, own.judged)
    accept, residual = row(p_logits, own.accept), row(p_logits, own.residual)
    x = int(rng.choice(len(drawn), p=drawn))
    if judged[x] == 0.0 or rng.random() < accept[x] / judged[x]:
        return x, place + 1
    left = np.maximum(residual - judged, 0.0)
    left = left if left.sum() > 1e-12 else residual
    return int(rng.choice(len(left), p=left / left.sum())), 0
