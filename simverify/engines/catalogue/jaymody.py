"""jaymody/speculative-sampling: ``speculative_sampling``, a whole loop in numpy."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function
from simverify.engines.fake_models import BOS_TOKEN, RowFunction, RowsModel

JAYMODY_FUNCTION = "speculative_sampling"


def load_jaymody(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    bar = nullcontext(SimpleNamespace(update=lambda _: None))
    rule = load_function(path, JAYMODY_FUNCTION, tqdm=lambda **_: bar)

    def step(prefix: Any, target: RowFunction, draft: RowFunction, gamma: int, rng: Any) -> Any:
        ids = np.array([BOS_TOKEN, *prefix])
        models = (_probability_model(rows, prefix) for rows in (draft, target))
        return rule(ids, *models, 1, gamma)[len(ids) :]

    return step


def _probability_model(rows: RowFunction, prefix: Any) -> Callable[[Any], Any]:
    """Return a model that gives the probabilities (L, V) after each of its ids (L,)."""
    model = RowsModel(rows, prefix)
    return lambda ids: model.logits(ids.tolist())[0].exp().numpy()


ENGINES = (
    Engine(
        name="jaymody",
        package="",
        source="main.py",
        function=JAYMODY_FUNCTION,
        **LOOP_DEFAULTS,
        loader=load_jaymody,
        repository="https://github.com/jaymody/speculative-sampling",
        commit="03b4759",
        parameters=("x", "draft_model", "target_model", "N", "K"),
    ),
)
