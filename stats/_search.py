"""Searches that plans share."""

from collections.abc import Callable

_MOST = 2**50


def smallest_n(enough: Callable[[int], bool], what: str, *, unit: str = "tokens") -> int:
    """Return the least n with ``enough(n)``, taken to be monotone.

    Raises ValueError, naming ``what`` was asked for, where 2^50 are not enough.
    """
    most = 1
    while not enough(most):
        most *= 2
        if most > _MOST:
            raise ValueError(f"{what} is not found by {_MOST:.0e} {unit}, expected a larger one")
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most
