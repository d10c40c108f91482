"""Run files that contradict themselves: each is refused in one line that names the field."""

import json
import time

import pytest
from msgspec.structs import replace
from support.audit_runs import STARVED, finding
from support.pages.report_runs import FOLDER, example

from simverify.errors import UsageError
from simverify.reports.audit.counterexample import counterexample_blocks
from simverify.reports.formats.html import html_report
from simverify.reports.formats.markdown import markdown_report
from simverify.reports.view import Tree
from simverify.results import Branch, Breach, FailingTrial, SelfTestRun, Tried
from simverify.results.reading.consistent import check_consistent
from simverify.results.reading.document import read_document
from simverify.results.reading.verdicts import verdict_complaints

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
