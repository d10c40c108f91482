"""."""

import copy
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from simverify.comparing.curves import check_exactly, is_exact
from simverify.errors import UsageError
from simverify.models import get_model, load_model
from simverify.verifiers import VERIFIERS

PAIR = {
    "name": "mine",
    "target": {"start": [0.5, 0.5], "rows": [[0.5, 0.5], [0.25, 0.75]]},
    "draft": {"start": [0.4, 0.6], "rows": [[0.4, 0.6], [0.3, 0.7]]},
}
ARRAYS = {
    f"{side}_{key}": np.array(PAIR[side][key])
    for side in ("target", "draft")
    for key in ("start", "rows")
}


def write(folder, document):
    path = folder / "pair.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def changed(side, key, value):
    document = copy.deepcopy(PAIR)
    document[side][key] = value
    return document


def complaint(path):
    """The one line with which ``path`` is refused; it names the file."""
    with pytest.raises(UsageError) as caught:
        load_model(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message


def assert_is_the_pair(model):
    assert model.vocab_size == model.states == 2
    for part, rows in ARRAYS.items():
        np.testing.assert_array_equal(getattr(model, part), rows)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (PAIR | {"nmae": "mine"}, "unknown key 'nmae': did you mean 'name'?"),
        (changed("draft", "row", []), "unknown key 'row': did you mean 'rows'?"),
    ],
)
def test_misspelt_keys_are_refused(tmp_path, document, message):
    assert message in complaint(write(tmp_path, document))


def test_arrays_of_other_names_are_refused(tmp_path):
    np.savez(tmp_path / "pair.npz", **ARRAYS, target_row=np.eye(2))
    message = complaint(tmp_path / "pair.npz")
    assert "unknown key 'target_row': did you mean 'target_rows'?" in message


def test_rounded_rows_say_how_to_mend_them(tmp_path):
    rounded = changed("target", "start", [0.3333333, 0.6666666])
    assert "divide each row by its sum in float64" in complaint(write(tmp_path, rounded))


def test_numbers(tmp_path):
    model = load_model(write(tmp_path, PAIR))
    assert model.name == "mine"
    assert model.rational is None
    assert_is_the_pair(model)


def test_the_row_after_token_x_is_row_x(tmp_path):
    model = load_model(write(tmp_path, PAIR))
    np.testing.assert_array_equal(model.target([0, 1]), [0.25, 0.75])
    np.testing.assert_array_equal(model.draft([1, 0]), [0.4, 0.6])


def test_fractions_stay_exact(tmp_path):
    side = {"start": ["1/3", "2/3"], "rows": [["1/7", "6/7"], [1, 0]]}
    model = load_model(write(tmp_path, {"target": side, "draft": side}))
    assert model.name == "pair"
    assert model.rational.target_start == (Fraction(1, 3), Fraction(2, 3))
    assert model.rational.draft_rows == ((Fraction(1, 7), Fraction(6, 7)), (1, 0))
    np.testing.assert_array_equal(model.target_start, [1 / 3, 2 / 3])


def test_fractions_beside_numbers_are_floats(tmp_path):
    model = load_model(write(tmp_path, changed("target", "start", ["1/4", 0.75])))
    assert model.rational is None
    np.testing.assert_array_equal(model.target_start, [0.25, 0.75])


def test_the_tolerance_of_a_sum_is_1e_9(tmp_path):
    load_model(write(tmp_path, changed("draft", "start", [0.4, 0.6 + 9e-10])))
    document = changed("draft", "start", [0.4, 0.6 + 2e-9])
    assert "draft_start sums to 1.000000002" in complaint(write(tmp_path, document))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    path = tmp_path / "arrays.npz"
    save(path, **ARRAYS)
    model = load_model(path)
    assert model.name == "arrays"
    assert_is_the_pair(model)
    save(path, **ARRAYS, name=np.array("theirs"))
    assert load_model(path).name == "theirs"


@pytest.mark.parametrize(
    ("side", "key", "value", "message"),
    [
        ("target", "rows", [[0.5, 0.5], [0.25, 0.7]], "target_rows row 1 sums to 0.95"),
        ("draft", "start", ["1/3", "1/3"], "draft_start sums to 0.6666666667"),
        ("draft", "rows", [[1.5, -0.5], [1, 0]], "draft_rows row 0 is negative at token 1: -0.5"),
        ("draft", "rows", [[1, 0], [float("nan"), 1]], "draft_rows row 1 has a value that is not"),
        ("target", "start", [float("inf"), 1], "target_start has a value that is not a finite"),
        ("target", "start", ["1/0", "1/2"], "target_start is not a rectangle of numbers"),
        ("target", "start", ["1/x", "1/2"], "Invalid literal for Fraction: '1/x'"),
        ("target", "start", ["1e999999999", "0"], "got '1e999999999'"),
        ("target", "start", ["nan", "1"], "target_start is not a rectangle"),
        ("target", "start", [None, 1], "got None"),
        ("target", "start", [True, False], "got True"),
        ("target", "start", {"0": 1}, "target_start is not a rectangle"),
        ("target", "start", [10**400, 0], "too large"),
        ("target", "start", [], "expected one row of V >= 2 probabilities"),
        ("target", "start", 1, "expected one row of V >= 2 probabilities"),
        ("target", "start", [[0.5, 0.5]], "expected one row of V >= 2 probabilities"),
        ("target", "rows", [[0.5, 0.5], [1]], "target_rows is not a rectangle"),
        ("target", "rows", [[0.5, 0.5]], "target_rows has shape (1, 2); expected (2, 2)"),
        ("draft", "rows", [[0.2, 0.3, 0.5]] * 3, "draft_rows has shape (3, 3); expected (2, 2)"),
    ],
)
def test_a_broken_row_is_named(tmp_path, side, key, value, message):
    assert message in complaint(write(tmp_path, changed(side, key, value)))


def test_target_and_draft_share_one_vocabulary(tmp_path):
    document = PAIR | {"draft": {"start": [0.2, 0.3, 0.5], "rows": [[0.2, 0.3, 0.5]] * 3}}
    assert "the target has V = 2 and the draft V = 3" in complaint(write(tmp_path, document))


def test_one_token_is_no_vocabulary(tmp_path):
    side = {"start": [1], "rows": [[1]]}
    assert "V >= 2" in complaint(write(tmp_path, {"target": side, "draft": side}))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("", "not JSON"),
        ("hello", "not JSON"),
        (json.dumps(PAIR)[:40], "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"target": ' + "1" * 5000 + "}", "not JSON"),
        ("3", 'no "target"."start"'),
        ([1, 2], 'no "target"."start"'),
        ({}, 'no "target"."start"'),
        ({"target": PAIR["target"]}, 'no "draft"."start"'),
        (PAIR | {"draft": {"start": [1, 0]}}, 'no "draft"."rows"'),
        (PAIR | {"draft": 3}, 'no "draft"."start"'),
        (PAIR | {"name": 3}, '"name" is 3'),
        (PAIR | {"name": ""}, "\"name\" is ''"),
        (PAIR | {"name": "two\nlines"}, '"name" is'),
        (PAIR | {"name": "\x1b[31mred"}, '"name" is'),
        (PAIR | {"name": "\ud800"}, '"name" is'),
    ],
)
def test_a_broken_document_says_what_is_missing(tmp_path, document, message):
    assert message in complaint(write(tmp_path, document))


def test_what_is_not_text_is_not_json(tmp_path):
    path = tmp_path / "pair.json"
    path.write_bytes(b"\xff\xfe\x00")
    assert "not JSON" in complaint(path)


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_a_missing_file_and_a_folder(tmp_path, suffix):
    assert "No such file" in complaint(tmp_path / f"none{suffix}")
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    assert "Is a directory" in complaint(folder)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"draft_rows": None}, "no array 'draft_rows'"),
        ({"target_start": np.array(["a", "b"])}, "target_start holds <U1"),
        ({"target_start": np.array([0.5, 0.5j])}, "target_start holds complex128"),
        ({"target_start": np.array([True, False])}, "target_start holds bool"),
        ({"target_start": np.array([1, None], dtype=object)}, "not an NPZ archive of plain"),
        ({"target_start": np.array(1.0)}, "expected one row of V >= 2"),
        ({"target_rows": np.full((2, 2, 2), 0.5)}, "target_rows has shape (2, 2, 2)"),
        ({"target_rows": np.full((2, 2), np.nan)}, "target_rows row 0 has a value"),
        ({"draft_start": np.array([0.2, 0.3, 0.5])}, "the target has V = 2 and the draft V = 3"),
    ],
)
def test_wrong_arrays(tmp_path, arrays, message):
    path = tmp_path / "arrays.npz"
    kept = {name: array for name, array in (ARRAYS | arrays).items() if array is not None}
    np.savez(path, **kept)
    assert message in complaint(path)


def test_a_damaged_archive(tmp_path):
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, **ARRAYS)
    whole = path.read_bytes()
    damaged = {
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "foreign": b"junk",
        "bits": whole[:60] + b"\xff" * 10 + whole[70:],
    }
    for content in damaged.values():
        path.write_bytes(content)
        assert "not an NPZ archive" in complaint(path)


def test_one_array_under_the_name_of_an_archive(tmp_path):
    with (tmp_path / "array.npz").open("wb") as file:
        np.save(file, ARRAYS["target_rows"])
    assert "not an NPZ archive" in complaint(Path(file.name))


def test_rows_within_the_tolerance_are_normalised(tmp_path):
    document = changed("target", "rows", [[0.5, 0.5 + 9e-10], [0.25 - 8e-10, 0.75]])
    rows = load_model(write(tmp_path, document)).target_rows
    assert (abs(rows.sum(axis=1) - 1) <= 2.0**-53).all()
    np.testing.assert_allclose(rows, [[0.5, 0.5], [0.25, 0.75]], atol=1e-9)
    # What sums to 1 already is kept to the bit.
    np.testing.assert_array_equal(
        load_model(write(tmp_path, PAIR)).draft_rows, [[0.4, 0.6], [0.3, 0.7]]
    )


@pytest.mark.parametrize("gamma", [2, 4])
def test_a_sum_off_by_the_tolerance_is_no_fault_of_a_rule(tmp_path, gamma):
    document = copy.deepcopy(PAIR)
    document["target"]["start"] = [0.5 + 9e-10, 0.5]
    document["target"]["rows"] = [[0.5, 0.5 - 9e-10], [0.25, 0.75 + 9e-10]]
    document["draft"]["rows"] = [[0.4 + 9e-10, 0.6], [0.3, 0.7 - 9e-10]]
    model = load_model(write(tmp_path, document))
    for rule in ("token", "block", "greedy", "match"):
        assert check_exactly(VERIFIERS[rule], model, gamma).max_abs_deviation < 1e-15


def test_fractions_must_sum_to_exactly_one(tmp_path):
    side = {"start": ["0.33333333333", "0.66666666666"], "rows": [["1", "0"], ["0", "1"]]}
    message = complaint(write(tmp_path, {"target": side, "draft": side}))
    assert (
        "target_start differs from 1 by -1e-11 in sum; fractions must sum to exactly 1" in message
    )
    side = {"start": ["1/3", "2/3"], "rows": [["1", "0"], ["1/3", "0.6666666666"]]}
    assert "target_rows row 1 differs" in complaint(
        write(tmp_path, {"target": side, "draft": side})
    )


@pytest.mark.parametrize("tiny", [1e-301, 5e-324, "1/" + "1" + "0" * 305])
def test_entries_that_float64_cannot_divide_by_are_refused(tmp_path, tiny):
    document = changed("draft", "rows", [[0.5, 0.5], [1.0, tiny]])
    message = complaint(write(tmp_path, document))
    assert "draft_rows row 1 is " in message
    assert "at token 1; float64 cannot divide by entries below 1e-300: write 0" in message


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("tiny", [1e-300, 1e-200, 1e-40])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.thorough
def test_tiny_entries_are_exact_under_every_rule(tmp_path, tiny, swap):
    flat = {"start": [0.4, 0.4, 0.2], "rows": [[0.5, 0.5, 0], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]]}
    steep = {
        "start": [0.5, tiny, 0.5],
        "rows": [[1.0, tiny, tiny], [tiny, 1.0, tiny], [tiny, 0.5, 0.5]],
    }
    pair = (steep, flat) if swap else (flat, steep)
    model = load_model(write(tmp_path, dict(zip(("target", "draft"), pair, strict=True))))
    for gamma in (2, 4, 8):
        for rule in ("token", "block", "greedy", "match"):
            check = check_exactly(VERIFIERS[rule], model, gamma)
            assert is_exact(check)
            assert check.max_abs_deviation < 1e-14


@pytest.mark.parametrize("name", ["toy", "compact"])
def test_float_rows_are_the_fractions(name):
    model = get_model(name)
    exact = model.rational
    for rows in (exact.target_rows, exact.draft_rows):
        assert all(sum(row) == 1 for row in rows)
    assert sum(exact.target_start) == sum(exact.draft_start) == 1
    np.testing.assert_array_equal(model.target_rows, np.array(exact.target_rows, float))
    np.testing.assert_array_equal(model.draft_rows, np.array(exact.draft_rows, float))
    np.testing.assert_array_equal(model.target_start, np.array(exact.target_start, float))
    np.testing.assert_array_equal(model.draft_start, np.array(exact.draft_start, float))


def test_the_toy_is_independent_of_its_prefix():
    toy = get_model("toy")
    for prefix in ([], [0], [1], [0, 1, 1]):
        np.testing.assert_array_equal(toy.target(prefix), [1 / 3, 2 / 3])
        np.testing.assert_array_equal(toy.draft(prefix), [2 / 3, 1 / 3])


def test_the_rows_of_compact_in_twelfths():
    compact = get_model("compact")
    twelfths = [
        [round(12 * x) for x in law(prefix)]
        for law in (compact.target, compact.draft)
        for prefix in ([], [0], [1], [2])
    ]
    assert twelfths == [
        [5, 1, 6], [6, 3, 3], [4, 2, 6], [3, 3, 6],
        [6, 2, 4], [5, 6, 1], [2, 9, 1], [4, 6, 2],
    ]  # fmt: skip
    assert all(x.denominator in (1, 2, 3, 4, 6, 12) for x in compact.rational.target_start)


def test_compact_hides_no_fault():
    """Distinct rows, residuals of two tokens, a p/q below 1/2: what the toy lacks."""
    exact = get_model("compact").rational
    assert len(set(exact.target_rows)) == len(set(exact.draft_rows)) == 3
    pairs = list(zip(exact.target_rows, exact.draft_rows, strict=True))
    residuals = [sum(p > q for p, q in zip(*pair, strict=True)) for pair in pairs]
    assert max(residuals) >= 2
    assert min(p / q for pair in pairs for p, q in zip(*pair, strict=True)) < Fraction(1, 2)
