"""lucidrains' speculative-decoding: ``speculative_decoding``, a round of its loop.

Drafts by itself, from two nets that keep keys and values; ``filter_thres=0`` keeps every token. It
runs until enough tokens are out: the draft's net ends it where a second round begins.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.axes import rearrange
from simverify.engines.loading.loops import Over, as_step
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import RowsModel

FUNCTION = "speculative_decoding"


class Net(RowsModel):
    """A net whose cache is its tokens, along the axis that the loop cuts."""

    calls: float = math.inf

    def __call__(self, out: Any, **_: Any) -> tuple[Any, Any]:  # type: ignore[override]
        """Return the logits (1, L, V) of all ids (1, L), and the cache (1, L, 1)."""
        if not self.calls:
            raise Over(out)
        self.calls -= 1
        return self.logits(out[0].tolist()), (out.double()[..., None], None)


def load(path: Path) -> Callable[..., Any]:
    """Return the function as a ``step`` callable."""
    rule = load_function(path, FUNCTION, rearrange=rearrange)

    def loop(target: Net, draft: Net, ids: Any, gamma: int) -> Any:
        draft.calls, length = gamma, ids.shape[1] + gamma + 1
        return rule(target, draft, ids, length, gamma=gamma, filter_thres=0.0)[0][0]

    return as_step(loop, Net)


ENGINES = (
    Engine(
        name="lucidrains",
        package="speculative_decoding",
        source="speculative_decoding.py",
        function=FUNCTION,
        **LOOP,
        loader=load,
        distribution="speculative-decoding",
        versions=">=0.2,<0.3",
        parameters=("net", "small_net", "prompt", "seq_len", "gamma", "filter_thres"),
    ),
)
