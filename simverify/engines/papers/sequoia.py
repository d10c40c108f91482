"""Sequoia: ``accept_step`` of its ``SpecTree``.

The tree is :mod:`.specinfer`'s, but drawn without replacement, by Sequoia's own function.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.stubs import torch
from simverify.engines.papers.specinfer import engine, walked

TREE, DRAW = "SpecTree", "sampling_without_replacement"


def load(path: Path) -> Callable[..., Any]:
    """Return the method, walked down a tree, as a ``step`` callable."""
    draw = load_function(path.parents[1] / "utils.py", DRAW)

    def children(row: Any, count: int) -> Any:
        row = torch.tensor(row)
        noise = torch.rand(len(row), dtype=row.dtype)
        # A draft that has fewer tokens than children would be asked for what it never says.
        return draw(row.log(), noise, min(count, int((row > 0).sum())), 1.0).tolist()

    return walked(path, TREE, children)


ENGINES = (engine("sequoia", TREE, load),)
