"""Markdown, JUnit XML and GitHub's workflow commands."""

import re
from xml.etree import ElementTree

import msgspec
import pytest
from support.pages.report_runs import HOSTILE, compare_run, example, hostile_runs

from simverify.checks import clean_line
from simverify.reports.formats import (
    FORMATS,
    MAX_MARKDOWN,
    build_report,
    escape_markdown,
    github_annotations,
    junit_report,
    markdown_report,
    register_format,
)
from simverify.reports.present import SUMMARY_VARIABLE, append_summary, write_reports
from simverify.results import Finding


class TestMarkdown:
    def test_a_failure_in_its_first_lines(self):
        lines = markdown_report(example("faulty-block")).split("\n")
        assert lines[0] == "## \N{CROSS MARK} FAIL: naive-block"
        assert lines[2].startswith("Do not ship it: its output does not follow the target")

    def test_every_row_of_a_table_has_as_many_cells_as_its_head(self):
        for run in (example("compare"), example("transformers"), *hostile_runs()):
            tables = re.findall(r"(?:^\|.*\|$\n?)+", markdown_report(run), re.M)
            assert tables
            for table in tables:
                bars = {len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().split("\n")}
                assert len(bars) == 1

    def test_a_table_that_is_cut_short_keeps_its_worst_rows(self):
        run = example("transformers")
        many = [
            msgspec.structs.replace(run.instances[0], name=f"no {i}", max_abs_deviation=i * 1e-12)
            for i in range(250)
        ]
        text = markdown_report(msgspec.structs.replace(run, instances=tuple(many)))
        below = text.split("**Instances of the exact tier**")[1].strip().split("\n")
        assert [line.split(" | ")[0] for line in below[2:12]] == [
            f"| no {i}" for i in range(249, 239, -1)
        ]
        assert below[12:14] == ["", "240 rows more stand in the run file."]

    def test_hostile_texts_are_no_markup(self):
        for run in hostile_runs():
            text = markdown_report(run)
            assert len(text) <= MAX_MARKDOWN + 100
            bare = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.M | re.S)
            for mark in ("<script", "@octo", "](", "http://", "\x1b", "\u202e"):
                assert mark not in bare.replace(r"\](", ""), mark

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("a|b", r"a\|b"),
            ("_x_ *y*", r"\_x\_ \*y\*"),
            ("[a](http://b)", r"\[a\](http:&#47;&#47;b)"),
            ("a\nb\x00", "a b?"),
            ("$x$ `y` @z", r"\$x\$ \`y\` &#64;z"),
        ],
    )
    def test_escaping(self, text, shown):
        assert escape_markdown(text) == shown

    def test_a_command_with_backticks_stays_in_its_fence(self):
        run = msgspec.structs.replace(example("faulty-block"), reproduce="a ```` b")
        assert "`````text\na ```` b\n`````" in markdown_report(run)


class TestJunit:
    def test_the_counts_are_those_of_the_cases(self):
        for run, failures, errors in (
            (example("compare"), 0, 0),
            (example("faulty-block"), 1, 0),
            (inconclusive(), 0, 1),
        ):
            suite = ElementTree.fromstring(junit_report(run)).find("testsuite")
            assert suite.attrib["failures"] == str(failures) == str(len(suite.findall("*/failure")))
            assert suite.attrib["errors"] == str(errors) == str(len(suite.findall("*/error")))
            assert suite.attrib["tests"] == str(len(suite.findall("testcase")))

    def test_a_comparison_has_a_case_for_each_result(self):
        cases = ElementTree.fromstring(junit_report(example("compare"))).iter("testcase")
        assert [case.attrib["name"] for case in cases][:2] == [
            "token on compact",
            "block on compact",
        ]

    def test_a_failure_says_what_the_terminal_says(self):
        failure = ElementTree.fromstring(junit_report(example("faulty-block"))).find(".//failure")
        assert "Smallest counterexample: V = 2, gamma = 2" in failure.text

    @pytest.mark.parametrize("name", ["engines", "transformers"])
    def test_what_passed_says_by_which_tier_and_what_is_certified(self, name):
        cases = [*ElementTree.fromstring(junit_report(example(name))).iter("testcase")]
        passed = [case for case in cases if len(case) == 0 or case.find("properties") is not None]
        told = [
            {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
            for case in passed
            if not case.attrib["name"].startswith("probe ")
        ]
        assert told
        for known in told:
            assert known["tier"] in ("exact", "sampled")
            promised = "TV at most" if known["tier"] == "sampled" else "off by"
            assert promised in known["certificate"]
        assert all(case.find("properties") is None for case in cases if case not in passed)

    def test_hostile_texts_are_well_formed_and_bounded(self):
        for run in hostile_runs():
            text = junit_report(run)
            assert len(text) < 1_000_000
            names = [case.attrib["name"] for case in ElementTree.fromstring(text).iter("testcase")]
            assert "<script>alert(1)</script>?[31m" in names[0]


def inconclusive():
    run = example("transformers")
    return msgspec.structs.replace(run, verdict="INCONCLUSIVE", inconclusive="too few paths")


class TestGithub:
    def test_a_failure_is_an_error_at_its_file(self):
        run = msgspec.structs.replace(example("faulty-block"), spec="src/my,sampler.py:verify")
        first, *rest = github_annotations(run)
        assert first.startswith(
            "::error file=src/my%2Csampler.py,title=simverify audit%3A audit "
            "src/my%2Csampler.py%3Averify%3A decided at chains.py%3A"
        )
        assert "; its numbers come from chains.py%3A" in first
        assert "::FAIL: src/my,sampler.py:verify does not emit" in first
        assert "%0ASmallest counterexample: V = 2, gamma = 2%0A" in first
        assert rest[0].startswith("::warning file=src/my%2Csampler.py,")

    @pytest.mark.parametrize(
        ("decided", "shown"),
        [("src/a.py:7", "line=7,"), ("src/b.py:7", ""), ("src/a.py:x", ""), ("", "")],
    )
    def test_the_line_that_decides_is_named_where_it_is_of_the_file(self, decided, shown):
        run = example("faulty-block")
        place = msgspec.structs.replace(run.localisation, lines=(decided,), sources=())
        run = msgspec.structs.replace(run, spec="src/a.py:verify", localisation=place)
        assert next(github_annotations(run)).startswith(f"::error file=src/a.py,{shown}title=")

    def test_where_it_is_decided_elsewhere_the_likeliest_line_of_the_file_is_named(self):
        run = example("faulty-block")
        behind = ("src/b.py:8", "src/a.py:5", "src/a.py:4")
        place = msgspec.structs.replace(run.localisation, lines=("src/b.py:7",), sources=behind)
        run = msgspec.structs.replace(run, spec="src/a.py:verify", localisation=place)
        first = next(github_annotations(run))
        assert first.startswith("::error file=src/a.py,line=5,title=")
        assert "decided at b.py%3A7; its numbers come from b.py%3A8%2C a.py%3A5%2C 4::" in first

    def test_the_line_of_a_constant_seed_comes_first(self):
        run = example("faulty-block")
        place = msgspec.structs.replace(run.localisation, lines=("src/a.py:7",), sources=())
        seed = Finding("contract", "its seed is constant", "src/a.py:3", "constant-seed")
        run = msgspec.structs.replace(
            run, spec="src/a.py:verify", localisation=place, findings=(*run.findings, seed)
        )
        first = next(github_annotations(run))
        assert first.startswith("::error file=src/a.py,line=3,title=")
        assert "seeds at a.py%3A3; decided at a.py%3A7" in first

    def test_no_verdict_is_a_warning_and_a_pass_a_notice(self):
        assert next(github_annotations(inconclusive())).startswith("::warning ")
        (only,) = github_annotations(example("compare"))
        assert only.startswith("::notice title=simverify compare%3A PASS%3A token")

    def test_a_hostile_name_starts_no_command_of_its_own(self):
        run = msgspec.structs.replace(
            example("faulty-block"), spec="x\n::stop-commands::y\r%0A" + HOSTILE
        )
        for line in github_annotations(run):
            assert line.startswith(("::error ", "::warning "))
            assert not {"\n", "\r"} & set(line)
            assert "%250A" in line or "spec" not in line

    def test_the_summary_is_added_to_the_file(self, tmp_path, monkeypatch):
        monkeypatch.setenv(SUMMARY_VARIABLE, str(tmp_path / "summary"))
        append_summary(example("faulty-block"))
        append_summary(example("transformers"))
        text = (tmp_path / "summary").read_text()
        assert text.index("FAIL: naive-block") < text.index("PASS: transformers")


def test_texts_are_bounded_and_say_how_long_they_were():
    assert clean_line("x" * 10_000_000) == f"{'x' * 600}... (10,000,000 characters)"
    assert clean_line("a\x1b\u202e\u2066\ud800b\n c") == "a????b c"
    assert len(markdown_report(compare_run(125, 4, "{}" + HOSTILE * 300))) <= MAX_MARKDOWN + 100


def test_a_format_from_outside_is_written_beside_the_others(tmp_path):
    def latex_report(run):
        report = build_report(run)
        facts = "".join(f"\\item {fact.name}\n" for fact in report.facts)
        return f"\\section{{{report.title}}}\n\\begin{{itemize}}\n{facts}\\end{{itemize}}\n"

    register_format("report.tex", latex_report)
    try:
        with pytest.raises(ValueError, match=r"report\.tex is a file of reports already"):
            register_format("report.tex", latex_report)
        write_reports(example("faulty-block"), tmp_path / "with")
    finally:
        FORMATS.pop("report.tex")
    text = (tmp_path / "with" / "report.tex").read_text()
    assert text.startswith("\\section{naive-block}\n\\begin{itemize}\n\\item Checked\n")
    write_reports(example("faulty-block"), tmp_path / "without")
    assert {path.name for path in (tmp_path / "without").iterdir()} == set(FORMATS)
