"""romsto/Speculative-Decoding: ``speculative_generate``, a whole loop.

It is asked for gamma + 1 tokens, and takes as many rounds as that needs; without a cache, and
without the target's first token, which would come before any draft.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.pieces import load_function, load_pieces

FUNCTION = "speculative_generate"
PROCESSORS = ("GreedyProcessor", "MultinomialProcessor")


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    processors = load_pieces(path.parents[1] / "utils" / "logits_processor.py", PROCESSORS)
    given = {"GreedyProcessor": processors.GreedyProcessor, "printing": None, "prune_cache": None}
    rule = load_function(path, FUNCTION, **given)

    sampling = processors.MultinomialProcessor(1.0)

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        options = {"max_gen_len": gamma + 1, "eos_tokens_id": -1, "first_target": False}
        given = ids[0].tolist(), draft, target
        return rule(*given, gamma=gamma, logits_processor=sampling, **options)[0]

    return as_step(loop)


ENGINES = (
    Engine(
        name="romsto",
        package="sampling",
        source="speculative_decoding.py",
        function=FUNCTION,
        **LOOP,
        loader=load,
        repository="https://github.com/romsto/Speculative-Decoding",
        commit="db7db67",
        parameters=("inputs", "drafter", "target", "gamma", "logits_processor", "max_gen_len",
                    "eos_tokens_id", "first_target"),
    ),
)  # fmt: skip
