"""llama-ssp: ``_ssp_iteration``, one block drafted and verified.

It samples at its constant ``TEMPERATURE``, which the rows undo.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.pieces import load_function, load_names
from simverify.engines.loading.rows_model import RowsModel

FUNCTION = "_ssp_iteration"
HELPERS = ("get_temperature_distribution", "sample_fn", "stream_token_if_required", "TEMPERATURE")


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    tokenizer = SimpleNamespace(decode=lambda *_, **__: "")
    base = load_names(path.parent / "base.py", HELPERS, tokenizer=tokenizer)
    rule = load_function(path, FUNCTION, **base, tokenizer=tokenizer, debug=lambda _: None)
    return as_step(rule, partial(RowsModel, temperature=base["TEMPERATURE"]))


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
