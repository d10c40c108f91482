"""Run files about layers in groups that contradict themselves: each is refused by its field."""

import json

import pytest
from support.pages.grouped_runs import grouped_run
from support.real_models import CONTEXT, VOCAB_SIZE, Words, deep_model

from simverify.comparing.real.pair import compare_pair
from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models.real.sampling import Sampling
from simverify.models.real.transformer import TransformerPair
from simverify.results import Drafter
from simverify.results.reading.document import document_text, read_document

ENTRY = ("layer_parallel", 2)
KEPT = (*ENTRY, "acceptance")
TIME = ("meta", "drafting", 2)
PLAIN = {"mean": 0.05, "ci_low": 0.0, "ci_high": 0.1}


def test_it_reads_as_it_is(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(document_text(grouped_run()))
    assert read_document(path) == grouped_run()


@pytest.mark.thorough
def test_a_run_on_models_reads_as_it_is(tmp_path):
    pair = TransformerPair(
        "t", "d", deep_model(layers=2), deep_model(layers=6), Words(), VOCAB_SIZE, CONTEXT,
        frozenset(), Sampling(),
    )  # fmt: skip
    run = compare_pair(
        pair, ["1 2 3 4 5 6 7 8", "3 2 1 5 9 8 7 6"], ["token"], gamma=2, tokens=256, lanes=16,
        request_tokens=16, methods=[DraftMethod("easyspec", number) for number in (1, 3)],
    )  # fmt: skip
    path = tmp_path / "run.json"
    path.write_text(document_text(run))
    assert read_document(path) == run
    assert "EasySpec" in run.as_text(verbose=True)


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        # What a drafter is, and where.
        (("decoding",), None, "models[0].drafter stands beside simulated models"),
        (("models", 2, "drafter", "layer_parallel"), None, "drafter.layer_parallel is null for 'e"),
        (("models", 2, "drafter", "calibration"), None, "drafter.calibration is null for 'easysp"),
        (("models", 0, "drafter", "name"), "ngram", "drafter.layer_parallel is 1 for 'ngram'"),
        (("models", 2, "drafter", "layer_parallel"), 8, "layer_parallel is 8, which is not in lay"),
        (("models", 2, "drafter"), None, "layer_parallel[2].layer_parallel is 4: expected that of"),
        (("models", 2, "drafter", "layer_parallel"), 0, "layer_parallel is 0: expected 1 or more"),
        # Every layer in one group.
        ((*ENTRY, "groups"), [[0], [1, 2, 3], [4, 5, 6]], "groups holds the layers [0, 1, 2, 3, 4"),
        ((*ENTRY, "groups"), [[0], [1, 2], [3, 4, 5, 6, 7]], "groups[2] has 5 layers: expected 1"),
        ((*ENTRY, "groups", 1), [2, 1, 3], "groups holds the layers [0, 2, 1, 3, 4, 5, 6, 7]: exp"),
        ((*ENTRY, "groups", 1), [1, 2, 3, 3], "layer_parallel[2].groups holds the layers [0, 1, 2"),
        ((*ENTRY, "groups", 3), [], "layer_parallel[2].groups holds the layers [0, 1, 2, 3, 4, 5,"),
        ((*ENTRY, "layers"), [], "layer_parallel[2].layers is empty: expected one or more"),
        ((*ENTRY, "layers", 3, "layer"), 4, "layers[3].layer is 4: expected 3, its place"),
        ((*ENTRY, "layers", 3, "q"), 1.001, "layers[3].q is 1.001: expected -1 to 1"),
        ((*ENTRY, "layers", 3, "hidden"), -1.001, "layers[3].hidden is -1.001: expected -1 to 1"),
        # Acceptance and its loss.
        (KEPT, [], "layer_parallel[2].acceptance has no plain drafts"),
        ((*KEPT, 0, "expected_accepted", "lower"), 2.2, "is 2.2 to 2.1: expected bounds in order"),
        ((*KEPT, 0, "expected_accepted", "lower"), -0.1, "is -0.1 to 2.1: expected bounds in orde"),
        ((*KEPT, 0, "width"), 0, "acceptance[0].width is 0: expected 1 or more"),
        ((*KEPT, 0, "loss"), PLAIN, "acceptance[0].loss stands beside plain drafts"),
        ((*KEPT, 4, "width"), 1, "acceptance[4] has the width and the calibration of one before"),
        ((*KEPT, 4, "width"), 3, "acceptance[4].width is 3, of which there are no plain drafts"),
        ((*KEPT, 4, "loss"), None, "acceptance[4].loss is null: expected it, against plain drafts"),
        ((*KEPT, 4, "loss", "mean"), 0.2, "loss.mean is 0.2: expected 0 to 0.1, its"),
        ((*KEPT, 4, "loss", "mean"), 0.04, "acceptance[4].loss.mean is 0.04: expected 0.05, by ex"),
        ((*KEPT, 0, "blocks"), 7, "layer_parallel[2].acceptance has other plain drafts than layer"),
        # Times.
        ((*TIME, "layer_parallel"), 8, "meta.drafting is of N = [1, 2, 8]: expected [1, 2, 4]"),
        (("meta", "drafting"), [], "meta.drafting is of N = []: expected [1, 2, 4]"),
        ((*TIME, "attention"), -1e-9, "meta.drafting[2].attention is -1e-09: expected 0 or more"),
        ((*TIME, "share"), 1.1, "meta.drafting[2].share is 1.1: expected 0 to 1"),
        ((*TIME, "workers"), 5, "meta.drafting[2] has workers, group_size and layer_parallel of 5"),
        ((*TIME, "group_size"), 5, "meta.drafting[2] has workers, group_size and layer_parallel o"),
        ((*TIME, "predicted", 0, "devices"), 0, "predicted[0] has a number below 1 device"),
        ((*TIME, "predicted", 1, "devices"), 1, "predicted names devices out of order, or twice"),
        ((*TIME, "predicted", 1, "speed_up"), 0.0, "predicted[1] has a number below 1 device, or"),
        ((*TIME, "predicted", 1, "per_token"), 1.0, "per_token is 1: expected 0.008, by iteration"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(tmp_path, keys, value, said):
    run = json.loads(document_text(grouped_run()))
    at = run
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    assert said in refused(tmp_path, run)


def refused(tmp_path, run):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    with pytest.raises(UsageError) as error:
        read_document(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_each_number_of_layers_stands_once(tmp_path):
    run = json.loads(document_text(grouped_run((1, 2))))
    run["layer_parallel"] += run["layer_parallel"][1:]
    assert "layer_parallel[2].layer_parallel is 2 again" in refused(tmp_path, run)


def test_a_width_without_one_of_the_calibrations_is_refused(tmp_path):
    run = json.loads(document_text(grouped_run()))
    del run["layer_parallel"][2]["acceptance"][-1]
    assert "acceptance lacks a width with or without calibration" in refused(tmp_path, run)


def test_a_loss_against_nothing_is_null(tmp_path):
    """Where plain drafts are never kept there is no share of them."""
    run = json.loads(document_text(grouped_run()))
    for entry in run["layer_parallel"]:
        for found in entry["acceptance"]:
            found["expected_accepted"] |= {"lower": 0.0, "upper": 0.0}
            found["loss"] = None
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    assert "-" in read_document(path).as_text()


def test_a_bound_that_was_cut_off_at_0_leaves_the_mean_open(tmp_path):
    run = json.loads(document_text(grouped_run((4,))))
    cut = run["layer_parallel"][0]["acceptance"][6]
    cut["expected_accepted"] |= {"lower": 0.0, "upper": 0.5}
    cut["loss"] = {"mean": 0.9, "ci_low": 0.7, "ci_high": 1.1}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    assert "90±20%" in read_document(path).as_text()


def test_other_drafters_have_neither_groups_nor_calibration(tmp_path):
    run = json.loads(document_text(grouped_run((4,))))
    run |= {"layer_parallel": []}
    run["meta"]["drafting"] = []
    for model in run["models"]:
        model["drafter"] = {"name": "ngram", "layer_parallel": None, "calibration": None}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    (model,) = read_document(path).models
    assert model.drafter == Drafter(name="ngram", layer_parallel=None, calibration=None)
