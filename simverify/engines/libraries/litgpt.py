"""LitGPT: ``generate.speculative_decoding.speculative_decoding``, at temperature 1 and at 2.

Drafts by itself, from two models that are told positions. ``litgpt-hot`` is the same call at
temperature 2 on doubled logits: softmax(2 log p / 2) = p, so the target is the same.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import PositionedModel
from simverify.engines.loading.stubs import torch

FUNCTION = "speculative_decoding"


class Model(PositionedModel):
    """A model under the names of LitGPT's."""

    def __call__(self, idx: Any, input_pos: Any, input_pos_maxp1: int) -> Any:  # type: ignore[override]
        """Return the logits (1, L, V) of ``idx`` (1, L) at the positions (L,)."""
        return super().__call__(idx, input_pos)


def load(temperature: float, path: Path) -> Callable[..., Any]:
    """Return the function at that temperature, undone in the rows, as a ``step`` callable."""
    given: dict[str, Any] = {
        # Its own asks torch._dynamo first whether it is compiled, and is this if it is not.
        "multinomial_num_samples_1": lambda probs: torch.multinomial(probs, num_samples=1),
        "sample_top_p": None,
    }
    rule = load_function(path, FUNCTION, **given)

    options = {} if temperature == 1 else {"temperature": temperature}

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        place = ids.shape[1] - 1
        given = draft, target, ids[0, -1:], torch.tensor([place]), place + 1, gamma
        return rule(*given, **options)

    return as_step(loop, partial(Model, temperature=temperature))


def _engine(name: str, temperature: float) -> Engine:
    return Engine(
        name=name,
        package="litgpt",
        source="generate/speculative_decoding.py",
        function=FUNCTION,
        **LOOP,
        loader=partial(load, temperature),
        versions=">=0.5.13,<0.6",
        parameters=("draft_model", "target_model", "token", "input_pos", "input_pos_maxp1",
                    "speculative_k", "sample_kwargs"),
    )  # fmt: skip


ENGINES = (_engine("litgpt", 1.0), _engine("litgpt-hot", 2.0))
