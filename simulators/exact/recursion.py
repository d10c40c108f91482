"""Acceptance curves of the rules whose tree law is linear: token, sample-and-match, argmax.

For these rules Pr(X^l = x^l, tau >= l) is a product over positions of one "kept" mass per
row, so the mass that reaches each state obeys a linear vector recursion.
"""

import numpy as np

from simverify.arrays import Floats


def kept_by_token(target: Floats, draft: Floats) -> Floats:
    """Kept mass min(p, q) of the token rule (Leviathan et al. 2022; Sun et al. 2025, alg. 1).

    ``target``, ``draft``: float64 (..., V), rows sum to 1. Returns float64 of that shape.
    """
    return np.minimum(target, draft)


def kept_by_match(target: Floats, draft: Floats) -> Floats:
    """Kept mass p q of sample-and-match: the target's own sample equals the draft's.

    ``target``, ``draft``: float64 (..., V), rows sum to 1. Returns float64 of that shape.
    """
    return target * draft


def kept_by_argmax(target: Floats, draft: Floats) -> Floats:
    """Kept mass at temperature 0: q at the token of the largest p, the lowest id among equals.

    ``target``, ``draft``: float64 (..., V), rows sum to 1. Returns float64 of that shape,
    zero elsewhere.
    """
    best = np.argmax(target, axis=-1, keepdims=True)
    kept = np.zeros_like(draft)
    np.put_along_axis(kept, best, np.take_along_axis(draft, best, axis=-1), axis=-1)
    return kept


def linear_curve(kept_start: Floats, kept_rows: Floats, gamma: int) -> Floats:
    """Exact Pr(tau >= l), l = 1..gamma, of a rule with a linear tree law; E[tau] is its sum.

    Parameters
    ----------
    kept_start : float64 (V,)
        Kept mass of each token after the empty prefix.
    kept_rows : float64 (S, V)
        Kept mass after each state; the state after a token is ``token % S``.
    gamma : int
        Draft length, 1 or more.

    Returns
    -------
    float64 (gamma,)
        The acceptance curve. O(S V + gamma S^2).

    Raises
    ------
    ValueError
        Shapes that do not fit, masses that are no sub-probabilities, gamma below 1.
    """
    kept_start, kept_rows, gamma = _linear_curve_iv(kept_start, kept_rows, gamma)
    states = kept_rows.shape[0]
    mass = _by_state(kept_start[np.newaxis], states)[0]
    step = _by_state(kept_rows, states)
    curve = np.empty(gamma)
    for level in range(gamma):
        curve[level] = mass.sum()
        mass = mass @ step
    return curve


def certain_levels(
    kept_start: Floats, kept_rows: Floats, draft_start: Floats, draft_rows: Floats, gamma: int
) -> int:
    """Return up to which level every drafted token is kept: there Pr(tau >= l) is 1 exactly.

    Arrays as in :func:`linear_curve`, with the draft's own masses.
    """
    states = draft_rows.shape[0]
    if not np.array_equal(kept_start, draft_start):
        return 0
    reached = np.unique(np.flatnonzero(draft_start) % states)
    for level in range(1, gamma):
        # Row by row: the rows of a large vocabulary are too long to be copied.
        if not all(np.array_equal(kept_rows[s], draft_rows[s]) for s in reached):
            return level
        after = [np.flatnonzero(draft_rows[s]) % states for s in reached]
        grown = np.unique(np.concatenate([reached, *after]))
        if grown.size == reached.size:
            break
        reached = grown
    return gamma


def _by_state(rows: Floats, states: int) -> Floats:
    """Sum the columns of ``rows`` (n, V) over tokens of equal next state: (n, states)."""
    count, vocab_size = rows.shape
    whole = vocab_size - vocab_size % states
    sums: Floats = rows[:, :whole].reshape(count, -1, states).sum(axis=1)
    sums[:, : vocab_size - whole] += rows[:, whole:]
    return sums


def _linear_curve_iv(start: Floats, rows: Floats, gamma: int) -> tuple[Floats, Floats, int]:
    start = np.asarray(start, np.float64)
    rows = np.asarray(rows, np.float64)
    if start.ndim != 1 or rows.ndim != 2 or rows.shape[1] != start.shape[0] or not rows.size:
        raise ValueError(
            f"kept_start {start.shape} and kept_rows {rows.shape} do not fit: "
            "pass shapes (V,) and (S, V)"
        )
    if rows.shape[0] > rows.shape[1]:
        raise ValueError(
            f"kept_rows has {rows.shape[0]} states for {rows.shape[1]} tokens: "
            "states are token % S, drop the unreachable rows"
        )
    for name, table in (("kept_start", start[np.newaxis]), ("kept_rows", rows)):
        # Written so that NaN fails too.
        bad = ~((table >= 0).all(axis=1) & (table.sum(axis=1) <= 1 + 1e-9))
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"{name} row {row} sums to {table[row].sum():.9g}, lowest entry "
                f"{table[row].min():.9g}: kept mass lies between 0 and the draft's"
            )
    if gamma < 1:
        raise ValueError(f"gamma is {gamma}: pass a draft length of 1 or more")
    return start, rows, int(gamma)
