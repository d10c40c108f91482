"""romsto/Speculative-Decoding: ``speculative_generate``, a whole loop.

It is asked for gamma + 1 tokens, and takes as many rounds as that needs; without a cache, and
without the target's first token, which would come before any draft.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function, load_pieces
from simverify.engines.fake_models import loop_as_step

ROMSTO_FUNCTION = "speculative_generate"
ROMSTO_PROCESSORS = ("GreedyProcessor", "MultinomialProcessor")


def load_romsto(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    processors = load_pieces(path.parents[1] / "utils" / "logits_processor.py", ROMSTO_PROCESSORS)
    given = {"GreedyProcessor": processors.GreedyProcessor, "printing": None, "prune_cache": None}
    rule = load_function(path, ROMSTO_FUNCTION, **given)

    sampling = processors.MultinomialProcessor(1.0)

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        options = {"max_gen_len": gamma + 1, "eos_tokens_id": -1, "first_target": False}
        given = ids[0].tolist(), draft, target
        return rule(*given, gamma=gamma, logits_processor=sampling, **options)[0]

    return loop_as_step(loop)


ENGINES = (
    Engine(
        name="romsto",
        package="sampling",
        source="speculative_decoding.py",
        function=ROMSTO_FUNCTION,
        **LOOP_DEFAULTS,
        loader=load_romsto,
        repository="https://github.com/romsto/Speculative-Decoding",
        commit="db7db67",
        parameters=(
            "inputs",
            "drafter",
            "target",
            "gamma",
            "logits_processor",
            "max_gen_len",
            "eos_tokens_id",
            "first_target",
        ),
    ),
)
