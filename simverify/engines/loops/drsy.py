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
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import RowsModel
from simverify.engines.loading.tokenizers import IdsTokenizer

FUNCTION = "speculative_sampling"
ONE_TOKEN = {"max_new_tokens": 1, "top_p": 1.0, "temperature": 1.0}


class Model(RowsModel):
    """A model that remembers what it was fed last; the target is fed no token to begin with."""

    def __call__(self, input_ids: Any = None, *given: Any, **options: Any) -> Any:
        """Return what any :class:`RowsModel` does."""
        self.fed = input_ids
        return super().__call__(input_ids, *given, **options)


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    given: dict[str, Any] = {
        "Color": SimpleNamespace(print=lambda *_: None),
        "model": SimpleNamespace(device="cpu"),
        "time": itertools.count().__next__,
    }
    rule = load_function(path, FUNCTION, **given)

    def loop(target: Model, draft: Model, ids: Any, gamma: int) -> Any:
        text = rule("", target, draft, IdsTokenizer(ids), gamma, ONE_TOKEN)
        return [*text[ids.shape[1] + 1 :], int(draft.fed[0, -1])]

    return as_step(loop, Model)


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
