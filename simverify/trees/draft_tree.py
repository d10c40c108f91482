"""Draft trees: shapes, drafting schemes with their exact laws, and drafted tokens on a shape."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from simverify.checks import pick_name
from simverify.errors import UsageError
from simverify.symbolic.paths import ForkedGenerator, explore

# Schemes: how the children of a node are drafted; five of them, each with a draw and its exact law.
#
# A scheme is part of the claim: a rule that is lossless for independent siblings is lossy for
# siblings without replacement, and the other way round. Rows may be floats or fractions.


Array = npt.NDArray[Any]  # float64, or object arrays of fractions

Siblings = tuple[int, ...]


@dataclass(frozen=True)
class Scheme:
    """How up to k siblings are drafted from the row q (V,) after their parent.

    ``certain(k)``: how many of k are certain, the likeliest of q; they come first. ``replaced``:
    whether the others are independent samples of q; if not, each is sampled from q without all
    before it. Where too few tokens have a probability there are fewer siblings.
    """

    name: str
    summary: str
    certain: Callable[[int], int]
    replaced: bool = False

    def fixed(self, q: Array, k: int) -> Siblings:
        """Return the tokens of q (V,) that are drafted for certain: the likeliest, ties by id."""
        count = min(self.certain(k), len(q))
        return tuple(map(int, np.argsort(-q, kind="stable")[:count])) if count else ()

    def next_row(self, q: Array, before: Siblings) -> Array | None:
        """Return the law (V,) of the next sampled sibling after ``before``; None: there is none."""
        if self.replaced:
            return q
        left = q.copy()
        left[list(before)] = 0
        total = left.sum()
        return left / total if total > 0 else None

    def draw(self, q: Array, k: int, rng: Any) -> Siblings:
        """Draw the siblings: ``rng.choice(V, p=row)`` for each that is sampled."""
        siblings = self.fixed(q, k)
        while len(siblings) < k:
            row = self.next_row(q, siblings)
            if row is None:
                break
            siblings = (*siblings, int(rng.choice(len(q), p=row)))
        return siblings

    def law(self, q: Array, k: int) -> dict[Siblings, Any]:
        """Return the probability of every tuple of siblings; exact for fractions."""
        law: dict[Siblings, Any] = defaultdict(int)
        for siblings, mass in explore(lambda path: self.draw(q, k, ForkedGenerator(path))):
            law[siblings] += mass
        return law

    def included(self, q: Array, k: int) -> Array:
        """Return the probability (V,) of each token to be one of ``k`` siblings.

        For m samples without replacement it takes some V^(m-2) steps on arrays.
        """
        fixed = self.fixed(q, k)
        samples = k - len(fixed)
        if self.replaced:
            chances: Array = 1 - (1 - q) ** samples
            return chances
        row = self.next_row(q, fixed)
        chances = 0 * q if row is None else _inclusion_probabilities(row, samples)
        chances[list(fixed)] = 1
        return chances

    def forbids(self, q: Array, siblings: Siblings) -> str | None:
        """Say why these siblings cannot have been drafted from q (V,) by this scheme, or None."""
        fixed = self.fixed(q, len(siblings))
        if siblings[: len(fixed)] != fixed:
            return f"begins with {siblings[: len(fixed)]}, and the likeliest of q are {fixed}"
        if not self.replaced and len(set(siblings)) < len(siblings):
            return "has a token twice"
        absent = [x for x in siblings[len(fixed) :] if not q[x] > 0]
        if absent:
            return f"has token {absent[0]}, of which q is 0"
        return None


def _inclusion_probabilities(q: Array, samples: int) -> Array:
    """Return the probability of each token to be one of some samples of q without replacement."""
    if samples == 0:
        return 0 * q
    if samples == 1:
        return q.copy()
    drawn = [int(x) for x in np.flatnonzero(q)]
    if len(drawn) == 1:
        return q.copy()  # there is no second one
    if samples == 2:
        # First x, then y off it: q(y) times the sum over all other x of q(x) / (1 - q(x)).
        chances: Array = q + q * _sums_of_others(q / _sums_of_others(q))
        return chances
    chances = q.copy()
    for x in drawn:
        left = q.copy()
        left[x] = 0
        total = left.sum()
        if total > 0:
            chances = chances + q[x] * _inclusion_probabilities(left / total, samples - 1)
    return chances


def _sums_of_others(values: Array) -> Array:
    """Return for each of ``values`` (V,) the sum of the others, without a subtraction."""
    before, after = np.cumsum(values), np.cumsum(values[::-1])[::-1]
    sums: Array = 0 * values
    sums[1:] = before[:-1]
    sums[:-1] = sums[:-1] + after[1:]
    return sums


SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("iid", "independent samples of q", lambda k: 0, replaced=True),
        Scheme("without-replacement", "samples of q, each off those before", lambda k: 0),
        Scheme("top-k", "the k likeliest tokens of q", lambda k: k),
        Scheme("argmax-first", "the likeliest token, then samples off those before", lambda k: 1),
        Scheme("last-sampled", "the k-1 likeliest, then one sample off them", lambda k: k - 1),
    )
}


def get_scheme(name: str) -> Scheme:
    """Return the scheme called ``name``; ``UsageError`` with the nearest name if there is none."""
    return SCHEMES[pick_name(name, SCHEMES, "scheme")]


# Shapes: how many nodes a tree has, and the parent of each.


ROOT = -1  # the parent of the nodes that follow the prefix itself
MAX_NODES = 4096  # more than any engine drafts for one sequence


@dataclass(frozen=True)
class TreeShape:
    """A tree of drafted nodes without their tokens.

    ``parents``: for each of the n nodes its parent, ``ROOT`` (-1) or a node before it. Siblings
    are in the order of their numbers, which is the order in which they were drafted.

    Raises ``UsageError`` for no nodes at all, or parents that make no tree.
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.parents) <= MAX_NODES:
            raise UsageError(f"the tree has {len(self.parents)} nodes: expected 1 to {MAX_NODES}")
        for node, parent in enumerate(self.parents):
            if isinstance(parent, bool) or not isinstance(parent, SupportsIndex):
                raise UsageError(f"parent of node {node} is {parent!r}: expected an integer")
            if parent == node:
                raise UsageError(f"node {node} is its own parent: a tree has no cycle")
            if not ROOT <= parent < node:
                why = "which is no node: expected -1 for the root, or a node before {node}"
                if node < parent < len(self.parents):
                    why = "which comes later: put parents before their children"
                raise UsageError(f"parent of node {node} is {parent}, {why.format(node=node)}")

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """The children of each node, and of ``ROOT``, in their order."""
        families: dict[int, list[int]] = {node: [] for node in range(ROOT, len(self))}
        for node, parent in enumerate(self.parents):
            families[parent].append(node)
        return {node: tuple(children) for node, children in families.items()}

    @cached_property
    def child_counts(self) -> tuple[int, ...]:
        """The numbers of children that nodes have, ascending; the first is 0, of the leaves."""
        return tuple(sorted(set(map(len, self.children.values()))))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """The depth of each node: 1 for those that follow the prefix."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return tuple(depths)

    @property
    def depth(self) -> int:
        """Most draft tokens that a call can accept."""
        return max(self.depths)

    @property
    def is_chain(self) -> bool:
        """Whether every node follows the one before: a single draft."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

    def words(self) -> str:
        """Return the shape in words: children per level where that says it, or each parent."""
        per_level: list[int] = []
        level: tuple[int, ...] = (ROOT,)
        while any(self.children[node] for node in level):
            per_level.append(len(self.children[level[0]]))
            level = tuple(child for node in level for child in self.children[node])
        if 0 not in per_level and shape_of_levels(per_level) == self:
            return f"{','.join(map(str, per_level))} children per level"
        return f"parents {', '.join(map(str, self.parents))}"

    def way(self, node: int) -> tuple[int, ...]:
        """Return the nodes from the first level down to ``node``, which is the last of them."""
        way = []
        while node != ROOT:
            way.append(node)
            node = self.parents[node]
        return tuple(reversed(way))


def shape_of_levels(children: Sequence[int]) -> TreeShape:
    """Return the tree whose nodes have ``children[l]`` children each at level l, level by level.

    (2, 1, 1) is two chains of three tokens, (3, 1) three of two, (1, 1) a single chain.
    Raises ``UsageError`` where a level has none, or for more than ``MAX_NODES`` nodes.
    """
    if not children or min(children) < 1:
        raise UsageError(f"tree {list(children)}: expected children per level, 1 or more each")
    parents: list[int] = []
    level = [ROOT]
    for count in children:
        if len(parents) + len(level) * count > MAX_NODES:
            raise UsageError(f"tree {list(children)} has more than {MAX_NODES} nodes")
        first = len(parents)
        parents += [parent for parent in level for _ in range(count)]
        level = list(range(first, len(parents)))
    return TreeShape(tuple(parents))


def parse_levels(text: str) -> TreeShape:
    """Return the tree of children per level such as "3,2,1"; ``UsageError`` for other text."""
    try:
        levels = [int(count) for count in text.split(",")]
    except ValueError:
        raise UsageError(f"tree {text!r}: expected children per level, such as 3,2,1") from None
    return shape_of_levels(levels)


def tree_text(shape: TreeShape, tokens: Sequence[int]) -> str:
    """Return the tokens on one line, children in brackets behind their parent: 0(1 2(0)) 2."""

    def below(node: int) -> str:
        parts = []
        for child in shape.children[node]:
            inner = below(child)
            parts.append(f"{tokens[child]}({inner})" if inner else f"{tokens[child]}")
        return " ".join(parts)

    return below(ROOT)


RowAfter = Callable[[Siblings], Array]  # gives the row (V,) of a model after some tokens


@dataclass(frozen=True)
class Drafting:
    """How trees are drafted: ``shape``, and the ``scheme`` of its siblings."""

    shape: TreeShape
    scheme: Scheme


@dataclass(frozen=True)
class DraftTree:
    """A token on each node of ``shape``, the siblings drafted by ``scheme``.

    Raises ``UsageError`` for another number of tokens than of nodes, a token that is no
    integer from 0 up, or siblings of one token where the scheme draws no token twice.
    :meth:`checked` looks at the rows too.
    """

    shape: TreeShape
    tokens: tuple[int, ...]
    scheme: Scheme

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.shape):
            raise UsageError(
                f"{len(self.tokens)} tokens on a tree of {len(self.shape)} nodes: expected one each"
            )
        for node, token in enumerate(self.tokens):
            if isinstance(token, bool) or not isinstance(token, SupportsIndex) or token < 0:
                raise UsageError(f"token of node {node} is {token!r}: expected an integer from 0")
        if self.scheme.replaced:
            return
        for parent, siblings in self.siblings.items():
            if len(set(siblings)) < len(siblings):
                raise UsageError(
                    f"the children of {_node_name(parent)} are {list(siblings)}: "
                    f"{self.scheme.name} "
                    "drafts no token twice; name the scheme iid if it may"
                )

    @cached_property
    def siblings(self) -> dict[int, Siblings]:
        """The tokens of each node's children, of nodes (and ``ROOT``) that have some."""
        children = self.shape.children.items()
        return {at: tuple(self.tokens[x] for x in nodes) for at, nodes in children if nodes}

    def text(self, node: int) -> Siblings:
        """Return the tokens from the first level down to ``node``; none at ``ROOT``."""
        return tuple(self.tokens[x] for x in self.shape.way(node))

    def way_of(self, text: Siblings) -> Siblings:
        """Return the nodes whose tokens are ``text``: the first such way in the tree's order.

        Raises ``ValueError`` if there is none.
        """
        ways: list[Siblings] = [()]
        for token in text:
            ways = [
                (*way, child)
                for way in ways
                for child in self.shape.children[way[-1] if way else ROOT]
                if self.tokens[child] == token
            ]
        if not ways:
            raise ValueError(f"{text} is no way down the tree {self.drawn()}")
        return ways[0]

    def drawn(self) -> str:
        """Return the tokens on one line, as :func:`tree_text` does."""
        return tree_text(self.shape, self.tokens)

    def rows(self, row: RowAfter, prefix: Siblings = ()) -> Array:
        """Return a model's rows (n+1, V): row 0 after ``prefix``, row i+1 after node i too."""
        return np.array([row(prefix + self.text(node)) for node in range(ROOT, len(self.tokens))])

    def checked(
        self, draft_probs: npt.ArrayLike, *, vocab_size: int, gamma: int | None = None
    ) -> "DraftTree":
        """Return the tree, if ``draft_probs`` (n+1, V) can have drafted it by its scheme.

        Raises ``UsageError`` for rows of another shape, a token outside the vocabulary, a
        depth above ``gamma``, or siblings that the scheme cannot have drawn.
        """
        rows = np.asarray(draft_probs)
        expected = (len(self.tokens) + 1, vocab_size)
        if rows.shape != expected:
            raise UsageError(f"draft_probs has shape {rows.shape}: expected {expected}")
        if gamma is not None and self.shape.depth > gamma:
            raise UsageError(
                f"the tree has a depth of {self.shape.depth}, above gamma {gamma}: cut it, or "
                "raise gamma"
            )
        for node, token in enumerate(self.tokens):
            if token >= vocab_size:
                raise UsageError(f"token of node {node} is {token}: expected 0..{vocab_size - 1}")
        for parent, siblings in self.siblings.items():
            why = self.scheme.forbids(rows[parent + 1], siblings)
            if why is not None:
                raise UsageError(
                    f"the children of {_node_name(parent)}, {list(siblings)}, are not drafted by "
                    f"{self.scheme.name}: the row {why}"
                )
        return self


def _node_name(node: int) -> str:
    return "the root" if node == ROOT else f"node {node}"


class GrowingTree:
    """A tree by ``drafting`` that is drawn after ``prefix``, one group of siblings at a time.

    Grow parents before their children, such as level by level.
    """

    def __init__(self, drafting: Drafting, prefix: Siblings = ()) -> None:
        self._drafting = drafting
        self.drawn: dict[int, int] = {}
        self.text: dict[int, Siblings] = {ROOT: prefix}

    def grow(self, node: int, row: Array, rng: Any) -> None:
        """Draw the children of ``node`` from the draft's row (V,) there: a draw of the scheme.

        Where the row has too few tokens the last nodes are missing, with all below them.
        """
        children = self._drafting.shape.children[node]
        tokens = self._drafting.scheme.draw(row, len(children), rng)
        for child, token in zip(children, tokens, strict=False):
            self.drawn[child] = token
            self.text[child] = (*self.text[node], token)

    def complete(self, draft: RowAfter, rng: Any) -> "GrowingTree":
        """Draw all nodes by the rows of ``draft``, and return the tree that is growing."""
        for node, children in self._drafting.shape.children.items():
            if children and node in self.text:
                self.grow(node, draft(self.text[node]), rng)
        return self

    @property
    def kept(self) -> list[int]:
        """The nodes of the shape that exist: in the tree they have the numbers 0, 1, ..."""
        return sorted(self.drawn)

    def tree(self) -> DraftTree:
        """Return what was drawn; nodes move up in number where others are missing."""
        nodes, shape = self.kept, self._drafting.shape
        number = {ROOT: ROOT, **{node: i for i, node in enumerate(nodes)}}
        parents = tuple(number[shape.parents[node]] for node in nodes)
        tokens = tuple(self.drawn[node] for node in nodes)
        return DraftTree(TreeShape(parents), tokens, self._drafting.scheme)


def draw_tree(drafting: Drafting, draft: RowAfter, rng: Any, prefix: Siblings = ()) -> DraftTree:
    """Draw the tokens of a tree from the rows of ``draft`` after ``prefix``.

    A group of siblings is one draw of the scheme; nodes may be missing as in
    :meth:`GrowingTree.grow`.
    """
    return GrowingTree(drafting, prefix).complete(draft, rng).tree()


def enumerate_trees(
    drafting: Drafting, draft: RowAfter, prefix: Siblings = (), *, max_trees: int | None = None
) -> Sequence[tuple[DraftTree, Any]]:
    """Return every tree that can be drafted with its probability; exact for fractions.

    Raises :class:`~simverify.symbolic.paths.TooManyPaths` above ``max_trees``.
    """
    return list(
        explore(
            lambda path: draw_tree(drafting, draft, ForkedGenerator(path), prefix),
            most=max_trees,
        )
    )
