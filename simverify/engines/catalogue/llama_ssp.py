"""llama-ssp: ``_ssp_iteration``, one block drafted and verified.

It samples at its constant ``TEMPERATURE``, which the rows undo.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function, load_names
from simverify.engines.fake_models import RowsModel, loop_as_step

LLAMA_SSP_FUNCTION = "_ssp_iteration"
LLAMA_SSP_HELPERS = (
    "get_temperature_distribution",
    "sample_fn",
    "stream_token_if_required",
    "TEMPERATURE",
)


def load_llama_ssp(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    tokenizer = SimpleNamespace(decode=lambda *_, **__: "")
    base = load_names(path.parent / "base.py", LLAMA_SSP_HELPERS, tokenizer=tokenizer)
    rule = load_function(
        path, LLAMA_SSP_FUNCTION, **base, tokenizer=tokenizer, debug=lambda _: None
    )
    return loop_as_step(rule, partial(RowsModel, temperature=base["TEMPERATURE"]))


ENGINES = (
    Engine(
        name="llama-ssp",
        package="lssp",
        source="ssp.py",
        function=LLAMA_SSP_FUNCTION,
        **LOOP_DEFAULTS,
        loader=load_llama_ssp,
        repository="https://github.com/dust-tt/llama-ssp",
        commit="29bed13",
        parameters=("target_model", "draft_model", "input_ids", "K"),
    ),
)
