"""A small tree of drafts, for engines that verify trees and do not draft them."""

from collections.abc import Callable, Sequence
from typing import Any

from simverify.engines.loading.rows_model import Rows

Path = tuple[int, ...]


def drawn_tree(
    draft: Rows, prefix: Sequence[int], depth: int, children: Callable[[Any, int], Sequence[int]]
) -> tuple[list[Path], list[int]]:
    """Return the nodes of a tree, by the tokens that lead to each, and each one's parent.

    Two children of the root and one of every other node, ``depth`` levels deep; the root stands
    first, with parent -1, and level follows level. ``children(row, count)`` draws at most so many
    tokens of a row (V,) of the draft.
    """
    paths: list[Path] = [()]
    parents = [-1]
    for node, path in enumerate(paths):
        if len(path) < depth:
            for token in children(draft((*prefix, *path)), 1 if path else 2):
                paths.append((*path, int(token)))
                parents.append(node)
    return paths, parents
