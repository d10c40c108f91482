"""A drafted tree: tokens on a shape, and the scheme by which its siblings were drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from simverify.errors import UsageError
from simverify.symbolic.enumeration.paths import Coins, explore
from simverify.trees.schemes import Array, Scheme, Siblings
from simverify.trees.shapes import ROOT, TreeShape, draw_on

RowAfter = Callable[[Siblings], Array]
"""Gives the row (V,) of a model after some tokens."""


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
                    f"the children of {_named(parent)} are {list(siblings)}: {self.scheme.name} "
                    "drafts no token twice; name the scheme iid if it may"
                )

    @cached_property
    def siblings(self) -> dict[int, Siblings]:
        """The tokens of each node's children, of nodes (and ``ROOT``) that have some."""
        found = self.shape.children.items()
        return {at: tuple(self.tokens[x] for x in nodes) for at, nodes in found if nodes}

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
        """Return the tokens on one line, as :func:`~.shapes.draw_on` does."""
        return draw_on(self.shape, self.tokens)

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
                    f"the children of {_named(parent)}, {list(siblings)}, are not drafted by "
                    f"{self.scheme.name}: the row {why}"
                )
        return self


def _named(node: int) -> str:
    return "the root" if node == ROOT else f"node {node}"


class Growing:
    """A tree by ``drafting`` that is being drawn after ``prefix``, one group of siblings at a time.

    Whoever grows it goes by levels, or in any order that has parents before their children.
    """

    def __init__(self, drafting: Drafting, prefix: Siblings = ()) -> None:
        self._drafting = drafting
        self.drawn: dict[int, int] = {}
        self.text: dict[int, Siblings] = {ROOT: prefix}

    def grow(self, node: int, row: Array, rng: Any) -> None:
        """Draw the children of ``node`` from the draft's row (V,) there: a draw of the scheme.

        Where the row has too few tokens the nodes that are left over are missing, with all
        below them.
        """
        children = self._drafting.shape.children[node]
        tokens = self._drafting.scheme.draw(row, len(children), rng)
        for child, token in zip(children, tokens, strict=False):
            self.drawn[child] = token
            self.text[child] = (*self.text[node], token)

    @property
    def kept(self) -> list[int]:
        """The nodes of the shape that are there: in the tree they have the numbers 0, 1, ..."""
        return sorted(self.drawn)

    def tree(self) -> DraftTree:
        """Return what was drawn; nodes move up in number where others are missing."""
        kept, shape = self.kept, self._drafting.shape
        number = {ROOT: ROOT, **{node: i for i, node in enumerate(kept)}}
        parents = tuple(number[shape.parents[node]] for node in kept)
        tokens = tuple(self.drawn[node] for node in kept)
        return DraftTree(TreeShape(parents), tokens, self._drafting.scheme)


def draw_tree(drafting: Drafting, draft: RowAfter, rng: Any, prefix: Siblings = ()) -> DraftTree:
    """Draw the tokens of a tree from the rows of ``draft`` after ``prefix``.

    A group of siblings is one draw of the scheme; :class:`Growing` says what is missing where.
    """
    growing = Growing(drafting, prefix)
    for node, children in drafting.shape.children.items():
        if children and node in growing.text:
            growing.grow(node, draft(growing.text[node]), rng)
    return growing.tree()


def law_of_trees(
    drafting: Drafting, draft: RowAfter, prefix: Siblings = (), *, max_trees: int | None = None
) -> Sequence[tuple[DraftTree, Any]]:
    """Return every tree that can be drafted with its probability; exact for fractions.

    Raises :class:`~simverify.symbolic.enumeration.paths.TooManyPaths` above ``max_trees``.
    """
    return list(
        explore(lambda path: draw_tree(drafting, draft, Coins(path), prefix), max_paths=max_trees)
    )
