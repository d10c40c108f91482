"""An exponential race on a heap: arrival times are pushed, the smallest is popped."""

import heapq

CONTRACT = "verify"


def race(law, rng):
    heap = []
    for token, weight in enumerate(law):
        if weight > 0:
            heapq.heappush(heap, (rng.exponential(1 / weight), token))
    return heapq.heappop(heap)[1]


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if rng.random() >= target_probs[i, token] / draft_probs[i, token]:
            rest = [max(a - b, 0.0) for a, b in zip(target_probs[i], draft_probs[i])]
            return [*draft_tokens[:i], race(rest, rng)]
    return [*draft_tokens, race(target_probs[-1], rng)]
