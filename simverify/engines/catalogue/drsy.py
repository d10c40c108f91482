"""DRSY/SpeculativeDecoding: ``speculative_sampling``, a whole loop.

It returns text: the prompt, its last token again, and what it drew but the last token, which is
the last one that the draft model was fed.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function
from simverify.engines.fake_models import FixedPromptTokenizer, RowsModel, loop_as_step

DRSY_FUNCTION = "speculative_sampling"
DRSY_ONE_TOKEN = {"max_new_tokens": 1, "top_p": 1.0, "temperature": 1.0}


class DrsyModel(RowsModel):
    """A model that remembers what it was fed last; the target is fed no token to begin with."""

    def __call__(self, input_ids: Any = None, *given: Any, **options: Any) -> Any:
        """Return what any :class:`RowsModel` does."""
        self.fed = input_ids
        return super().__call__(input_ids, *given, **options)


def load_drsy(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    given: dict[str, Any] = {
        "Color": SimpleNamespace(print=lambda *_: None),
        "model": SimpleNamespace(device="cpu"),
        "time": itertools.count().__next__,
    }
    rule = load_function(path, DRSY_FUNCTION, **given)

    def loop(target: DrsyModel, draft: DrsyModel, ids: Any, gamma: int) -> Any:
        text = rule("", target, draft, FixedPromptTokenizer(ids), gamma, DRSY_ONE_TOKEN)
        return [*text[ids.shape[1] + 1 :], int(draft.fed[0, -1])]

    return loop_as_step(loop, DrsyModel)


ENGINES = (
    Engine(
        name="drsy",
        package="",
        source="main.py",
        function=DRSY_FUNCTION,
        **LOOP_DEFAULTS,
        loader=load_drsy,
        repository="https://github.com/DRSY/SpeculativeDecoding",
        commit="404198a",
        parameters=("input_prompt", "tgt_model", "draft_model", "tokenizer", "k", "gen_kwargs"),
    ),
)
