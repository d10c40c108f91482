"""A step rule without drafts that returns range(t, t + 1): a row of one integer, of a sort."""

CONTRACT = "step"


def step(prefix, target, draft, gamma, rng):
    token = int(rng.choice(len(target(prefix)), p=target(prefix)))
    return range(token, token + 1)
