"""llama-ssp: ``_ssp_iteration``, one block drafted and verified.

It samples at its constant ``TEMPERATURE``, which the rows undo.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.pieces import load_function, load_pieces
from simverify.engines.loading.rows_model import Rows, RowsModel, prompt

FUNCTION = "_ssp_iteration"
HELPERS = ("get_temperature_distribution", "sample_fn", "stream_token_if_required")


class Model(RowsModel):
    """Rows whose logits, divided by the temperature, are those of the audit."""

    temperature: float

    def logits(self, tokens: Any, first: int = 0) -> Any:
        """Return the logits (1, L - first, V)."""
        return super().logits(tokens, first) * self.temperature


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    tokenizer = SimpleNamespace(decode=lambda *_, **__: "")
    base = load_pieces(path.parent / "base.py", [*HELPERS, "TEMPERATURE"], tokenizer=tokenizer)
    given = {name: getattr(base, name) for name in HELPERS}
    given |= {"tokenizer": tokenizer, "debug": lambda _: None}
    rule = load_function(path, FUNCTION, **given)
    model = type("Model", (Model,), {"temperature": base.TEMPERATURE})

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        ids = prompt(prefix)
        out = rule(model(target, prefix), model(draft, prefix), ids, gamma)
        return out[0, ids.shape[1] :]

    return step


ENGINES = (
    Engine(
        name="llama-ssp",
        package="lssp",
        source="ssp.py",
        function=FUNCTION,
        **LOOP,
        loader=load,
        repository="https://github.com/dust-tt/llama-ssp",
        commit="29bed13",
        parameters=("target_model", "draft_model", "input_ids", "K"),
    ),
)
