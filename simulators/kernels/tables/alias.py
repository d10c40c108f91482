"""Alias tables: a draw from any row for one uniform and one comparison."""

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def build_alias(rows: Any, cut: Any, alias: Any) -> None:
    """Fill the alias tables of probability rows (n, V): ``cut`` float64, ``alias`` int32.

    Column c keeps c with probability cut[c] and gives alias[c] otherwise. A token of
    probability zero has cut 0 and is nobody's alias, so it is never drawn.

    Reference: Vose, "A linear algorithm for generating random numbers with a given
    distribution", IEEE TSE 1991.
    """
    size = rows.shape[1]
    small = np.empty(size, np.int64)
    large = np.empty(size, np.int64)
    for r in range(rows.shape[0]):
        smalls = larges = 0
        mode = 0
        for i in range(size):
            cut[r, i] = rows[r, i] * size
            alias[r, i] = i
            if rows[r, i] > rows[r, mode]:
                mode = i
            if cut[r, i] < 1.0:
                small[smalls] = i
                smalls += 1
            else:
                large[larges] = i
                larges += 1
        while smalls > 0 and larges > 0:
            smalls -= 1
            low = small[smalls]
            high = large[larges - 1]
            alias[r, low] = high
            cut[r, high] -= 1.0 - cut[r, low]
            if cut[r, high] < 1.0:
                larges -= 1
                small[smalls] = high
                smalls += 1
        # What is left over differs from 1 by rounding alone.
        for i in small[:smalls]:
            cut[r, i] = 1.0 if rows[r, i] > 0.0 else 0.0
            alias[r, i] = mode
        for i in large[:larges]:
            cut[r, i] = 1.0
