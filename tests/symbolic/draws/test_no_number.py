"""A draw beside what is no number: some functions pass over that, others give it back."""

import math

import numpy as np
import pytest

from simverify import exact_law

torch = pytest.importorskip("torch")
NAN = math.nan
OVER = {
    "fmin": lambda rng: np.fmin(rng.random(), NAN),
    "fmax": lambda rng: np.fmax(rng.random(1), [NAN])[0],
    "fmin of torch": lambda rng: torch.fmin(torch.rand(1), torch.tensor([NAN]))[0],
}
BACK = {
    "minimum": lambda rng: np.minimum(rng.random(), NAN),
    "maximum": lambda rng: np.maximum(rng.random(1), [NAN])[0],
    "clip": lambda rng: np.clip(rng.random(), NAN, 1.0),
    "maximum of torch": lambda rng: torch.maximum(torch.rand(1), torch.tensor([NAN]))[0],
}


@pytest.mark.parametrize("name", OVER)
def test_some_pass_over_it(name):
    law = exact_law(lambda rng: bool(OVER[name](rng) < 0.3))
    assert law == pytest.approx({True: 0.3, False: 0.7}, abs=1e-7)


@pytest.mark.parametrize("name", BACK)
def test_others_give_it_back(name):
    assert exact_law(lambda rng: bool(BACK[name](rng) < 0.3)) == {False: 1}
    assert exact_law(lambda rng: bool(np.isnan(float(BACK[name](rng))))) == {True: 1}
