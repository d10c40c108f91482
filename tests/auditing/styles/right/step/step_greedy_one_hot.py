"""The draft's likeliest token is proposed and taken for certain: q is one-hot."""

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    out = []
    for _ in range(gamma):
        p = target((*prefix, *out))
        x = int(draft((*prefix, *out)).argmax())
        if rng.random() >= p[x]:
            p[x] = 0
            return [*out, draw(p, rng)]
        out.append(x)
    return [*out, draw(target((*prefix, *out)), rng)]
