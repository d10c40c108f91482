"""The inverse CDF is searched in the order of recent use, move-to-front: no law depends on it."""

CONTRACT = "verify"
RECENT = []


def sample(law, u):
    order = RECENT + [x for x in range(len(law)) if x not in RECENT]
    rest = u * sum(law)
    for token in order:
        if token < len(law):
            rest -= law[token]
            if rest < 0:
                RECENT[:] = [token, *(x for x in RECENT if x != token)][:8]
                return token
    return max(range(len(law)), key=law.__getitem__)


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i].tolist(), draft_probs[i].tolist()
        if rng.random() * q[token] >= p[token]:
            return [*draft_tokens[:i], sample([max(a - b, 0) for a, b in zip(p, q)], rng.random())]
    return [*draft_tokens, sample(target_probs[-1].tolist(), rng.random())]
