"""The residual is sampled by retries: a target token is kept with (p - q)+ / p."""

CONTRACT = "verify"


def draw(w, rng):
    return int(rng.choice(len(w), p=w))


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[x] < p[x]:
            continue
        while True:
            y = draw(p, rng)
            if rng.random() * p[y] < p[y] - q[y]:
                return [*draft_tokens[:i], y]
    return [*draft_tokens, draw(target_probs[-1], rng)]
