"""Randomised PITs of plain rows in any order of the vocabulary.

A token x has u = F(x-) + v P(x), F(x-) the mass of the tokens before x in the order and v
uniform. Under the null u is uniform, whatever the order, if it is fixed by the prefix, the
rows and earlier outcomes: never by the draft token.
"""

from typing import Any, Literal

import numpy as np

from simverify.stats._checks import Floats, probability_rows

Order = Literal["ratio", "index", "descending"]


def order_key(order: Order, p: Any, q: Any = None) -> Floats:
    """Keys by whose ascent tokens are ordered; ties go by token id.

    ``ratio`` is q / p: faults of the acceptance line up across contexts. ``index`` is the
    token id, ``descending`` the likeliest token first; neither needs ``q``.

    Parameters
    ----------
    p, q : float64 array (n, V)
        Target and draft rows; each sums to 1.

    Returns
    -------
    float64 array (n, V)
        No NaN; inf for q / p where p is 0, whose place does not matter.

    Raises
    ------
    ValueError
        If ``order`` is unknown, a row is no law, shapes differ or ``ratio`` has no ``q``.
    """
    rows = probability_rows("p", p)
    if order == "index":
        return np.broadcast_to(np.arange(rows.shape[1], dtype=np.float64), rows.shape)
    if order == "descending":
        return -rows
    if order != "ratio":
        raise ValueError(f"order is {order!r}, expected 'ratio', 'index' or 'descending'")
    draft = probability_rows("q", q)
    if draft.shape != rows.shape:
        raise ValueError(f"q has shape {draft.shape}, expected {rows.shape} as p")
    with np.errstate(over="ignore"):  # over the smallest floats, which come last in any case
        return np.where(rows > 0.0, draft / np.where(rows > 0.0, rows, 1.0), np.inf)


def pit_bounds(p: Any, key: Any, tokens: Any) -> tuple[Floats, Floats]:
    """Ends of the interval on which the PIT of each token is uniform.

    Parameters
    ----------
    p : float64 array (n, V)
        Law of each token; each row sums to 1.
    key : float64 array (n, V)
        Order of the vocabulary, ascending, ties by token id (:func:`order_key`).
    tokens : int array (n,)
        Emitted tokens.

    Returns
    -------
    below, above : float64 arrays (n,)
        F(x-), and F(x-) + P(x), at most 1; the PIT is ``below + v * (above - below)``.

    Raises
    ------
    ValueError
        If a row is no law, shapes differ, a key is NaN, tokens are no integers or one is
        outside 0..V-1.
    """
    rows = probability_rows("p", p)
    keys, ids = np.asarray(key, dtype=np.float64), np.asarray(tokens)
    if keys.shape != rows.shape or np.isnan(keys).any():
        raise ValueError(f"key has shape {keys.shape} or a NaN, expected {rows.shape} and none")
    if ids.shape != rows.shape[:1] or ids.dtype.kind not in "iu":
        raise ValueError(f"tokens is {ids.dtype} {ids.shape}, expected integers {rows.shape[:1]}")
    if ids.size and (ids.min() < 0 or ids.max() >= rows.shape[1]):
        raise ValueError(f"tokens span {ids.min()}..{ids.max()}, expected 0..{rows.shape[1] - 1}")
    column = ids[:, None]
    own = np.take_along_axis(keys, column, axis=1)
    before = (keys < own) | ((keys == own) & (np.arange(rows.shape[1]) < column))
    below = np.minimum((rows * before).sum(axis=1), 1.0)
    mass = np.take_along_axis(rows, column, axis=1)[:, 0]
    return below, np.minimum(below + mass, 1.0)
