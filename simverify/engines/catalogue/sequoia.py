"""Sequoia: ``accept_step`` of its ``SpecTree``.

The tree is that of :mod:`~simverify.engines.catalogue.specinfer`, but drawn without replacement, by
Sequoia's own function.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.catalogue.specinfer import load_tree_method, make_specinfer_engine
from simverify.engines.extract import load_function, torch

SEQUOIA_TREE_CLASS, SEQUOIA_DRAW_FUNCTION = "SpecTree", "sampling_without_replacement"


def load_sequoia(path: Path) -> Callable[..., Any]:
    """Return the method, walked down a tree, as a ``step`` callable."""
    draw = load_function(path.parents[1] / "utils.py", SEQUOIA_DRAW_FUNCTION)

    def children(row: Any, count: int) -> Any:
        row = torch.tensor(row)
        noise = torch.rand(len(row), dtype=row.dtype)
        # A draft that has fewer tokens than children would be asked for what it never says.
        return draw(row.log(), noise, min(count, int((row > 0).sum())), 1.0).tolist()

    return load_tree_method(path, SEQUOIA_TREE_CLASS, children)


ENGINES = (make_specinfer_engine("sequoia", SEQUOIA_TREE_CLASS, load_sequoia),)
