"""DRSY/SpeculativeDecoding: ``speculative_sampling``, a whole loop.

It returns text: the prompt, its last token again, and what it drew but the last token, which is
the last one that the draft model was fed.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import Rows, RowsModel, prompt

FUNCTION = "speculative_sampling"
ONE_TOKEN = {"max_new_tokens": 1, "top_p": 1.0, "temperature": 1.0}


class Draft(RowsModel):
    """A model that remembers the last token that it was fed."""

    def __call__(self, input_ids: Any = None, *given: Any, **options: Any) -> Any:
        """Return what any :class:`RowsModel` does."""
        self.last = int(input_ids.reshape(-1)[-1])
        return super().__call__(input_ids, *given, **options)


class Inputs(dict[str, Any]):
    """What a tokenizer returns."""

    def to(self, _: Any) -> "Inputs":
        """Return the same: they stay on the CPU."""
        return self


class Tokenizer:
    """Encodes any text as the ids, and leaves ids as they are."""

    def __init__(self, ids: Any) -> None:
        self._encoded = Inputs(input_ids=ids)
        self.decode = lambda ids, **_: ids

    def __call__(self, *_: Any, **__: Any) -> Inputs:
        """Return the prompt."""
        return self._encoded


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    given: dict[str, Any] = {
        "Color": SimpleNamespace(print=lambda *_: None),
        "model": SimpleNamespace(device="cpu"),
        "time": itertools.count().__next__,
    }
    rule = load_function(path, FUNCTION, **given)

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        ids, drafter = prompt(prefix), Draft(draft, prefix)
        text = rule("", RowsModel(target, prefix), drafter, Tokenizer(ids), gamma, ONE_TOKEN)
        return [*text[ids.shape[1] + 1 :], drafter.last]

    return step


ENGINES = (
    Engine(
        name="drsy",
        package="",
        source="main.py",
        function=FUNCTION,
        **LOOP,
        loader=load,
        repository="https://github.com/DRSY/SpeculativeDecoding",
        commit="404198a",
        parameters=("input_prompt", "tgt_model", "draft_model", "tokenizer", "k", "gen_kwargs"),
    ),
)
