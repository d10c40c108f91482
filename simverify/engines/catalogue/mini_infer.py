"""mini-infer: ``speculative.verifier.speculative_step`` at temperature 1.

Drafts by itself, from two models that return logits and a cache, without a cache.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function
from simverify.engines.fake_models import RowsModel, loop_as_step

MINI_INFER_FUNCTION = "speculative_step"


class MiniInferModel(RowsModel):
    """A model that returns its logits and nothing for a cache."""

    def __call__(self, ids: Any) -> tuple[Any, None]:  # type: ignore[override]
        """Return the logits (1, L, V) of all ids (1, L)."""
        return self.logits(ids[0].tolist()), None


def load_mini_infer(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    rule = load_function(path, MINI_INFER_FUNCTION)

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        return rule(target, draft, ids, k_draft=gamma, temperature=1.0)[0]

    return loop_as_step(loop, MiniInferModel)


ENGINES = (
    Engine(
        name="mini-infer",
        package="mini_infer",
        source="speculative/verifier.py",
        function=MINI_INFER_FUNCTION,
        **LOOP_DEFAULTS,
        loader=load_mini_infer,
        distribution="mini-infer",
        versions=">=0.2.5,<0.3",
        parameters=("target_model", "draft_model", "prefix_ids", "k_draft", "temperature"),
    ),
)
