"""Run files that contradict themselves: each is refused in one line that names the field."""

import json
import time

import pytest
from msgspec.structs import replace
from support.audit_runs import STARVED, finding
from support.pages.grouped_runs import grouped_run
from support.pages.report_runs import FOLDER, example
from support.real_models import CONTEXT, VOCAB_SIZE, Words, deep_model

import simverify
from simverify.comparing.real import compare_pair
from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models.transformer import Sampling, TransformerPair
from simverify.reports.audit import counterexample_blocks
from simverify.reports.formats import html_report, markdown_report
from simverify.reports.view import Tree
from simverify.results import (
    BisectRun,
    Branch,
    Breach,
    Drafter,
    FailingTrial,
    SelfTestRun,
    Tried,
    Visited,
)
from simverify.results.reading import check_consistent, document_text, read_document
from simverify.results.registry import kind_of, verdict_complaints

COMPARISON, PASSED, FAILED = "compare", "transformers", "faulty-block"


@pytest.fixture
def complaint(tmp_path):
    """What reading an example with one field changed says; a callable changes the old value."""

    def read(name, *keys, value):
        run = json.loads((FOLDER / name / "run.json").read_text())
        at = run
        for key in keys[:-1]:
            at = at[key]
        at[keys[-1]] = value(at[keys[-1]]) if callable(value) else value
        path = tmp_path / "run.json"
        path.write_text(json.dumps(run))
        with pytest.raises(UsageError) as error:
            read_document(path)
        said = str(error.value).removeprefix(f"{path} is not a result document of this version: ")
        assert "\n" not in said
        return said

    return read


@pytest.mark.parametrize(
    ("name", "keys", "value", "said"),
    [
        (COMPARISON, ("verdict",), "FAIL", "verdict is FAIL: expected PASS"),
        (COMPARISON, ("verdict",), "INCONCLUSIVE", "verdict is INCONCLUSIVE: expected PASS"),
        (
            COMPARISON,
            ("results", 1, "verdict"),
            "FAIL",
            "results[1].verdict is FAIL: expected PASS, the worse of its two",
        ),
        (
            COMPARISON,
            ("results", 2, "lossless", "verdict"),
            "FAIL",
            "results[2].lossless.verdict is FAIL: expected PASS",
        ),
        (
            COMPARISON,
            ("results", 0, "lossless", "findings"),
            ["G2: p = 1e-30"],
            "results[0].lossless.verdict is PASS: expected FAIL, by its findings",
        ),
        (
            COMPARISON,
            ("results", 0, "acceptance", "findings"),
            ["too few"],
            "results[0].acceptance.verdict is PASS: expected FAIL, by its findings",
        ),
        (
            COMPARISON,
            ("results", 0, "acceptance", "detectable"),
            None,
            "results[0].acceptance.verdict is PASS: expected INCONCLUSIVE, as detectable",
        ),
        (
            COMPARISON,
            ("results", 3, "lossless", "detectable"),
            0.5,
            "results[3].lossless.verdict is PASS: expected INCONCLUSIVE, as detectable",
        ),
        (
            COMPARISON,
            ("results", 0, "lossless", "tests", 0, "rejected"),
            True,
            "results[0].lossless.tests[0].rejected is true: expected otherwise, by log_pvalue",
        ),
        (
            COMPARISON,
            ("results", 0, "lossless", "tests", 0),
            lambda test: test | {"rejected": True, "log_pvalue": -900.0},
            "results[0].lossless.tests[0].rejected is true: expected a finding",
        ),
        (PASSED, ("verdict",), "FAIL", "verdict is FAIL and findings is empty"),
        (PASSED, ("verdict",), "INCONCLUSIVE", "inconclusive is null: expected why"),
        (PASSED, ("inconclusive",), "no", "verdict is PASS: expected INCONCLUSIVE"),
        (PASSED, ("findings",), ["broke"], "verdict is PASS: expected FAIL, by findings"),
        (
            PASSED,
            ("instances", 3, "failed"),
            True,
            "verdict is PASS: expected FAIL, by instances[3].failed",
        ),
        (
            PASSED,
            ("probes", 2, "outcome"),
            "violation",
            "verdict is PASS: expected FAIL, by probes[2].outcome",
        ),
        (
            PASSED,
            ("instances", 3, "max_abs_deviation"),
            1e-7,
            "instances[3].max_abs_deviation is above what a PASS allows",
        ),
        (FAILED, ("verdict",), "PASS", "verdict is PASS: expected FAIL, by findings"),
        (FAILED, ("verdict",), "INCONCLUSIVE", "verdict is INCONCLUSIVE: expected FAIL, by"),
        (FAILED, ("findings",), [], "verdict is FAIL and findings is empty"),
    ],
)
def test_a_verdict_that_its_findings_contradict_is_refused(complaint, name, keys, value, said):
    assert complaint(name, *keys, value=value).startswith(said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tree: tree * 200, "].sequence is that of counterexample.tree[0]: expected each"),
        (
            lambda tree: [*tree, tree[-1] | {"sequence": [1 - tree[-1]["sequence"][0], 0]}],
            "].sequence leaves counterexample.sequence before its last token",
        ),
        (
            lambda tree: [{**tree[0], "probability_emitted": 1.5}, *tree[1:]],
            "counterexample.tree[0].probability_emitted is 1.5: expected 0 to 1",
        ),
    ],
)
def test_a_tree_that_is_none_is_refused(complaint, change, said):
    assert said in complaint(FAILED, "counterexample", "tree", value=change)


def test_a_large_tree_is_bounded_and_rendered_at_once():
    run = example(FAILED)
    sequence = tuple(range(1000))
    tree = tuple(
        Branch(sequence=(*sequence[:k], token), probability_emitted=0.5, probability_expected=0.25)
        for k in range(40)
        for token in range(100)
    )
    found = replace(run.counterexample, sequence=sequence, tree=tree)
    clock = time.process_time()
    shown = next(b for b in counterexample_blocks(run, found) if isinstance(b, Tree))
    page = html_report(replace(run, counterexample=found))
    text = markdown_report(replace(run, counterexample=found))
    assert time.process_time() - clock < 20
    assert shown.left_out == 4000 - 32 * 64
    assert [node.on_path for node in shown.roots].count(True) == 1
    assert len(page) < 1_500_000
    for rendered in (page, text):
        assert "1,952 branches more stand in the run file" in rendered


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_named_by_its_field(tmp_path, number):
    text = (FOLDER / COMPARISON / "run.json").read_text()
    run = json.loads(text)
    run["results"][2]["measured"]["mean"] = float(number)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    with pytest.raises(UsageError, match=r"version: results\[2\]\.measured\.mean is -?(nan|inf):"):
        read_document(path)


def test_a_name_in_a_complaint_is_bounded_and_moves_no_cursor(complaint):
    name = "\x1b[31m\n" + "x" * 10_000
    said = complaint(COMPARISON, "results", 0, "model", value=name)
    assert said.startswith("results[0].model is '")
    assert said.isprintable()
    assert len(said) < 700


def test_findings_of_the_sampled_tier_are_findings_of_the_audit():
    test = example(COMPARISON).results[0].lossless.tests[0]
    tier = replace(STARVED.sampled, findings=(finding("tests", "G2: p = 1e-30"),))
    assert list(verdict_complaints(STARVED)) == []
    other = (finding("tests", "other"),)
    failed = replace(STARVED, verdict="FAIL", inconclusive=None, findings=other, sampled=tier)
    assert list(verdict_complaints(failed)) == [
        "findings has no 'G2: p = 1e-30': expected it, as in sampled.findings"
    ]
    assert list(verdict_complaints(replace(failed, findings=tier.findings))) == []
    rejected = replace(test, rejected=True, log_pvalue=-900.0)
    unsaid = replace(STARVED, sampled=replace(STARVED.sampled, tests=(test, rejected)))
    assert list(verdict_complaints(unsaid)) == [
        "sampled.tests[1].rejected is true: expected a finding in sampled.findings"
    ]


@pytest.mark.parametrize("part", ["breach", "trial"])
def test_every_instance_that_is_shown_has_its_rows(part):
    run = example(FAILED)
    bare = replace(run.counterexample.instance, draft_probs={})
    shown = {
        "breach": Breach(instance=bare, draft_tokens=None, message="raised IndexError"),
        "trial": FailingTrial(
            instance=bare, number=0, pilot=False, trial=1, emitted=None, why="raised"
        ),
    }
    with pytest.raises(UsageError, match=rf": {part}\.instance\.draft_probs has no row after ''"):
        check_consistent(replace(run, **{part: shown[part]}), "run.json")


def test_an_audit_without_a_command_is_refused(complaint):
    assert complaint(PASSED, "reproduce", value=" ") == "reproduce is empty: expected a command"


def test_a_self_test_names_what_is_unexpected():
    missed = Tried(name="bad", kind="fault", caught=False, tier="exact", effort=7, tv=None)
    run = SelfTestRun(
        schema_version=1, seed=0, gamma=3, vocab_size=4, alpha=1e-6, detect=0.01, verdict="FAIL",
        results=(missed,), unexpected=("bad",), meta=example(COMPARISON).meta,
    )  # fmt: skip
    assert list(verdict_complaints(run)) == []
    assert list(verdict_complaints(replace(run, verdict="PASS"))) == [
        "verdict is PASS: expected FAIL, by its results"
    ]
    assert list(verdict_complaints(replace(run, unexpected=()))) == [
        "unexpected does not name the entries that are not as expected: bad"
    ]


# Run files about layers in groups that contradict themselves: each is refused by its field.


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
        ((*TIME, "predicted", 0, "devices"), 0, "predicted[0].devices is 0: expected 1 or more"),
        ((*TIME, "predicted", 1, "devices"), 1, "predicted names devices out of order, or twice"),
        ((*TIME, "predicted", 1, "speed_up"), 0.0, "predicted[1].speed_up is 0.0: expected more "),
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


# Fields of a table and of a bisection that contradict each other are named.


TABLE = example("engines")


def visited(version, changed, verdict="PASS"):
    state = "not loaded" if verdict is None else "judged"
    return Visited(version=version, title="", state=state, verdict=verdict, reason="",
                   max_abs_deviation=None, instances=0, changed=changed)  # fmt: skip


RUN = BisectRun(
    schema_version=1, spec="a:b", seed=0, what="law", source="releases", package="a", good="1",
    bad="4", versions=("1", "2", "3", "4"), outcome="changed", last="2", first="3", how="",
    differences=(), lines=(), reproduce="",
    tried=(visited("1", False), visited("4", True, "FAIL"), visited("2", False),
           visited("3", True, "FAIL")),
    meta=example("faulty-block").meta,
)  # fmt: skip


def test_right_ones_have_no_complaint():
    for run in (RUN, TABLE):
        assert list(kind_of(run).check(run)) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"versions": ("2", "3", "4")}, "does not begin with good"),
        ({"outcome": "unchanged"}, "expected neither first nor last"),
        ({"outcome": "unchanged", "first": None, "last": None}, "expected bad among tried"),
        ({"outcome": "open"}, "outcome is open with 0 versions between"),
        ({"first": "4"}, "outcome is changed with 1 versions between"),
        ({"first": None}, "expected first and last"),
        ({"first": "2", "last": "3"}, "one that changed and one that did not"),
        ({"tried": (*RUN.tried, visited("9", None, None))}, "which is not in versions"),
        ({"tried": (replace(RUN.tried[0], verdict=None), *RUN.tried[1:])}, "with the state judged"),
    ],
)
def test_a_bisection_that_contradicts_itself_is_named(changes, words):
    assert words in "; ".join(kind_of(RUN).check(replace(RUN, **changes)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": TABLE.rows[1:]}, "one for each row"),
        ({"rows": (TABLE.rows[1], *TABLE.rows[1:])}, "which has a row already"),
    ],
)
def test_a_table_that_contradicts_itself_is_named(changes, words):
    assert words in "; ".join(kind_of(TABLE).check(replace(TABLE, **changes)))


# Run files on draft trees that contradict themselves: each is refused by its field.


@pytest.fixture(scope="module")
def text():
    run = simverify.compare(
        ["toy"],
        ["block", "recursive"],
        tree="2,1",
        blocks=20_000,
        detect=0.2,
        threads=1,
        batch_size=8,
        free_rows=64,
    )
    return document_text(run)


def test_it_reads_as_it_is_trees(text, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(text)
    assert document_text(read_document(path)) == text


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (("drafting", "parents"), [], "drafting.parents is empty"),
        (("drafting", "parents"), [-1, 1, 0, 1], "drafting.parents[1] is 1"),
        (("drafting", "parents"), [-1, -1, 0, 2], "gamma is 2: expected 3, the depth"),
        (("drafting", "parents"), [-1, -1, 0], "results[1].nodes has 4 values: expected 3"),
        (("drafting",), None, "results[0].one_draft is true without drafting"),
        (("results", 1, "nodes"), [0.5, 0.5, 0.1, 0.1], "results[1].nodes add up to 1 at level 1"),
        (("results", 1, "nodes"), [0.5, 0.1, 0.6, 0.1], "results[1].nodes[2] is 0.6: expected 0"),
        (("results", 0, "nodes"), [0.5], "results[0].nodes stands beside a single draft"),
        (("results", 0, "node_counts"), {"calls": 9, "kept": [1]}, "results[0].node_counts stands"),
        (("results", 1, "node_counts", "calls"), 20_001, "node_counts.calls is 20,001: expected 1"),
        (("results", 1, "node_counts", "calls"), 0, "node_counts.calls is 0: expected 1 to 20,000"),
        (("results", 1, "node_counts", "calls"), 9, "results[1].node_counts.kept[0] is "),
        (("results", 1, "node_counts", "kept"), [1, 1, 2, 0], "node_counts.kept[2] is 0.0001: exp"),
        (("results", 1, "node_counts", "kept"), [1], "node_counts.kept has 1 values: expected 4"),
        (("results", 1, "optimum", "name"), "block", "results[1].optimum.name is block"),
        (("results", 0, "optimum", "name"), "memoryless", "results[0].optimum.name is memoryless"),
        (("results", 1, "optimum", "by"), None, "results[1].optimum.by is None"),
        (("results", 1, "optimum", "bound"), True, "results[1].optimum.bound is true"),
        (("results", 1, "optimality"), 0.99, "results[1].optimality is 0.99: expected 0."),
        (("results", 1, "speedup", "rows"), 3, "results[1].speedup.rows is 3: expected 5"),
        (("results", 0, "speedup", "rows"), 5, "results[0].speedup.rows is 5: expected 3"),
        (("results", 0, "speedup", "batch_size"), 0, "speedup.batch_size is 0: expected 1 or more"),
        (("results", 0, "speedup", "free_rows"), 0.5, "free_rows is 0.5: expected 1 or more"),
    ],
)
def test_what_does_not_go_together_is_refused_trees(text, tmp_path, keys, value, said):
    run = json.loads(text)
    at = run
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    with pytest.raises(UsageError) as error:
        read_document(path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
