"""Structured output as a function: which tokens may come next, given all that stand before."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.errors import UsageError


@dataclass(frozen=True)
class Mask:
    """A mask function by its ``name``: two of one name are taken for the same.

    ``allowed``: called with two tuples of ids, the prompt and what was emitted after it; returns
    the ids that may come next, or None where all may.
    """

    name: str
    allowed: Callable[[tuple[int, ...], tuple[int, ...]], Any] = field(compare=False, repr=False)

    def banned(
        self, prompt: tuple[int, ...], tokens: Sequence[int], vocab_size: int
    ) -> npt.NDArray[np.bool_]:
        """Return which tokens may not follow, bool (V,).

        Raises
        ------
        UsageError
            If the function raises, or returns anything but ids, one or more.
        """
        where = f"mask {self.name} after {len(tokens)} tokens"
        try:
            given = self.allowed(prompt, tuple(tokens))
            ids = None if given is None else np.asarray(list(given))
        except Exception as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise UsageError(f"{where} raises {words}") from None
        if ids is None:
            return np.zeros(vocab_size, np.bool_)
        if not ids.size:
            raise UsageError(f"{where} allows nothing: expected one id or more, or None for all")
        if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
            raise UsageError(f"{where} returns {ids.dtype} values: expected a list of token ids")
        if ids.min() < 0 or ids.max() >= vocab_size:
            bad = int(ids.min() if ids.min() < 0 else ids.max())
            raise UsageError(f"{where} allows the id {bad}: expected 0 to {vocab_size - 1}")
        found = np.ones(vocab_size, np.bool_)
        found[ids] = False
        return found
