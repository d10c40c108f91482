"""What a simulated model is, the two small built-in ones, and the user's own from a file."""

import hashlib
import json
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from simverify.arrays import Row
from simverify.checks import pick_name
from simverify.errors import UsageError


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
class FractionRows:
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
    rational: FractionRows | None = None
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


# The two small models, whose laws are all known as fractions.


Fractions = Sequence[Fraction]


def rational_markov(
    name: str,
    target_start: Fractions,
    target_rows: Sequence[Fractions],
    draft_start: Fractions,
    draft_rows: Sequence[Fractions],
) -> MarkovModel:
    """Markov model from fractions; the float rows are their rounded values."""
    parts: tuple[Sequence[Any], ...] = (target_start, target_rows, draft_start, draft_rows)
    floats: dict[str, Any] = {}
    fractions: dict[str, Any] = {}
    for field, part in zip(_ROW_ARRAYS, parts, strict=True):
        floats[field] = np.array(part, dtype=np.float64)
        fractions[field] = tuple(tuple(x) if isinstance(x, Sequence) else x for x in part)
    return MarkovModel(name, **floats, rational=FractionRows(**fractions))


def toy() -> MarkovModel:
    """Sun et al. 2025, section 2: independent tokens, p = (1/3, 2/3), q = (2/3, 1/3).

    Its residuals are point masses and its h_i are 0 or 1, so it is blind to many faults.
    """
    p = [Fraction(1, 3), Fraction(2, 3)]
    q = [Fraction(2, 3), Fraction(1, 3)]
    return rational_markov("toy", p, [p], q, [q])


def compact() -> MarkovModel:
    """Three tokens, order-1 Markov, in twelfths: small, and it exposes every fault tried."""

    def twelfths(*numerators: int) -> list[Fraction]:
        return [Fraction(n, 12) for n in numerators]

    return rational_markov(
        "compact",
        twelfths(5, 1, 6),
        [twelfths(6, 3, 3), twelfths(4, 2, 6), twelfths(3, 3, 6)],
        twelfths(6, 2, 4),
        [twelfths(5, 6, 1), twelfths(2, 9, 1), twelfths(4, 6, 2)],
    )


# The user's own pair, from a JSON or NPZ file.
#
# JSON: ``{"name": ..., "target": {"start": [V], "rows": [V][V]}, "draft": {...}}``, numbers or
# fractions as strings ("5/12"). NPZ: arrays ``target_start, target_rows, draft_start,
# draft_rows`` and, if wanted, ``name``. The row after token x is ``rows[x]``.


SUM_TOLERANCE = 1e-9

MIN_PROBABILITY = 1e-300
"""Quotients of smaller entries overflow float64, and no run ever meets them."""

_ROW_ARRAYS = ("target_start", "target_rows", "draft_start", "draft_rows")


def load_model(path: Path) -> MarkovModel:
    """Read a pair from ``path`` (.json or .npz).

    Raises ``UsageError`` that names the file, the row and the rule it breaks.
    """
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        name, parts = _read_npz(path) if path.suffix == ".npz" else _read_json(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from None
    if not isinstance(name, str) or not name or not name.isprintable():
        raise UsageError(f'{path}: "name" is {name!r}; expected a line of printable text')
    arrays = {part: _read_numbers(path, part, parts[part]) for part in _ROW_ARRAYS}
    vocab = _check_shape(path, arrays)
    for part in _ROW_ARRAYS:
        _check_rows(path, part, arrays[part], vocab)
    fractions = _all_fractions(path, parts)
    if fractions is not None:
        model = rational_markov(name, *(fractions[part] for part in _ROW_ARRAYS))
        return replace(model, file_sha256=sha256)
    # What the tolerance allows would show as a fault of the rule: greedy's debt keeps it.
    rows: dict[str, Any] = {
        part: array / array.sum(axis=-1, keepdims=True) for part, array in arrays.items()
    }
    return MarkovModel(name, **rows, file_sha256=sha256)


def _read_json(path: Path) -> tuple[Any, dict[str, Any]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    # ValueError: broken text, broken JSON, an integer of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON ({error}); expected .json or .npz") from None
    parts = {}
    if isinstance(document, dict):
        _check_keys(path, document, ("name", "target", "draft"))
    for side in ("target", "draft"):
        for key in ("start", "rows"):
            try:
                parts[f"{side}_{key}"] = document[side][key]
            except (KeyError, TypeError, IndexError):
                raise UsageError(
                    f'{path}: no "{side}"."{key}"; expected '
                    '{"name", "target": {"start", "rows"}, "draft": {"start", "rows"}}'
                ) from None
        _check_keys(path, document[side], ("start", "rows"))
    return document.get("name", path.stem), parts


def _read_npz(path: Path) -> tuple[Any, dict[str, Any]]:
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise UsageError(f"{path}: not an NPZ archive; numpy.savez writes one")
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {part: archive[part] for part in archive.files}
        # A damaged archive may raise nearly anything: zlib.error, EOFError, KeyError, ...
        except Exception as error:
            raise UsageError(f"{path}: not an NPZ archive of plain arrays ({error})") from None
    missing = [part for part in _ROW_ARRAYS if part not in arrays]
    if missing:
        raise UsageError(f"{path}: no array {missing[0]!r}; expected {', '.join(_ROW_ARRAYS)}")
    _check_keys(path, arrays, (*_ROW_ARRAYS, "name"))
    for part in _ROW_ARRAYS:
        if arrays[part].dtype.kind not in "iuf":
            raise UsageError(f"{path}: {part} holds {arrays[part].dtype}; expected real numbers")
    name = str(arrays["name"]) if "name" in arrays else path.stem
    return name, {part: arrays[part] for part in _ROW_ARRAYS}


def _check_keys(path: Path, found: Iterable[str], known: tuple[str, ...]) -> None:
    for key in found:
        try:
            pick_name(key, known, "key")
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None


def _read_numbers(path: Path, part: str, values: Any) -> Row:
    try:
        if isinstance(values, np.ndarray):
            return np.asarray(values, dtype=np.float64)
        return np.array(_map_numbers(lambda value: float(_read_number(value)), values), np.float64)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
        raise UsageError(
            f"{path}: {part} is not a rectangle of numbers or fractions ({error})"
        ) from None


def _read_number(value: Any) -> Any:
    if isinstance(value, str):
        if "e" in value.lower():  # as a fraction, "1e999999999" would fill the memory
            raise ValueError(f"got {value!r}")
        return Fraction(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"got {value!r}")
    return value


def _map_numbers(convert: Any, values: Any) -> Any:
    if isinstance(values, list):
        return [_map_numbers(convert, value) for value in values]
    return convert(values)


def _all_fractions(path: Path, parts: dict[str, Any]) -> dict[str, Any] | None:
    """Return the rows as fractions if every entry is an integer or a fraction string.

    They promise exact laws, so their sums must be exact too.
    """

    def exact(value: Any) -> Fraction:
        if not isinstance(value, int | str):
            raise TypeError
        return Fraction(value)

    if any(isinstance(part, np.ndarray) for part in parts.values()):
        return None
    try:
        rows = {part: _map_numbers(exact, values) for part, values in parts.items()}
    except TypeError:
        return None
    for part, values in rows.items():
        for i, row in enumerate(values if part.endswith("rows") else [values]):
            if (total := sum(row)) != 1:
                where = part if part.endswith("start") else f"{part} row {i}"
                raise UsageError(
                    f"{path}: {where} differs from 1 by {float(total - 1):.3g} in sum; fractions "
                    "must sum to exactly 1, or write numbers, which are normalised"
                )
    return rows


def _check_shape(path: Path, arrays: dict[str, Row]) -> int:
    target, draft = arrays["target_start"], arrays["draft_start"]
    if target.ndim != 1 or draft.ndim != 1 or target.size < 2:
        raise UsageError(
            f"{path}: start rows have shapes {target.shape} and {draft.shape}; "
            "expected one row of V >= 2 probabilities each"
        )
    if target.size != draft.size:
        raise UsageError(
            f"{path}: the target has V = {target.size} and the draft V = {draft.size}; "
            "a pair shares one vocabulary"
        )
    return target.size


def _check_rows(path: Path, part: str, array: Row, vocab: int) -> None:
    if part.endswith("rows") and array.shape != (vocab, vocab):
        raise UsageError(f"{path}: {part} has shape {array.shape}; expected ({vocab}, {vocab})")
    for i, row in enumerate(np.atleast_2d(array)):
        where = part if part.endswith("start") else f"{part} row {i}"
        if not np.isfinite(row).all():
            raise UsageError(f"{path}: {where} has a value that is not a finite number")
        if (negative := row < 0).any():
            token = int(np.argmax(negative))
            raise UsageError(f"{path}: {where} is negative at token {token}: {row[token]:g}")
        if (tiny := (row > 0) & (row < MIN_PROBABILITY)).any():
            token = int(np.argmax(tiny))
            raise UsageError(
                f"{path}: {where} is {row[token]:g} at token {token}; float64 cannot divide by "
                f"entries below {MIN_PROBABILITY:g}: write 0"
            )
        if abs(row.sum() - 1) > SUM_TOLERANCE:
            raise UsageError(
                f"{path}: {where} sums to {row.sum():.10g}; rows must sum to 1 within "
                f"{SUM_TOLERANCE:g}: divide each row by its sum in float64 (softmax of float32 "
                "logits is not enough)"
            )
