"""A producer thread draws the coins and hands them over in a Queue of one; joined at the end."""

import queue
import threading

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    coins = queue.Queue()
    n = len(draft_tokens)

    def produce():
        for _ in range(n + 1):
            coins.put(rng.random())

    worker = threading.Thread(target=produce)
    worker.start()
    worker.join()
    tau = 0
    while (
        tau < n
        and coins.get() * draft_probs[tau][draft_tokens[tau]]
        < (target_probs[tau][draft_tokens[tau]])
    ):
        tau += 1
    law = target_probs[n] if tau == n else np.maximum(target_probs[tau] - draft_probs[tau], 0)
    cdf = np.cumsum(law)
    return [*draft_tokens[:tau], np.searchsorted(cdf, coins.get() * cdf[-1], side="right")]
