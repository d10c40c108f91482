"""MLX-LM: ``generate.speculative_generate_step`` with a sampler at temperature 1.

The target samples at every place, and drafts that match are kept. Its arrays are numpy's here, and
the sampler, which it is given, draws with torch: mlx draws in compiled code.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.caches import LayerCache, LayeredModel, trim
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.mlx import NOTHING, mx
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.samplers import multinomial

FUNCTION = "speculative_generate_step"


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable: its tokens up to the first that is no draft."""
    given: dict[str, Any] = {
        "mx": mx,
        "make_prompt_cache": lambda model: [LayerCache()],
        "can_trim_prompt_cache": lambda cache: True,
        "trim_prompt_cache": trim,
        "maybe_quantize_kv_cache": NOTHING,
        "generation_stream": None,
        "greedy_sampler": None,
    }
    rule = load_function(path, FUNCTION, **given)

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> list[int]:
        tokens: list[int] = []
        options = {"num_draft_tokens": gamma, "max_tokens": gamma + 1, "sampler": multinomial}
        for token, _, drafted in rule(ids[0].numpy(), target, draft, **options):
            tokens.append(int(token))
            if not drafted:
                break
        return tokens

    return as_step(loop, LayeredModel)


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
