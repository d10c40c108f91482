"""Where the target's draw is one of three drafts the first draft is emitted: the wrong match.

True TV 0.609 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    p, q = target(tuple(prefix)), draft(tuple(prefix))
    drafts = rng.choice(len(q), size=3, p=q)
    y = draw(p, rng)
    return [int(drafts[0])] if y in drafts and y != drafts[0] else [y]
