"""Tables of drafts by layers in groups, for pages and for a terminal."""

from collections.abc import Iterator

from simverify.reports.compare.grouped.fared import (
    devices,
    fared,
    group_words,
    in_groups,
    predicted,
)
from simverify.reports.compare.model_blocks import expected_cell
from simverify.reports.compare.speedups import time_words
from simverify.reports.view import Cell, Table
from simverify.reports.words import MOST_ROWS, figure, first
from simverify.results import CompareRun, DraftAcceptance, DraftingTime, LayerParallel, Loss

NONE = Cell("-")


def summary_table(run: CompareRun) -> Table:
    """Return a row for each N: kept tokens, loss, share of time, speed and its prediction."""
    asked = devices(run)
    rows = [
        (
            Cell(str(row.number), row.number),
            expected_cell((row.calibrated or row.plain).expected_accepted),
            NONE if row.without is None else expected_cell(row.without.expected_accepted),
            loss_cell(row.calibrated),
            loss_cell(row.without),
            NONE if row.time is None else Cell(f"{row.time.share:.0%}", row.time.share),
            NONE if row.time is None else _whole(row.time.tokens_per_second),
            _times(row.here),
            *(_times(predicted(row.time, count)) for count in asked),
        )
        for row in fared(run)
    ]
    shown, left_out = first(rows, MOST_ROWS)
    return Table(
        "Layers in groups of N at most, single drafts; at N = 1 drafts are plain",
        ("N", "E[tau] with", "without", "loss with", "without", "drafting's share",
         "tokens a second", "speed here",
         *(f"{'' if i else 'model '}on {count}" for i, count in enumerate(asked))),
        shown,
        numbers=frozenset(range(8 + len(asked))),
        left_out=left_out,
    )  # fmt: skip


def acceptance_table(run: CompareRun) -> Table:
    """Return E[tau] and its loss by tree width; plain drafts, which all N share, stand once."""
    plain = [found for found in run.layer_parallel[0].acceptance if found.calibration is None]
    of_groups = [
        (str(entry.layer_parallel), found)
        for entry in run.layer_parallel
        for found in entry.acceptance
        if found.calibration is not None
    ]
    shown, left_out = first([*(("plain", found) for found in plain), *of_groups], MOST_ROWS)
    return Table(
        "Acceptance by tree width: so many drafts at the first level, one each at the others",
        ("N", "calibration", "width", "E[tau]", "loss", "calls"),
        tuple(
            (
                Cell(name),
                NONE if found.calibration is None else Cell("yes" if found.calibration else "no"),
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
        if in_groups(entry):
            yield _similarity(entry)


def _similarity(entry: LayerParallel) -> Table:
    group_of = {layer: group for group in entry.groups for layer in group}
    shown, left_out = first(entry.layers, MOST_ROWS)
    return Table(
        f"N = {entry.layer_parallel}: mean cosine similarity to the exact pass, by layer",
        ("layer", "group", "hidden state", "attention output", "q", "k", "v"),
        tuple(
            (
                Cell(str(layer.layer), layer.layer),
                Cell(group_words([group_of[layer.layer]])),
                *(Cell(f"{value:.4f}", value)
                  for value in (layer.hidden, layer.attention, layer.q, layer.k, layer.v)),
            )
            for layer in shown
        ),
        numbers=frozenset({0, *range(2, 7)}),
        folded=len(entry.layers) > 20,
        left_out=left_out,
    )  # fmt: skip


def times_table(run: CompareRun) -> Table:
    """Return what blocks and passes of the draft took, a row for each N."""
    shown, left_out = first(run.meta.drafting, MOST_ROWS)
    return Table(
        "Times of the draft's blocks and passes, one token for each request: medians",
        ("N", "T(A), an attention block", "an MLP block", "largest group", "its layers",
         "at once", "T_add", "exact pass", "pass in groups", "a drafted token of each request"),
        tuple(
            (
                Cell(str(time.layer_parallel), time.layer_parallel),
                _time(time.attention),
                _time(time.mlp),
                _time(time.group),
                Cell(str(time.group_size), time.group_size),
                Cell(str(time.workers), time.workers),
                _added(time),
                *map(_time, (time.exact_pass, time.fuzzy_pass, time.per_token)),
            )
            for time in shown
        ),
        numbers=frozenset(range(10)),
        left_out=left_out,
    )  # fmt: skip


def predictions_table(run: CompareRun) -> Table:
    """Return what the time model says of drafting one block, by devices."""
    rows = [
        (
            Cell(str(time.layer_parallel), time.layer_parallel),
            Cell(str(on.devices), on.devices),
            _time(on.iteration),
            _time(on.per_token),
            _times(on.speed_up),
        )
        for time in run.meta.drafting
        for on in time.predicted
    ]
    shown, left_out = first(rows, MOST_ROWS)
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
        return NONE
    return Cell(_loss(found.loss, " \N{PLUS-MINUS SIGN} "), found.loss.mean)


def _loss(loss: Loss, sign: str) -> str:
    half = (loss.ci_high - loss.ci_low) / 2
    decimals = 1 if half < 0.0995 else 0
    return f"{100 * loss.mean:z.{decimals}f}{sign}{100 * half:.{decimals}f}%"


def _added(time: DraftingTime) -> Cell:
    seen = time.group_size > 1 and time.workers > 1
    return _time(time.added) if seen else Cell("not seen" if time.group_size > 1 else "-", 0.0)


def _time(seconds: float) -> Cell:
    return Cell(time_words(seconds), seconds)


def _times(speed: float | None) -> Cell:
    return NONE if speed is None else Cell(f"{speed:.2f}x", speed)


def _whole(value: float) -> Cell:
    return figure(value, 3) if value < 100 else Cell(f"{value:,.0f}", value)
