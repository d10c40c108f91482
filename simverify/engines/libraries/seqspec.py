"""sequential-speculative-decoding: its steps, standard and hierarchical (naive and capped).

Each drafts by itself, from two causal language models and a prompt, and returns the prompt with
what was emitted after it.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.pieces import load_function, load_pieces
from simverify.engines.loading.rows_model import RowsModel, prompt

DRAWING = ("get_logits", "apply_temperature", "sample_from_probs")


def load(function: str, path: Path) -> Callable[..., Any]:
    """Return the function of that name as a ``step`` callable."""
    drawing = load_pieces(path.parent / "sampling.py", DRAWING)
    given = {name: getattr(drawing, name) for name in DRAWING}
    rule = load_function(path, function, **given)

    def step(prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> list[int]:
        ids = prompt(prefix)
        models = RowsModel(draft, prefix), RowsModel(target, prefix)
        temperatures = {"draft_temperature": 1.0, "target_temperature": 1.0}
        tokens, _, _ = rule(*models, ids, gamma=gamma, **temperatures)
        return tokens[0, ids.shape[1] :].tolist()  # type: ignore[no-any-return]

    return step


def _engine(name: str, file: str, function: str) -> Engine:
    return Engine(
        name=name,
        package="seqspecdecod",
        source=f"{file}.py",
        function=function,
        **LOOP,
        loader=partial(load, function),
        distribution="sequential-speculative-decoding",
        versions=">=0.1.1,<0.2",
        parameters=("draft_model", "target_model", "input_ids", "gamma",
                    "draft_temperature", "target_temperature"),
    )  # fmt: skip


ENGINES = (
    _engine("seqspec-standard", "standard_sd", "standard_speculative_step"),
    _engine("seqspec-naive", "naive_hsd", "naive_hsd_step"),
    _engine("seqspec-capped", "capped_hsd", "capped_hsd_step"),
)
