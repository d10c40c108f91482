"""Groups of consecutive layers of a draft model whose attention runs at once."""

import operator
from itertools import groupby

from simverify.errors import UsageError


def layer_groups(layers: int, layer_parallel: int) -> list[list[int]]:
    """Group the layers of a model as EasySpec does.

    The first and the last layer stand alone; those between are grouped as 1 to N-1, N to 2N-1
    and so on, with what is left in a last, shorter group.

    Parameters
    ----------
    layers
        Layers of the model, one or more.
    layer_parallel
        N, the layers of a group at most, one or more; at 1 every layer stands alone.

    Returns
    -------
    list of lists of int
        Every layer once, in order, counted from 0.

    Raises
    ------
    UsageError
        If one of the two is no whole number of at least 1.

    Notes
    -----
    Wu et al., "EasySpec: Layer-Parallel Speculative Decoding for Efficient Multi-GPU Utilization".

    Examples
    --------
    >>> layer_groups(10, 4)
    [[0], [1, 2, 3], [4, 5, 6, 7], [8], [9]]
    """
    layers = _check_count("layers", layers)
    wide = _check_count("layer_parallel", layer_parallel)
    between = groupby(range(1, layers - 1), lambda layer: layer // wide)
    last = [[layers - 1]] if layers > 1 else []
    return [[0], *(list(group) for _, group in between), *last]


def _check_count(name: str, given: int) -> int:
    try:
        count = operator.index(given)
    except TypeError:
        count = 0
    if count < 1:
        raise UsageError(f"{name} is {given!r}: expected a whole number of 1 or more")
    return count
