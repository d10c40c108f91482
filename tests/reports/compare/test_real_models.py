"""What reports say of a comparison on real models, which no kernel simulated."""

import re

import pytest
from msgspec.structs import replace
from support.pages.html_page import check
from support.pages.printed import assert_fits, flat, shown
from support.pages.report_runs import compare_run, real_run

from simverify.reports.compare_charts import model_charts
from simverify.reports.compare_text import model_latencies
from simverify.reports.formats import build_report, html_report, markdown_report


@pytest.fixture(params=[False, True], ids=["decoded", "trace"])
def run(request):
    return real_run(trace=request.param)


def page(run):
    return " ".join(check(html_report(run)).text.split())


def every_face(run):
    """The texts of the page, of Markdown and of the terminal, by name."""
    plain = markdown_report(run).replace("\\", "").replace("&#64;", "@")
    return {"page": page(run), "markdown": plain, "terminal": flat(run)}


def table(run, caption):
    """A table of the report as a dictionary for each of its rows."""
    tables = [block for section in build_report(run).sections for block in section.blocks
              if getattr(block, "caption", "").startswith(caption)]  # fmt: skip
    (found,) = tables
    return [
        dict(zip(found.columns, (cell.text for cell in row), strict=True)) for row in found.rows
    ]


def test_nothing_is_said_of_kernels_or_counted_contexts(run):
    for face, text in every_face(run).items():
        assert "kernel" not in text, face
        assert "Contexts repeat" not in text, face
    assert "kernel" in page(compare_run())


def test_what_was_judged_is_said(run):
    (rests,) = [fact.text for fact in build_report(run).facts if fact.name == "Rests on"]
    where = "on the recorded blocks" if run.decoding.trace else "while it decoded"
    assert rests == (
        f"tests of the tokens that each verifier emitted {where}, each token against its own "
        "target row"
    )


def test_all_three_speedups_stand_side_by_side_on_every_face():
    run = real_run()
    rows = table(run, "Speed-up over the target alone, which takes 1.00 ms a token")
    assert [row["measured"] for row in rows] == ["0.50x", "0.62x", "0.75x"]
    assert [row["predicted, measured c"] for row in rows] == ["1.50x", "1.75x", "1.62x"]
    for row, result in zip(rows, run.results, strict=True):
        assert row["predicted, c = 0.1"] == f"{result.speedup.predicted:.2f}x"
    assert [row["block cost"] for row in rows] == ["2.8", "2.2", "2"]
    assert rows[0]["a token"] == "2.00 ms"
    assert [rows[0][part] for part in ("draft", "target", "verifier's own")] == [
        "25%", "50%", "25%",
    ]  # fmt: skip
    token = run.results[0].speedup.predicted
    assert f"token 0.50x {token:.2f}x 1.50x 0.062 2.8 2.00 ms 25% 50% 25%" in flat(run)
    for face, text in every_face(run).items():
        for words in (
            "if a target call on 5 tokens takes as long as one on a single token",
            "0.1 as given (--cost-ratio), or as measured",
            "reading prompts is in neither",
            "Block cost: time of a target call on 5 tokens over one on a single token",
        ):
            assert words in text, (face, words)


def test_a_trace_promises_no_measured_speedup():
    for face, text in every_face(real_run(trace=True)).items():
        assert "0.1 as given (--cost-ratio). A trace times no model." in text, face
        assert "Measured speed-up" not in text, face


def test_simulated_models_have_neither():
    for face, text in every_face(compare_run()).items():
        assert "Predicted speed-up:" not in text, face
        assert "How it was decoded" not in text, face


def test_the_chart_of_speedups_marks_what_the_clock_measured():
    run = real_run()
    model = run.models[0]
    measured = model_charts("x", model, run.results, model_latencies(run, model.name))[3]
    predicted = model_charts("x", model, run.results)[3]
    assert measured.title == "Speed-up on little 0, predicted and measured"
    assert predicted.title == "Speed-up on little 0, predicted"
    assert "Mark: by the wall clock." in measured.caption
    assert "token: predicted at best" in measured.svg
    assert "; measured 0.5 at gamma 4" in measured.svg
    assert len(re.findall('class="dot s0"', str(measured.svg))) == 1
    assert len(re.findall('class="dot s0"', str(predicted.svg))) == 4


def test_how_it_was_decoded_is_a_table_and_a_line(run):
    traced = run.decoding.trace is not None
    rows = table(run, "How the blocks were recorded" if traced else "How it was decoded")
    found = {row["what"]: row["value"] for row in rows}
    assert found["target"] == "big"
    assert found["draft"] == "small"
    assert found["sampling"] == "temperature 0.75, top-k 40, top-p 0.95"
    assert found["computed in"] == "bfloat16 on cuda"
    assert found["prompts"] == "prompts.jsonl, sha256 ab12"
    assert found["tokens"].startswith("2,016 of ")
    assert "32 requests side by side, of 128 tokens at most" in found["tokens"]
    assert ("trace" in found) == traced
    assert "temperature 0.75, top-k 40, top-p 0.95 computed in bfloat16 on cuda" in flat(run)


def test_the_bound_says_on_whose_blocks_it_was_taken(run):
    words = "on the recorded blocks" if run.decoding.trace else "on the blocks of greedy"
    bound = f"more than 1.25 \N{PLUS-MINUS SIGN} 0.25 tokens in one call (coupling bound, {words})"
    assert bound in page(run)
    assert bound in flat(run)
    assert f"coupling bound, {words}." in model_charts("x", run.models[0], run.results)[0].caption
    whose = "the recorded" if run.decoding.trace else "each verifier's own"
    for face, text in every_face(run).items():
        assert f"E[tau] and its optimum are of {whose} blocks. For greedy they are of" in text, face


def test_rules_on_the_same_blocks_are_a_table():
    rows = table(real_run(), "E[tau] on the same drafted blocks")
    assert [row["verifier"] for row in rows] == ["block", "greedy"]
    first = rows[0]
    assert (first["less"], first["drafted blocks"], first["difference"], first["from"]) == (
        "token", "938", "+0.2500", "+0.1250",
    )  # fmt: skip


def test_too_few_tokens_are_no_blocks(run):
    lossless = replace(run.results[0].lossless, verdict="INCONCLUSIVE")
    acceptance = replace(run.results[1].acceptance, verdict="INCONCLUSIVE")
    rows = (
        replace(run.results[0], verdict="INCONCLUSIVE", lossless=lossless),
        replace(run.results[1], verdict="INCONCLUSIVE", acceptance=acceptance),
        run.results[2],
    )
    report = build_report(replace(run, verdict="INCONCLUSIVE", results=rows))
    assert "about token on little 0: too few tokens to say that the output" in report.ruling
    remedy = "record more, or raise" if run.decoding.trace else "raise --tokens or"
    assert f"that the verifier accepts as the declared rule: {remedy} --detect." in report.ruling
    assert [case.message.partition(":")[0] for case in report.cases] == [
        "too few tokens to decide on losslessness",
        "lossless passed; too few blocks to say that the verifier accepts as the declared rule",
        "",
    ]


def test_it_fits_a_terminal(run):
    assert_fits(shown(run))
