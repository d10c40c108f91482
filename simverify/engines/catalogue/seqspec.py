"""sequential-speculative-decoding: its steps, standard and hierarchical (naive and capped).

Each drafts by itself, from two causal language models and a prompt, and returns the prompt with
what was emitted after it.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function, load_names
from simverify.engines.fake_models import loop_as_step

SEQSPEC_DRAWING_FUNCTIONS = ("get_logits", "apply_temperature", "sample_from_probs")


def load_seqspec(function: str, path: Path) -> Callable[..., Any]:
    """Return the function of that name as a ``step`` callable."""
    rule = load_function(
        path, function, **load_names(path.parent / "sampling.py", SEQSPEC_DRAWING_FUNCTIONS)
    )
    temperatures = {"draft_temperature": 1.0, "target_temperature": 1.0}

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        return rule(draft, target, ids, gamma=gamma, **temperatures)[0]

    return loop_as_step(loop)


def _make_seqspec_engine(name: str, file: str, function: str) -> Engine:
    return Engine(
        name=name,
        package="seqspecdecod",
        source=f"{file}.py",
        function=function,
        **LOOP_DEFAULTS,
        loader=partial(load_seqspec, function),
        distribution="sequential-speculative-decoding",
        versions=">=0.1.1,<0.2",
        parameters=(
            "draft_model",
            "target_model",
            "input_ids",
            "gamma",
            "draft_temperature",
            "target_temperature",
        ),
    )


ENGINES = (
    _make_seqspec_engine("seqspec-standard", "standard_sd", "standard_speculative_step"),
    _make_seqspec_engine("seqspec-naive", "naive_hsd", "naive_hsd_step"),
    _make_seqspec_engine("seqspec-capped", "capped_hsd", "capped_hsd_step"),
)
