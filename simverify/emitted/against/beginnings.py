"""How answers to one prompt begin: their first two tokens counted, and what their tokens score.

Counts are of both engines' answers together, so that no swap of a pair changes a weight.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from simverify import stats
from simverify.arrays import Floats
from simverify.emitted.against.answers import Pairs, Unit, flat

FIRST = 2
"""Units of a beginning: speculation shows from the second token on, where a prompt gives the first.
"""

_CELLS = 4000
"""Beginnings of one prompt that are counted by themselves, the most frequent."""

_SEEN = 16
"""Answers that came a way at least, for the score of what follows it."""

_DEEP = 8
"""Units of an answer that are scored, at most."""

Group = Sequence[tuple[tuple[Unit, ...], tuple[Unit, ...]]]


@dataclass(frozen=True, eq=False)
class Counted:
    """Beginnings of the prompts that were asked most, as blocks for a sum of squares.

    ``blocks``: for each of those prompts the differences of its pairs, each beginning's over the
    root of its count, sparse (pairs, beginnings). ``excess``: for each what a TV of 1 adds to
    its sum, if every token's rate is off by the same share. ``once``: the share of all answers
    whose beginning no other has.
    """

    blocks: tuple[sparse.csr_array, ...]
    excess: Floats
    once: float

    def detectable(self, alpha: float) -> float:
        """Return the mean TV of beginnings that is found with power .9; inf if none is.

        It is spread over prompts as is hardest to find, and off by the same share of each
        beginning's chance, which is the hardest shape but for what is seen once alone.
        """
        if not (self.excess > 0.0).all():
            return math.inf
        due = stats.needed_excess(alpha, stats.quadratic_spread(self.blocks))
        return math.sqrt(due * float((1.0 / self.excess).sum())) / len(self.excess)


def most_asked(pairs: Pairs) -> list[Group]:
    """Return the groups of the prompts that were asked half as often as any, or oftener."""
    most = max(map(len, pairs.groups))
    return [group for group in pairs.groups if 2 * len(group) >= most]


def counted(groups: Sequence[Group]) -> Counted:
    """Count how the answers of each group begin."""
    blocks, excess, once, n = [], [], 0, 0
    for group in groups:
        count = Counter(answer[:FIRST] for pair in group for answer in pair)
        own = [start for start, many in count.most_common(_CELLS) if many >= 2]
        place = {start: i for i, start in enumerate(own)}
        rest = len(own)
        columns = [place.get(answer[:FIRST], rest) for pair in group for answer in pair]
        signs = np.tile([1.0, -1.0], len(group))
        rows = np.repeat(np.arange(len(group)), 2)
        # Entries at one place are added: a pair that begins alike differs by nothing.
        values = sparse.csr_array((signs, (rows, columns)), shape=(len(group), rest + 1))
        sizes = np.array([float(count[start]) for start in own])
        left = 2.0 * len(group) - sizes.sum()
        weights = 1.0 / np.sqrt(np.append(sizes, max(left, 1.0)))
        blocks.append(sparse.csr_array(values.multiply(weights[None, :])))
        excess.append(float((sizes - 1.0).sum()))
        once += sum(many == 1 for many in count.values())
        n += 2 * len(group)
    return Counted(tuple(blocks), np.array(excess), once / n)


def collisions(group: Group) -> float:
    """Return how often two answers to a prompt begin alike, of all pairs of its answers."""
    count = Counter(answer[:FIRST] for pair in group for answer in pair)
    n = sum(count.values())
    return sum(many * (many - 1) for many in count.values()) / max(n * (n - 1), 1)


def scores(pairs: Pairs) -> Floats:
    """Return by how much each pair differs in how its tokens fit, float64 (pairs, 4), uncorrelated.

    A token's score is the log of its share among the answers that came the same way, and of its
    share among all tokens: a draft that is weaker than its target knows the second better than
    the first. First tokens and later ones are summed apart.
    """
    units = Counter(unit for _, *both in flat(pairs) for answer in both for unit in answer)
    all_units = math.log(max(sum(units.values()), 1))
    ways = Counter(
        (prompt, answer[:k])
        for prompt, *both in flat(pairs) for answer in both
        for k in range(min(len(answer), _DEEP) + 1)
    )  # fmt: skip

    def scored(prompt: int, answer: tuple[Unit, ...]) -> Floats:
        found = np.zeros(4)
        for k in range(min(len(answer), _DEEP)):
            came = ways[prompt, answer[:k]]
            if came < _SEEN:
                break
            at = 0 if k == 0 else 2
            found[at] += math.log(ways[prompt, answer[: k + 1]] / came)
            found[at + 1] += math.log(units[answer[k]]) - all_units
        return found

    values = np.array([scored(p, a) - scored(p, b) for p, a, b in flat(pairs)])
    return _uncorrelated(values)


def _uncorrelated(values: Floats) -> Floats:
    """Return directions whose sums over all swaps have one spread and no correlation."""
    sizes, vectors = np.linalg.eigh(values.T @ values)
    kept = sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300)
    if not kept.any():
        return np.zeros((len(values), 1))
    found: Floats = values @ (vectors[:, kept] / np.sqrt(sizes[kept]))
    return found
