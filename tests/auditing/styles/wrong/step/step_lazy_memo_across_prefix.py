"""Target tokens are remembered by prefix length and reused where another call comes by.

True TV 1 on the instance that the audit shows (V = 2, gamma = 1), exact.
"""

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


class Rule:
    def __init__(self):
        self.drawn = {}

    def reset(self):
        self.drawn.clear()

    def step(self, prefix, target, draft, gamma, rng):
        out, drafts = [], []
        for _ in range(gamma):
            drafts.append(draw(draft((*prefix, *drafts)), rng))
        for i, x in enumerate([*drafts, None]):
            n = len(prefix) + i
            if n not in self.drawn:
                self.drawn[n] = draw(target((*prefix, *drafts[:i])), rng)
            out.append(self.drawn[n])
            if out[-1] != x:
                # What was drawn beyond is kept for whichever prefix comes.
                nxt = (*prefix, *drafts)
                self.drawn.setdefault(n + 1, draw(target(nxt), rng))
                return out
        return out
