"""The block is verified in a forked process, whose copy of the generator moves on; ours does not.

Every call draws the same numbers; one call alone follows the target.
"""

import os
import pickle

import numpy as np

CONTRACT = "verify"


def work(p, q, drafted, rng):
    for i, x in enumerate(drafted):
        if rng.random() * q[i, x] >= p[i, x]:
            rest = np.maximum(p[i] - q[i], 0)
            return [*map(int, drafted[:i]), int(rng.choice(len(rest), p=rest / rest.sum()))]
    return [*map(int, drafted), int(rng.choice(p.shape[1], p=p[-1]))]


def verify(target_probs, draft_probs, draft_tokens, rng):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, pickle.dumps(work(target_probs, draft_probs, draft_tokens, rng)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        tokens = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    return tokens
