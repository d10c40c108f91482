"""What a comparison says of drafts with layers in groups, and of several ways of drafting."""

import re

import pytest
from msgspec.structs import replace
from support.pages.grouped_runs import grouped_run
from support.pages.html_page import check
from support.pages.printed import assert_fits, shown
from support.pages.report_runs import compare_run, real_run

from simverify.reports.easyspec import width_pictures
from simverify.reports.formats import build_report, html_report, markdown_report
from simverify.reports.view import Table

TITLE = "Drafts with layers in groups (EasySpec)"


def short(run):
    """The default text of the terminal, from the table of groups on."""
    text = run.as_text()
    return text[text.index(TITLE) :] if TITLE in text else ""


def section(run):
    (found,) = [section for section in build_report(run).sections if section.title == TITLE]
    return found


def tables(run):
    return {block.caption: block for block in section(run).blocks if isinstance(block, Table)}


def rows(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_other_comparisons_say_nothing_of_groups():
    for run in (compare_run(), real_run()):
        for text in (run.as_text(), run.as_text(verbose=True), html_report(run)):
            assert "EasySpec" not in text


def test_the_table_of_the_terminal_has_a_row_for_each_n():
    lines = short(grouped_run()).splitlines()
    assert lines[0] == f"{TITLE}:"
    assert [line.split() for line in lines[3:6]] == [
        ["1", "2.000", "-", "-", "-", "62%", "123", "-", "1.00x", "1.00x", "1.00x"],
        ["2", "1.900", "1.500", "5.0±5.0%", "25.0±5.0%", "62%", "123", "0.57x", "1.25x", "1.50x",
         "1.75x"],
        ["4", "1.900", "1.500", "5.0±5.0%", "25.0±5.0%", "62%", "123", "1.00x", "1.25x", "1.50x",
         "1.75x"],
    ]  # fmt: skip


def test_the_speed_here_is_of_the_passes_that_were_measured():
    """A block of 4: one exact pass of 10 ms, and at N = 2 three of 20 ms; 40 ms of plain ones."""
    assert "0.57x" in short(grouped_run((2,)))  # 40 / 70


def test_what_is_slower_here_and_what_is_a_models_is_said():
    words = " ".join(short(grouped_run()).split())
    assert "one layer at a time: slower than plain for N = 2." in words
    assert (
        "model: what a time model, fitted to blocks timed here, predicts at most on 2, 4" in words
    )
    assert "nobody measured it" in words
    faster = " ".join(short(grouped_run((1, 4), workers=3)).split())
    assert "up to 3 layers at once." in faster
    assert "slower" not in faster


def test_what_nothing_ran_at_once_for_is_the_most_that_the_model_allows():
    alone, together = (grouped_run(workers=workers) for workers in (1, 4))
    words = "the prediction is the most that the model allows"
    assert words in " ".join(shown(alone).split())
    assert words not in " ".join(shown(together).split())
    caption = "Times of the draft's blocks and passes, one token for each request: medians"
    assert [row[6] for row in rows(tables(alone)[caption])] == ["-", "not seen", "not seen"]
    assert [row[6] for row in rows(tables(together)[caption])] == ["-", "0.20 ms", "0.20 ms"]


@pytest.mark.parametrize("name", ["little", "Qwen2.5-7B-Instruct / Qwen2.5-0.5B-Instruct"])
def test_it_fits_a_terminal(name):
    run = grouped_run((1, 2, 4, 32), name=name, calibration=False, workers=4)
    far = replace(run.meta.drafting[3], tokens_per_second=98765.4, share=1.0)
    run = replace(run, meta=replace(run.meta, drafting=(*run.meta.drafting[:3], far)))
    assert_fits(shown(run))
    assert_fits(run.as_text())


def test_verbose_shows_what_the_table_rests_on():
    text = shown(grouped_run())
    words = " ".join(text.split())
    assert "N = 4: layers 0 | 1-3 | 4-6 | 7" in words
    assert "N = 1: mean cosine" not in words  # nothing is fuzzy there
    assert "N = 4: mean cosine similarity to the exact pass, by layer" in words
    assert re.search(r"^ +2 +1-3( +0\.9000){5}$", text, re.M)
    assert re.search(r"^4 +no +2 +1.875 ± 0.1 +25.0 ± 5.0% +600$", text, re.M)
    assert "4 1.00 ms 50 us 4.00 ms 4 1 not seen 10.00 ms 10.00 ms 2.00 ms" in words


def test_nothing_timed_leaves_the_rest():
    run = grouped_run()
    run = replace(run, meta=replace(run.meta, drafting=()))
    text = short(run)
    assert re.search(r"^4 +1\.900 +1\.500 +5\.0±5\.0% +25\.0±5\.0%( +-){3}$", text, re.M)
    assert "time model" not in text
    assert len(tables(run)) == 4


def test_a_report_has_all_tables():
    found = tables(grouped_run())
    assert [caption.split(":")[0].split(",")[0] for caption in found] == [
        "Layers in groups of N at most",
        "Acceptance by tree width",
        "N = 2",
        "N = 4",
        "Times of the draft's blocks and passes",
        "Predicted by the time model",
    ]
    by_width = rows(found[next(caption for caption in found if "tree width" in caption)])
    assert len(by_width) == 3 + 2 * 6
    assert by_width[0] == ["plain", "-", "1", "2 ± 0.1", "-", "500"]
    assert by_width[3] == ["2", "yes", "1", "1.9 ± 0.1", "5.0 ± 5.0%", "600"]
    assert by_width[-1] == ["4", "no", "4", "2.1 ± 0.1", "25.0 ± 5.0%", "600"]
    predicted = rows(found["Predicted by the time model, not measured: drafting a block of 4 tok"
                           "ens"])  # fmt: skip
    assert predicted[5] == ["2", "2", "32.00 ms", "8.00 ms", "1.25x"]


def test_a_page_and_markdown_show_them():
    run = grouped_run()
    page = " ".join(check(html_report(run)).text.split())
    markdown = markdown_report(run)
    for words in (TITLE, "mean cosine similarity", "Acceptance by tree width", "slower than plain"):
        assert words in page
        assert words in markdown


def test_both_charts_have_a_line_for_each_n_with_intervals():
    with_, without = width_pictures(grouped_run())
    assert "with calibration" in with_.title
    assert "without calibration" in without.title
    for picture, first in ((with_, "1.9 (1.8 to 2)"), (without, "1.5 (1.4 to 1.6)")):
        svg = str(picture.svg)
        # Plain, N = 2 and N = 4, at three widths; at N = 1 drafts are plain.
        assert len(re.findall('class="line s', svg)) == 3 * 2  # and in the legend
        assert len(re.findall('class="rule s', svg)) == 3 * 3
        assert len(re.findall('class="dot s', svg)) == 3 * 3
        assert f"plain: 2 (1.9 to 2.1), 2.5 (2.4 to 2.6), 2.8 (2.7 to 2.9); N = 2: {first}" in svg
        assert "N = 1" not in svg
    ticks = [re.findall(r'text-anchor="end">([^<]+)<', str(p.svg)) for p in (with_, without)]
    assert ticks[0] == ticks[1]


def test_where_all_drafts_are_plain_there_is_no_chart():
    assert width_pictures(grouped_run((1,))) == ()


def test_more_lines_than_styles_are_counted():
    with_, _ = width_pictures(grouped_run((1, 2, 3, 4, 5, 6, 7, 8, 9, 10)))
    assert len(re.findall('class="line s', str(with_.svg))) == 8 * 2
    assert with_.caption.endswith("2 more N stand in the table alone.")
