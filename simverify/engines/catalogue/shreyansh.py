"""shreyansh26: ``probabilistic_verify`` and, in an older repository, ``speculative_sampling``.

The first, of Speculative-Decoding, takes the target as a model, and the draft's probabilities.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify
from simverify.engines.base import BLOCK_DEFAULTS, LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function, load_names
from simverify.engines.fake_models import BOS_TOKEN, loop_as_step

FUNCTION = "probabilistic_verify"


def load_new(path: Path) -> VerifyFunction:
    """Return the function as a ``verify`` callable."""
    rule = load_function(path, FUNCTION)

    def verify(draft_tokens: Any, target: Any, draft: Any) -> Any:
        model = lambda _: SimpleNamespace(logits=target[None])  # noqa: E731
        return rule(model, [BOS_TOKEN], draft_tokens.tolist(), draft.exp()).emitted_ids

    return as_verify(verify, Signature(arrays="torch", logits=True, batched=False))


ENGINES: tuple[Engine, ...] = (
    Engine(
        name="shreyansh-new",
        package="common",
        source="verification.py",
        function=FUNCTION,
        **BLOCK_DEFAULTS,
        loader=load_new,
        repository="https://github.com/shreyansh26/Speculative-Decoding",
        commit="76335be",
        parameters=("model", "prefix_ids", "draft_ids", "draft_probs"),
    ),
)


# Speculative-Sampling, the older repository: ``speculative_sampling``, a whole loop.


OLD_FUNCTION = "speculative_sampling"
OLD_HELPERS = ("sample_from_draft_model", "get_distribution", "sample")


def load_old(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    rule = load_function(path, OLD_FUNCTION, **load_names(path.parent / "utils.py", OLD_HELPERS))

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        length = ids.shape[1] + 1
        return rule(target, draft, ids, length, None, lookahead=gamma, debug=False)

    return loop_as_step(loop)


ENGINES += (
    Engine(
        name="shreyansh-old",
        package="",
        source="speculative_sampling.py",
        function=OLD_FUNCTION,
        **LOOP_DEFAULTS,
        loader=load_old,
        repository="https://github.com/shreyansh26/Speculative-Sampling",
        commit="81fb3b2",
        parameters=(
            "target_model",
            "draft_model",
            "initial_prompt_seq",
            "target_len",
            "tokenizer",
            "lookahead",
            "debug",
        ),
    ),
)
