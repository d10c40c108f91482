"""The residual's retries end after three, with the last target token.

True TV 0.0625 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

CONTRACT = "verify"


def draw(w, rng):
    return int(rng.choice(len(w), p=w))


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[x] < p[x]:
            continue
        for _ in range(3):
            y = draw(p, rng)
            if rng.random() * p[y] < p[y] - q[y]:
                break
        return [*draft_tokens[:i], y]
    return [*draft_tokens, draw(target_probs[-1], rng)]
