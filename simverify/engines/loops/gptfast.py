"""GPTFast: ``speculative_decode_eager``, and ``speculative_decode_kv_cache``, which it installs.

The eager one is given a draft that returns as many rows as its assertion wants. The other one
runs on its own ``KVCacheModel`` over rows.
"""

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import PositionedModel, Rows, RowsModel, prompt

EAGER, CACHED, CACHE = "speculative_decode_eager", "speculative_decode_kv_cache", "KVCacheModel"

UNUSED = (
    "BloomForCausalLM", "KVCache", "add_default_parameter", "add_input_pos_to_func_str",
    "add_str_as_func", "get_method_str", "modify_function_block", "modify_if_block", "shift_right",
)  # fmt: skip
"""Names by which the cache changes a model's source when it is built, which it is not here."""


def load_eager(path: Path) -> Callable[..., Any]:
    """Return the function without a cache as a ``step`` callable."""
    torch = importlib.import_module("torch")
    rule = load_function(path, EAGER)

    def drafts(model: RowsModel, input_ids: Any, length: int) -> Any:
        tokens, rows = input_ids, []
        for _ in range(length):
            rows.append(model.logits(tokens[0].tolist())[0, -1].exp())
            tokens = torch.cat([tokens, torch.multinomial(rows[-1], 1)[None]], 1)
        return tokens[:, -length:], torch.stack([*rows, rows[-1]])

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        decode = partial(drafts, RowsModel(draft, prefix))
        model = SimpleNamespace(
            draft_model=SimpleNamespace(decode_function=decode),
            forward=RowsModel(target, prefix),
            sample=lambda row: torch.multinomial(row, 1)[0],
        )
        return rule(model, prompt(prefix), gamma)[0]

    return step


def load_cached(path: Path) -> Callable[..., Any]:
    """Return the function with a cache as a ``step`` callable."""
    torch = importlib.import_module("torch")
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


def _engine(name: str, function: str, loader: Any, tokens: str) -> Engine:
    return Engine(
        name=name,
        package="GPTFast",
        source="Core/Decode/SpeculativeDecode.py",
        function=function,
        **LOOP,
        loader=loader,
        repository="https://github.com/MDK8888/GPTFast",
        commit="926b755",
        parameters=(tokens, "speculate_k"),
    )


ENGINES = (
    _engine("gptfast-eager", EAGER, load_eager, "cur_tokens"),
    _engine("gptfast-kv", CACHED, load_cached, "uncached_tokens"),
)
