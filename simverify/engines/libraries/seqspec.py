"""sequential-speculative-decoding: its steps, standard and hierarchical (naive and capped).

Each drafts by itself, from two causal language models and a prompt, and returns the prompt with
what was emitted after it.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.pieces import load_function, load_names

DRAWING = ("get_logits", "apply_temperature", "sample_from_probs")


def load(function: str, path: Path) -> Callable[..., Any]:
    """Return the function of that name as a ``step`` callable."""
    rule = load_function(path, function, **load_names(path.parent / "sampling.py", DRAWING))
    temperatures = {"draft_temperature": 1.0, "target_temperature": 1.0}

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        return rule(draft, target, ids, gamma=gamma, **temperatures)[0]

    return as_step(loop)


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
