"""Small Markov pairs that leave no rule a place to hide: zeros on either side, distinct rows."""

from fractions import Fraction

import numpy as np

from simverify.models.base import MarkovModel, rational_markov


def random_pair(seed: int, vocab_size: int, states: int | None = None) -> MarkovModel:
    """Rational pair with a fifth of the entries zero: p = 0 < q, q = 0 < p and both."""
    rng = np.random.default_rng([seed, vocab_size])

    def row() -> list[Fraction]:
        weights = rng.integers(1, 8, vocab_size) * (rng.random(vocab_size) < 0.8)
        weights[rng.integers(vocab_size)] += 1
        return [Fraction(int(w), int(weights.sum())) for w in weights]

    states = states or vocab_size
    target, draft = ([row() for _ in range(states + 1)] for _ in range(2))
    return rational_markov(f"random-{seed}", target[-1], target[:-1], draft[-1], draft[:-1])


def one_hot_pair() -> MarkovModel:
    """Return a target at temperature 0 under a draft that is not."""
    target = [[Fraction(x == y) for x in range(3)] for y in (2, 0, 1)]
    draft = [[Fraction(n, 6) for n in row] for row in ((1, 2, 3), (4, 2, 0), (2, 2, 2))]
    return rational_markov("one-hot", target[1], target, draft[0], draft)


def equal_pair() -> MarkovModel:
    """Return a draft that is the target."""
    rows = [[Fraction(n, 7) for n in row] for row in ((1, 2, 4), (5, 2, 0), (3, 3, 1))]
    return rational_markov("equal", rows[2], rows, rows[2], rows)


def partly_equal_pair() -> MarkovModel:
    """Rows that agree after token 0 alone: no residual mass there (0/0), much elsewhere."""
    target = [[Fraction(n, 8) for n in row] for row in ((1, 3, 4), (5, 2, 1), (0, 1, 7))]
    draft = [[Fraction(n, 8) for n in row] for row in ((1, 3, 4), (1, 6, 1), (4, 4, 0))]
    return rational_markov("partly-equal", target[1], target, draft[2], draft)


def disjoint_pair() -> MarkovModel:
    """Target and draft that share no token."""
    target = [[Fraction(1, 3), Fraction(2, 3), Fraction(0), Fraction(0)]] * 2
    draft = [[Fraction(0), Fraction(0), Fraction(1, 4), Fraction(3, 4)]] * 2
    return rational_markov("disjoint", target[0], target, draft[0], draft)
