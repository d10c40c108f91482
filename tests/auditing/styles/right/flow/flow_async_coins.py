"""Coins out of an asynchronous generator, each in an event loop of its own."""

import asyncio

import numpy as np

CONTRACT = "verify"


def draw(weights, rng):
    return int(rng.choice(len(weights), p=weights / weights.sum()))


async def coins(rng):
    while True:
        yield rng.random()


def coin(rng):
    async def first():
        async for u in coins(rng):
            return u

    return asyncio.run(first())


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if coin(rng) * q[token] < p[token]:
            continue
        return [*draft_tokens[:i], draw(np.maximum(p - q, 0.0), rng)]
    return [*draft_tokens, draw(target_probs[-1], rng)]
