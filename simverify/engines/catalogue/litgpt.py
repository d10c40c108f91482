"""LitGPT: ``generate.speculative_decoding.speculative_decoding``, at temperature 1 and at 2.

Drafts by itself, from two models that are told positions. ``litgpt-hot`` is the same call at
temperature 2 on doubled logits: softmax(2 log p / 2) = p, so the target is the same.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function, torch
from simverify.engines.fake_models import PositionedModel, loop_as_step

LITGPT_FUNCTION = "speculative_decoding"


class LitgptModel(PositionedModel):
    """A model under the names of LitGPT's."""

    def __call__(self, idx: Any, input_pos: Any, input_pos_maxp1: int) -> Any:  # type: ignore[override]
        """Return the logits (1, L, V) of ``idx`` (1, L) at the positions (L,)."""
        return super().__call__(idx, input_pos)


def load_litgpt(temperature: float, path: Path) -> Callable[..., Any]:
    """Return the function at that temperature, undone in the rows, as a ``step`` callable."""
    given: dict[str, Any] = {
        # Its own asks torch._dynamo first whether it is compiled, and is this if it is not.
        "multinomial_num_samples_1": lambda probs: torch.multinomial(probs, num_samples=1),
        "sample_top_p": None,
    }
    rule = load_function(path, LITGPT_FUNCTION, **given)

    options = {} if temperature == 1 else {"temperature": temperature}

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        place = ids.shape[1] - 1
        given = draft, target, ids[0, -1:], torch.tensor([place]), place + 1, gamma
        return rule(*given, **options)

    return loop_as_step(loop, partial(LitgptModel, temperature=temperature))


def _make_litgpt_engine(name: str, temperature: float) -> Engine:
    return Engine(
        name=name,
        package="litgpt",
        source="generate/speculative_decoding.py",
        function=LITGPT_FUNCTION,
        **LOOP_DEFAULTS,
        loader=partial(load_litgpt, temperature),
        versions=">=0.5.13,<0.6",
        parameters=(
            "draft_model",
            "target_model",
            "token",
            "input_pos",
            "input_pos_maxp1",
            "speculative_k",
            "sample_kwargs",
        ),
    )


ENGINES = (_make_litgpt_engine("litgpt", 1.0), _make_litgpt_engine("litgpt-hot", 2.0))
