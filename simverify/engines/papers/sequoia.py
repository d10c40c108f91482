"""Sequoia: ``accept_step`` of its ``SpecTree``, and SpecInfer's, of its ``SpecInferTree``.

The tree has two children of the root and one of each of these. Its tokens are drawn as either
draws them: without replacement by Sequoia's own function, and with replacement.
"""

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import Engine
from simverify.engines.loading.pieces import load_pieces
from simverify.engines.loading.rows_model import BOS, Rows

METHOD, DRAW, RESIDUAL = "accept_step", "sampling_without_replacement", "get_residual"


def load(name: str, replace: bool, path: Path) -> Callable[..., Any]:
    """Return the method, walked down a tree, as a ``step`` callable."""
    torch = importlib.import_module("torch")
    utils = load_pieces(path.parents[1] / "utils.py", [RESIDUAL, DRAW])
    residual, draw = getattr(utils, RESIDUAL), getattr(utils, DRAW)
    accept = getattr(load_pieces(path, [f"{name}.{METHOD}"], get_residual=residual), METHOD)

    def children(row: Any, count: int) -> list[int]:
        if replace:
            return torch.multinomial(row, count, replacement=True).tolist()  # type: ignore[no-any-return]
        noise = torch.rand(len(row), dtype=row.dtype)
        # A draft that has fewer tokens than children would be asked for what it never says.
        count = min(count, int((row > 0).sum()))
        return draw(row.log(), noise, count, 1.0).tolist()  # type: ignore[no-any-return]

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        paths: list[tuple[int, ...]] = [()]
        below: list[list[int]] = [[]]
        for node, path in enumerate(paths):
            if len(path) < gamma:
                row = torch.tensor(draft((*prefix, *path)))
                for token in children(row, 1 if path else 2):
                    below[node].append(len(paths))
                    below.append([])
                    paths.append((*path, token))
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
        contract="step",
        tier="exact",
        loader=partial(load, tree, replace),
        needs=("torch",),
        repository="https://github.com/Infini-AI-Lab/Sequoia",
        commit="0ff3ff7",
        parameters=("parent_id",),
        gamma=2,
        vocab=4,
    )


ENGINES = (
    _engine("sequoia", "SpecTree", False),
    _engine("specinfer", "SpecInferTree", True),
)
