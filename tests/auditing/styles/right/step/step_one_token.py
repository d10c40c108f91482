"""It drafts nothing and emits one target token a call."""

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    return [draw(target(tuple(prefix)), rng)]
