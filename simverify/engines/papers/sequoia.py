"""Sequoia: ``accept_step`` of its ``SpecTree``, and SpecInfer's, of its ``SpecInferTree``.

The tree has two children of the root and one of each of these. Its tokens are drawn as either
draws them: without replacement by Sequoia's own function, and with replacement.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.drawn_tree import drawn_tree
from simverify.engines.loading.pieces import load_function, load_pieces
from simverify.engines.loading.rows_model import BOS, Rows
from simverify.engines.loading.stubs import torch

METHOD, DRAW, RESIDUAL = "accept_step", "sampling_without_replacement", "get_residual"


def load(name: str, replace: bool, path: Path) -> Callable[..., Any]:
    """Return the method, walked down a tree, as a ``step`` callable."""
    utils = load_pieces(path.parents[1] / "utils.py", [RESIDUAL, DRAW])
    residual, draw = getattr(utils, RESIDUAL), getattr(utils, DRAW)
    accept = load_function(path, f"{name}.{METHOD}", get_residual=residual)

    def children(row: Any, count: int) -> Any:
        row = torch.tensor(row)
        if replace:
            return torch.multinomial(row, count, replacement=True).tolist()
        noise = torch.rand(len(row), dtype=row.dtype)
        # A draft that has fewer tokens than children would be asked for what it never says.
        return draw(row.log(), noise, min(count, int((row > 0).sum())), 1.0).tolist()

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        paths, parents = drawn_tree(draft, prefix, gamma, children)
        below = [[i for i, above in enumerate(parents) if above == n] for n in range(len(paths))]
        rows = [[torch.tensor(of((*prefix, *path))) for path in paths] for of in (target, draft)]
        tree = SimpleNamespace(
            ground_truth_len=1,
            tokens=[BOS, *(path[-1] for path in paths[1:])],
            Successors=below,
            temperature=1.0,
            dtype=torch.float64,
            target_logits=rows[0],
            draft_logits=[row.log() for row in rows[1]],
            r=torch.rand(len(paths), dtype=torch.float64),
            residual_graph=residual,
        )
        node, rest = 0, None
        while rest is None:
            kept, rest = accept(tree, node)
            node = kept if rest is None else node
        return [*paths[node], int(torch.multinomial(rest, 1))]

    return step


def _engine(name: str, tree: str, replace: bool) -> Engine:
    return Engine(
        name=name,
        package="Tree",
        source=f"{tree}.py",
        function=f"{tree}.{METHOD}",
        **LOOP,
        loader=partial(load, tree, replace),
        repository="https://github.com/Infini-AI-Lab/Sequoia",
        commit="0ff3ff7",
        parameters=("parent_id",),
    )


ENGINES = (
    _engine("sequoia", "SpecTree", False),
    _engine("specinfer", "SpecInferTree", True),
)
