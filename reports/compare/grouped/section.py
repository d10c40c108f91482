"""Drafts by layers in groups (EasySpec) as a section of a report."""

from collections.abc import Iterator

from simverify.reports.compare.grouped.chart import width_pictures
from simverify.reports.compare.grouped.fared import (
    group_words,
    loss_words,
    speed_words,
    time_model_words,
)
from simverify.reports.compare.grouped.tables import (
    acceptance_table,
    predictions_table,
    similarity_tables,
    summary_table,
    times_table,
)
from simverify.reports.view import Block, Items, Pictures, Prose, Section
from simverify.reports.words import MOST_ITEMS, first
from simverify.results import CompareRun

TITLE = "Drafts with layers in groups (EasySpec)"

_WHAT = (
    "The attention blocks of N consecutive layers of the draft model run at once, all on the "
    "input of the first: an approximation that several devices can share. It changes what is "
    "drafted, and so how many tokens are kept; the verdicts above say whether the output still "
    "follows the target."
)


def groups_section(run: CompareRun) -> Iterator[Section]:
    """Yield the section; none where no layers were grouped."""
    if run.layer_parallel:
        yield Section(TITLE, tuple(_blocks(run)))


def _blocks(run: CompareRun) -> Iterator[Block]:
    yield Prose(_WHAT)
    groups = [
        f"N = {entry.layer_parallel}: layers {group_words(entry.groups)}"
        for entry in run.layer_parallel
    ]
    yield Items(*first(groups, MOST_ITEMS))
    yield summary_table(run)
    yield Prose(loss_words(run))
    if run.meta.drafting:
        yield Prose(speed_words(run))
    if pictures := width_pictures(run):
        yield Pictures(pictures)
    yield acceptance_table(run)
    yield from similarity_tables(run)
    if run.meta.drafting:
        yield times_table(run)
        yield predictions_table(run)
        yield Prose(time_model_words(run))
