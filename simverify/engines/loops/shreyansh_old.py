"""shreyansh26/Speculative-Sampling: ``speculative_sampling``, a whole loop."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.pieces import load_function, load_names

FUNCTION = "speculative_sampling"
HELPERS = ("sample_from_draft_model", "get_distribution", "sample")


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    rule = load_function(path, FUNCTION, **load_names(path.parent / "utils.py", HELPERS))

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        length = ids.shape[1] + 1
        return rule(target, draft, ids, length, None, lookahead=gamma, debug=False)

    return as_step(loop)


ENGINES = (
    Engine(
        name="shreyansh-old",
        package="",
        source="speculative_sampling.py",
        function=FUNCTION,
        **LOOP,
        loader=load,
        repository="https://github.com/shreyansh26/Speculative-Sampling",
        commit="81fb3b2",
        parameters=("target_model", "draft_model", "initial_prompt_seq", "target_len",
                    "tokenizer", "lookahead", "debug"),
    ),
)  # fmt: skip
