import numpy as np
import pytest

from simverify.errors import UsageError
from simverify.models import markov


def all_rows(model):
    return [
        *np.vstack([model.target_start, model.target_rows]),
        *np.vstack([model.draft_start, model.draft_rows]),
    ]


def mean_distance(model):
    pairs = zip(model.target_rows, model.draft_rows, strict=True)
    return float(np.mean([np.abs(p - q).sum() / 2 for p, q in pairs]))


@pytest.mark.parametrize("vocab_size", [2, 3, 64, 65, 300])
def test_rows_are_proper_and_at_most_64(vocab_size):
    model = markov(vocab_size)
    assert model.name == f"markov-{vocab_size}"
    assert model.vocab_size == vocab_size
    assert model.states == min(vocab_size, 64)
    for row in all_rows(model):
        assert row.shape == (vocab_size,)
        assert (row >= 0).all()
        assert abs(row.sum() - 1) < 1e-12


def test_the_row_after_a_token_is_its_own_modulo_64():
    model = markov(130)
    np.testing.assert_array_equal(model.target([5]), model.target([99, 5 + 128]))
    np.testing.assert_array_equal(model.draft([5]), model.draft([5 + 64]))
    assert np.abs(model.target([5]) - model.target([6])).max() > 1e-3
    np.testing.assert_array_equal(model.target([]), model.target_start)


def test_rows_are_fresh():
    model = markov(4)
    model.target([1])[:] = 0
    model.draft([])[:] = 0
    assert model.target([1]).sum() > 0
    assert model.draft([]).sum() > 0


def test_the_model_is_the_same_every_time():
    for one, other in zip(all_rows(markov(9)), all_rows(markov(9)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_distance_says_how_far_the_draft_is():
    none = markov(32, distance=0)
    np.testing.assert_array_equal(none.target_rows, none.draft_rows)
    near, default, far = (mean_distance(markov(32, distance=d)) for d in (0.1, 0.4, 1))
    assert 0 < near < default < far
    # A mixture with share d of another row lies d times as far as that row.
    assert near == pytest.approx(0.1 * far)
    assert default == pytest.approx(0.4 * far)


def test_temperature_takes_rows_to_a_power():
    plain, cold, hot = markov(8), markov(8, temperature=0.5), markov(8, temperature=2)
    for row, colder, hotter in zip(*map(all_rows, (plain, cold, hot)), strict=True):
        np.testing.assert_allclose(colder, row**2 / (row**2).sum())
        np.testing.assert_allclose(hotter, row**0.5 / (row**0.5).sum())


def test_temperature_zero_is_one_hot_at_the_mode():
    plain, frozen = all_rows(markov(8)), all_rows(markov(8, temperature=0))
    for row, one_hot in zip(plain, frozen, strict=True):
        assert one_hot[np.argmax(row)] == 1
        assert one_hot.sum() == 1


def test_a_tiny_temperature_is_no_zero_by_zero():
    for row in all_rows(markov(64, temperature=1e-6)):
        assert np.isfinite(row).all()
        assert abs(row.sum() - 1) < 1e-12


@pytest.mark.parametrize(
    ("vocab_size", "knobs", "message"),
    [
        (1, {}, "markov-1: the vocabulary needs 2 tokens"),
        (8, {"distance": -0.1}, "draft distance -0.1"),
        (8, {"distance": 1.1}, "draft distance 1.1"),
        (8, {"distance": float("nan")}, "draft distance nan"),
        (8, {"temperature": -1.0}, "temperature -1.0"),
        (8, {"temperature": float("nan")}, "temperature nan"),
    ],
)
def test_a_knob_out_of_range_is_refused(vocab_size, knobs, message):
    with pytest.raises(UsageError, match=message):
        markov(vocab_size, **knobs)
