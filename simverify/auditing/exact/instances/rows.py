"""Rows of the small instances: pairs of a target's and a draft's, as integer weights.

Hand-made ones by what they are for, and seeded random ones where vocabularies are larger.
"""

import math
import random
from collections.abc import Iterator

Weights = tuple[int, ...]
Pair = tuple[Weights, Weights]

# Pairs (target, draft) of rows by what they are for; the first of each list stands alone.
ROWS: dict[int, tuple[tuple[str, list[Pair]], ...]] = {
    2: (
        ("plain", [((1, 2), (2, 1)), ((3, 1), (1, 1)), ((2, 3), (4, 1))]),
        ("p zero", [((0, 1), (1, 1)), ((1, 0), (1, 2)), ((1, 1), (2, 1))]),
        ("q zero", [((1, 1), (0, 1)), ((2, 1), (1, 0)), ((1, 2), (1, 1))]),
        ("equal", [((1, 2), (1, 2)), ((3, 1), (3, 1)), ((1, 1), (1, 1))]),
        ("disjoint", [((0, 1), (1, 0)), ((1, 0), (0, 1)), ((1, 2), (2, 1))]),
        ("skewed", [((1, 999), (1, 1)), ((1, 1), (1, 999)), ((1, 99), (99, 1)), ((9, 1), (1, 9))]),
    ),
    3: (
        ("plain", [((5, 1, 6), (6, 2, 4)), ((6, 3, 3), (5, 6, 1)), ((4, 2, 6), (2, 9, 1)),
                   ((3, 3, 6), (4, 6, 2)), ((1, 5, 6), (8, 3, 1))]),
        ("wide residual", [((4, 4, 1), (1, 1, 7)), ((1, 3, 5), (7, 1, 1)), ((5, 2, 2), (1, 7, 1)),
                           ((3, 1, 5), (1, 7, 1))]),
        ("p zero", [((0, 2, 1), (3, 1, 1)), ((1, 0, 3), (1, 2, 1)), ((2, 1, 0), (1, 1, 4)),
                    ((1, 1, 1), (2, 1, 3))]),
        ("q zero", [((2, 1, 1), (0, 1, 3)), ((1, 3, 1), (2, 0, 1)), ((1, 1, 2), (3, 1, 0)),
                    ((3, 1, 2), (1, 3, 1))]),
        ("one-hot draft", [((2, 1, 3), (1, 0, 0)), ((1, 2, 1), (0, 0, 1)), ((3, 1, 1), (0, 1, 0))]),
        ("one-hot target", [((0, 1, 0), (1, 1, 2)), ((1, 0, 0), (2, 1, 1)),
                            ((0, 0, 1), (1, 3, 1))]),
        ("ties", [((1, 1, 1), (2, 1, 1)), ((1, 1, 2), (1, 1, 1)), ((2, 1, 2), (1, 1, 1))]),
        ("equal", [((1, 2, 3), (1, 2, 3)), ((2, 2, 1), (2, 2, 1))]),
        ("skewed", [((1, 10, 989), (500, 499, 1)), ((1, 1, 98), (98, 1, 1)),
                    ((40, 1, 9), (1, 40, 9)), ((9000, 900, 100), (1, 1, 1))]),
        ("rare draft", [((1, 99_999_899, 100), (100, 99_999_899, 1)), ((1, 1, 1), (1, 9, 999_990)),
                        ((1, 9, 999_990), (500_000, 499_999, 1))]),
        ("rare residual", [((2, 499_998, 500_000), (0, 999_999, 1)), ((1, 9, 99_990), (1, 1, 1)),
                           ((1, 1, 1), (2, 1, 2))]),
        ("disjoint", [((1, 2, 0), (0, 0, 1)), ((0, 1, 1), (1, 0, 0)), ((1, 0, 2), (0, 1, 0))]),
    ),
}  # fmt: skip


LARGE: tuple[tuple[int, int, int, int], ...] = (
    (4, 1, 1, 1), (4, 4, 2, 1), (5, 1, 1, 1), (5, 4, 2, 1), (6, 1, 1, 1), (6, 1, 6, 1),
    (6, 2, 3, 1), (8, 1, 1, 1), (8, 1, 8, 1), (8, 2, 5, 1), (9, 1, 9, 1), (12, 1, 1, 1),
    (12, 1, 12, 1), (12, 2, 5, 1),
)  # fmt: skip
"""(V, gamma, tokens that a draft row holds, instances) of the larger vocabularies.

Targets hold every token, so residuals are wide: a list of five, or a mask of eight bits, is
too short for them. Drafts of few tokens keep the paths few.
"""


NEAR_ONE: tuple[Pair, ...] = (
    ((999, 501, 500), (1_000, 500, 500)),
    ((9_995, 5_003, 5_002), (10_000, 5_000, 5_000)),
    ((99_999, 50_001, 50_000), (100_000, 50_000, 50_000)),
)
"""Ratios p/q just under 1 and just above: what is nearly always accepted still takes a coin."""


def large_rows(rng: random.Random, vocab: int, most: int) -> list[Pair]:
    """Random rows whose targets hold every token and whose drafts hold ``most``."""

    def draft() -> Weights:
        held = rng.sample(range(vocab), most)
        return tuple(rng.randint(1, 9) if x in held else 0 for x in range(vocab))

    return [(tuple(rng.randint(1, 9) for _ in range(vocab)), draft()) for _ in range(4)]


def random_rows(rng: random.Random, vocab: int, count: int) -> list[Pair]:
    """Random rows with zeros here and there; every row has some mass."""

    def row() -> Weights:
        weights = [rng.choice((0, 1, 1, 2, 3, 5, 8)) for _ in range(vocab)]
        weights[rng.randrange(vocab)] += 1
        return tuple(weights)

    return [(row(), row()) for _ in range(count)]


def sweep() -> Iterator[Pair]:
    """Yield rows of two tokens whose q steps through (0, 1) by .01, with p/q all over (0, 1).

    Code that goes wrong for probabilities or ratios of a narrow range goes wrong on one. Then rows
    of three tokens with p/q next to 1, and with p and q next to 0 and 1.
    """
    golden = (math.sqrt(5) - 1) / 2
    for k in range(100):
        q = 100 * k + 50
        p = max(1, round(q * ((k + 1) * golden % 1)))
        yield (p, 10_000 - p), (q, 10_000 - q)
    yield from NEAR_ONE
    yield (1, 5_000_000, 4_999_999), (2, 4_999_999, 4_999_999)
    yield (9_999_996, 3, 1), (9_999_990, 4, 6)


_ONE_DRAFT = {"plain, V=2, gamma=1", "plain, V=3, gamma=1", "wide residual, V=3, gamma=1"}

EVERY_WAY = frozenset(
    {*_ONE_DRAFT, "plain, V=2, gamma=2", "plain, V=3, gamma=2", "plain, V=3, gamma=3"}
)
"""Names of instances on which calls are made after each way in which earlier ones can end."""

CORE = {
    "verify": EVERY_WAY,
    # A call may run several rounds, whose paths multiply: two tokens are all that is random.
    "step": frozenset({*_ONE_DRAFT, "two tokens, V=2, gamma=2", "two tokens, V=3, gamma=2"}),
}
"""Names of the instances that a verdict needs, by contract: they expose every catalogued fault
which shows in the law of a call or of a generation. Smaller ones stand first, and a fault that
shows at two tokens needs no larger one.
"""
