"""jaymody/speculative-sampling: ``speculative_sampling``, a whole loop in numpy."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import BOS, Rows, RowsModel

FUNCTION = "speculative_sampling"


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    bar = nullcontext(SimpleNamespace(update=lambda _: None))
    rule = load_function(path, FUNCTION, tqdm=lambda **_: bar)

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        ids = np.array([BOS, *prefix])
        models = (_probabilities(rows, prefix) for rows in (draft, target))
        return rule(ids, *models, 1, gamma)[len(ids) :]

    return step


def _probabilities(rows: Rows, prefix: Any) -> Callable[[Any], Any]:
    """Return a model that gives the probabilities (L, V) after each of its ids (L,)."""
    model = RowsModel(rows, prefix)
    return lambda ids: model.logits(ids.tolist())[0].exp().numpy()


ENGINES = (
    Engine(
        name="jaymody",
        package="",
        source="main.py",
        function=FUNCTION,
        **LOOP,
        loader=load,
        repository="https://github.com/jaymody/speculative-sampling",
        commit="03b4759",
        parameters=("x", "draft_model", "target_model", "N", "K"),
    ),
)
