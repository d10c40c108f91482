"""Laws of faulty and coupled rules in closed form, written from their descriptions."""

import math
from collections import Counter

import numpy as np
from scipy import integrate


def slot_by_slot(accept, last, bonus=lambda p: p):
    """``block_law`` of a rule that judges each token alone until the first rejection.

    ``accept(p, q, x)`` is the chance to keep x; ``last(p, q, x)`` (V,) the law of the token
    emitted otherwise, weights that need not be normalised.
    """

    def block_law(p, q, x):
        law, reach = Counter(), 1.0
        for i, token in enumerate(x.tolist()):
            a = accept(p[i], q[i], token)
            if a < 1:
                weights = last(p[i], q[i], token)
                for y in np.flatnonzero(weights):
                    law[*x[:i].tolist(), int(y)] += reach * (1 - a) * weights[y] / weights.sum()
            reach *= a
        for y, weight in enumerate(bonus(p[-1])):
            law[*x.tolist(), y] += reach * weight
        return law

    return block_law


def ratio(p, q, x):
    return min(1.0, p[x] / q[x])


def residual(p, q, x):
    return np.maximum(p - q, 0)


def slices_above(p, q, x):
    """Inverse CDF of the residual at a uniform on [p/q, 1)."""
    ends = np.cumsum(residual(p, q, x))
    ends = np.clip(ends / ends[-1], ratio(p, q, x), 1)
    return np.diff(ends, prepend=ratio(p, q, x))


def naive_block_law(p, q, x):
    """Products of uniforms below products of min(1, p/q), integrated by hand (gamma 3)."""
    a, b, c = np.cumprod(np.minimum(1, p[np.arange(3), x] / q[np.arange(3), x]))

    def square(s):
        return math.log(s) ** 2

    chances = [
        0,
        (a - b) - b * math.log(a / b) - c / 2 * square(a / b),
        (b - b * math.log(b)) - (c - c * math.log(c)) + c / 2 * (square(b) - square(c)),
        c * (1 - math.log(c) + square(c) / 2),
    ]
    chances[0] = 1 - sum(chances)
    law = Counter()
    for tau, weight in enumerate(chances):
        last = p[3] if tau == 3 else np.maximum(p[tau] - q[tau], 0)
        last = last if last.sum() > 0 else p[tau]
        for y in np.flatnonzero(last):
            law[*x[:tau].tolist(), int(y)] += weight * last[y] / last.sum()
    return law


def shared_noise(p, q, x):
    """Law of the residual race when it runs on the clocks that the draft's race was won with.

    Given that x won at time m, Exp(1), every other clock z rings at q_z m plus a fresh Exp(1).
    """
    rates = residual(p, q, x)
    return np.array([_wins(y, rates, q) if rates[y] > 0 else 0.0 for y in range(len(p))])


def _wins(y, rates, q):
    rivals = [z for z in np.flatnonzero(rates) if z != y]

    def density(m, e):
        # y rings at (q_y m + e) / r_y; a rival z later than that.
        at = (q[y] * m + e) / rates[y]
        later = [math.exp(-max(rates[z] * at - q[z] * m, 0)) for z in rivals]
        return math.exp(-m - e) * math.prod(later)

    if not rivals:
        return 1.0
    (z,) = rivals
    # The integrand has a kink where the rival's head start is used up.
    slope = (rates[y] * q[z] / rates[z]) - q[y]

    def inner(m):
        cut = slope * m
        if cut <= 0:
            return integrate.quad(lambda e: density(m, e), 0, 60)[0]
        return (
            integrate.quad(lambda e: density(m, e), 0, cut)[0]
            + integrate.quad(lambda e: density(m, e), cut, cut + 60)[0]
        )

    return integrate.quad(inner, 0, 60, epsabs=1e-9)[0]


def coupled_match_law(target, draft, gamma):
    """Law of the tokens of a call: the target's own draws, kept while the draft's agree.

    Both argmaxes are x with chance 1 / sum_z max(p_z / p_x, q_z / q_x) (Daliri et al. 2024).
    """
    law = Counter()

    def descend(tokens, reach):
        p, q = target(tokens), draft(tokens)
        for y in range(len(p)):
            both = 1 / np.maximum(p / p[y], q / q[y]).sum() if len(tokens) < gamma else 0.0
            law[(*tokens, y)] += reach * (p[y] - both)
            if both > 0:
                descend((*tokens, y), reach * both)

    descend((), 1.0)
    return law
