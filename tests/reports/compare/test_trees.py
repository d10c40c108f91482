"""Comparisons on draft trees, reported: what the terminal has room for, pictures, the command."""

import re

import pytest
from msgspec.structs import replace
from support.pages.printed import assert_fits, flat, shown

import simverify
from simverify.reports.compare import fold_name
from simverify.reports.compare_charts import tree_pictures
from simverify.reports.compare_text import compare_command, model_notes, tree_words
from simverify.reports.formats import html_report, junit_report, markdown_report
from simverify.results import DraftTrees


@pytest.fixture(scope="module")
def run():
    names = ["block", "recursive-without-replacement", "traversal-without-replacement", "match"]
    return simverify.compare(
        ["toy", "markov-8"], names, tree="2,1", scheme="without-replacement", blocks=3000,
        batch_size=8, free_rows=20, threads=1,
    )  # fmt: skip


def rows(run, model):
    return [row for row in run.results if row.model == model]


def test_it_fits_a_terminal(run):
    text = shown(run)
    assert_fits(text)
    assert_fits(str(run))
    assert "gamma = 2, 2 drafts, without-replacement" in text


def test_names_are_folded_behind_hyphens():
    assert fold_name("greedy-draft") == "greedy-draft"
    assert fold_name("recursive-without-replacement") == "recursive-\nwithout-\nreplacement"
    assert fold_name("my_rule.py:verify") == "my_rule.py:verify"
    assert fold_name("rules.py:leaf_bonus_parent") == "rules.py:\nleaf_bonus_\nparent"
    assert fold_name("x" * 40) == "\n".join(["x" * 13] * 3 + ["x"])


def test_a_bound_is_no_optimum(run):
    """A share of a bound is the least that it can be, and says so everywhere."""
    bounded = [
        replace(row, optimum=replace(row.optimum, by="counting", bound=True))
        if row.optimum.bound is False and not row.one_draft
        else row
        for row in run.results
    ]
    text = shown(replace(run, results=tuple(bounded)))
    assert len(re.findall("≥", text)) == 6
    assert "by counting the texts" in " ".join(text.split())
    sure = [row for row in run.results if row.model == "toy"]
    assert not any(row.optimum.bound for row in sure)
    assert "≥" not in shown(replace(run, results=tuple(sure), models=run.models[:1]))
    assert "The optimum is E[tau] of the best rule without state" in flat(run)


def test_the_short_answer_names_who_keeps_most_and_who_is_fastest(run):
    lines = model_notes(run, run.models[0], rows(run, "toy"))
    (line,) = (line for line in lines if line.startswith("most tokens: "))
    best = max(rows(run, "toy"), key=lambda row: row.block_efficiency)
    assert line.startswith(f"most tokens: {best.verifier}, {best.block_efficiency:.3f} a call; ")
    assert f"for these trees: {best.optimum.expected_accepted + 1:.3f}" in line
    assert len(lines) <= 2


def test_the_coupling_bound_stands_beside_an_optimum_below_it():
    run = simverify.compare(["toy"], ["match"], tree="1,2", blocks=100, threads=1)
    (line,) = (line for line in model_notes(run, run.models[0], run.results) if "most" in line)
    assert line.endswith("for these trees: 2.296, in one call with state 2.333")


def test_what_is_not_known_is_not_printed_as_exact(run):
    row = next(row for row in run.results if row.verifier == "match")
    unknown = replace(
        row, expected_accepted=replace(row.expected_accepted, exact=None, method="measured")
    )
    text = shown(replace(run, results=tuple(unknown if r is row else r for r in run.results)))
    assert "not known: what is measured stands alone" in text
    assert_fits(text)


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ((-1, 0, 1), "one draft, iid"),
        ((-1, -1), "2 drafts, iid"),
        ((-1, -1, 0, 1), "2 drafts, iid"),
        ((-1, -1, 0, 0, 1, 1), "tree of 6 nodes, 2,2, iid"),
        ((-1, 0, 0), "tree of 3 nodes, 1,2, iid"),
        ((-1, -1, 0), "tree of 3 nodes, iid"),
    ],
)
def test_a_tree_in_words(parents, words):
    assert tree_words(DraftTrees(parents=parents, scheme="iid")) == words


def test_the_report_draws_the_tree(run):
    page = html_report(run)
    assert "Mass of nodes, match on toy" in page
    assert "Pr(the way kept goes through the node)" in page
    assert "match, exact" in page
    assert "match, measured" in page
    assert "max(1, 8 r / 20)" in page
    assert "the way kept goes through the node" in markdown_report(run)
    assert "recursive-without-replacement on toy" in junit_report(run)


def test_a_picture_has_a_circle_a_node_as_full_as_its_mass(run):
    """Wrong masses make another picture: the numbers stand in it and in its description."""
    row = next(row for row in run.results if row.verifier == "match" and row.model == "toy")
    (picture,) = tree_pictures("p", run.drafting, [row])
    assert len(re.findall('class="b0"', picture.svg)) == len(run.drafting.parents) + 1
    counted = [kept / row.node_counts.calls for kept in row.node_counts.kept]
    for masses in (row.nodes, counted):
        for node, mass in enumerate(masses):
            assert f"{node}: {mass:.3g}" in picture.svg
            assert f">{mass:.3f}<".replace(">0", ">") in picture.svg
    for changed in (
        replace(row, nodes=(1.0, 0.0, 1.0, 0.0)),
        replace(row, node_counts=replace(row.node_counts, kept=(9, 0, 9, 0))),
    ):
        (other,) = tree_pictures("p", run.drafting, [changed])
        assert other.svg != picture.svg


def test_a_picture_says_what_is_known_of_nodes(run):
    row = next(row for row in run.results if row.verifier == "match" and row.model == "toy")
    (both,) = tree_pictures("p", run.drafting, [row])
    (exact,) = tree_pictures("p", run.drafting, [replace(row, node_counts=None)])
    (measured,) = tree_pictures("p", run.drafting, [replace(row, nodes=None)])
    assert f"the share of {row.node_counts.calls:,} calls" in both.caption
    assert "The numbers are exact" in exact.caption
    assert "the exact share is not known" in measured.caption
    assert tree_pictures("p", run.drafting, [replace(row, nodes=None, node_counts=None)]) == ()


def test_the_command_asks_for_the_same(run):
    command = compare_command(run)
    assert "--tree 2,1 --scheme without-replacement" in command
    assert "--batch-size 8 --free-rows 20" in command
    assert "--calls" not in command
