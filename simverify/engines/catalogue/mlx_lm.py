"""MLX-LM: ``generate.speculative_generate_step``; dspark-mlx: ``verify.speculative_sample_accept``.

MLX-LM's sampler runs at temperature 1: the target samples at every place, and drafts that match are
kept. Its arrays are numpy's here, and the sampler, which it is given, draws with torch: mlx draws
in compiled code.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify
from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import NO_OPERATION, load_function, mx, sample_logits
from simverify.engines.fake_models import LayerCache, LayeredModel, loop_as_step, trim_cache

MLX_LM_FUNCTION = "speculative_generate_step"


def load_mlx_lm(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable: its tokens up to the first that is no draft."""
    given: dict[str, Any] = {
        "mx": mx,
        "make_prompt_cache": lambda model: [LayerCache()],
        "can_trim_prompt_cache": lambda cache: True,
        "trim_prompt_cache": trim_cache,
        "maybe_quantize_kv_cache": NO_OPERATION,
        "generation_stream": None,
        "greedy_sampler": None,
    }
    rule = load_function(path, MLX_LM_FUNCTION, **given)

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> list[int]:
        tokens: list[int] = []
        options = {"num_draft_tokens": gamma, "max_tokens": gamma + 1, "sampler": sample_logits}
        for token, _, drafted in rule(ids[0].numpy(), target, draft, **options):
            tokens.append(int(token))
            if not drafted:
                break
        return tokens

    return loop_as_step(loop, LayeredModel)


ENGINES: tuple[Engine, ...] = (
    Engine(
        name="mlx-lm",
        package="mlx_lm",
        source="generate.py",
        function=MLX_LM_FUNCTION,
        **LOOP_DEFAULTS,
        loader=load_mlx_lm,
        distribution="mlx-lm",
        versions=">=0.32.2,<0.33",
        parameters=("prompt", "model", "draft_model", "num_draft_tokens", "max_tokens", "sampler"),
    ),
)


# dspark-mlx, in numpy and with a generator.


DSPARK_MLX_FUNCTION = "speculative_sample_accept"


def load_dspark_mlx(path: Path) -> VerifyFunction:
    """Return the function as a ``verify`` callable."""
    accept = load_function(path, DSPARK_MLX_FUNCTION)

    def sample(draft_tokens: Any, target: Any, draft: Any, rng: Any) -> Any:
        return accept(draft_tokens, draft, target, rng).tokens

    return as_verify(sample, Signature(randomness="numpy", batched=False))


ENGINES += (
    Engine(
        name="dspark-mlx",
        package="dspark_mlx",
        source="verify.py",
        function=DSPARK_MLX_FUNCTION,
        contract="verify",
        tier="exact",
        loader=load_dspark_mlx,
        distribution="dspark-mlx",
        versions=">=0.1,<0.2",
        parameters=("draft_tokens", "draft_probs", "base_probs", "rng"),
    ),
)
