"""The shape of a draft tree: how many nodes there are, and which one follows which."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import SupportsIndex

from simverify.errors import UsageError

ROOT = -1
"""The parent of the nodes that follow the prefix itself."""

MAX_NODES = 4096
"""More than any engine drafts for one sequence."""


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
            if not ROOT <= parent < len(self.parents):
                raise UsageError(
                    f"parent of node {node} is {parent}, which is no node: expected -1 for the "
                    f"root, or a node before {node}"
                )
            if parent == node:
                raise UsageError(f"node {node} is its own parent: a tree has no cycle")
            if parent > node:
                raise UsageError(
                    f"parent of node {node} is {parent}, which comes later: put parents before "
                    "their children"
                )

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """The children of each node, and of ``ROOT``, in their order."""
        found: dict[int, list[int]] = {node: [] for node in range(ROOT, len(self))}
        for node, parent in enumerate(self.parents):
            found[parent].append(node)
        return {node: tuple(children) for node, children in found.items()}

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


def draw_on(shape: TreeShape, tokens: Sequence[int]) -> str:
    """Return the tokens on one line, children in brackets behind their parent: 0(1 2(0)) 2."""

    def below(node: int) -> str:
        parts = []
        for child in shape.children[node]:
            inner = below(child)
            parts.append(f"{tokens[child]}({inner})" if inner else f"{tokens[child]}")
        return " ".join(parts)

    return below(ROOT)
