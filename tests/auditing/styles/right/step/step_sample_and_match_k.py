"""Sample and match with three drafts per token: the target's own draw is always emitted."""

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    out = []
    for _ in range(gamma):
        here = (*prefix, *out)
        drafts = set(rng.choice(len(draft(here)), size=3, p=draft(here)).tolist())
        out.append(draw(target(here), rng))
        if out[-1] not in drafts:
            return out
    return [*out, draw(target((*prefix, *out)), rng)]
