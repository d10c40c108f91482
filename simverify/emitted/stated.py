"""What an engine may say of a token's log probability, as our own rows have it."""

from dataclasses import replace

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

        def of(own: Law) -> Floats:
            return np.asarray(np.log(own.after(logits, request.prompt, request.tokens)[at, tokens]))

        uncut = replace(law, top_k=None, top_p=None, min_p=None, typical_p=None)
        found = {
            "processed": of(law),
            "raw": raw,
            "by temperature alone": np.log(tempered.rows(logits)[at, tokens]),
            "before temperature": of(replace(uncut, temperature=1.0)),
            "before truncation": of(uncut if law.temperature > 0.0 else law),
        }
        found = {name: np.maximum(own, _FLOOR) for name, own in found.items()}
        found["row before"] = np.append(np.nan, raw_rows[at[:-1], tokens[1:]])
        found["row after"] = np.append(raw_rows[at[1:], tokens[:-1]], np.nan)
        found["token before"] = np.append(np.nan, raw[:-1])
        if drafts is not None:
            found["draft"] = np.log(Law().rows(drafts)[at, tokens])
    return found
