"""mini-infer: ``speculative.verifier.speculative_step`` at temperature 1.

Drafts by itself, from two models that return logits and a cache, without a cache.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import RowsModel

FUNCTION = "speculative_step"


class Model(RowsModel):
    """A model that returns its logits and nothing for a cache."""

    def __call__(self, ids: Any) -> tuple[Any, None]:  # type: ignore[override]
        """Return the logits (1, L, V) of all ids (1, L)."""
        return self.logits(ids[0].tolist()), None


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    rule = load_function(path, FUNCTION)

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        return rule(target, draft, ids, k_draft=gamma, temperature=1.0)[0]

    return as_step(loop, Model)


ENGINES = (
    Engine(
        name="mini-infer",
        package="mini_infer",
        source="speculative/verifier.py",
        function=FUNCTION,
        **LOOP,
        loader=load,
        distribution="mini-infer",
        versions=">=0.2.5,<0.3",
        parameters=("target_model", "draft_model", "prefix_ids", "k_draft", "temperature"),
    ),
)
