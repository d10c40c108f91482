"""."""

import numpy as np
import pytest
from scipy import special

from simverify.errors import UsageError
from simverify.models import markov
from simverify.models.transformer import BUNDLED, Sampling, read_prompts


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


# Prompts from files.


@pytest.mark.parametrize(
    ("name", "text", "prompts"),
    [
        ("p.txt", "one\ntwo\n\n\n three\r\n\r\nfour", ("one\ntwo", "three", "four")),
        ("p.jsonl", '{"prompt": "a"}\n\n{"text": "b"}\n', ("a", "b")),
        ("p.txt", "\ufeffone\n\ntwo", ("one", "two")),
        ("p.jsonl", '\ufeff{"prompt": "a\u2028b"}\n', ("a\u2028b",)),
        ("question.jsonl", '{"question_id": 1, "category": "x", "turns": ["a", "b"]}', ("a",)),
    ],
)
def test_layouts(tmp_path, name, text, prompts):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_prompts(tmp_path / name) == prompts


def test_the_bundled_ones():
    assert len(read_prompts(BUNDLED / "prompts.jsonl")) == 48


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.txt", "\n\n", "holds none"),
        ("p.jsonl", "", "holds none"),
        ("p.jsonl", '{"prompt": "a"}\n{', "line 2 is no JSON"),
        ("p.jsonl", '["a"]', "line 1 is no object with one of prompt, text, turns"),
        ("p.jsonl", '{"prompt": 3}', "'prompt' holds no string"),
        (
            "p.jsonl",
            '{"turns": ["a\\ud800"]}',
            "'turns' is no Unicode text: .* character 1",
        ),
        ("p.jsonl", "[" * 100_000, "line 1 is no JSON"),
        ("p.jsonl", '{"turns": []}', "'turns' holds no string"),
    ],
)
def test_a_file_without_prompts_is_refused(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=says):
        read_prompts(tmp_path / name)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*: No such file"):
        read_prompts(tmp_path / "no.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_prompts(tmp_path / "latin.txt")


# From logits to rows.


LOGITS = np.array([2.0, 1.0, 1.0, 0.0, -np.inf])


def test_temperature_divides_the_logits():
    np.testing.assert_allclose(Sampling(0.5).rows(LOGITS), special.softmax(LOGITS / 0.5))
    assert Sampling().rows(LOGITS)[-1] == 0.0
    assert Sampling().rows(np.stack([LOGITS, LOGITS[::-1]])).shape == (2, 5)


def test_temperature_zero_takes_the_first_of_equals():
    assert Sampling(0.0).rows([1.0, 3.0, 3.0]).tolist() == [0.0, 1.0, 0.0]


def test_top_k_keeps_the_equals_of_the_last():
    assert (Sampling(top_k=2).rows(LOGITS) > 0).tolist() == [True, True, True, False, False]
    assert (Sampling(top_k=1).rows(LOGITS) > 0).sum() == 1
    np.testing.assert_array_equal(Sampling(top_k=9).rows(LOGITS), Sampling().rows(LOGITS))


def test_top_p_keeps_the_fewest_that_reach_it():
    p = np.array([0.5, 0.3, 0.2])
    for top_p, kept in ((0.4, 1), (0.51, 2), (0.79, 2), (0.81, 3), (1.0, 3)):
        row = Sampling(top_p=top_p).rows(np.log(p))
        assert (row > 0).sum() == kept
        np.testing.assert_allclose(row[:kept], p[:kept] / p[:kept].sum())


def test_top_p_counts_after_temperature_and_top_k():
    logits = np.log([0.4, 0.3, 0.2, 0.1])
    # Of the two that top-k keeps the first has 4/7, more than half.
    assert (Sampling(top_k=2, top_p=0.5).rows(logits) > 0).sum() == 1
    assert (Sampling(top_p=0.5).rows(logits) > 0).sum() == 2


def test_half_precision_logits_give_float64_rows():
    row = Sampling().rows(LOGITS.astype(np.float16))
    assert row.dtype == np.float64
    assert abs(row.sum() - 1) < 1e-12


@pytest.mark.parametrize("bad", [[np.nan, 0.0], [np.inf, 0.0], [-np.inf, -np.inf]])
def test_logits_of_no_law_are_refused(bad):
    with pytest.raises(ValueError, match="logits hold NaN or"):
        Sampling().rows(bad)


@pytest.mark.parametrize(
    "bad", [{"temperature": -1.0}, {"temperature": np.nan}, {"top_k": 0}, {"top_p": 0.0},
            {"top_p": 1.1}, {"top_p": np.nan}],
)  # fmt: skip
def test_values_out_of_range_are_refused(bad):
    with pytest.raises(UsageError, match="expected"):
        Sampling(**bad)
