"""What decoding loops ask of ``mlx.core``, on numpy's arrays: mlx itself needs an Apple machine."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from simverify.engines.loading.stubs import Changed

NOTHING: Callable[..., None] = lambda *_, **__: None  # noqa: E731


def _logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


mx: Any = Changed(
    "numpy",
    logsumexp=_logsumexp,
    stream=nullcontext,
    # Arrays are computed at once, and no memory is kept.
    **dict.fromkeys(("eval", "async_eval", "clear_cache"), NOTHING),
)
