"""What an engine may say of a token's log probability, as our own rows have it."""

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats
from simverify.emitted.law import Law
from simverify.emitted.reading.requests import Request

_FLOOR = -100.0
"""In the place of the logarithm of nothing."""


def predicted(
    logits: npt.NDArray[np.float32], drafts: npt.NDArray[np.float32] | None, request: Request,
    law: Law,
) -> dict[str, Floats]:  # fmt: skip
    """Log probabilities float64 (n,) of a request's tokens, by the kind of row that they are of."""
    tokens = np.array(request.tokens)
    at = np.arange(len(tokens))
    tempered = Law(law.temperature if law.temperature > 0.0 else 1.0)
    with np.errstate(divide="ignore"):
        raw_rows = np.log(Law().rows(logits))
        raw = raw_rows[at, tokens]
        found = {
            "processed": np.log(law.after(logits, request.prompt, request.tokens)[at, tokens]),
            "raw": raw,
            "by temperature alone": np.log(tempered.rows(logits)[at, tokens]),
        }
        found = {name: np.maximum(own, _FLOOR) for name, own in found.items()}
        found["row before"] = np.append(np.nan, raw_rows[at[:-1], tokens[1:]])
        found["row after"] = np.append(raw_rows[at[1:], tokens[:-1]], np.nan)
        found["token before"] = np.append(np.nan, raw[:-1])
        if drafts is not None:
            found["draft"] = np.log(Law().rows(drafts)[at, tokens])
    return found
