import json
import sys
from xml.etree import ElementTree

import jsonschema
import pytest
from support.pages.grouped_runs import grouped_run
from support.pages.report_runs import FOLDER, compare_run, example

from simverify.reports.formats import html_report, junit_report, markdown_report
from simverify.results.reading import document_text

AUDIT = FOLDER / "faulty-block" / "run.json"
COMPARISON = FOLDER / "compare" / "run.json"
TABLE = FOLDER / "engines" / "run.json"


@pytest.fixture(autouse=True)
def _no_job(monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def test_each_rendering_goes_to_its_file(command, tmp_path):
    files = {"--html": html_report, "--markdown": markdown_report, "--junit": junit_report}
    options = [word for option in files for word in (option, tmp_path / option[2:])]
    assert command("report", AUDIT, *options) == 0
    assert (command.out, command.err) == ("", "")
    for option, render in files.items():
        assert (tmp_path / option[2:]).read_text() == render(example("faulty-block"))


def test_all_of_them_and_the_run_file_into_a_folder(command, tmp_path):
    assert command("report", COMPARISON, "--report", tmp_path / "a" / "b") == 0
    made = sorted(path.name for path in (tmp_path / "a" / "b").iterdir())
    assert made == ["junit.xml", "report.html", "report.md", "run.json"]
    assert (tmp_path / "a" / "b" / "run.json").read_bytes() == COMPARISON.read_bytes()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (COMPARISON, "compact: V = 3, gamma = 4\n"),
        (AUDIT, "FAIL: naive-block does not emit the target's distribution."),
    ],
)
def test_without_an_option_it_prints_what_the_run_printed(command, path, words):
    assert command("report", path) == 0
    assert command.out.startswith(words)


def test_annotations_are_printed_and_the_summary_written_when_asked(command, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    assert command("report", AUDIT, "--github") == 0
    assert command.out.startswith("::error title=simverify audit")
    assert (tmp_path / "summary").read_text().startswith("## \N{CROSS MARK} FAIL: naive-block")


def test_a_run_writes_its_reports_and_joins_the_summary(command, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    assert command.compare("--report", "out", "--quiet") == 3
    assert "INCONCLUSIVE" in (tmp_path / "summary").read_text()
    cases = ElementTree.parse(tmp_path / "out" / "junit.xml").findall(".//testcase/error")
    assert len(cases) == 1
    assert (tmp_path / "out" / "report.html").read_text().count("INCONCLUSIVE") > 1


def test_an_audits_report_can_be_replayed(command, tmp_path):
    assert command("audit", "reused-uniform", "--report", "out", "--gamma", "1", "--quiet") == 1
    assert "simverify replay out/run.json#0" in (tmp_path / "out" / "report.md").read_text()
    assert command("replay", "out/run.json#0") == 0


def broken(path, *keys, value=None, drop=False):
    run = json.loads(path.read_text())
    *way, last = keys
    at = run
    for key in way:
        at = at[key]
    if drop:
        del at[last]
    else:
        at[last] = value
    return json.dumps(run)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (broken(AUDIT, "schema_version", value=0), "$.schema_version"),
        (broken(AUDIT, "verdict", drop=True), "`verdict`"),
        (broken(AUDIT, "command", value="frobnicate"), "$.command"),
        (broken(AUDIT, "verdict", value="FINE"), "$.verdict"),
        (broken(AUDIT, "seed", value="zero"), "$.seed"),
        (broken(AUDIT, "counterexample", "sequence", value=[]), "counterexample.sequence"),
        (broken(AUDIT, "counterexample", "tv", value=[]), "$.counterexample.tv"),
        (
            broken(AUDIT, "counterexample", "instance", "draft_probs", "", drop=True),
            "counterexample.instance.draft_probs",
        ),
        (broken(COMPARISON, "results", value=[]), "results is empty"),
        (broken(TABLE, "rows", value=[]), "rows is empty"),
        (broken(COMPARISON, "results", 0, "gamma", value=9), "results[0].gamma"),
        (
            broken(COMPARISON, "results", 1, "acceptance_ccdf", "measured", value=[0.5]),
            "results[1].acceptance_ccdf.measured",
        ),
        (
            broken(COMPARISON, "results", 1, "acceptance_ccdf", "lower", 2, value=7.5),
            "results[1].acceptance_ccdf.lower[2] is 7.5",
        ),
        (
            broken(COMPARISON, "results", 2, "measured", "mean", value=1e300),
            "results[2].measured.mean",
        ),
        (broken(COMPARISON, "meta", "timings", value=[]), "meta.timings"),
        (broken(COMPARISON, "models", 0, "name", value="other"), "results[0].model"),
        (broken(AUDIT, "instances", 0, "gamma", value=-5), "instances[0].gamma is -5: expected 1"),
        (broken(AUDIT, "instances", 0, "tv", value=-1), "instances[0].tv is -1: expected 0"),
        (broken(AUDIT, "paths", value=-5), "paths is -5: expected 0"),
        (broken(COMPARISON, "power", value=-5), "power is -5: expected more than 0"),
        (
            broken(COMPARISON, "results", 0, "lossless", "tests", 1, "log_pvalue", value=2),
            "results[0].lossless.tests[1].log_pvalue is 2: expected 0 or less",
        ),
        ("{", "not a result document"),
        ("", "not a result document"),
        ("[]", "not a result document"),
        ("\udcff", "not a result document"),
    ],
)
@pytest.mark.parametrize("how", [("--html", "x.html"), ()])
def test_a_broken_run_file_is_an_error_that_names_the_field(command, tmp_path, text, words, how):
    (tmp_path / "run.json").write_bytes(text.encode(errors="surrogateescape"))
    assert command("report", "run.json", *how) == 2
    assert words in command.complaint()
    assert not (tmp_path / "x.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.json",), "none.json cannot be read"),
        ((AUDIT, "--html", "no/such/folder"), "cannot be written"),
        ((AUDIT, "--report", "/dev/null"), "cannot be made a folder"),
        ((), "run"),
    ],
)
def test_bad_use(command, arguments, words):
    assert command("report", *arguments) == 2
    assert words in command.complaint().replace("RUN", "run")


def test_a_summary_that_cannot_be_written(command, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    assert command("report", AUDIT, "--github") == 2
    assert "GITHUB_STEP_SUMMARY" in command.complaint()


class TestFigure:
    @pytest.mark.parametrize("kind", ["fig3", "fig4", "fig5"])
    @pytest.mark.parametrize("ending", ["svg", "pdf"])
    @pytest.mark.thorough
    def test_a_file_with_the_same_bytes_each_time(self, command, tmp_path, kind, ending):
        pytest.importorskip("matplotlib")
        for name in ("a", "b"):
            assert command("figure", kind, COMPARISON, "-o", f"{name}.{ending}") == 0
        assert (command.out, command.err) == ("", "")
        content = (tmp_path / f"a.{ending}").read_bytes()
        assert content == (tmp_path / f"b.{ending}").read_bytes()
        assert content.startswith(b"%PDF" if ending == "pdf" else b"<?xml")
        if ending == "svg":
            for word in (b"markov-64", b"greedy", b"block"):
                assert word in content

    @pytest.mark.parametrize("ending", ["svg", "pdf"])
    def test_acceptance_by_tree_width_of_layers_in_groups(self, command, tmp_path, ending):
        pytest.importorskip("matplotlib")
        (tmp_path / "run.json").write_text(document_text(grouped_run()))
        for name in ("a", "b"):
            assert command("figure", "easyspec-fig4", "run.json", "-o", f"{name}.{ending}") == 0
        assert (command.out, command.err) == ("", "")
        content = (tmp_path / f"a.{ending}").read_bytes()
        assert content == (tmp_path / f"b.{ending}").read_bytes()
        if ending == "svg":
            words = [b"little 0", b"with calibration", b"without calibration", b"plain", b"N = 4"]
            assert all(word in content for word in words)
            assert b"N = 1" not in content

    @pytest.mark.parametrize("ending", ["svg", "pdf"])
    def test_a_name_that_the_font_lacks_costs_one_line(self, command, tmp_path, ending):
        pytest.importorskip("matplotlib")
        run = compare_run(3, 2, "\N{CJK UNIFIED IDEOGRAPH-6A21}\N{CJK UNIFIED IDEOGRAPH-578B} {}")
        (tmp_path / "run.json").write_text(document_text(run))
        assert command("figure", "fig3", "run.json", "-o", f"a.{ending}") == 0
        assert f"a.{ending} may show boxes for U+6A21, U+578B, which" in command.complaint()
        assert (tmp_path / f"a.{ending}").exists()

    def test_the_longest_drafts_of_several_runs_are_drawn(self, command, tmp_path):
        pytest.importorskip("matplotlib")
        command.compare("--json", "short.json", "--models", "compact", "--gamma", "1")
        assert command("figure", "fig3", "short.json", COMPARISON, "-o", "both.svg") == 0
        assert command("figure", "fig3", COMPARISON, "-o", "long.svg") == 0
        assert (tmp_path / "both.svg").read_bytes() == (tmp_path / "long.svg").read_bytes()

    def test_without_matplotlib_it_says_what_to_install(self, command, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        assert command("figure", "fig3", COMPARISON, "-o", "a.svg") == 2
        assert "pip install 'simverify[figures]'" in command.complaint()
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("fig3", COMPARISON, "-o", "a.png"), "neither .svg nor .pdf"),
            (("fig9", COMPARISON, "-o", "a.svg"), "fig9"),
            (("fig3", AUDIT, "-o", "a.svg"), "is no comparison"),
            (("fig3", COMPARISON, "-o", "no/a.svg"), "cannot be written"),
            (("fig3", COMPARISON), "output"),
            (("easyspec-fig4", COMPARISON, "-o", "a.svg"), "with the drafter easyspec and layers"),
        ],
    )
    def test_bad_use(self, command, arguments, words):
        pytest.importorskip("matplotlib")
        assert command("figure", *arguments) == 2
        assert words in command.complaint()


def test_the_examples_fit_the_shipped_schema():
    from simverify.results.reading import shipped_schema

    validator = jsonschema.Draft202012Validator(json.loads(shipped_schema()))
    for path in FOLDER.glob("*/run.json"):
        validator.validate(json.loads(path.read_text()))
