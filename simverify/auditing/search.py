"""The search for a failing instance that the battery lacks, and for the simplest one.

Instances are made for the literals in the code, for branches that were never taken, and drawn at
random within the budget.
"""

import itertools
import math
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

from simverify.auditing.coverage import FIRST_CALLS, BranchTarget, CoverageMonitor, branch_targets
from simverify.auditing.instances import RowPair, RowWeights, SmallModel, max_tree_count
from simverify.folders import cache_folder
from simverify.trees import ROOT, Drafting, Scheme, TreeShape, shape_of_levels

# Instances made for the literals in the code under audit. A literal 50 may be a limit of the
# vocabulary, of an id, or of the length of a prefix or a draft; a literal .995 one of a probability
# or of p/q. Each gives small instances on either side of it; rows of few tokens keep the paths few.

Contract = Literal["verify", "step", "tree", "draft"]

MAX_LITERALS = 12  # numbers of each kind that instances are made for, the smallest first
MAX_LITERAL_VOCAB = 300  # largest V: the law of two tokens has V^2 entries
MAX_LITERAL_GAMMA = 8
MAX_LITERAL_PROMPT = 600
MAX_LITERAL_COUNT = 12  # most nodes, children and tokens of small trees that are made for a number
_BYTE_RANGE = 256  # ids of eight bits wrap here without any number in the code
_MIN_LARGE_VOCAB = 6  # vocabularies of so many tokens and fewer are all in the battery
_MAX_FULL_ROW_VOCAB = 24  # V of rows that hold all ids where the code drafts itself: V^2 paths
WEIGHT_UNIT = 10_000_000
RELATIVE_OFFSET = Fraction(1, 400)
"""How far from a number the instances on either side of it are, relative to it."""

_MOSTLY_CERTAIN_ROWS: tuple[RowPair, ...] = (((1, 2), (0, 1)), ((3, 1), (1, 1)), ((2, 3), (1, 0)))


@dataclass(frozen=True)
class LiteralHints:
    """Numbers of the code that instances go to either side of."""

    sizes: tuple[int, ...] = ()  # of vocabularies and ids
    drafts: tuple[int, ...] = ()  # draft lengths beyond the battery's
    parts: tuple[float, ...] = ()  # of probabilities and p/q
    lengths: tuple[int, ...] = ()  # of prefixes, for rules that see them
    # Of what a draft tree has many of, and of small vocabularies, for code on trees.
    counts: tuple[int, ...] = ()
    # Vocabularies of just so many tokens, and of one more: code that goes through them piece by
    # piece may lose the last.
    ends: tuple[int, ...] = ()

    @classmethod
    def among(
        cls, numbers: Iterable[int | float], contract: Contract, max_gamma: int, max_vocab: int
    ) -> "LiteralHints":
        """Return those of ``numbers`` that the battery's V and gamma do not reach already."""
        values = set(numbers)
        whole = sorted({int(x) for x in values if abs(x) < 1e6 and float(x).is_integer()})

        def within(least: int, most: int, *contracts: Contract) -> tuple[int, ...]:
            fits = (k for k in whole if least <= k <= most and contract in contracts)
            return tuple(itertools.islice(fits, MAX_LITERALS))

        drafts = {n for k in whole for n in (k, k + 1) if max_gamma < n <= MAX_LITERAL_GAMMA}
        # Whole ones above 1 are indices in all code there is.
        fractions = (x for x in values if isinstance(x, float) and 1 < x <= 8)
        parts = {float(x) for x in (*fractions, *(x for x in values if 1e-6 < x < 1 - 1e-9))}
        return cls(
            within(max(max_vocab - 2, 2), MAX_LITERAL_VOCAB - 2, contract),
            tuple(sorted(drafts)),
            tuple(sorted(parts)[:MAX_LITERALS]),
            within(4, MAX_LITERAL_PROMPT, "step", "draft"),
            within(3, MAX_LITERAL_COUNT, "tree", "draft"),
            within(_MIN_LARGE_VOCAB, MAX_LITERAL_VOCAB - 1, "verify", "step"),
        )

    @property
    def numbers(self) -> tuple[float, ...]:
        """All of them."""
        return tuple(sorted({x for numbers in astuple(self) for x in numbers}))

    def models(self, contract: Contract, eos: int | None = None) -> list[SmallModel]:
        """Return the instances; ``eos`` ends a generation where the vocabulary has it."""
        models = [model for x in self.parts for model in ratio_rows(x)]
        rows, name = _MOSTLY_CERTAIN_ROWS, "around {0}, V=2, gamma={0}"
        models += [SmallModel.of_pairs(name.format(n), n, rows) for n in self.drafts]
        models += [_prompt_instances(k, eos) for k in self.lengths]
        sizes = (*self.sizes, _BYTE_RANGE)
        models += [model for k in sizes for model in _vocab_instances(k, contract)]
        models += [_last_id_instance(k, vocab) for k in self.ends for vocab in (k, k + 1)]
        end = math.inf if eos is None else eos
        return [replace(m, eos=eos) if end < m.vocab_size else m for m in models]


def _vocab_instances(k: int, contract: Contract) -> Iterator[SmallModel]:
    """Yield rows on a few ids around ``k``, and rows that hold all ids of a vocabulary."""
    vocab = k + 2
    ids = sorted({0, k - 1, k, vocab - 1})

    def sparse(*weights: int) -> RowWeights:
        held = dict(zip(ids, weights, strict=False))
        return tuple(held.get(token, 0) for token in range(vocab))

    pairs = [
        (sparse(2, 3, 1, 4), sparse(3, 1, 4, 2)),
        (sparse(1, 4, 3, 2), sparse(4, 2, 1, 3)),
        (sparse(3, 1, 2, 5), sparse(1, 3, 3, 1)),
    ]
    yield SmallModel.of_pairs(f"around {k}, V={vocab}, gamma=1, few ids", 1, pairs)
    # A residual of every token, one drafted: as many paths as tokens.
    if contract == "step" and vocab > _MAX_FULL_ROW_VOCAB:
        return
    every = tuple(1 + (7 * x) % 5 for x in range(vocab))
    one = tuple(int(x == k) for x in range(vocab))
    yield SmallModel.of_pairs(f"around {k}, V={vocab}, gamma=1, all ids", 1, [(every, one)])


def _last_id_instance(k: int, vocab: int) -> SmallModel:
    """Rows on the first and the last ids."""
    none = (0,) * (vocab - 3)
    pairs = [((2, *none, 1, 3), (3, *none, 0, 1))]
    return SmallModel.of_pairs(f"ending at {k}, V={vocab}, gamma=1", 1, pairs)


def _prompt_instances(k: int, eos: int | None) -> SmallModel:
    """Outputs that begin one token before a prefix of ``k``, and go on beyond it."""
    usual = [token for token in (0, 1) if token != eos]
    prompt = tuple(usual[x % len(usual)] for x in range(k - 1))
    name = f"around {k}, V=2, gamma=2, after {k - 1} tokens"
    targets, drafts = ((1, 2), (3, 1), (2, 3)), ((2, 1), (1, 1), (4, 1))
    return SmallModel(name, 2, targets, drafts, prompt=prompt)


def ratio_rows(x: float) -> Iterator[SmallModel]:
    """Yield single rows in which p/q, p or q stands on either side of ``x``."""
    near = Fraction(x).limit_denominator(1_000_000)
    sides = [near * (1 - RELATIVE_OFFSET), near * (1 + RELATIVE_OFFSET)]
    if near < 1:
        sides = [near / 2, sides[0], min(sides[1], (near + 1) / 2), (near + 1) / 2]
    for n, side in enumerate(sides, 1):
        q = min(Fraction(1, 2), Fraction(9, 10) / side)
        rows = {"p/q": (q * side, q)}
        if side < 1:
            rows |= {"p": (side, Fraction(1, 3)), "q": (Fraction(1, 3), side)}
        for what, (p, draft) in rows.items():
            pairs = [(_three_token_row(p, 2), _three_token_row(draft, 3))]
            yield SmallModel.of_pairs(f"around {x:g}, {what} {n}, V=3, gamma=1", 1, pairs)


def _three_token_row(first: Fraction, parts: int) -> RowWeights:
    """Return the weights of a row of three with so much on token 0, the rest one to ``parts``."""
    rest = 1 - first
    shares = (first, rest / (1 + parts), rest * parts / (1 + parts))
    return tuple(max(1, round(share * WEIGHT_UNIT)) for share in shares)


# Instances made for a test of which one outcome never came, from the numbers that lead to it. Where
# a test asks for several things at once (the third token is 7, of 40, and its ratio is below .3)
# they are drawn together, and what led to something new is varied, as coverage-guided fuzzers do.
# Source: Boehme, Pham and Roychoudhury, "Coverage-based Greybox Fuzzing as Markov Chain", CCS 2016.

_MAX_LAW_ENTRIES = 100_000  # blocks of one instance at most, V^(gamma+1): their laws are arrays
_NEAR_RATE = 0.7  # how often a number is from the test itself, and not from all its function
_CERTAIN_RATE = 0.5  # how often drafts are certain, where no number is a fraction: few paths
_NARROW_RATIO = Fraction(21, 20)  # two numbers of a smaller ratio are the ends of a range
_DEFAULT_SHARES = (Fraction(1, 5), Fraction(1, 2), Fraction(4, 5))
_MAX_ROWS = 3
_MAX_IDS = 2
_MAX_KEPT_IDS = 3
_MIN_CERTAIN_GAMMA = 3  # gamma from which drafts are certain, so that the paths are few
RowShares = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Recipe:
    """What an instance is made of."""

    vocab: int
    gamma: int
    ids: tuple[int, ...]  # tokens that have mass beside the first and the last
    parts: tuple[RowShares, ...]  # p and q of one of these tokens, in each row
    after: int = 0  # the length of the prompt

    @classmethod
    def of(cls, model: SmallModel) -> "Recipe":
        """Return what is like ``model``: its sizes, and the mass of one of its tokens."""
        vocab = model.vocab_size
        # What is drafted first: it is what code meets.
        sides = (model.drafts, model.targets)
        held = (x for side in sides for x in range(1, vocab - 1) if any(row[x] for row in side))
        ids = tuple(dict.fromkeys(held))[:_MAX_KEPT_IDS]
        token = ids[0] if ids else 0
        parts = tuple(
            (Fraction(p[token]) / Fraction(sum(p)), Fraction(q[token]) / Fraction(sum(q)))
            for p, q in zip(model.targets, model.drafts, strict=True)
        )
        return cls(vocab, model.gamma, ids, parts[:_MAX_ROWS], len(model.prompt))

    def model(self, eos: int | None) -> SmallModel:
        """Return the instance; ``eos`` ends a generation where the vocabulary has it."""
        ids = [token for token in self.ids if token < self.vocab] or [0]
        held = sorted({0, self.vocab - 1, *ids})
        targets, drafts = [], []
        for n, (p, q) in enumerate(self.parts):
            token = ids[n % len(ids)]
            others = [other for other in held if other != token]
            share = Fraction(1) if self.gamma >= _MIN_CERTAIN_GAMMA else q
            targets.append(_recipe_row(self.vocab, token, p, others))
            drafts.append(_recipe_row(self.vocab, token, share, others[::-1]))
        usual = [token for token in held if token != eos] or held
        after = f", after {self.after} tokens" if self.after else ""
        return SmallModel(
            f"aimed, V={self.vocab}, gamma={self.gamma}{after}",
            self.gamma,
            tuple(targets),
            tuple(drafts),
            prompt=tuple(usual[n % len(usual)] for n in range(self.after)),
            eos=eos if eos is not None and eos < self.vocab else None,
        )


class RecipeSampler:
    """Draws recipes, by a generator of its own, from the numbers of tests."""

    def __init__(self, contract: Contract, seed: int) -> None:
        self._contract = contract
        self._rng = random.Random(seed)

    def fresh(self, aim: BranchTarget) -> Recipe:
        """Return a recipe of which every part is drawn."""
        # One part goes to the test itself; the others, to what it stands in.
        focus = BranchTarget(aim.own or aim.near)
        about = [BranchTarget(near=aim.near, far=aim.far)] * 5
        about[self._rng.randrange(5)] = focus
        ids = self._ids(about[0])
        vocab = self._vocab(about[1], ids)
        parts = self._parts(about[2])
        gamma, after = self._gamma(about[3]), self._after(about[4])
        return _shrink_to_fit(Recipe(vocab, gamma, ids, parts, after))

    def one_change(self, recipe: Recipe, aim: BranchTarget) -> Iterator[Recipe]:
        """Yield the recipe with one part set to each number of a test, then next to it."""
        fields, numbers = self._fields(aim), sorted(aim.kinds[0])
        for step in (0, 1, -1):
            for k in (math.floor(x) + step for x in numbers):
                if "ids" in fields and 0 <= k <= MAX_LITERAL_VOCAB - 2:
                    ids = (k, *(token for token in recipe.ids if token != k))[:_MAX_IDS]
                    yield _shrink_to_fit(replace(recipe, ids=ids, vocab=max(recipe.vocab, k + 1)))
                if "vocab" in fields and max((*recipe.ids, 1)) < k <= MAX_LITERAL_VOCAB:
                    yield _shrink_to_fit(replace(recipe, vocab=k))
                if "gamma" in fields and 1 <= k <= MAX_LITERAL_GAMMA:
                    yield _shrink_to_fit(replace(recipe, gamma=k))
                if "after" in fields and 0 <= k <= MAX_LITERAL_PROMPT:
                    yield replace(recipe, after=k)
            for x in _target_fractions(aim):
                share = min(self._beside(x, aim), Fraction(1))
                for p, q in dict.fromkeys(recipe.parts):
                    yield replace(recipe, parts=((share, q),))
                    yield replace(recipe, parts=((p, share),))

    def varied(self, recipe: Recipe, aim: BranchTarget) -> Recipe:
        """Return the recipe with one part drawn anew."""
        match self._rng.choice(self._fields(aim)):
            case "ids":
                ids = self._ids(aim)
                enough = max(recipe.vocab, *(token + 1 for token in ids), 2)
                return _shrink_to_fit(replace(recipe, ids=ids, vocab=enough))
            case "vocab":
                return _shrink_to_fit(replace(recipe, vocab=self._vocab(aim, recipe.ids)))
            case "gamma":
                return _shrink_to_fit(replace(recipe, gamma=self._gamma(aim)))
            case "after":
                return replace(recipe, after=self._after(aim))
            case _:
                n = self._rng.randrange(len(recipe.parts))
                parts = (*recipe.parts[:n], self._part(aim), *recipe.parts[n + 1 :])
                return replace(recipe, parts=parts)

    def _fields(self, aim: BranchTarget) -> list[str]:
        """Return what the numbers of a test may be about."""
        fields = ["parts"] if _target_fractions(aim) else []
        if any(float(x).is_integer() for x in aim.kinds[0]) or not fields:
            fields += ["ids", "vocab", "gamma"] + ["after"] * (self._contract == "step")
        return fields

    def rows(self, recipe: Recipe, aim: BranchTarget) -> Recipe:
        """Return the recipe with other rows, on the same tokens."""
        parts = self._parts(aim)
        ids = self._rng.sample(recipe.ids, len(recipe.ids))
        return replace(recipe, parts=parts, ids=tuple(ids))

    def _number(self, aim: BranchTarget) -> float:
        kind = aim.kinds[0 if self._rng.random() < _NEAR_RATE else -1]
        return self._rng.choice(sorted(kind))

    def _whole(
        self, aim: BranchTarget, least: int, most: int, steps: tuple[int, ...]
    ) -> int | None:
        value = math.floor(self._number(aim)) + self._rng.choice(steps)
        return value if least <= value <= most else None

    def _ids(self, aim: BranchTarget) -> tuple[int, ...]:
        drawn = (self._whole(aim, 0, MAX_LITERAL_VOCAB - 2, (-1, 0, 0, 1)) for _ in range(_MAX_IDS))
        return tuple(dict.fromkeys(token for token in drawn if token is not None))

    def _vocab(self, aim: BranchTarget, ids: tuple[int, ...]) -> int:
        least = max((*ids, 1)) + 1
        size = self._whole(aim, least, MAX_LITERAL_VOCAB, (0, 0, 1, 2))
        return least + self._rng.randint(0, 1) if size is None else size

    def _gamma(self, aim: BranchTarget) -> int:
        if self._rng.random() < 0.5:
            return self._rng.randint(1, 2)
        return self._whole(aim, 1, MAX_LITERAL_GAMMA, (0, 0, 1)) or 1

    def _after(self, aim: BranchTarget) -> int:
        if self._contract != "step" or self._rng.random() < 0.5:
            return 0
        return self._whole(aim, 0, MAX_LITERAL_PROMPT, (-1, 0, 1)) or 0

    def _parts(self, aim: BranchTarget) -> tuple[RowShares, ...]:
        return tuple(self._part(aim) for _ in range(self._rng.randint(1, _MAX_ROWS)))

    def _part(self, aim: BranchTarget) -> RowShares:
        """Draw p and q on a side of numbers, or p/q."""
        rng, number = self._rng, self._number(aim)
        if 0 < number <= 8 and rng.random() < 0.4:
            ratio = self._beside(number, aim)
            q = min(Fraction(1, 2), Fraction(9, 10) / ratio)
            return ratio * q, q
        p, q = (self._share(aim) for _ in range(2))
        certain = rng.random() < _CERTAIN_RATE and not _target_fractions(aim)
        return p, Fraction(1) if certain else q

    def _share(self, aim: BranchTarget) -> Fraction:
        number = self._number(aim)
        if not 0 < number < 1 or self._rng.random() < 0.25:
            return self._rng.choice(_DEFAULT_SHARES)
        return min(self._beside(number, aim), (1 + Fraction(number)) / 2)

    def _beside(self, number: float, aim: BranchTarget) -> Fraction:
        """Return a number next to this one, or in a narrow range from it."""
        exact = Fraction(number).limit_denominator(1_000_000)
        larger = min((x for x in aim.kinds[-1] if x > number), default=number)
        if number < larger < number * _NARROW_RATIO and self._rng.random() < 0.75:
            return (exact + Fraction(larger).limit_denominator(1_000_000)) / 2
        return exact * self._rng.choice((1 - RELATIVE_OFFSET, Fraction(1), 1 + RELATIVE_OFFSET))


def _target_fractions(aim: BranchTarget) -> list[float]:
    return [x for x in aim.kinds[0] if 0 < x < 8 and not float(x).is_integer()]


def _shrink_to_fit(recipe: Recipe) -> Recipe:
    """Return the recipe with fewer drafts where its blocks would be too many."""
    gamma = recipe.gamma
    while gamma > 1 and recipe.vocab ** (gamma + 1) > _MAX_LAW_ENTRIES:
        gamma -= 1
    return replace(recipe, gamma=gamma)


def _recipe_row(vocab: int, token: int, share: Fraction, others: list[int]) -> RowWeights:
    row = [0] * vocab
    row[token] = max(1, round(share * WEIGHT_UNIT))
    total = len(others) * (len(others) + 1) // 2
    for n, other in enumerate(others, 1):  # each gets more than the one before
        row[other] = round((1 - share) * Fraction(n, total) * WEIGHT_UNIT)
    return tuple(row)


# Draft trees and drafter instances. A literal 7 may also be a limit of the children of a node, or
# of the nodes or the depth of a tree.

MAX_WEIGHTED_TREES = 600  # trees of an instance at most, where each of them has a probability
_DEFAULT_ROOT_CHILDREN = (2, 3, 4)  # beside those that a number asks for
_MAX_CHAIN_DEPTH = 8

_MAX_FRACTION_NODES = 4  # nodes of a tree, at most, for rows around a fraction, which are many


def literal_tree_instances(
    hints: LiteralHints,
    scheme: Scheme,
    contract: Literal["tree", "draft"],
    shape: TreeShape | None = None,
) -> list[SmallModel]:
    """Return the instances; ``shape``: the one tree that the code is made for."""
    shapes = [shape] if shape is not None else _literal_tree_shapes(hints)
    models = [model for tree in shapes for model in _shape_instances(tree, scheme)]
    wide = dict.fromkeys((*_DEFAULT_ROOT_CHILDREN, *hints.counts))
    # V with the id that rows are put around: below, at and above each number.
    vocabularies = [case for k in hints.counts for case in ((k, k - 1), (k + 1, k))]
    for vocab, near in vocabularies + [(k + 2, k) for k in hints.sizes]:
        few = [shape] if shape is not None else [shape_of_levels([k]) for k in wide if k < vocab]
        models += [m for tree in few for m in _vocabulary_instances(vocab, near, tree, scheme)]
    pair = shape or shape_of_levels([2])
    if len(pair) <= _MAX_FRACTION_NODES:
        drafting = Drafting(pair, scheme)
        rows = (row for x in hints.parts for row in ratio_rows(x))
        models += [replace(row, gamma=pair.depth, drafting=drafting) for row in rows]
    if contract == "draft":
        for k in hints.lengths:
            name, chain = f"after {k} tokens", shape_of_levels([1])
            after = _literal_tree_model(name, [((2, 3), (3, 1))], chain, scheme)
            models.append(replace(after, prompt=tuple(x % 2 for x in range(k))))
    different: dict[tuple[object, ...], SmallModel] = {}
    for model in models:
        different.setdefault((model.targets, model.drafts, model.drafting, model.prompt), model)
    return list(different.values())


def _literal_tree_shapes(hints: LiteralHints) -> list[TreeShape]:
    """Return chains, siblings, and two chains of so many nodes, for each number and the next."""
    shapes: list[TreeShape] = []
    for k in sorted({near for count in hints.counts for near in (count, count + 1)}):
        shapes += [shape_of_levels([1] * k)] if k <= _MAX_CHAIN_DEPTH else []
        shapes.append(shape_of_levels([k]))
        # Node i follows the one two before: two chains, and a node more of the first if odd.
        shapes.append(TreeShape(tuple(ROOT if i < 2 else i - 2 for i in range(k))))
        shapes.append(TreeShape((ROOT, *(0,) * k)))
    return list(dict.fromkeys(shapes))


def _shape_instances(shape: TreeShape, scheme: Scheme) -> Iterator[SmallModel]:
    """Yield rows of two tokens, certain ones where trees are many; of more where they differ."""
    widest = max(len(children) for children in shape.children.values())
    name = f"around {len(shape)} nodes"
    if scheme.replaced or widest < 3:
        plain: list[RowPair] = [((1, 2), (2, 1)), ((3, 1), (1, 3)), ((2, 3), (3, 1))]
        sparse: list[RowPair] = [((2, 1), (0, 1)), ((1, 3), (1, 1)), ((3, 2), (1, 0))]
        few = 2 ** len(shape) <= MAX_WEIGHTED_TREES
        yield _literal_tree_model(name, plain if few else sparse, shape, scheme)
        return
    row = tuple(1 + (3 * x) % 4 for x in range(widest))
    if _max_tree_count(shape, scheme, widest) <= MAX_WEIGHTED_TREES:
        yield _literal_tree_model(name, [(row[::-1], row)], shape, scheme)


def _vocabulary_instances(
    vocab: int, near: int, shape: TreeShape, scheme: Scheme
) -> Iterator[SmallModel]:
    """Yield rows on a few ids around one, more where siblings have to differ."""
    most = max(len(children) for children in shape.children.values())
    ids = {0, near, max(near - 1, 0), vocab - 1}
    if not scheme.replaced:
        ids |= set(range(min(vocab, most)))
    p, q = [0] * vocab, [0] * vocab
    for place, token in enumerate(sorted(ids)):
        p[token], q[token] = 1 + (3 * place) % 5, 1 + (2 * place + 1) % 4
    pairs: list[RowPair] = [(tuple(p), tuple(q)), (tuple(q), tuple(p))]
    if _max_tree_count(shape, scheme, len(ids)) <= MAX_WEIGHTED_TREES:
        yield _literal_tree_model(f"around {near}, V={vocab}", pairs, shape, scheme)


def _max_tree_count(shape: TreeShape, scheme: Scheme, tokens: int) -> int:
    """Return how many trees there are at most where a row of the draft holds so many tokens."""
    count = 1
    for siblings in map(len, shape.children.values()):
        sampled = siblings - min(siblings, scheme.certain(siblings))
        ways = tokens**sampled if scheme.replaced else math.perm(tokens, min(sampled, tokens))
        count *= ways
    return count


def _literal_tree_model(
    name: str, pairs: list[RowPair], shape: TreeShape, scheme: Scheme
) -> SmallModel:
    name += f", {shape.words()}" if "V=" in name else f", V={len(pairs[0][0])}, {shape.words()}"
    return SmallModel.of_pairs(name, shape.depth, pairs, drafting=Drafting(shape, scheme))


MAX_SEARCH_TREES = 64  # draft trees of one instance at most: each is one or more paths
MAX_SEARCH_NODES = 5
_SMALL_TREE_NODES = 3  # nodes of a tree, at most; and of half the trees that are drawn
TARGETED_EXAMPLES = 200  # instances that are tried at most
_ROW_VARIATIONS = 8  # instances of other rows that are tried where something new was reached
_MAX_GOALS = 4  # outcomes that are aimed at in turn
_LATEST_RECIPES = 4  # of what led to something new are varied: the last have come the furthest
_VARIATION_RATE = 0.6  # how often what led to something new is varied, where anything did


_FROM_SEARCH = "found, "


def is_from_search(model: SmallModel) -> bool:
    """Whether the search made the instance: it hardly comes again."""
    return model.name.startswith(_FROM_SEARCH)


@dataclass(frozen=True)
class SearchSpace:
    """Where to look."""

    vocab: int  # V up to this
    gamma: int  # draft length, or depth of trees, up to this
    scheme: Scheme | None = None  # how siblings are drafted, of code that is tried on trees
    shape: TreeShape | None = None  # the one tree that the code takes
    fits: Callable[[TreeShape], bool] = lambda shape: True
    nodes: int = MAX_SEARCH_NODES  # of a tree, at most


def search_failure(
    fails: Callable[[SmallModel], bool], within: SearchSpace, *, examples: int, seed: int
) -> SmallModel | None:
    """Return the first of ``examples`` random instances that fails, None if none does."""
    models = tuple(_random_models(within, examples, seed))  # before ``fails`` intercepts ``random``
    return next(filter(fails, models), None)


_WEIGHTS = (0, 0, *range(9), 50, 1000)


def _random_models(within: SearchSpace, count: int, seed: int) -> Iterator[SmallModel]:
    """Yield ``count`` instances, fewer where some have too many draft trees."""
    rng = random.Random(seed)
    shapes = [] if within.scheme is None else _search_shapes(within)
    if within.scheme is not None and not shapes:
        return
    small = [shape for shape in shapes if len(shape) <= _SMALL_TREE_NODES] or shapes

    def weights(vocab: int) -> RowWeights:
        while not any(row := tuple(rng.choices(_WEIGHTS, k=vocab))):
            pass
        return row

    for _ in range(count):
        shape = None if within.scheme is None else rng.choice(rng.choice((small, shapes)))
        gamma = rng.randint(1, within.gamma) if shape is None else shape.depth
        vocab, rows = rng.randint(2, within.vocab), range(rng.randint(1, 4))
        targets, drafts = (tuple(weights(vocab) for _ in rows) for _ in range(2))
        drafting = (
            None if shape is None or within.scheme is None else Drafting(shape, within.scheme)
        )
        model = _found_model(gamma, targets, drafts, drafting)
        if _is_within(model, within):
            yield model


def _found_model(
    gamma: int,
    targets: tuple[RowWeights, ...],
    drafts: tuple[RowWeights, ...],
    drafting: Drafting | None,
) -> SmallModel:
    what = f"gamma={gamma}" if drafting is None else f"tree of {len(drafting.shape)}"
    name = f"{_FROM_SEARCH}V={len(targets[0])}, {what}"
    return SmallModel(name, gamma, targets, drafts, drafting=drafting)


def _is_within(model: SmallModel, within: SearchSpace) -> bool:
    free = model.drafting is None or model.drafting.shape == within.shape
    return free or max_tree_count(model) <= MAX_SEARCH_TREES


def smallest_failure(
    fails: Callable[[SmallModel], bool], within: SearchSpace, *, examples: int, seed: int
) -> SmallModel | None:
    """Return the simplest failing instance that Hypothesis finds and shrinks, if any.

    ``fails`` is asked for at most some multiple of ``examples`` instances. Gamma or the tree is
    shrunk first, then V, the number of different rows, and the weights.
    """
    from hypothesis import HealthCheck, Phase, Verbosity, find, settings
    from hypothesis import strategies as st
    from hypothesis.configuration import set_hypothesis_home_dir, storage_directory
    from hypothesis.errors import Flaky, NoSuchExample

    def weights(vocab: int) -> st.SearchStrategy[RowWeights]:
        row = st.tuples(*[st.integers(0, 8) | st.sampled_from([50, 1000])] * vocab)
        return row.filter(any)

    shapes = [] if within.scheme is None else _search_shapes(within)
    if within.scheme is not None and not shapes:
        return None

    @st.composite
    def models(draw: Any) -> SmallModel:
        if within.scheme is None:
            drafting, gamma = None, draw(st.integers(1, within.gamma))
        else:
            small = [shape for shape in shapes if len(shape) <= _SMALL_TREE_NODES] or shapes
            # One list would nearly always give the most nodes; shrinking goes to the first of both.
            shape = draw(st.sampled_from(small) | st.sampled_from(shapes))
            drafting, gamma = Drafting(shape, within.scheme), shape.depth
        vocab = draw(st.integers(2, within.vocab))
        rows = st.tuples(*[weights(vocab)] * draw(st.integers(1, 4)))
        return _found_model(gamma, draw(rows), draw(rows), drafting)

    options = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    strategy, rng = models().filter(partial(_is_within, within=within)), random.Random(seed)
    # Without a database Hypothesis still writes what it reads from source files, by default to a
    # folder below the current one.
    home = storage_directory("constants", intent_to_write=False).path.parent
    set_hypothesis_home_dir(cache_folder("hypothesis") or os.devnull)
    try:
        return find(strategy, fails, settings=options, random=rng)
    except (Flaky, NoSuchExample):
        # Code that fails now and then draws from something that is not followed.
        return None
    finally:
        set_hypothesis_home_dir(home)


def _search_shapes(within: SearchSpace) -> list[TreeShape]:
    """Return the trees of so many nodes at most, the smallest first; the one, if one was named."""
    if within.shape is not None:
        return [within.shape]
    every = [
        TreeShape(parents)
        for count in range(1, min(within.nodes, MAX_SEARCH_NODES) + 1)
        for parents in itertools.product(*(range(ROOT, node) for node in range(count)))
    ]
    return [shape for shape in every if shape.depth <= within.gamma and within.fits(shape)]


def make_search_space(
    models: Sequence[SmallModel],
    failure: SmallModel | None,
    fits: Callable[[TreeShape], bool],
    *,
    beyond: int,
) -> SearchSpace:
    """Return where to search: below a ``failure``, or beyond the battery, V up to ``beyond``."""
    first = failure or models[0]
    if first.drafting is None:
        return SearchSpace(failure.vocab_size, failure.gamma) if failure else SearchSpace(beyond, 2)
    shapes = {model.drafting.shape for model in models if model.drafting is not None}
    scheme, shape = first.drafting.scheme, shapes.pop() if len(shapes) == 1 else None
    if failure is not None:
        size = len(first.drafting.shape)
        return SearchSpace(failure.vocab_size, failure.gamma, scheme, shape, fits, size)
    # As far as was asked for: a tree is small there, for many are not drafted.
    most = max(model.vocab_size for model in models), max(model.gamma for model in models)
    return SearchSpace(min(most[0], 9), most[1], scheme, shape, fits)


def search_branch_targets(
    fails: Callable[[SmallModel], bool],
    watch: CoverageMonitor,
    contract: Contract,
    *,
    eos: int | None,
    seed: int,
    affordable: Callable[[], bool],
) -> SmallModel | None:
    """Return the first failing instance among those made for outcomes that ``watch`` never saw.

    ``affordable`` says whether another one may be tried.
    """
    rng, makes = random.Random(seed), RecipeSampler(contract, seed)
    watch.closely()
    led = [Recipe.of(model) for model in watch.led]
    visited: set[SmallModel] = set()
    goals, goal, rows = _reachable_targets(watch), BranchTarget(), 0
    steps = _one_change_steps(makes, led, goals)
    for n in range(TARGETED_EXAMPLES):
        if not affordable() or not (goals or rows):
            return None
        if rows:  # what was reached last need not have gone wrong on the first rows
            recipe, rows = makes.rows(led[-1], goal), rows - 1
        elif (step := next(steps, None)) is not None:
            recipe, goal = step
        else:
            goal = goals[n % len(goals)]
            if led and rng.random() < _VARIATION_RATE:
                recipe = makes.varied(rng.choice(led[-_LATEST_RECIPES:]), goal)
            else:
                recipe = makes.fresh(goal)
        model = recipe.model(eos)
        if model in visited:
            continue
        visited.add(model)
        known = watch.known
        watch.closely(least=FIRST_CALLS)
        if fails(model):
            return model
        if watch.known != known:
            led.append(recipe)
            goals, rows = _reachable_targets(watch), _ROW_VARIATIONS
            steps = _one_change_steps(makes, led, goals)
    return None


def _one_change_steps(
    makes: RecipeSampler, led: list[Recipe], goals: list[BranchTarget]
) -> Iterator[tuple[Recipe, BranchTarget]]:
    """Yield what is one change away from what came the furthest, for all goals in turn."""
    for recipe in led[: -_LATEST_RECIPES - 1 : -1]:
        some = goals[:_MAX_GOALS]
        variants = [((x, goal) for x in makes.one_change(recipe, goal)) for goal in some]
        for together in itertools.zip_longest(*variants):
            yield from (step for step in together if step is not None)


def _reachable_targets(watch: CoverageMonitor) -> list[BranchTarget]:
    """Return what leads beyond the battery: by other numbers than 0, 1, 2 and tolerances."""
    every = branch_targets(watch.instructions.values(), watch.named)
    return [
        aim
        for aim in every
        if any(x >= 3 or (x > 1e-6 and not float(x).is_integer()) for x in aim.near)
    ]
