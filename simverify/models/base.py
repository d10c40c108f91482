"""What a model is, and the Markov model that most built-in ones are."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from simverify.arrays import Row


class Model(Protocol):
    """A target and a draft over one vocabulary, each a law of the next token.

    ``target(prefix)`` and ``draft(prefix)`` return a fresh float64 row (V,) that sums to 1;
    ``prefix`` is a sequence of token ids.
    """

    @property
    def name(self) -> str:
        """Name in tables and documents."""
        ...

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        ...

    def target(self, prefix: Sequence[int]) -> Row:
        """Row (V,) of the target after ``prefix``."""
        ...

    def draft(self, prefix: Sequence[int]) -> Row:
        """Row (V,) of the draft after ``prefix``."""
        ...


@dataclass(frozen=True)
class RationalRows:
    """The rows of a :class:`MarkovModel` as fractions, for exact laws."""

    target_start: tuple[Fraction, ...]
    target_rows: tuple[tuple[Fraction, ...], ...]
    draft_start: tuple[Fraction, ...]
    draft_rows: tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True, eq=False)
class MarkovModel:
    """Order-1 Markov target and draft; the row after a token is ``rows[token % S]``.

    ``target_start``, ``draft_start``: float64 (V,), the rows of the empty prefix.
    ``target_rows``, ``draft_rows``: float64 (S, V). All rows sum to 1 within 1e-9.
    ``rational`` holds the same rows as fractions where the model is defined by fractions.
    ``draft_distance`` and ``temperature`` are the knobs that a markov-V was made with, and
    ``file_sha256`` is that of the file which a pair was read from; else None.
    """

    name: str
    target_start: Row
    target_rows: Row
    draft_start: Row
    draft_rows: Row
    rational: RationalRows | None = None
    draft_distance: float | None = None
    temperature: float | None = None
    file_sha256: str | None = None

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return int(self.target_start.shape[0])

    @property
    def states(self) -> int:
        """Number of distinct rows after a token."""
        return int(self.target_rows.shape[0])

    def target(self, prefix: Sequence[int]) -> Row:
        """Row (V,) of the target after ``prefix``."""
        row = self.target_rows[prefix[-1] % self.states] if len(prefix) else self.target_start
        return row.copy()

    def draft(self, prefix: Sequence[int]) -> Row:
        """Row (V,) of the draft after ``prefix``."""
        row = self.draft_rows[prefix[-1] % self.states] if len(prefix) else self.draft_start
        return row.copy()
