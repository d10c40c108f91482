"""EAGLE: ``evaluate_posterior``, at a temperature.

The tree is EAGLE's kind: the draft's two likeliest tokens after every node, gamma deep, nothing
drawn. The token drawn from what the function returns ends the step; in EAGLE it is the next root.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function, torch
from simverify.engines.fake_models import BOS_TOKEN, RowFunction, likeliest_paths

EAGLE_FUNCTION = "evaluate_posterior"
EAGLE_WIDTH = 2


def load_eagle(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    rule = load_function(path, EAGLE_FUNCTION)

    def step(prefix: Any, target: RowFunction, draft: RowFunction, gamma: int, rng: Any) -> Any:
        paths = likeliest_paths(draft, prefix, gamma, EAGLE_WIDTH)
        rows = [[target((*prefix, *path[:i])) for i in range(gamma + 1)] for path in paths]
        best, count, last = rule(
            torch.tensor(np.array(rows)).log(),
            torch.tensor([(BOS_TOKEN, *path) for path in paths]),
            lambda _, logits: logits,
        )
        return [*paths[int(best)][: int(count)], int(torch.multinomial(last, 1))]

    return step


ENGINES = (
    Engine(
        name="eagle",
        package="eagle",
        source="model/utils.py",
        function=EAGLE_FUNCTION,
        **LOOP_DEFAULTS,
        loader=load_eagle,
        repository="https://github.com/SafeAILab/EAGLE",
        commit="cb7e084",
        parameters=("logits", "candidates", "logits_processor"),
    ),
)
