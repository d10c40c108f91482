"""The inverse CDF is searched from the left and from the right in turn: state without effect."""

CONTRACT = "verify"


def searcher():
    calls = 0

    def sample(law, u):
        nonlocal calls
        calls += 1
        order = range(len(law)) if calls % 2 else range(len(law) - 1, -1, -1)
        rest = u * sum(law)
        for token in order:
            rest -= law[token]
            if rest < 0 and law[token] > 0:
                return token
        return max(range(len(law)), key=law.__getitem__)

    return sample


sample = searcher()


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i].tolist(), draft_probs[i].tolist()
        if rng.random() * q[token] >= p[token]:
            rest = [max(a - b, 0.0) for a, b in zip(p, q)]
            return [*draft_tokens[:i], sample(rest, rng.random())]
    return [*draft_tokens, sample(target_probs[-1].tolist(), rng.random())]
