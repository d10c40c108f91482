import numpy as np
import pytest

torch = pytest.importorskip("torch")

from simverify.engines.fake_models import (  # noqa: E402
    BOS_TOKEN,
    PositionedModel,
    RowsModel,
    make_prompt,
)


def rows(prefix):
    """Another row after every prefix, with a zero in it."""
    weights = np.array([1.0 + len(prefix), 2.0 + sum(prefix), 3.0 + sum(prefix[:1]), 0.0])
    return weights / weights.sum()


PREFIX = (2, 1)
TOKENS = [BOS_TOKEN, *PREFIX, 0, 2]


def probabilities(out):
    return out.softmax(-1).numpy()


def test_the_logits_are_those_of_the_rows():
    out = RowsModel(rows, PREFIX)(torch.tensor([TOKENS])).logits
    assert out.shape == (1, 5, 4)
    due = [rows((2, 1)), rows((2, 1, 0)), rows((2, 1, 0, 2))]
    np.testing.assert_allclose(probabilities(out)[0, 2:], due, atol=1e-15)
    assert out[0, 2:, 3].tolist() == [-np.inf] * 3


def test_rows_before_the_prefix_are_not_asked_for():
    def asked(prefix):
        assert prefix[:2] == PREFIX, prefix
        return rows(prefix)

    out = RowsModel(asked, PREFIX)(torch.tensor([TOKENS])).logits
    assert not out[0, :2].any()


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_cached_and_uncached_calls_agree(cut):
    model = RowsModel(rows, PREFIX)
    whole = model(torch.tensor([TOKENS])).logits
    first = model(torch.tensor([TOKENS[:cut]]))
    then = model(torch.tensor([TOKENS[cut:]]), past_key_values=first.past_key_values)
    assert torch.equal(torch.cat([first.logits, then.logits], dim=1), whole)


def test_a_cache_that_is_cut_forgets_its_last_tokens():
    model = RowsModel(rows, PREFIX)
    full = model(torch.tensor([[*TOKENS[:4], 1]])).past_key_values
    cut = [tuple(part[:, :, :4, :] for part in layer) for layer in full]
    out = model(torch.tensor([[2]]), past_key_values=cut).logits
    np.testing.assert_allclose(probabilities(out)[0, 0], rows((2, 1, 0, 2)), atol=1e-15)
    uncut = model(torch.tensor([[2]]), past_key_values=full).logits
    assert np.abs(probabilities(uncut) - probabilities(out)).max() > 0.01


def test_no_cache_is_given_where_none_is_wanted():
    assert RowsModel(rows, ())(make_prompt(()), use_cache=False).past_key_values is None


def test_a_model_that_is_told_positions_agrees():
    whole = RowsModel(rows, PREFIX)(torch.tensor([TOKENS])).logits
    model = PositionedModel(rows, PREFIX)
    one = model(torch.tensor([[1]]), torch.tensor([2]))
    assert torch.equal(one, whole[:, 2:3])
    # A draft that was rejected is written over.
    model(torch.tensor([[1, 2]]), torch.tensor([3, 4]))
    two = model(torch.tensor([[0, 2]]), torch.tensor([3, 4]))
    assert torch.equal(two, whole[:, 3:])


def test_a_prompt_is_the_prefix_after_one_token():
    assert make_prompt(PREFIX).tolist() == [[BOS_TOKEN, 2, 1]]
    assert make_prompt(()).dtype == torch.int64


def test_the_dtype_is_that_which_is_asked_for():
    model = RowsModel(rows, (), "float32")
    assert model(make_prompt(())).logits.dtype == torch.float32
    assert model.config.vocab_size == 4


def test_a_cache_that_is_a_list_goes_on_where_it_is_told():
    model, known = RowsModel(rows, PREFIX), []
    whole = model(torch.tensor([TOKENS])).logits
    first = model.continued(known, torch.tensor([TOKENS[:4]]))
    then = model.continued(known, torch.tensor([TOKENS[4:]]))
    assert torch.equal(torch.cat([first, then], dim=1), whole)
    assert known == TOKENS
    again = model.continued(known, torch.tensor([[1]]), first=4)
    np.testing.assert_allclose(probabilities(again)[0, 0], rows((2, 1, 0, 1)), atol=1e-15)
    assert known == [*TOKENS[:4], 1]


def test_rows_are_asked_once_and_what_a_loop_writes_into_its_logits_stays_there():
    asked = []

    def counting(prefix):
        asked.append(prefix)
        return rows(prefix)

    first = RowsModel(counting, PREFIX)(torch.tensor([TOKENS])).logits
    first.zero_()
    again = RowsModel(counting, PREFIX)(torch.tensor([TOKENS])).logits
    again[0, 2] = 0.0
    third = RowsModel(counting, PREFIX)(torch.tensor([TOKENS])).logits
    assert asked.count((2, 1)) == 4  # once for the logits, and by each model for its size
    np.testing.assert_allclose(probabilities(third)[0, 2], rows((2, 1)), atol=1e-15)
    other = RowsModel(rows, PREFIX, temperature=2.0)(torch.tensor([TOKENS])).logits
    assert torch.equal(other, 2 * third)
    # Other rows, other logits, whatever was known of the first.
    flat = RowsModel(lambda _: np.ones(4) / 4, PREFIX)(torch.tensor([TOKENS])).logits
    np.testing.assert_allclose(probabilities(flat)[0, 2], 0.25, atol=1e-15)
