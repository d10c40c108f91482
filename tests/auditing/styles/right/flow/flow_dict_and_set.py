"""Rows as dicts token -> mass, the accepted slots as a set, the answer from a dict's values."""

CONTRACT = "verify"


def sample(masses, rng):
    u = rng.random() * sum(masses.values())
    for token, mass in masses.items():
        if (u := u - mass) < 0:
            return token
    return max(masses, key=masses.get)


def verify(target_probs, draft_probs, draft_tokens, rng):
    p = [{x: m for x, m in enumerate(row) if m} for row in target_probs]
    q = [dict(enumerate(row)) for row in draft_probs]
    kept, last = set(), p[-1]
    for i, token in enumerate(draft_tokens):
        if rng.random() >= p[i].get(token, 0.0) / q[i][token]:
            last = {x: m - q[i][x] for x, m in p[i].items() if m > q[i][x]}
            break
        kept |= {i}
    answer = {i: int(draft_tokens[i]) for i in sorted(kept)}
    answer[len(kept)] = sample(last, rng)
    return list(answer.values())
