"""GPTFast: ``speculative_decode_kv_cache``, on its own ``KVCacheModel`` over rows."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import PositionedModel, Rows, prompt
from simverify.engines.loading.stubs import torch
from simverify.engines.loops.gptfast import engine

CACHED, CACHE = "speculative_decode_kv_cache", "KVCacheModel"

UNUSED = (
    "BloomForCausalLM", "KVCache", "add_default_parameter", "add_input_pos_to_func_str",
    "add_str_as_func", "get_method_str", "modify_function_block", "modify_if_block", "shift_right",
)  # fmt: skip
"""Names by which the cache changes a model's source when it is built, which it is not here."""


def load_cached(path: Path) -> Callable[..., Any]:
    """Return the function with a cache as a ``step`` callable."""
    file = path.parents[1] / "KVCache" / "KVCacheModel.py"
    unused: dict[str, Any] = dict.fromkeys(UNUSED)
    make = load_function(file, CACHE, **unused)
    rule = load_function(path, CACHED, **{CACHE: make})

    def cached(rows: Rows, prefix: Any) -> Any:
        fed = PositionedModel(rows, prefix)
        model = make.__new__(make)
        torch.nn.Module.__init__(model)
        model.device, model._cached_len = torch.device("cpu"), len(prefix)
        model._model = lambda input_ids, input_pos, **_: SimpleNamespace(
            logits=fed(input_ids, input_pos)
        )
        # The row of the current token's own place comes before all: one token at least is cached.
        model._prob_history = torch.zeros(1, len(prefix) or 1, fed.vocab, dtype=fed.dtype)
        model._full_key_values = model._dummy_key_values = torch.zeros(1, 2, 1, 1, 64, 1)
        model.sample = lambda row, **_: torch.multinomial(row.reshape(1, -1), 1)
        return model

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        model, model.draft_model = cached(target, prefix), cached(draft, prefix)
        return rule(model, prompt(prefix)[:, -1:], gamma)[0]

    return step


ENGINES = (engine("gptfast-kv", CACHED, load_cached, "uncached_tokens"),)
