"""lucidrains' speculative-decoding: ``speculative_decoding``, a round of its loop.

Drafts by itself, from two nets that keep keys and values; ``filter_thres=0`` keeps every token. It
runs until enough tokens are out: the draft's net ends it where a second round begins.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import RowsModel

FUNCTION = "speculative_decoding"
SHAPES: dict[str, Callable[[Any], Any]] = {
    "b -> b 1": lambda t: t[:, None],
    "b -> b 1 1": lambda t: t[:, None, None],
    "b n 1 -> b n": lambda t: t[..., 0],
    "b 1 d -> b d": lambda t: t[:, 0],
    "... -> ... 1": lambda t: t[..., None],
}
"""What the loop asks of einops for a batch of one."""


class Over(Exception):
    """The round is over; its only argument is all tokens so far."""


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
    given: dict[str, Any] = {"rearrange": lambda tensor, pattern: SHAPES[pattern](tensor)}
    rule = load_function(path, FUNCTION, **given)

    def loop(target: Net, draft: Net, ids: Any, gamma: int) -> Any:
        draft.calls, length = gamma, ids.shape[1] + gamma + 1
        try:
            return rule(target, draft, ids, length, gamma=gamma, filter_thres=0.0)[0][0]
        except Over as over:
            return over.args[0]

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
