"""MLX-LM: ``generate.speculative_generate_step`` with a sampler at temperature 1.

The target samples at every place, and drafts that match are kept. Its arrays are numpy's here, and
the sampler, which it is given, draws with torch: mlx draws in compiled code.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.mlx import NOTHING, mx
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import RowsModel
from simverify.engines.loading.stubs import torch

FUNCTION = "speculative_generate_step"


class Cache(list[Any]):
    """One layer's: the tokens that a model has seen."""

    state = ()


class Model(RowsModel):
    """A model that is called with new ids and a cache of one layer."""

    def __call__(self, ids: Any, cache: Any) -> Any:  # type: ignore[override]
        """Return the logits (1, L, V) of the ids (1, L)."""
        return self.continued(cache[0], ids).numpy()


def trim(cache: list[Cache], count: int) -> None:
    """Forget the last ``count`` tokens."""
    del cache[0][len(cache[0]) - count :]


def sampler(logs: Any) -> Any:
    """Return a token of each row (L, V) of logarithms."""
    return torch.multinomial(torch.from_numpy(np.exp(logs)), 1)[:, 0].numpy()


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable: its tokens up to the first that is no draft."""
    given: dict[str, Any] = {
        "mx": mx,
        "make_prompt_cache": lambda model: [Cache()],
        "can_trim_prompt_cache": lambda cache: True,
        "trim_prompt_cache": trim,
        "maybe_quantize_kv_cache": NOTHING,
        "generation_stream": None,
        "greedy_sampler": None,
    }
    rule = load_function(path, FUNCTION, **given)

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> list[int]:
        tokens: list[int] = []
        options = {"num_draft_tokens": gamma, "max_tokens": gamma + 1, "sampler": sampler}
        for token, _, drafted in rule(ids[0].numpy(), target, draft, **options):
            tokens.append(int(token))
            if not drafted:
                break
        return tokens

    return as_step(loop, Model)


ENGINES = (
    Engine(
        name="mlx-lm",
        package="mlx_lm",
        source="generate.py",
        function=FUNCTION,
        **LOOP,
        loader=load,
        distribution="mlx-lm",
        versions=">=0.32.2,<0.33",
        parameters=("prompt", "model", "draft_model", "num_draft_tokens", "max_tokens", "sampler"),
    ),
)
