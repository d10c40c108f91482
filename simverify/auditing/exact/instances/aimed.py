"""Instances made for a test of which one outcome never came, from the numbers that lead to it.

One number leads to a few instances, which are in the battery (:mod:`.hinted`). Where a test asks
for several things at once (the third token is 7, of 40, and its ratio is below .3) they are drawn
together, and what led to something new is varied further, as coverage-guided fuzzers do [1]_.

References
----------
.. [1] Boehme, Pham and Roychoudhury, "Coverage-based Greybox Fuzzing as Markov Chain", CCS 2016.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from simverify.auditing.coverage.conditions import Aim
from simverify.auditing.exact.instances.hinted import (
    MAX_GAMMA,
    MAX_PROMPT,
    MAX_VOCAB,
    NEAR,
    UNIT,
    Contract,
)
from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.instances.rows import Weights

_MOST_ENTRIES = 100_000
"""Blocks of one instance at most, V^(gamma+1): their laws are arrays."""

_NEAR_FIRST = 0.7
"""How often a number is taken from the test and those around it, and not from all its function."""

_CERTAIN = 0.5
"""How often drafts are certain, where no number is a fraction: such instances have few paths."""

_NARROW = Fraction(21, 20)
"""Two numbers whose ratio is smaller are taken for the ends of a range."""

_PLAIN = (Fraction(1, 5), Fraction(1, 2), Fraction(4, 5))
_MOST_ROWS = 3
_MOST_IDS = 2
_MOST_HELD = 3
_CERTAIN_FROM = 3
"""Gamma from which drafts are certain, so that the paths are few."""

Part = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Recipe:
    """What an instance is made of.

    ``ids``: tokens that have mass beside the first and the last of ``vocab``. ``parts``: p and q of
    one of these tokens, in each row. ``after``: the length of the prompt.
    """

    vocab: int
    gamma: int
    ids: tuple[int, ...]
    parts: tuple[Part, ...]
    after: int = 0

    @classmethod
    def of(cls, model: SmallModel) -> "Recipe":
        """Return what is like ``model``: its sizes, and the mass of one of its tokens."""
        vocab = model.vocab_size
        # What is drafted first: it is what code meets.
        sides = (model.drafts, model.targets)
        held = list(dict.fromkeys(
            x for side in sides for x in range(vocab) if any(row[x] for row in side)
        ))  # fmt: skip
        ids = tuple(x for x in held if 0 < x < vocab - 1)[:_MOST_HELD]
        token = ids[0] if ids else 0
        parts = tuple(
            (Fraction(p[token], sum(p)), Fraction(q[token], sum(q)))
            for p, q in zip(model.targets, model.drafts, strict=True)
        )
        return cls(vocab, model.gamma, ids, parts[:_MOST_ROWS], len(model.prompt))

    def model(self, eos: int | None) -> SmallModel:
        """Return the instance; ``eos`` ends a generation where the vocabulary has it."""
        ids = [token for token in self.ids if token < self.vocab] or [0]
        held = sorted({0, self.vocab - 1, *ids})
        targets, drafts = [], []
        for n, (p, q) in enumerate(self.parts):
            token = ids[n % len(ids)]
            others = [other for other in held if other != token]
            targets.append(_row(self.vocab, token, p, others))
            certain = self.gamma >= _CERTAIN_FROM
            drafts.append(_row(self.vocab, token, Fraction(1) if certain else q, others[::-1]))
        usual = [token for token in held if token != eos] or held
        return SmallModel(
            f"aimed, V={self.vocab}, gamma={self.gamma}"
            + (f", after {self.after} tokens" if self.after else ""),
            self.gamma, tuple(targets), tuple(drafts),
            prompt=tuple(usual[n % len(usual)] for n in range(self.after)),
            eos=eos if eos is not None and eos < self.vocab else None,
        )  # fmt: skip


class Aimed:
    """Draws recipes, by a generator of its own, from the numbers of tests."""

    def __init__(self, contract: Contract, seed: int) -> None:
        self._contract = contract
        self._rng = random.Random(seed)

    def fresh(self, aim: Aim) -> Recipe:
        """Return a recipe of which every part is drawn."""
        # One part goes to the test itself; the others, to what it stands in.
        own = Aim(aim.own or aim.near)
        about = [Aim(near=aim.near, far=aim.far)] * 5
        about[self._rng.randrange(5)] = own
        ids = self._ids(about[0])
        vocab = self._vocab(about[1], ids)
        count = self._rng.randint(1, _MOST_ROWS)
        parts = tuple(self._part(about[2]) for _ in range(count))
        return _fitting(Recipe(vocab, self._gamma(about[3]), ids, parts, self._after(about[4])))

    def one_change(self, recipe: Recipe, aim: Aim) -> Iterator[Recipe]:
        """Yield the recipe with one part set to each number of a test, then next to it."""
        fields, numbers = self._fields(aim), sorted(aim.kinds[0])
        for step in (0, 1, -1):
            for k in (math.floor(x) + step for x in numbers):
                if "ids" in fields and 0 <= k <= MAX_VOCAB - 2:
                    ids = (k, *(token for token in recipe.ids if token != k))[:_MOST_IDS]
                    yield _fitting(replace(recipe, ids=ids, vocab=max(recipe.vocab, k + 1)))
                if "vocab" in fields and max((*recipe.ids, 1)) < k <= MAX_VOCAB:
                    yield _fitting(replace(recipe, vocab=k))
                if "gamma" in fields and 1 <= k <= MAX_GAMMA:
                    yield _fitting(replace(recipe, gamma=k))
                if "after" in fields and 0 <= k <= MAX_PROMPT:
                    yield replace(recipe, after=k)
            for x in _fractions(aim):
                share = min(self._beside(x, aim), Fraction(1))
                for p, q in dict.fromkeys(recipe.parts):
                    yield replace(recipe, parts=((share, q),))
                    yield replace(recipe, parts=((p, share),))

    def varied(self, recipe: Recipe, aim: Aim) -> Recipe:
        """Return the recipe with one part drawn anew."""
        match self._rng.choice(self._fields(aim)):
            case "ids":
                ids = self._ids(aim)
                enough = max(recipe.vocab, *(token + 1 for token in ids), 2)
                return _fitting(replace(recipe, ids=ids, vocab=enough))
            case "vocab":
                return _fitting(replace(recipe, vocab=self._vocab(aim, recipe.ids)))
            case "gamma":
                return _fitting(replace(recipe, gamma=self._gamma(aim)))
            case "after":
                return replace(recipe, after=self._after(aim))
            case _:
                n = self._rng.randrange(len(recipe.parts))
                parts = (*recipe.parts[:n], self._part(aim), *recipe.parts[n + 1 :])
                return replace(recipe, parts=parts)

    def _fields(self, aim: Aim) -> list[str]:
        """Return what the numbers of a test may be about."""
        fields = ["parts"] if _fractions(aim) else []
        if any(float(x).is_integer() for x in aim.kinds[0]) or not fields:
            fields += ["ids", "vocab", "gamma"] + ["after"] * (self._contract == "step")
        return fields

    def rows(self, recipe: Recipe, aim: Aim) -> Recipe:
        """Return the recipe with other rows, on the same tokens."""
        count = self._rng.randint(1, _MOST_ROWS)
        parts = tuple(self._part(aim) for _ in range(count))
        ids = self._rng.sample(recipe.ids, len(recipe.ids))
        return replace(recipe, parts=parts, ids=tuple(ids))

    def _number(self, aim: Aim) -> float:
        kinds = aim.kinds
        kind = kinds[0] if self._rng.random() < _NEAR_FIRST else kinds[-1]
        return self._rng.choice(sorted(kind))

    def _whole(self, aim: Aim, least: int, most: int, steps: tuple[int, ...]) -> int | None:
        number = self._number(aim)
        found = math.floor(number) + self._rng.choice(steps)
        return found if least <= found <= most else None

    def _ids(self, aim: Aim) -> tuple[int, ...]:
        drawn = (self._whole(aim, 0, MAX_VOCAB - 2, (-1, 0, 0, 1)) for _ in range(_MOST_IDS))
        return tuple(dict.fromkeys(token for token in drawn if token is not None))

    def _vocab(self, aim: Aim, ids: tuple[int, ...]) -> int:
        least = max((*ids, 1)) + 1
        asked = self._whole(aim, least, MAX_VOCAB, (0, 0, 1, 2))
        return asked if asked is not None else least + self._rng.randint(0, 1)

    def _gamma(self, aim: Aim) -> int:
        if self._rng.random() < 0.5:
            return self._rng.randint(1, 2)
        return self._whole(aim, 1, MAX_GAMMA, (0, 0, 1)) or 1

    def _after(self, aim: Aim) -> int:
        if self._contract != "step" or self._rng.random() < 0.5:
            return 0
        return self._whole(aim, 0, MAX_PROMPT, (-1, 0, 1)) or 0

    def _part(self, aim: Aim) -> Part:
        """Draw p and q on a side of numbers, or p/q."""
        rng, number = self._rng, self._number(aim)
        if 0 < number <= 8 and rng.random() < 0.4:
            ratio = self._beside(number, aim)
            q = min(Fraction(1, 2), Fraction(9, 10) / ratio)
            return ratio * q, q
        p, q = (self._share(aim) for _ in range(2))
        certain = rng.random() < _CERTAIN and not _fractions(aim)
        return p, Fraction(1) if certain else q

    def _share(self, aim: Aim) -> Fraction:
        number = self._number(aim)
        if not 0 < number < 1 or self._rng.random() < 0.25:
            return self._rng.choice(_PLAIN)
        return min(self._beside(number, aim), (1 + Fraction(number)) / 2)

    def _beside(self, number: float, aim: Aim) -> Fraction:
        """Return a number next to this one, or in a narrow range from it."""
        exact = Fraction(number).limit_denominator(1_000_000)
        larger = min((x for x in aim.kinds[-1] if x > number), default=number)
        if number < larger < number * _NARROW and self._rng.random() < 0.75:
            return (exact + Fraction(larger).limit_denominator(1_000_000)) / 2
        return exact * self._rng.choice((1 - NEAR, Fraction(1), 1 + NEAR))


def _fractions(aim: Aim) -> list[float]:
    return [x for x in aim.kinds[0] if 0 < x < 8 and not float(x).is_integer()]


def _fitting(recipe: Recipe) -> Recipe:
    """Return the recipe with fewer drafts where its blocks would be too many."""
    gamma = recipe.gamma
    while gamma > 1 and recipe.vocab ** (gamma + 1) > _MOST_ENTRIES:
        gamma -= 1
    return replace(recipe, gamma=gamma)


def _row(vocab: int, token: int, share: Fraction, others: list[int]) -> Weights:
    row = [0] * vocab
    row[token] = max(1, round(share * UNIT))
    for other, weight in zip(others, _shares(len(others)), strict=True):
        row[other] = round((1 - share) * weight * UNIT)
    return tuple(row)


def _shares(count: int) -> Iterator[Fraction]:
    """Yield shares that sum to 1, each larger than the one before."""
    total = count * (count + 1) // 2
    yield from (Fraction(n, total) for n in range(1, count + 1))
