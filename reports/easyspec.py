"""Drafts by layers in groups (EasySpec): their section, figures and tables."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from simverify.reports.charts import STYLE_COUNT, Axis, Series, line_picture
from simverify.reports.compare_charts import expected_cell
from simverify.reports.compare_text import pair_name, time_words
from simverify.reports.view import Block, Cell, Items, On, Picture, Pictures, Prose, Section, Table
from simverify.reports.words import join_names, make_table, number_cell, truncate_line
from simverify.results import CompareRun, DraftAcceptance, DraftingTime, LayerParallel

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


def width_lines(run: CompareRun, *, calibration: bool) -> list[WidthLine]:
    """Return plain drafts first, then each N that groups layers, as many as there are styles."""
    widths = tree_widths(run)
    grouped = [
        (f"N = {entry.layer_parallel}", acceptances)
        for entry in run.layer_parallel
        if (acceptances := _acceptances(entry, calibration))
    ][: STYLE_COUNT - 1]
    every = [("plain", _acceptances(run.layer_parallel[0], None)), *grouped]
    lines = []
    for style, (name, acceptances) in enumerate(every):
        offset = 1.0 + _LINE_OFFSET * (style - (len(every) - 1) / 2)
        points = []
        for one in acceptances:
            bounds = one.expected_accepted
            middle = (bounds.lower + bounds.upper) / 2
            points.append((widths.index(one.width) + offset, middle, bounds.lower, bounds.upper))
        lines.append(WidthLine(name, style, tuple(points)))
    return lines


def _acceptances(entry: LayerParallel, calibration: bool | None) -> list[DraftAcceptance]:
    acceptances = [one for one in entry.acceptance if one.calibration is calibration]
    return sorted(acceptances, key=lambda one: one.width)


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


def has_grouped_drafts(run: CompareRun) -> bool:
    """Return whether drafts are not plain at every N."""
    return any(one.loss for entry in run.layer_parallel for one in entry.acceptance)


_CAPTIONS = {
    True: "Each with its interval. Both charts have the same axes, and the same plain drafts.",
    False: "Fuzzy entries stay in the cache, so that deviations build up from call to call.",
}


def width_pictures(run: CompareRun) -> tuple[Picture, ...]:
    """Return both charts; none where at every N drafts are plain."""
    return tuple(_width_picture(run, by) for by in (True, False) if has_grouped_drafts(run))


def _width_picture(run: CompareRun, calibration: bool) -> Picture:
    lines, widths = width_lines(run, calibration=calibration), tree_widths(run)
    how = "with" if calibration else "without"
    series, descriptions = [], []
    for line in lines:
        middles = tuple((x, middle) for x, middle, *_ in line.points)
        ends = [((x, low), (x, high)) for x, _, low, high in line.points]
        series += [
            Series(line.name, line.style, middles),
            *(Series("", line.style, end, "rule") for end in ends),
            Series("", line.style, middles, "dots"),
        ]
        numbers = ", ".join(f"{m:.4g} ({low:.4g} to {high:.4g})" for _, m, low, high in line.points)
        descriptions.append(f"{line.name}: {numbers}")
    names = tuple(map(str, widths))
    more = sum(any(one.loss for one in entry.acceptance) for entry in run.layer_parallel)
    more -= len(lines) - 1
    left_out = f" {more} more N stand in the table alone." if more > 0 else ""
    return line_picture(
        f"groups-{how}",
        f"Acceptance by tree width on {studied_pair(run)}, {how} calibration",
        f"Widths {', '.join(names)}. {'; '.join(descriptions)}.",
        Axis("tree width, drafts at the first level", 0.5, len(widths) + 0.5, names=names),
        Axis("E[tau], accepted tokens a call", *interval_range(run)),
        series,
        _CAPTIONS[calibration] + left_out,
    )


# Results by group size: a row for each N, and what you must know to read it.


def _is_grouped(entry: LayerParallel) -> bool:
    return any(len(group) > 1 for group in entry.groups)


def _measured_time(run: CompareRun, entry: LayerParallel) -> DraftingTime | None:
    times = (time for time in run.meta.drafting if time.layer_parallel == entry.layer_parallel)
    return next(times, None)


def _measured_speed(run: CompareRun, entry: LayerParallel) -> float | None:
    """Return plain drafting of a block over drafting in groups, by the passes measured.

    It is above 1 where groups are faster, and None where drafts are plain or nothing was timed.
    """
    time = _measured_time(run, entry)
    if time is None or not _is_grouped(entry):
        return None
    drafting = time.exact_pass + (run.gamma - 1) * time.fuzzy_pass
    return run.gamma * time.exact_pass / drafting if drafting > 0 else None


def _device_counts(run: CompareRun) -> list[int]:
    """Return the numbers of devices, above one, for which times are predicted."""
    counts = {on.devices for time in run.meta.drafting for on in time.predicted}
    return sorted(count for count in counts if count > 1)


def _group_words(groups: Iterable[Sequence[int]]) -> str:
    """Return the layers of each group: 0 | 1-3 | 4-6 | 7."""
    return " | ".join(
        str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups
    )


def _loss_words(run: CompareRun) -> str:
    confidence = run.layer_parallel[0].acceptance[0].expected_accepted.confidence or 0.999
    return (
        "loss: by how much fewer draft tokens are kept than of plain drafts, with a "
        f"{confidence:.1%} interval (below 0: more). with, without: calibration, an exact pass "
        "after each call that mends the draft's cache."
    )


def _speed_words(run: CompareRun) -> str:
    speeds = {entry: s for entry in run.layer_parallel if (s := _measured_speed(run, entry))}
    workers = [time.workers for entry in speeds if (time := _measured_time(run, entry))]
    numbers = join_names(map(str, _device_counts(run)))
    words = "speed: of drafting a block, where plain drafting's is 1. "
    if speeds:
        at_once = max(workers)
        how = "one layer at a time" if at_once == 1 else f"up to {at_once} layers at once"
        slower = [str(entry.layer_parallel) for entry, speed in speeds.items() if speed < 1.0]
        lost = f": slower than plain for N = {join_names(slower)}" if slower else ""
        words += f"here: measured on this machine, {how}{lost}. "
    most = " at most" if 1 in workers else ""
    return words + (
        f"model: what a time model, fitted to blocks timed here, predicts{most} on {numbers} "
        "devices; nobody measured it."
    )


def _time_model_words(run: CompareRun) -> str:
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


NO_VALUE = Cell("-")

_MAX_DEVICES = 3
"""Columns of devices that a terminal has room for."""


def easyspec_summary_table(run: CompareRun) -> Table:
    """Return a row for each N: kept tokens, loss, share of time, speed and its prediction."""
    counts = _device_counts(run)
    names = [f"{'' if i else 'model '}on {count}" for i, count in enumerate(counts)]
    shown = [f"{8 + i}:{'' if i else 'model'}\non {n}" for i, n in enumerate(counts[:_MAX_DEVICES])]
    headers = (
        "0:\nN | 1:E[tau]\nwith | 2:\nwithout | 3:loss\nwith | 4:\nwithout | 5:draft's\ntime | "
        "6:tokens\n/s | 7:speed\nhere"
    )
    columns = (
        "N | E[tau] with | without | loss with | without | drafting's share | tokens a second | "
        "speed here"
    )
    return make_table(
        "Layers in groups of N at most, single drafts; at N = 1 drafts are plain",
        " | ".join([columns, *names]),
        (_summary_row(run, entry, counts) for entry in run.layer_parallel),
        narrow=" | ".join([headers, *shown]),
    )


def _summary_row(run: CompareRun, entry: LayerParallel, counts: Sequence[int]) -> Iterator[Cell]:
    time = _measured_time(run, entry)
    width = min(one.width for one in entry.acceptance)
    # Single drafts, by calibration: only plain ones where every layer stands alone.
    drafts = {one.calibration: one for one in entry.acceptance if one.width == width}
    yield Cell(str(entry.layer_parallel), entry.layer_parallel)
    yield _acceptance_cell(drafts.get(True, drafts[None]))
    yield _acceptance_cell(drafts.get(False))
    yield _loss_cell(drafts.get(True))
    yield _loss_cell(drafts.get(False))
    yield NO_VALUE if time is None else Cell(f"{time.share:.0%}", time.share)
    yield NO_VALUE if time is None else _count_cell(time.tokens_per_second)
    yield _times_cell(_measured_speed(run, entry))
    predicted = {} if time is None else {on.devices: on.speed_up for on in time.predicted}
    yield from (_times_cell(predicted.get(count)) for count in counts)


def _width_acceptance_table(run: CompareRun) -> Table:
    """Return E[tau] and its loss by tree width; plain drafts, which all N share, stand once."""
    plain = [("plain", acceptance) for acceptance in _acceptances(run.layer_parallel[0], None)]
    grouped = [
        (str(entry.layer_parallel), acceptance)
        for entry in run.layer_parallel
        for acceptance in entry.acceptance
        if acceptance.calibration is not None
    ]
    return make_table(
        "Acceptance by tree width: so many drafts at the first level, one each at the others",
        "N | calibration | width | E[tau] | loss | calls",
        (
            (
                name,
                {None: "-", True: "yes", False: "no"}[acceptance.calibration],
                acceptance.width,
                expected_cell(acceptance.expected_accepted),
                replace(_loss_cell(acceptance), short=None),
                acceptance.blocks,
            )
            for name, acceptance in (*plain, *grouped)
        ),
        on=On.DETAIL,
    )


def _similarity_tables(run: CompareRun) -> Iterator[Table]:
    """Yield a table for each N whose layers run at once: how near each comes to the exact pass."""
    for entry in filter(_is_grouped, run.layer_parallel):
        group_of = {layer: group for group in entry.groups for layer in group}
        yield make_table(
            f"N = {entry.layer_parallel}: mean cosine similarity to the exact pass, by layer",
            "layer | group | hidden state | attention output | q | k | v",
            (
                (
                    layer.layer,
                    _group_words([group_of[layer.layer]]),
                    *(
                        Cell(f"{value:.4f}", value)
                        for value in (layer.hidden, layer.attention, layer.q, layer.k, layer.v)
                    ),
                )
                for layer in entry.layers
            ),
            folded=len(entry.layers) > 20,
            on=On.DETAIL,
        )


def _times_table(run: CompareRun) -> Table:
    return make_table(
        "Times of the draft's blocks and passes, one token for each request: medians",
        (
            "N | T(A), an attention block | an MLP block | largest group | its layers | at once | "
            "T_add | exact pass | pass in groups | a drafted token of each request"
        ),
        (
            (
                time.layer_parallel,
                *map(_time_cell, (time.attention, time.mlp, time.group)),
                time.group_size,
                time.workers,
                _overhead_cell(time),
                *map(_time_cell, (time.exact_pass, time.fuzzy_pass, time.per_token)),
            )
            for time in run.meta.drafting
        ),
        narrow=(
            "0:\nN | 1:\nT(A) | 2:\nMLP | 3:largest\ngroup | 4:its\nlayers | 5:at\nonce | "
            "6:\nT_add | 7:exact\npass | 8:in\ngroups | 9:drafted\ntoken"
        ),
        on=On.DETAIL,
    )


def _predictions_table(run: CompareRun) -> Table:
    return make_table(
        f"Predicted by the time model, not measured: drafting a block of {run.gamma} tokens",
        "N | devices | a block | a token of each request | speed, plain drafting = 1",
        (
            (
                time.layer_parallel,
                on.devices,
                _time_cell(on.iteration),
                _time_cell(on.per_token),
                _times_cell(on.speed_up),
            )
            for time in run.meta.drafting
            for on in time.predicted
        ),
        folded=True,
        on=On.PAGE,
    )


def _acceptance_cell(acceptance: DraftAcceptance | None) -> Cell:
    if acceptance is None:
        return NO_VALUE
    middle = (acceptance.expected_accepted.lower + acceptance.expected_accepted.upper) / 2
    short = f"{middle:.{3 if middle < 10 else 2}f}"
    return replace(expected_cell(acceptance.expected_accepted), short=short)


def _loss_cell(acceptance: DraftAcceptance | None) -> Cell:
    """Return by what share fewer tokens are kept, with its interval."""
    if acceptance is None or acceptance.loss is None:
        return NO_VALUE
    loss = acceptance.loss
    half = (loss.ci_high - loss.ci_low) / 2
    decimals = 1 if half < 0.0995 else 0
    words = f"{100 * loss.mean:z.{decimals}f} \N{PLUS-MINUS SIGN} {100 * half:.{decimals}f}%"
    return Cell(words, loss.mean, short=words.replace(" ", ""))


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
        yield Section(GROUPS_TITLE, tuple(_group_blocks(run)), On.ALL, indent=0)


def _group_blocks(run: CompareRun) -> Iterator[Block]:
    timed = bool(run.meta.drafting)
    yield Prose(_GROUPS_INTRO, on=On.PAGE)
    groups = (
        f"N = {entry.layer_parallel}: layers {_group_words(entry.groups)}"
        for entry in run.layer_parallel
    )
    yield easyspec_summary_table(run)
    yield Items(tuple(groups), on=On.DETAIL)
    yield Prose(_loss_words(run))
    if timed:
        yield Prose(_speed_words(run))
    yield Pictures(partial(width_pictures, run))
    yield _width_acceptance_table(run)
    yield from _similarity_tables(run)
    if timed:
        yield _times_table(run)
        yield _predictions_table(run)
        yield Prose(_time_model_words(run), on=On.DETAIL)
