"""GPTFast: ``speculative_decode_eager``, and ``speculative_decode_kv_cache``, which it installs.

The first is given a draft that returns as many rows as its assertion wants.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function, torch
from simverify.engines.fake_models import PositionedModel, RowFunction, RowsModel, make_prompt

EAGER_FUNCTION = "speculative_decode_eager"


def load_eager(path: Path) -> Callable[..., Any]:
    """Return the function without a cache as a ``step`` callable."""
    rule = load_function(path, EAGER_FUNCTION)

    def drafts(model: RowsModel, input_ids: Any, length: int) -> Any:
        tokens, rows = input_ids, []
        for _ in range(length):
            rows.append(model.logits(tokens[0].tolist())[0, -1].exp())
            tokens = torch.cat([tokens, torch.multinomial(rows[-1], 1)[None]], 1)
        return tokens[:, -length:], torch.stack([*rows, rows[-1]])

    def step(prefix: Any, target: RowFunction, draft: RowFunction, gamma: int, rng: Any) -> Any:
        decode = partial(drafts, RowsModel(draft, prefix))
        model = SimpleNamespace(
            draft_model=SimpleNamespace(decode_function=decode),
            forward=RowsModel(target, prefix),
            sample=lambda row: torch.multinomial(row, 1)[0],
        )
        return rule(model, make_prompt(prefix), gamma)[0]

    return step


def make_engine(name: str, function: str, loader: Any, tokens: str) -> Engine:
    """Return an engine of a function; ``tokens``: what it calls the prompt."""
    return Engine(
        name=name,
        package="GPTFast",
        source="Core/Decode/SpeculativeDecode.py",
        function=function,
        **LOOP_DEFAULTS,
        loader=loader,
        repository="https://github.com/MDK8888/GPTFast",
        commit="926b755",
        parameters=(tokens, "speculate_k"),
    )


ENGINES: tuple[Engine, ...] = (
    make_engine("gptfast-eager", EAGER_FUNCTION, load_eager, "cur_tokens"),
)


# ``speculative_decode_kv_cache``, on its own ``KVCacheModel`` over rows.


CACHED_FUNCTION, GPTFAST_KV_CACHE_CLASS = "speculative_decode_kv_cache", "KVCacheModel"

UNUSED_NAMES = (
    "BloomForCausalLM",
    "KVCache",
    "add_default_parameter",
    "add_input_pos_to_func_str",
    "add_str_as_func",
    "get_method_str",
    "modify_function_block",
    "modify_if_block",
    "shift_right",
)
"""Names by which the cache changes a model's source when it is built, which it is not here."""


def load_cached(path: Path) -> Callable[..., Any]:
    """Return the function with a cache as a ``step`` callable."""
    file = path.parents[1] / "KVCache" / "KVCacheModel.py"
    unused: dict[str, Any] = dict.fromkeys(UNUSED_NAMES)
    make = load_function(file, GPTFAST_KV_CACHE_CLASS, **unused)
    rule = load_function(path, CACHED_FUNCTION, **{GPTFAST_KV_CACHE_CLASS: make})

    def cached(rows: RowFunction, prefix: Any) -> Any:
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

    def step(prefix: Any, target: RowFunction, draft: RowFunction, gamma: int, rng: Any) -> Any:
        model, model.draft_model = cached(target, prefix), cached(draft, prefix)
        return rule(model, make_prompt(prefix)[:, -1:], gamma)[0]

    return step


ENGINES += (make_engine("gptfast-kv", CACHED_FUNCTION, load_cached, "uncached_tokens"),)
