"""MLX-LM: ``generate.speculative_generate_step`` with a sampler at temperature 1.

The target samples at every place, and drafts that match are kept. Its arrays are numpy's here, and
the sampler, which it is given, draws with the audit's generator: mlx draws in compiled code.
"""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import BOS, Rows, RowsModel
from simverify.engines.loading.stubs import Changed

FUNCTION = "speculative_generate_step"
NOTHING: Callable[..., None] = lambda *_, **__: None  # noqa: E731
MLX = Changed(
    "numpy",
    logsumexp=lambda x, axis, keepdims: np.log(np.exp(x).sum(axis=axis, keepdims=keepdims)),
    stream=nullcontext,
    **dict.fromkeys(("eval", "async_eval", "clear_cache"), NOTHING),
)
"""What the loop asks of mlx: numpy has the rest."""


class Cache(list[Any]):
    """One layer's: the tokens that a model has seen."""

    state = ()


def model(rows: Rows, prefix: tuple[int, ...]) -> Callable[..., Any]:
    """Return ``model(ids, cache)``, whose logits are (1, L, V)."""
    fed = RowsModel(rows, prefix)
    return lambda ids, cache: fed.continued(cache[0], ids).numpy()


def trim(cache: list[Cache], count: int) -> None:
    """Forget the last ``count`` tokens."""
    del cache[0][len(cache[0]) - count :]


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable: its tokens up to the first that is no draft."""
    given: dict[str, Any] = {
        "mx": MLX,
        "make_prompt_cache": lambda model: [Cache()],
        "can_trim_prompt_cache": lambda cache: True,
        "trim_prompt_cache": trim,
        "maybe_quantize_kv_cache": NOTHING,
        "generation_stream": None,
        "greedy_sampler": None,
    }
    rule = load_function(path, FUNCTION, **given)

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> list[int]:
        def sampler(logs: Any) -> Any:
            laws = np.exp(logs)
            return np.array([rng.choice(len(law), p=law / law.sum()) for law in laws])

        tokens: list[int] = []
        models = model(target, prefix), model(draft, prefix)
        options = {"num_draft_tokens": gamma, "max_tokens": gamma + 1, "sampler": sampler}
        for token, _, drafted in rule(np.array([BOS, *prefix]), *models, **options):
            tokens.append(int(token))
            if not drafted:
                break
        return tokens

    return step


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
