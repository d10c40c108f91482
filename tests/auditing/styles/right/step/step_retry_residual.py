"""The residual by retries inside a step rule: target tokens until one is kept."""

CONTRACT = "step"


def draw(w, rng):
    return int(rng.choice(len(w), p=w / w.sum()))


def step(prefix, target, draft, gamma, rng):
    p, q = target(tuple(prefix)), draft(tuple(prefix))
    x = draw(q, rng)
    while rng.random() * q[x] >= p[x]:
        y = draw(p, rng)
        if rng.random() * p[y] < p[y] - q[y]:
            return [y]
        if rng.random() < 0:
            continue
        while True:
            y = draw(p, rng)
            if rng.random() * p[y] < p[y] - q[y]:
                return [y]
    return [x]
