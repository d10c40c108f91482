"""What the lines below a comparison's table say that it rests on."""

import shlex
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from support.pages.grouped_runs import grouped_run
from support.pages.html_page import check
from support.pages.printed import assert_fits, every, flat, shown, small_comparison
from support.pages.report_runs import HOSTILE, real_run

from simverify.drafting.method import make_methods
from simverify.reports.compare_text import reproduce_blocks, verdict_sentence
from simverify.reports.easyspec import width_pictures
from simverify.reports.formats import (
    build_report,
    github_annotations,
    html_report,
    junit_report,
    markdown_report,
)
from simverify.reports.view import Command, Prose, Table
from simverify.results import Certificate, Drafter, FaultAtStrength, Power, Suspect


@pytest.fixture(scope="module")
def run():
    return small_comparison()


def with_lossless(run, model, **changes):
    return every(
        run,
        lambda row: (
            replace(row, lossless=replace(row.lossless, **changes)) if row.model == model else row
        ),
    )


def test_what_is_undetectable_is_said(run):
    nothing = every(run, lambda row: replace(row, lossless=replace(row.lossless, detectable=None)))
    assert "not found at any size" in " ".join(shown(nothing).split())


def test_one_promise_for_all_models_or_each_with_its_own(run):
    acceptance = "shift of a Pr(tau >= l) out of its bounds"
    assert f"is INCONCLUSIVE: mean one-token TV; {acceptance}" in flat(run)
    partly = with_lossless(run, "toy", deviation="mean one-token TV, monotone in some order")
    assert (
        "0.9 against each of these of 0.01, or the verdict is INCONCLUSIVE: mean one-token TV, "
        f"monotone in some order (toy); mean one-token TV (markov-16); {acceptance}" in flat(partly)
    )


def test_the_power_says_of_what(run):
    partly = every(
        run,
        lambda row: replace(
            row,
            lossless=replace(
                row.lossless,
                detectable=0.03,
                deviation="TV in some order",
                beside=(Power(deviation="TV between cells", detectable=0.25),),
            ),
        ),
    )
    words = (
        "lossless = TV in some order: found from 0.03 on; beside it: TV between cells: found from "
        "0.25 on"
    )
    assert flat(partly).count(words) == len(run.results)


def test_certificates_stand_with_their_assumption(run):
    some = every(
        run,
        lambda row: replace(
            row,
            lossless=replace(
                row.lossless,
                certificate=Certificate(
                    bound=0.004, delta=1e-3, method="by hand", assumption="N is fixed"
                ),
            ),
        ),
    )
    words = "TV at most 0.004, but for a probability of 0.001 (by hand), if N is fixed"
    assert flat(some).count(words) == len(run.results)


def test_refuted_faults_are_counted_and_a_failure_is_localised(run):
    text = flat(run)
    counts = {
        f"{len(row.lossless.faults.refuted)} of "
        f"{len(row.lossless.faults.refuted) + len(row.lossless.faults.not_refuted)}"
        for row in run.results
    }
    assert all(f"named faults refuted = {count}" in text for count in counts)

    def change(row):
        faults = replace(
            row.lossless.faults,
            best=FaultAtStrength(fault="reused-uniform", strength=0.3, log_evalue=99.0),
            explains=0.914,
        )
        place = Suspect(part="random stream", position=1, why="reused-uniform explains it")
        lossless = replace(
            row.lossless, verdict="FAIL", findings=("p = 0",), faults=faults, localisation=place
        )
        return replace(row, verdict="FAIL", lossless=lossless)

    failed = every(run, change)
    assert_fits(shown(failed))
    text = flat(failed)
    assert "block on toy: localised: random stream; reused-uniform explains it" in text
    fits = "fits best: reused-uniform at strength 0.3, which explains 91% of the deviation"
    assert f"block on toy: {fits}" in text
    none = every(
        run,
        lambda row: replace(
            row,
            lossless=replace(
                row.lossless,
                faults=None,
                localisation=Suspect(part=None, position=None, why="nothing alone explains it"),
            ),
        ),
    )
    assert "named faults refuted" not in flat(none)
    assert "block on toy: not localised: nothing alone explains it" in flat(none)


def test_a_bound_is_certified_with_a_pass_alone(run):
    """The document holds none of a result that did not pass, so that nothing can show it."""
    for row in run.results:
        assert (row.lossless.certificate is not None) == (row.lossless.verdict == "PASS")
    assert "but for a probability" not in flat(run)


def test_an_interval_that_is_cut_off_says_its_ends(run):
    def measured(low, mean, high):
        return every(
            run,
            lambda row: replace(
                row, measured=replace(row.measured, ci_low=low, mean=mean, ci_high=high)
            ),
        )

    assert "1.0000±0.0100" in shown(measured(0.99, 1.0, 1.01))
    cut = shown(measured(0.0, 0.004, 0.021))
    assert "0.0000..0.0210" in cut
    assert "±" not in cut.split("(coupling bound")[0]
    assert_fits(cut)


# Several ways of drafting on one pair are told apart, and done again by the command.


@pytest.mark.parametrize("name", ["little 0", "Qwen2.5-7B-Instruct / Qwen2.5-0.5B-Instruct"])
def test_no_way_of_drafting_is_cut_off(name):
    run = grouped_run((1, 4), calibration=False, name=name)
    shaped = replace(run.results[0].lossless, deviation="mean one-token TV, monotone in q/p")
    run = replace(run, results=tuple(replace(row, lossless=shaped) for row in run.results))
    both = f"{name} easyspec(1, no-calibration), easyspec(4, no-calibration)"
    assert f"(on {both}: of the shapes that --verbose names)" in verdict_sentence(run)
    report = build_report(run)
    assert report.title == f"token, block, greedy on {both}"
    (judged,) = [fact.text for fact in report.facts if fact.name == "Judged"]
    for model in run.models:
        assert model.name.removeprefix(name) in judged
        assert any(section.title.startswith(f"{model.name}: ") for section in report.sections)
    lost = tuple(
        replace(row, verdict="FAIL", lossless=replace(row.lossless, verdict="FAIL"))
        for row in run.results[1:3]
    )
    failed = replace(run, verdict="FAIL", results=(run.results[0], *lost, *run.results[3:]))
    for words in (verdict_sentence(failed), build_report(failed).ruling):
        assert words.count("easyspec(1, no-calibration)") == 2


def test_how_it_was_decoded_names_the_drafter():
    decoded = [
        {row[0].text: row[1].text for row in block.rows}
        for section in build_report(grouped_run((1, 4), calibration=False)).sections
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
    told = list(github_annotations(replace(run, verdict="INCONCLUSIVE", results=rows)))
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
    methods = make_methods(
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
    for text in (verdict_sentence(run), build_report(run).title, picture):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert len(text) < 20_000
    check(html_report(run))
