"""GPTFast: ``speculative_decode_eager``.

It is given a draft that returns as many rows as its assertion wants. :mod:`.gptfast_kv` is the
one that it installs.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import Rows, RowsModel, prompt
from simverify.engines.loading.stubs import torch

EAGER = "speculative_decode_eager"


def load_eager(path: Path) -> Callable[..., Any]:
    """Return the function without a cache as a ``step`` callable."""
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


def engine(name: str, function: str, loader: Any, tokens: str) -> Engine:
    """Return an engine of a function; ``tokens``: what it calls the prompt."""
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


ENGINES = (engine("gptfast-eager", EAGER, load_eager, "cur_tokens"),)
