"""shreyansh26: ``probabilistic_verify`` of Speculative-Decoding, and the older repository's loop.

``shreyansh-new`` takes the target as a model, and the draft's probabilities; ``shreyansh-old`` is
``speculative_sampling`` of Speculative-Sampling, which drafts by itself.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import BLOCK, LOOP, Engine
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.pieces import load_function, load_names
from simverify.engines.loading.rows_model import BOS

NEW, OLD = "probabilistic_verify", "speculative_sampling"
HELPERS = ("sample_from_draft_model", "get_distribution", "sample")


def load_new(path: Path) -> Verify:
    """Return the newer rule as a ``verify`` callable."""
    rule = load_function(path, NEW)

    def verify(draft_tokens: Any, target: Any, draft: Any) -> Any:
        model = lambda _: SimpleNamespace(logits=target[None])  # noqa: E731
        return rule(model, [BOS], draft_tokens.tolist(), draft.exp()).emitted_ids

    return as_verify(verify, Signature(arrays="torch", logits=True, batched=False))


def load_old(path: Path) -> Callable[..., Any]:
    """Return the older loop as a ``step`` callable."""
    rule = load_function(path, OLD, **load_names(path.parent / "utils.py", HELPERS))

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        length = ids.shape[1] + 1
        return rule(target, draft, ids, length, None, lookahead=gamma, debug=False)

    return as_step(loop)


_GITHUB = "https://github.com/shreyansh26"
ENGINES = (
    Engine(
        name="shreyansh-new",
        package="common",
        source="verification.py",
        function=NEW,
        **BLOCK,
        loader=load_new,
        repository=f"{_GITHUB}/Speculative-Decoding",
        commit="76335be",
        parameters=("model", "prefix_ids", "draft_ids", "draft_probs"),
    ),
    Engine(
        name="shreyansh-old",
        package="",
        source="speculative_sampling.py",
        function=OLD,
        **LOOP,
        loader=load_old,
        repository=f"{_GITHUB}/Speculative-Sampling",
        commit="81fb3b2",
        parameters=("target_model", "draft_model", "initial_prompt_seq", "target_len",
                    "tokenizer", "lookahead", "debug"),
    ),
)  # fmt: skip
