"""EAGLE: ``evaluate_posterior``, at a temperature.

The tree is EAGLE's kind: the draft's two likeliest tokens after every node, gamma deep, nothing
drawn. The token drawn from what the function returns ends the step; in EAGLE it is the next root.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.drawn_tree import likeliest_paths
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import BOS, Rows
from simverify.engines.loading.stubs import torch

FUNCTION = "evaluate_posterior"
WIDTH = 2


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    rule = load_function(path, FUNCTION)

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        paths = likeliest_paths(draft, prefix, gamma, WIDTH)
        rows = [[target((*prefix, *path[:i])) for i in range(gamma + 1)] for path in paths]
        best, kept, last = rule(
            torch.tensor(np.array(rows)).log(),
            torch.tensor([(BOS, *path) for path in paths]),
            lambda _, logits: logits,
        )
        return [*paths[int(best)][: int(kept)], int(torch.multinomial(last, 1))]

    return step


ENGINES = (
    Engine(
        name="eagle",
        package="eagle",
        source="model/utils.py",
        function=FUNCTION,
        **LOOP,
        loader=load,
        repository="https://github.com/SafeAILab/EAGLE",
        commit="cb7e084",
        parameters=("logits", "candidates", "logits_processor"),
    ),
)
