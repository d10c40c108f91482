"""markov-V: a seeded random Markov pair over any vocabulary."""

import numpy as np

from simverify.arrays import Row
from simverify.errors import UsageError
from simverify.models.base import MarkovModel

MAX_STATES = 64
"""Distinct rows after a token (state = token mod 64), so that V = 152k stays small."""

MAX_VOCAB = 10_000_000
"""Beyond any model there is; its rows fill 10 GB."""

DEFAULT_DISTANCE = 0.4

_CONCENTRATION = 0.5
_MIN_PROBABILITY = 1e-290
_MODEL_SEED = 20250424  # part of the model's definition, not of a run


def markov(
    vocab_size: int, *, distance: float = DEFAULT_DISTANCE, temperature: float = 1.0
) -> MarkovModel:
    """Return the pair ``markov-V``.

    Target rows are Dirichlet(1/2). A draft row is the target row mixed with an independent
    Dirichlet(1/2) row, whose share ``distance`` in [0, 1] says how far the draft is from
    the target: 0 is the target itself, 1 knows nothing of it. Both are then taken to
    ``temperature`` >= 0 (rows to the power 1/T, normalised; 0 is one-hot at the mode).

    The rows depend on ``vocab_size``, ``distance`` and ``temperature`` alone. Raises
    ``UsageError`` on a vocabulary below 2 or a knob out of range.
    """
    check_vocabulary(vocab_size)
    if not 0 <= distance <= 1:
        raise UsageError(f"draft distance {distance} is not in [0, 1]: 0 is the target itself")
    if not temperature >= 0:
        raise UsageError(f"temperature {temperature} is negative: use 0 for one-hot rows, or more")
    rng = np.random.Generator(np.random.Philox(_MODEL_SEED))
    states = min(vocab_size, MAX_STATES)
    size = (states + 1, vocab_size)
    target = _draw_dirichlet(rng, size)
    draft = (1 - distance) * target + distance * _draw_dirichlet(rng, size)
    target, draft = _apply_temperature(target, temperature), _apply_temperature(draft, temperature)
    return MarkovModel(
        f"markov-{vocab_size}",
        target[-1],
        target[:-1],
        draft[-1],
        draft[:-1],
        draft_distance=float(distance),
        temperature=float(temperature),
    )


def check_vocabulary(vocab_size: int) -> None:
    """Raise ``UsageError`` for a V that no markov-V has."""
    if vocab_size < 2:
        raise UsageError(f"markov-{vocab_size}: the vocabulary needs 2 tokens or more")
    if vocab_size > MAX_VOCAB:
        raise UsageError(f"markov-{vocab_size}: expected a vocabulary of {MAX_VOCAB} at most")


def _draw_dirichlet(rng: np.random.Generator, size: tuple[int, int]) -> Row:
    return _normalize_rows(rng.standard_gamma(_CONCENTRATION, size))


def _apply_temperature(rows: Row, temperature: float) -> Row:
    if temperature == 1:
        return rows
    if temperature == 0:
        one_hot: Row = np.zeros_like(rows)
        np.put_along_axis(one_hot, np.argmax(rows, axis=1)[:, None], 1.0, axis=1)
        return one_hot
    # Relative to the mode, so that a low temperature underflows to 0 and never to 0/0.
    powers: Row = (rows / rows.max(axis=1, keepdims=True)) ** (1 / temperature)
    # What is left just above 0 is worth no more, and dividing by it would overflow.
    powers[powers < _MIN_PROBABILITY] = 0.0
    return _normalize_rows(powers)


def _normalize_rows(rows: Row) -> Row:
    normalised: Row = rows / rows.sum(axis=1, keepdims=True)
    return normalised
