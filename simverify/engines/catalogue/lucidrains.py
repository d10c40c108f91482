"""lucidrains' speculative-decoding: ``speculative_decoding``, a round of its loop.

Drafts by itself, from two nets that keep keys and values; ``filter_thres=0`` keeps every token. It
runs until enough tokens are out: the draft's net ends it where a second round begins.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function, rearrange
from simverify.engines.fake_models import LoopEnded, RowsModel, loop_as_step

LUCIDRAINS_FUNCTION = "speculative_decoding"


class LucidrainsModel(RowsModel):
    """A net whose cache is its tokens, along the axis that the loop cuts."""

    calls: float = math.inf

    def __call__(self, out: Any, **_: Any) -> tuple[Any, Any]:  # type: ignore[override]
        """Return the logits (1, L, V) of all ids (1, L), and the cache (1, L, 1)."""
        if not self.calls:
            raise LoopEnded(out)
        self.calls -= 1
        return self.logits(out[0].tolist()), (out.double()[..., None], None)


def load_lucidrains(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    rule = load_function(path, LUCIDRAINS_FUNCTION, rearrange=rearrange)

    def loop(target: LucidrainsModel, draft: LucidrainsModel, ids: Any, gamma: int) -> Any:
        draft.calls, length = gamma, ids.shape[1] + gamma + 1
        return rule(target, draft, ids, length, gamma=gamma, filter_thres=0.0)[0][0]

    return loop_as_step(loop, LucidrainsModel)


ENGINES = (
    Engine(
        name="lucidrains",
        package="speculative_decoding",
        source="speculative_decoding.py",
        function=LUCIDRAINS_FUNCTION,
        **LOOP_DEFAULTS,
        loader=load_lucidrains,
        distribution="speculative-decoding",
        versions=">=0.2,<0.3",
        parameters=("net", "small_net", "prompt", "seq_len", "gamma", "filter_thres"),
    ),
)
