"""Several ways of drafting on one pair are told apart, and done again by the command."""

import shlex
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from support.pages.grouped_runs import grouped_run
from support.pages.html_page import check
from support.pages.report_runs import HOSTILE, real_run

from simverify.drafting.method import methods_of
from simverify.reports.compare.brief import sentence
from simverify.reports.compare.grouped.chart import width_pictures
from simverify.reports.compare.reproduce import reproduce_blocks
from simverify.reports.formats.github import annotations
from simverify.reports.formats.html import html_report
from simverify.reports.formats.junit import junit_report
from simverify.reports.formats.markdown import markdown_report
from simverify.reports.report import report_of
from simverify.reports.view import Command, Prose, Table
from simverify.results import Drafter


@pytest.mark.parametrize("name", ["little 0", "Qwen2.5-7B-Instruct / Qwen2.5-0.5B-Instruct"])
def test_no_way_of_drafting_is_cut_off(name):
    run = grouped_run((1, 4), calibration=False, name=name)
    shaped = replace(run.results[0].lossless, deviation="mean one-token TV, monotone in q/p")
    run = replace(run, results=tuple(replace(row, lossless=shaped) for row in run.results))
    both = f"{name} easyspec(1, no-calibration), easyspec(4, no-calibration)"
    assert f"(on {both}: of the shapes that --verbose names)" in sentence(run)
    report = report_of(run)
    assert report.title == f"token, block, greedy on {both}"
    (judged,) = [fact.text for fact in report.facts if fact.name == "Judged"]
    for model in run.models:
        assert model.name.removeprefix(name) in judged
        assert f"Model {model.name}" in [section.title for section in report.sections]
    lost = tuple(
        replace(row, verdict="FAIL", lossless=replace(row.lossless, verdict="FAIL"))
        for row in run.results[1:3]
    )
    failed = replace(run, verdict="FAIL", results=(run.results[0], *lost, *run.results[3:]))
    for words in (sentence(failed), report_of(failed).ruling):
        assert words.count("easyspec(1, no-calibration)") == 2


def test_how_it_was_decoded_names_the_drafter():
    decoded = [
        {row[0].text: row[1].text for row in block.rows}
        for section in report_of(grouped_run((1, 4), calibration=False)).sections
        for block in section.blocks
        if isinstance(block, Table) and block.caption == "How it was decoded"
    ]
    assert [found["drafter"] for found in decoded] == [
        "easyspec(1, no-calibration)", "easyspec(4, no-calibration)",
    ]  # fmt: skip
    assert "drafter" not in markdown_report(real_run())


def test_the_same_rule_drafting_otherwise_is_another_case():
    run = grouped_run((1, 4))
    cases = ElementTree.fromstring(junit_report(run)).findall(".//testcase")
    names = [case.get("name") for case in cases]
    assert len(set(names)) == len(names) == 6
    assert "token on little 0 easyspec(4)" in names
    lossless = replace(run.results[0].lossless, verdict="INCONCLUSIVE")
    rows = tuple(replace(row, verdict="INCONCLUSIVE", lossless=lossless) for row in run.results)
    told = list(annotations(replace(run, verdict="INCONCLUSIVE", results=rows)))
    assert len({line.split("::")[1] for line in told}) == 6


def options(run):
    """The options of the command that makes the document again."""
    (command,) = [block.text for block in reproduce_blocks(run) if isinstance(block, Command)]
    words = shlex.split(command)[2:]
    bare = [word for word in words if word == "--no-calibration"]
    words = [word for word in words if word != "--no-calibration"]
    return dict(zip(words[::2], words[1::2], strict=True)), bool(bare)


@pytest.mark.parametrize("calibration", [True, False])
def test_the_command_drafts_in_the_same_ways(calibration):
    run = grouped_run((1, 4), calibration=calibration)
    given, without = options(run)
    assert without is not calibration
    assert given["--verifiers"] == "token,block,greedy"
    methods = methods_of(
        given["--drafter"], given["--layer-parallel"], calibration=not without
    )  # fmt: skip
    assert [m.words for m in methods] == [m.name.removeprefix("little 0 ") for m in run.models]


def test_the_command_of_another_drafter_names_it():
    run = real_run()
    drafter = Drafter(name="ngram", layer_parallel=None, calibration=None)
    given, without = options(replace(run, models=(replace(run.models[0], drafter=drafter),)))
    assert (given["--drafter"], without) == ("ngram", False)
    assert "--layer-parallel" not in given
    assert "--drafter" not in options(run)[0]


def test_tokens_are_asked_for_where_the_study_took_as_many():
    """By default the study takes a fifth of the verifiers' tokens at most."""
    run = grouped_run((4,))
    assert options(run)[0]["--tokens"] == "2016"  # 500 calls of 3 tokens
    more = replace(run, decoding=replace(run.decoding, tokens=20_000))
    assert "--tokens" not in options(more)[0]


def test_no_command_mixes_drafters():
    run = grouped_run((1, 4))
    mixed = replace(run, models=(replace(run.models[0], drafter=None), run.models[1]))
    (words,) = reproduce_blocks(mixed)
    assert isinstance(words, Prose)
    assert "mixed in Python" in words.text


def test_hostile_names_stay_on_their_line():
    run = grouped_run((1, 4), name=HOSTILE)
    long = Drafter(name=HOSTILE * 50, layer_parallel=3, calibration=True)
    run = replace(run, models=(run.models[0], replace(run.models[1], drafter=long)))
    picture = str(width_pictures(run)[0].svg)
    assert "<script>" not in picture
    for text in (sentence(run), report_of(run).title, picture):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert len(text) < 20_000
    check(html_report(run))
