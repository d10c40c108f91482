"""economize: ``RejectionVerifier.verify_tree`` of its decoding, on a draft tree.

The tree is drafted here: two independent tokens after the prefix, and one after each node.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP
from simverify.engines.libraries.economize import engine, verifier
from simverify.engines.libraries.economize_batch import drafted
from simverify.engines.loading.drawn_tree import drawn_tree, with_replacement
from simverify.engines.loading.stubs import torch


def load_tree(path: Path) -> Callable[..., Any]:
    """Return ``verify_tree`` as a ``step`` callable that drafts its tree, gamma deep."""
    rule = verifier(path)

    def step(prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> list[int]:
        tree = drawn_tree(draft, prefix, gamma, with_replacement)
        tokens, above = tree.tokens, tree.parents[1:]
        # With the row that each was drawn from, and its parent's place; the root is no draft.
        links = [[node - 1 for node in above]]
        given = drafted(torch.tensor([tokens]), tree.rows(draft)[above][None], links)
        kept, last = rule.verify_tree(tree.rows(target).log()[None], given, None)
        return [*(tokens[node] for node in kept[0]), last[0]]

    return step


ENGINES = (engine("economize-tree", "verify_tree", load_tree, "draft", **LOOP),)
