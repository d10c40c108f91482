"""economize: ``RejectionVerifier.verify_tree`` of its decoding, on a draft tree.

The tree is drafted here: two independent tokens after the prefix, and one after each node.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simverify.engines.base import LOOP
from simverify.engines.libraries.economize import drafted, engine, verifier
from simverify.engines.loading.drawn_tree import drawn_tree
from simverify.engines.loading.stubs import torch


def load_tree(path: Path) -> Callable[..., Any]:
    """Return ``verify_tree`` as a ``step`` callable that drafts its tree, gamma deep."""
    rule = verifier(path)

    def children(row: Any, count: int) -> Any:
        return torch.multinomial(torch.tensor(row), count, replacement=True).tolist()

    def step(prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> list[int]:
        paths, parents = drawn_tree(draft, prefix, gamma, children)
        tokens = [path[-1] for path in paths[1:]]
        rows, q = (
            torch.tensor(np.array([of((*prefix, *path)) for path in some]))
            for of, some in ((target, paths), (draft, [path[:-1] for path in paths[1:]]))
        )
        above = [node - 1 for node in parents[1:]]
        given = drafted(torch.tensor([tokens]), q[None], [above])
        kept, last = rule.verify_tree(rows.log()[None], given, None)
        return [*(tokens[node] for node in kept[0]), last[0]]

    return step


ENGINES = (engine("economize-tree", "verify_tree", load_tree, "draft", **LOOP),)
