"""asyncio.run inside the call: acceptance and resampling are awaited tasks of one loop."""

import asyncio

import numpy as np

CONTRACT = "verify"


async def coin(rng):
    await asyncio.sleep(0)
    return rng.random()


async def decide(p, q, drafted, rng):
    for i, token in enumerate(drafted):
        if await coin(rng) >= p[i, token] / q[i, token]:
            rest = np.maximum(p[i] - q[i], 0)
            return [*drafted[:i], rng.choice(len(rest), p=rest / rest.sum())]
    return [*drafted, rng.choice(p.shape[1], p=p[-1])]


def verify(target_probs, draft_probs, draft_tokens, rng):
    return asyncio.run(decide(target_probs, draft_probs, draft_tokens.tolist(), rng))
