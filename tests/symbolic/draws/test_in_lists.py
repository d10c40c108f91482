"""Arrays of draws in lists, handed to numpy's functions."""

import numpy as np
import pytest

from simverify import exact_law
from simverify.symbolic import CannotEnumerate

DECIDED_IN_LISTS = {
    "lexsort": lambda a: int(np.lexsort((a, a))[0]),
    "block": lambda a: float(np.block([[a, a], [a, a]])[1, 2]),
    "select": lambda a: float(np.select([a > 2, a > 1], [a, -a])[2]),
    "histogramdd": lambda a: float(np.histogramdd([a, a], bins=2)[0][0, 0]),
}


@pytest.mark.parametrize("name", DECIDED_IN_LISTS)
def test_arrays_of_draws_whose_draws_are_decided_go_into_functions_in_lists(name):
    read = DECIDED_IN_LISTS[name]
    held = np.array([3.0, 1.0, 2.0])

    def program(rng):
        return read(np.stack([rng.standard_exponential(3), held])[1])

    assert exact_law(program) == {read(held): 1.0}


def test_draws_in_lists_are_refused_by_name():
    with pytest.raises(CannotEnumerate, match=r"np\.lexsort of draws"):
        exact_law(lambda rng: int(np.lexsort((rng.standard_exponential(3),))[0]))
