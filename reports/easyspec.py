"""Drafts by layers in groups (EasySpec): sections, figures and tables, for pages and a terminal."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from simverify.checks import printable
from simverify.reports.charts import STYLE_COUNT, Axis, Series, line_chart
from simverify.reports.compare_charts import expected_cell
from simverify.reports.compare_text import pair_name, time_words
from simverify.reports.view import (
    Block,
    Cell,
    Items,
    Picture,
    Pictures,
    Prose,
    Section,
    Table,
    plain_line,
)
from simverify.reports.words import (
    MAX_ITEMS,
    MAX_ROWS,
    join_names,
    number_cell,
    take_first,
    truncate_line,
)
from simverify.results import CompareRun, DraftAcceptance, DraftingTime, LayerParallel, Loss

# Acceptance by tree width, with calibration and without: a line for each N, with intervals.
#
# In the kind of figure 4 of Wu et al., "EasySpec".


_LINE_OFFSET = 0.07
"""Between the marks of two lines, so that no interval hides another; widths are 1 apart."""


@dataclass(frozen=True)
class WidthLine:
    """One line: ``points`` holds E[tau] with its bounds by the number of the width, from 1."""

    name: str
    style: int
    points: tuple[tuple[float, float, float, float], ...]

    def words(self) -> str:
        """Return the numbers."""
        return f"{self.name}: " + ", ".join(
            f"{middle:.4g} ({low:.4g} to {high:.4g})" for _, middle, low, high in self.points
        )


def width_lines(run: CompareRun, *, calibration: bool) -> list[WidthLine]:
    """Return plain drafts first, then each N that groups layers, as many as there are styles."""
    widths = tree_widths(run)
    grouped = [
        (f"N = {entry.layer_parallel}", acceptances)
        for entry in run.layer_parallel
        if (acceptances := _acceptances(entry, calibration))
    ][: STYLE_COUNT - 1]
    every = [("plain", _acceptances(run.layer_parallel[0], None)), *grouped]
    return [
        WidthLine(
            name,
            style,
            tuple(
                _interval_point(
                    widths.index(one.width) + 1.0 + _LINE_OFFSET * (style - (len(every) - 1) / 2),
                    one,
                )
                for one in found
            ),
        )
        for style, (name, found) in enumerate(every)
    ]


def tree_widths(run: CompareRun) -> list[int]:
    """Return the widths of the run's trees in order."""
    return sorted({one.width for entry in run.layer_parallel for one in entry.acceptance})


def interval_range(run: CompareRun) -> tuple[float, float]:
    """Return where all intervals lie, with a margin: both charts have the same axis."""
    every = [one.expected_accepted for entry in run.layer_parallel for one in entry.acceptance]
    low, high = min(one.lower for one in every), max(one.upper for one in every)
    margin = max(0.08 * (high - low), 1e-6)
    return max(low - margin, 0.0), high + margin


def studied_pair(run: CompareRun) -> str:
    """Return the pair whose drafts were studied."""
    return truncate_line(next((pair_name(m) for m in run.models if m.drafter), "the draft"), 60)


def width_pictures(run: CompareRun) -> tuple[Picture, ...]:
    """Return both charts; none where at every N drafts are plain."""
    if not any(one.loss for entry in run.layer_parallel for one in entry.acceptance):
        return ()
    return tuple(_width_picture(run, calibration=calibration) for calibration in (True, False))


def _width_picture(run: CompareRun, *, calibration: bool) -> Picture:
    lines, widths = width_lines(run, calibration=calibration), tree_widths(run)
    low, high = interval_range(run)
    how = "with" if calibration else "without"
    title = f"Acceptance by tree width on {studied_pair(run)}, {how} calibration"
    series = []
    for line in lines:
        series += [
            Series(line.name, line.style, tuple((x, middle) for x, middle, *_ in line.points)),
            *(
                Series("", line.style, ((x, low_end), (x, high_end)), "rule")
                for x, _, low_end, high_end in line.points
            ),
            Series("", line.style, tuple((x, middle) for x, middle, *_ in line.points), "dots"),
        ]
    svg = line_chart(
        f"groups-{how}",
        title,
        f"Widths {', '.join(map(str, widths))}. {'; '.join(line.words() for line in lines)}.",
        Axis(
            "tree width, drafts at the first level",
            0.5,
            len(widths) + 0.5,
            names=tuple(map(str, widths)),
        ),
        Axis("E[tau], accepted tokens a call", low, high),
        series,
    )
    more = sum(any(one.loss for one in entry.acceptance) for entry in run.layer_parallel)
    more -= len(lines) - 1
    left_out = f" {more} more N stand in the table alone." if more > 0 else ""
    return Picture(title, svg, _CAPTIONS[calibration] + left_out)


_CAPTIONS = {
    True: "Each with its interval. Both charts have the same axes, and the same plain drafts.",
    False: "Fuzzy entries stay in the cache, so that deviations build up from call to call.",
}


def _acceptances(entry: LayerParallel, calibration: bool | None) -> list[DraftAcceptance]:
    acceptances = [one for one in entry.acceptance if one.calibration is calibration]
    return sorted(acceptances, key=lambda one: one.width)


def _interval_point(x: float, found: DraftAcceptance) -> tuple[float, float, float, float]:
    expected = found.expected_accepted
    return x, (expected.lower + expected.upper) / 2, expected.lower, expected.upper


# Results by group size: a row for each N, and what you must know to read it.


@dataclass(frozen=True)
class GroupSizeRow:
    """Drafts in groups of ``number`` layers.

    ``calibrated``, ``without``: a single draft's acceptance, None where every layer stands alone
    and drafts are plain. ``time``: None where nothing was timed. ``here``: plain drafting of a
    block over drafting in groups, by the passes measured; above 1 where groups are faster.
    """

    number: int
    plain: DraftAcceptance
    calibrated: DraftAcceptance | None
    without: DraftAcceptance | None
    time: DraftingTime | None
    here: float | None


def is_grouped(entry: LayerParallel) -> bool:
    """Return whether some layers of ``entry`` run at once."""
    return any(len(group) > 1 for group in entry.groups)


def group_size_rows(run: CompareRun) -> list[GroupSizeRow]:
    """Return a row for each number of layers a group, in the order of the run."""
    times = {time.layer_parallel: time for time in run.meta.drafting}
    return [
        _group_size_row(entry, times.get(entry.layer_parallel), run.gamma)
        for entry in run.layer_parallel
    ]


def _group_size_row(entry: LayerParallel, time: DraftingTime | None, gamma: int) -> GroupSizeRow:
    narrow = min(found.width for found in entry.acceptance)
    by = {found.calibration: found for found in entry.acceptance if found.width == narrow}
    speed = None
    if time is not None and is_grouped(entry):
        drafting = time.exact_pass + (gamma - 1) * time.fuzzy_pass
        speed = gamma * time.exact_pass / drafting if drafting > 0 else None
    return GroupSizeRow(entry.layer_parallel, by[None], by.get(True), by.get(False), time, speed)


def device_counts(run: CompareRun) -> list[int]:
    """Return the numbers of devices, above one, for which times are predicted."""
    counts = {on.devices for time in run.meta.drafting for on in time.predicted}
    return sorted(count for count in counts if count > 1)


def predicted_drafting_speedup(time: DraftingTime | None, count: int) -> float | None:
    """Return the predicted speed of drafting on ``count`` devices, over plain drafting's."""
    speeds = () if time is None else time.predicted
    return next((on.speed_up for on in speeds if on.devices == count), None)


def group_words(groups: Iterable[Sequence[int]]) -> str:
    """Return the layers of each group: 0 | 1-3 | 4-6 | 7."""
    return " | ".join(
        str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups
    )


def loss_words(run: CompareRun) -> str:
    """Return what is lost, for who has never read of it."""
    confidence = run.layer_parallel[0].acceptance[0].expected_accepted.confidence or 0.999
    return (
        "loss: by how much fewer draft tokens are kept than of plain drafts, with a "
        f"{confidence:.1%} interval (below 0: more). with, without: calibration, an exact pass "
        "after each call that mends the draft's cache."
    )


def speed_words(run: CompareRun) -> str:
    """Return what was measured and what a model says, and where groups are slower here."""
    rows = [row for row in group_size_rows(run) if row.here is not None]
    numbers = join_names(map(str, device_counts(run)))
    words = "speed: of drafting a block, where plain drafting's is 1. "
    if rows:
        at_once = max(row.time.workers for row in rows if row.time is not None)
        how = "one layer at a time" if at_once == 1 else f"up to {at_once} layers at once"
        slower = [str(row.number) for row in rows if row.here is not None and row.here < 1.0]
        lost = f": slower than plain for N = {join_names(slower)}" if slower else ""
        words += f"here: measured on this machine, {how}{lost}. "
    alone = any(row.time is not None and row.time.workers == 1 for row in rows)
    most = " at most" if alone else ""
    return words + (
        f"model: what a time model, fitted to blocks timed here, predicts{most} on {numbers} "
        "devices; nobody measured it."
    )


def time_model_words(run: CompareRun) -> str:
    """Return the time model, and what it could not be fitted to."""
    words = (
        "The time model: a group of n attention blocks takes n T(A) one after another, and on d "
        "devices ceil(n / d) T(A) + T_add; MLP blocks and the rest take the same both ways; a "
        "block of drafts takes one exact pass and gamma - 1 in groups. T(A), T_add and the rest "
        "are fitted to medians of single steps on this machine. Drafted token, share and emitted "
        "tokens a second are of whole generations by the first verifier."
    )
    alone = [
        str(time.layer_parallel)
        for time in run.meta.drafting
        if time.group_size > 1 and time.workers == 1
    ]
    if alone:
        words += (
            f" For N = {join_names(alone)} nothing ran at once here: T_add counts as 0, and the "
            "prediction is the most that the model allows."
        )
    return words


# Acceptance by tree width for papers: panels with calibration and without, for each run.


_PANEL_MARKERS = "osD^vPX*"


def width_panels(runs: Sequence[CompareRun]) -> Iterator[Callable[[Any], None]]:
    """Yield what draws a panel on axes of matplotlib; none of runs where all drafts are plain."""
    for run in runs:
        if any(one.loss for entry in run.layer_parallel for one in entry.acceptance):
            yield from (partial(_draw_panel, run, calibration) for calibration in (True, False))


def _draw_panel(run: CompareRun, calibration: bool, axes: Any) -> None:
    widths = tree_widths(run)
    for line in width_lines(run, calibration=calibration):
        x, middle, low, high = zip(*line.points, strict=True)
        ends = [
            [m - end for m, end in zip(middle, low, strict=True)],
            [end - m for m, end in zip(middle, high, strict=True)],
        ]
        axes.errorbar(
            x,
            middle,
            yerr=ends,
            linewidth=1.2,
            elinewidth=0.8,
            capsize=2.0,
            label=line.name,
            marker=_PANEL_MARKERS[line.style % len(_PANEL_MARKERS)],
            markersize=3.5,
            markerfacecolor="none",
            markeredgewidth=0.8,
        )
    how = "with" if calibration else "without"
    name = printable(studied_pair(run)).replace("$", r"\$")
    axes.set_title(f"{name}\n{how} calibration", fontsize=8)
    axes.set_xticks(range(1, len(widths) + 1), [str(width) for width in widths])
    axes.set_xlabel("tree width, drafts at the first level")
    axes.set_ylabel("E[tau], accepted tokens a call")
    axes.set_ylim(*interval_range(run))
    axes.legend(fontsize=7)


NO_VALUE = Cell("-")


def easyspec_summary_table(run: CompareRun) -> Table:
    """Return a row for each N: kept tokens, loss, share of time, speed and its prediction."""
    counts = device_counts(run)
    rows = [
        (
            Cell(str(row.number), row.number),
            expected_cell((row.calibrated or row.plain).expected_accepted),
            NO_VALUE if row.without is None else expected_cell(row.without.expected_accepted),
            loss_cell(row.calibrated),
            loss_cell(row.without),
            NO_VALUE if row.time is None else Cell(f"{row.time.share:.0%}", row.time.share),
            NO_VALUE if row.time is None else _count_cell(row.time.tokens_per_second),
            _times_cell(row.here),
            *(_times_cell(predicted_drafting_speedup(row.time, count)) for count in counts),
        )
        for row in group_size_rows(run)
    ]
    shown, left_out = take_first(rows, MAX_ROWS)
    return Table(
        "Layers in groups of N at most, single drafts; at N = 1 drafts are plain",
        (
            "N",
            "E[tau] with",
            "without",
            "loss with",
            "without",
            "drafting's share",
            "tokens a second",
            "speed here",
            *(f"{'' if i else 'model '}on {count}" for i, count in enumerate(counts)),
        ),
        shown,
        numbers=frozenset(range(8 + len(counts))),
        left_out=left_out,
    )


def width_acceptance_table(run: CompareRun) -> Table:
    """Return E[tau] and its loss by tree width; plain drafts, which all N share, stand once."""
    plain = [found for found in run.layer_parallel[0].acceptance if found.calibration is None]
    of_groups = [
        (str(entry.layer_parallel), found)
        for entry in run.layer_parallel
        for found in entry.acceptance
        if found.calibration is not None
    ]
    shown, left_out = take_first([*(("plain", found) for found in plain), *of_groups], MAX_ROWS)
    return Table(
        "Acceptance by tree width: so many drafts at the first level, one each at the others",
        ("N", "calibration", "width", "E[tau]", "loss", "calls"),
        tuple(
            (
                Cell(name),
                NO_VALUE
                if found.calibration is None
                else Cell("yes" if found.calibration else "no"),
                Cell(str(found.width), found.width),
                expected_cell(found.expected_accepted),
                loss_cell(found),
                Cell(f"{found.blocks:,}", found.blocks),
            )
            for name, found in shown
        ),
        numbers=frozenset({2, 3, 4, 5}),
        left_out=left_out,
    )


def similarity_tables(run: CompareRun) -> Iterator[Table]:
    """Yield a table for each N whose layers run at once: how near each comes to the exact pass."""
    for entry in run.layer_parallel:
        if is_grouped(entry):
            yield _similarity_table(entry)


def _similarity_table(entry: LayerParallel) -> Table:
    group_of = {layer: group for group in entry.groups for layer in group}
    shown, left_out = take_first(entry.layers, MAX_ROWS)
    return Table(
        f"N = {entry.layer_parallel}: mean cosine similarity to the exact pass, by layer",
        ("layer", "group", "hidden state", "attention output", "q", "k", "v"),
        tuple(
            (
                Cell(str(layer.layer), layer.layer),
                Cell(group_words([group_of[layer.layer]])),
                *(
                    Cell(f"{value:.4f}", value)
                    for value in (layer.hidden, layer.attention, layer.q, layer.k, layer.v)
                ),
            )
            for layer in shown
        ),
        numbers=frozenset({0, *range(2, 7)}),
        folded=len(entry.layers) > 20,
        left_out=left_out,
    )


def times_table(run: CompareRun) -> Table:
    """Return what blocks and passes of the draft took, a row for each N."""
    shown, left_out = take_first(run.meta.drafting, MAX_ROWS)
    return Table(
        "Times of the draft's blocks and passes, one token for each request: medians",
        (
            "N",
            "T(A), an attention block",
            "an MLP block",
            "largest group",
            "its layers",
            "at once",
            "T_add",
            "exact pass",
            "pass in groups",
            "a drafted token of each request",
        ),
        tuple(
            (
                Cell(str(time.layer_parallel), time.layer_parallel),
                _time_cell(time.attention),
                _time_cell(time.mlp),
                _time_cell(time.group),
                Cell(str(time.group_size), time.group_size),
                Cell(str(time.workers), time.workers),
                _overhead_cell(time),
                *map(_time_cell, (time.exact_pass, time.fuzzy_pass, time.per_token)),
            )
            for time in shown
        ),
        numbers=frozenset(range(10)),
        left_out=left_out,
    )


def predictions_table(run: CompareRun) -> Table:
    """Return what the time model says of drafting one block, by devices."""
    rows = [
        (
            Cell(str(time.layer_parallel), time.layer_parallel),
            Cell(str(on.devices), on.devices),
            _time_cell(on.iteration),
            _time_cell(on.per_token),
            _times_cell(on.speed_up),
        )
        for time in run.meta.drafting
        for on in time.predicted
    ]
    shown, left_out = take_first(rows, MAX_ROWS)
    return Table(
        f"Predicted by the time model, not measured: drafting a block of {run.gamma} tokens",
        ("N", "devices", "a block", "a token of each request", "speed, plain drafting = 1"),
        shown,
        numbers=frozenset(range(5)),
        folded=True,
        left_out=left_out,
    )


def loss_cell(found: DraftAcceptance | None) -> Cell:
    """Return by what share fewer tokens are kept, with its interval."""
    if found is None or found.loss is None:
        return NO_VALUE
    return Cell(_loss_text(found.loss, " \N{PLUS-MINUS SIGN} "), found.loss.mean)


def _loss_text(loss: Loss, sign: str) -> str:
    half = (loss.ci_high - loss.ci_low) / 2
    decimals = 1 if half < 0.0995 else 0
    return f"{100 * loss.mean:z.{decimals}f}{sign}{100 * half:.{decimals}f}%"


def _overhead_cell(time: DraftingTime) -> Cell:
    seen = time.group_size > 1 and time.workers > 1
    return _time_cell(time.added) if seen else Cell("not seen" if time.group_size > 1 else "-", 0.0)


def _time_cell(seconds: float) -> Cell:
    return Cell(time_words(seconds), seconds)


def _times_cell(speed: float | None) -> Cell:
    return NO_VALUE if speed is None else Cell(f"{speed:.2f}x", speed)


def _count_cell(value: float) -> Cell:
    return number_cell(value, 3) if value < 100 else Cell(f"{value:,.0f}", value)


# The section of a report.


GROUPS_TITLE = "Drafts with layers in groups (EasySpec)"

_GROUPS_INTRO = (
    "The attention blocks of N consecutive layers of the draft model run at once, all on the "
    "input of the first: an approximation that several devices can share. It changes what is "
    "drafted, and so how many tokens are kept; the verdicts above say whether the output still "
    "follows the target."
)


def groups_section(run: CompareRun) -> Iterator[Section]:
    """Yield the section; none where no layers were grouped."""
    if run.layer_parallel:
        yield Section(GROUPS_TITLE, tuple(_group_blocks(run)))


def _group_blocks(run: CompareRun) -> Iterator[Block]:
    yield Prose(_GROUPS_INTRO)
    groups = [
        f"N = {entry.layer_parallel}: layers {group_words(entry.groups)}"
        for entry in run.layer_parallel
    ]
    yield Items(*take_first(groups, MAX_ITEMS))
    yield easyspec_summary_table(run)
    yield Prose(loss_words(run))
    if run.meta.drafting:
        yield Prose(speed_words(run))
    if pictures := width_pictures(run):
        yield Pictures(pictures)
    yield width_acceptance_table(run)
    yield from similarity_tables(run)
    if run.meta.drafting:
        yield times_table(run)
        yield predictions_table(run)
        yield Prose(time_model_words(run))


# The tables on a terminal, 80 columns wide.


_MAX_DEVICES = 3
"""Columns that fit beside the others."""

_TIMES_HEADERS = (
    "\nN",
    "\nT(A)",
    "\nMLP",
    "largest\ngroup",
    "its\nlayers",
    "at\nonce",
    "\nT_add",
    "exact\npass",
    "in\ngroups",
    "drafted\ntoken",
)


def print_groups(run: CompareRun, console: Console, *, verbose: bool) -> None:
    """Print the table with what it means; ``verbose``: similarities, acceptance and times too."""
    if not run.layer_parallel:
        return
    console.print(plain_line(f"{GROUPS_TITLE}, single drafts of {run.gamma} tokens", "bold"))
    console.print(_printed_summary(run))
    console.print(plain_line(loss_words(run), "dim"))
    if run.meta.drafting:
        console.print(plain_line(speed_words(run), "dim"))
    if verbose:
        for entry in run.layer_parallel:
            words = f"N = {entry.layer_parallel}: layers {group_words(entry.groups)}"
            console.print(plain_line(words, "dim"))
        for words, table in _printed_details(run):
            console.print(plain_line(words))
            console.print(table)
        if run.meta.drafting:
            console.print(plain_line(time_model_words(run), "dim"))
    console.print()


def _printed_summary(run: CompareRun) -> RichTable:
    counts = device_counts(run)[:_MAX_DEVICES]
    headers = [
        "\nN",
        "E[tau]\nwith",
        "\nwithout",
        "loss\nwith",
        "\nwithout",
        "draft's\ntime",
        "tokens\n/s",
        "speed\nhere",
    ]
    headers += [f"{'' if i else 'model'}\non {count}" for i, count in enumerate(counts)]
    table = _new_table(headers)
    for row in group_size_rows(run):
        time = row.time
        table.add_row(
            str(row.number),
            _acceptance_text(row.calibrated or row.plain),
            _acceptance_text(row.without),
            _narrow_text(loss_cell(row.calibrated).text),
            _narrow_text(loss_cell(row.without).text),
            "-" if time is None else f"{time.share:.0%}",
            "-" if time is None else f"{time.tokens_per_second:.0f}",
            _times_text(row.here),
            *(_times_text(predicted_drafting_speedup(time, count)) for count in counts),
        )
    return table


def _printed_details(run: CompareRun) -> Iterator[tuple[str, RichTable]]:
    """Yield all that the table rests on, each with its caption."""
    for table in (width_acceptance_table(run), *similarity_tables(run)):
        yield table.caption, _printed_table(table, table.columns)
    if any(map(is_grouped, run.layer_parallel)) and run.meta.drafting:
        table = times_table(run)
        yield table.caption, _printed_table(table, _TIMES_HEADERS)


def _printed_table(found: Table, headers: tuple[str, ...]) -> RichTable:
    table = _new_table(headers)
    for row in found.rows:
        table.add_row(*(plain_line(cell.text) for cell in row))
    return table


def _new_table(headers: "tuple[str, ...] | list[str]") -> RichTable:
    table = RichTable(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for header in headers:
        table.add_column(Text(header), justify="right", no_wrap=True)
    return table


def _acceptance_text(found: DraftAcceptance | None) -> str:
    if found is None:
        return "-"
    middle = (found.expected_accepted.lower + found.expected_accepted.upper) / 2
    return f"{middle:.{3 if middle < 10 else 2}f}"


def _narrow_text(words: str) -> str:
    return words.replace(" ", "")


def _times_text(speed: float | None) -> str:
    return "-" if speed is None else f"{speed:.2f}x"
