"""Names for the types of arrays; shapes stand where they are used."""

__simverify_role__ = "shared"


import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Row = npt.NDArray[np.float64]
"""Probabilities of the next token, (V,)."""
