"""Small trees of drafts, for engines that verify trees and do not draft them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from simverify.engines.loading.rows_model import Rows
from simverify.engines.loading.stubs import torch

Path = tuple[int, ...]
Children = Callable[[Any, int], Sequence[int]]
"""``children(row, count)``: at most so many tokens of a row (V,) of the draft."""


@dataclass(frozen=True)
class DrawnTree:
    """The N nodes of a tree, the root first and level after level.

    Attributes
    ----------
    prefix
        What stands before the root.
    paths
        The tokens that lead to each node from the root.
    parents
        Each node's parent, -1 of the root.
    """

    prefix: Path
    paths: list[Path]
    parents: list[int]

    @property
    def tokens(self) -> list[int]:
        """The token of each node but the root, N - 1 of them."""
        return [path[-1] for path in self.paths[1:]]

    @property
    def children(self) -> list[list[int]]:
        """The nodes below each node."""
        nodes = range(len(self.paths))
        return [[i for i in nodes if self.parents[i] == above] for above in nodes]

    def rows(self, model: Rows) -> Any:
        """Return a model's rows after each node, a tensor (N, V)."""
        return torch.tensor(np.array([model((*self.prefix, *path)) for path in self.paths]))


def drawn_tree(draft: Rows, prefix: Sequence[int], depth: int, children: Children) -> DrawnTree:
    """Return a tree with two children of the root and one of every other node.

    It is ``depth`` levels deep; where ``children`` draws fewer, it has fewer.
    """
    paths: list[Path] = [()]
    parents = [-1]
    for node, path in enumerate(paths):
        if len(path) < depth:
            for token in children(draft((*prefix, *path)), 1 if path else 2):
                paths.append((*path, int(token)))
                parents.append(node)
    return DrawnTree(tuple(prefix), paths, parents)


def with_replacement(row: Any, count: int) -> Any:
    """Return independent tokens of a row (V,), for :func:`drawn_tree`."""
    return torch.multinomial(torch.tensor(row), count, replacement=True).tolist()


def likeliest_paths(draft: Rows, prefix: Sequence[int], depth: int, width: int) -> list[Path]:
    """Return the paths of a tree of the draft's ``width`` likeliest tokens after every node.

    Nothing is drawn. They begin at the root, and the likeliest comes first.
    """
    paths = []
    for ranks in product(range(min(width, len(draft(tuple(prefix))))), repeat=depth):
        path: Path = ()
        for rank in ranks:
            order = np.argsort(-draft((*prefix, *path)), kind="stable")
            path = (*path, int(order[rank]))
        paths.append(path)
    return paths
