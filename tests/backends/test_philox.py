import numpy as np
import pytest
from support.oracles.naive import ACCEPT, CORRECTION, DRAFT, uniform

torch = pytest.importorskip("torch")

from simverify.backends import (  # noqa: E402
    draft_uniforms,
    uniforms,
)
from simverify.errors import UsageError  # noqa: E402
from simverify.simulators.kernels import philox  # noqa: E402

FAR = {"seed": 2**63 + 12_345_678_901, "first_trial": 2**40 - 2, "call": 7}


@pytest.mark.parametrize("gamma", [1, 3, 4])
def test_each_uniform_is_at_the_compiled_kernels_address(gamma):
    width = gamma + gamma % 2
    found = uniforms(5, gamma, **FAR)
    drafts = draft_uniforms(5, gamma, **FAR)
    assert found.shape == (5, gamma + 1)
    assert drafts.shape == (5, gamma)
    for b in range(5):
        trial = FAR["first_trial"] + b  # the high word changes on the way
        for i in range(gamma):
            assert float(found[b, i]) == uniform(FAR["seed"], trial, ACCEPT, 7 * width + i)
            assert float(drafts[b, i]) == uniform(FAR["seed"], trial, DRAFT, 7 * width + i)
        assert float(found[b, gamma]) == uniform(FAR["seed"], trial, CORRECTION, 14)


def test_they_are_the_compiled_kernels_to_the_last_bit():
    tile = np.empty((4, 1000))
    philox.fill_tile(np.uint64(9), 5000, philox.ACCEPT, 0, tile)
    found = uniforms(1000, 4, seed=9, first_trial=5000).numpy()
    assert np.array_equal(found[:, :4], tile.T)
    assert not np.array_equal(uniforms(1000, 4, seed=9, first_trial=5001).numpy()[:, :4], tile.T)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": -1}, "seed=-1: pass an integer from 0 to 18446744073709551615"),
        ({"seed": 2**64}, "seed=18446744073709551616"),
        ({"first_trial": 2**63 - 1}, "first_trial=9223372036854775807"),
        ({"call": -1}, "call=-1"),
        ({"gamma": 0}, "gamma=0: pass an integer from 1"),
        ({"batch": 0}, "batch=0"),
    ],
)
def test_numbers_that_are_no_address_are_refused(wrong, message):
    given = {"batch": 4, "gamma": 2, "seed": 0, **wrong}
    for make in (uniforms, draft_uniforms):
        with pytest.raises(UsageError, match=message):
            make(**given)
