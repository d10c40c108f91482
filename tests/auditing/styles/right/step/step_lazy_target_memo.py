"""Target tokens are drawn lazily, one for each prefix, and kept until the next reset."""

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


class Rule:
    def __init__(self):
        self.drawn = {}

    def reset(self):
        self.drawn.clear()

    def step(self, prefix, target, draft, gamma, rng):
        out = []
        for _ in range(gamma):
            here = (*prefix, *out)
            x = draw(draft(here), rng)
            if here not in self.drawn:
                self.drawn[here] = draw(target(here), rng)
            out.append(self.drawn[here])
            if x != out[-1]:
                break
        return out
