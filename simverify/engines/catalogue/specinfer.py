"""SpecInfer's ``accept_step``, of ``SpecInferTree`` in Sequoia's repository.

The tree has two children of the root and one of each of these, drawn with replacement.
:mod:`~simverify.engines.catalogue.sequoia` is the repository's own rule, which walks down a tree in
the same way.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function, torch
from simverify.engines.fake_models import (
    BOS_TOKEN,
    ChildrenFunction,
    RowFunction,
    draw_token_tree,
    sample_with_replacement,
)


def load_tree_method(path: Path, name: str, children: ChildrenFunction) -> Callable[..., Any]:
    """Return the method of a tree's class, called from node to node, as a ``step`` callable."""
    residual = load_function(path.parents[1] / "utils.py", "get_residual")
    accept = load_function(path, f"{name}.accept_step", get_residual=residual)

    def step(prefix: Any, target: RowFunction, draft: RowFunction, gamma: int, rng: Any) -> Any:
        drawn = draw_token_tree(draft, prefix, gamma, children)
        tree = SimpleNamespace(
            ground_truth_len=1,
            tokens=[BOS_TOKEN, *drawn.tokens],
            Successors=drawn.children,
            temperature=1.0,
            dtype=torch.float64,
            residual_graph=residual,
            target_logits=drawn.rows(target),
            draft_logits=drawn.rows(draft).log(),
            r=torch.rand(len(drawn.paths), dtype=torch.float64),
        )
        node, rest = 0, None
        while rest is None:
            child, rest = accept(tree, node)
            node = child if rest is None else node
        return [*drawn.paths[node], int(torch.multinomial(rest, 1))]

    return step


def make_specinfer_engine(
    name: str, tree: str, loader: Callable[[Path], Callable[..., Any]]
) -> Engine:
    """Return an engine of a tree's class, which lies in the file of its name."""
    return Engine(
        name=name,
        package="Tree",
        source=f"{tree}.py",
        function=f"{tree}.accept_step",
        **LOOP_DEFAULTS,
        loader=loader,
        repository="https://github.com/Infini-AI-Lab/Sequoia",
        commit="0ff3ff7",
        parameters=("parent_id",),
    )


SPECINFER_TREE_CLASS = "SpecInferTree"
ENGINES = (
    make_specinfer_engine(
        "specinfer",
        SPECINFER_TREE_CLASS,
        lambda path: load_tree_method(path, SPECINFER_TREE_CLASS, sample_with_replacement),
    ),
)
