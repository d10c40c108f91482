"""The rows of a simulated model as calls of Python code meet them: each worked out once."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from simverify.arrays import Floats
from simverify.models.base import MarkovModel, Model
from simverify.models.ngram import TARGET_LENGTH, NgramModel

Text = tuple[int, ...]

_MOST = 20_000
"""Rows kept of each model: 40 MB of 256 tokens."""


class ModelRows:
    """Rows after texts, which are not to be written into, and tokens drafted from them.

    A row follows from the last tokens alone: from one of a Markov model, from four bytes of
    ``ngram``.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._counts: int | None = None
        if isinstance(model, MarkovModel):
            self._counts = 1
        elif isinstance(model, NgramModel):
            self._counts = TARGET_LENGTH - 1
        self._known: dict[tuple[str, Text], Floats] = {}
        self.both = (self.target, self.draft)

    def start(self, rng: np.random.Generator) -> Text:
        """Draw where a trial begins: held-out text of ``ngram``, else nothing."""
        if not isinstance(self._model, NgramModel):
            return ()
        contexts = self._model.contexts
        return tuple(int(token) for token in contexts[rng.integers(len(contexts))])

    def target(self, text: Text) -> Floats:
        """Row (V,) of the target after ``text``."""
        return self._row("target", text)

    def draft(self, text: Text) -> Floats:
        """Row (V,) of the draft after ``text``."""
        return self._row("draft", text)

    def drafted(self, text: Text, u: float) -> int:
        """Return the token at ``u`` in [0, 1) of the draft's cumulative row after ``text``."""
        cumulative = self._row("cumulative", text)
        return int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))

    def _row(self, kind: str, text: Text) -> Floats:
        key = kind, text if self._counts is None else text[-self._counts :]
        row = self._known.get(key)
        if row is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            row = self._known[key] = self._made(kind, key[1])
        return row

    def _made(self, kind: str, text: Sequence[int]) -> Any:
        if kind == "target":
            return self._model.target(text)
        row = self._model.draft(text)
        return row if kind == "draft" else np.cumsum(row)
