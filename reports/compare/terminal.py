"""A comparison as text for a terminal, 80 columns wide."""

import re
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from simverify.checks import clean
from simverify.models import DEFAULT_DISTANCE
from simverify.reports.compare.brief import bound_words, sentence, under
from simverify.reports.compare.decoded import decoded_line, optimum_words
from simverify.reports.compare.grouped.printed import print_groups
from simverify.reports.compare.speedups import speedup_words
from simverify.reports.compare.terminal_basis import (
    LONG_FRACTION,
    METHODS,
    basis,
    methods,
    pair_lines,
    promise,
    times,
)
from simverify.reports.compare.trees import optimum_lines, tree_words
from simverify.reports.compare.words import verdict_line
from simverify.reports.faults import suspicion
from simverify.reports.terminal import STYLE, line
from simverify.reports.words import MOST_ITEMS, first
from simverify.results import (
    CompareResult,
    CompareRun,
    Expected,
    Measured,
    ModelInfo,
    Timing,
)

_LONGEST_NAME = 13
"""Characters of a rule's name on a line of the terminal's table."""

_LONGEST_WORD = 17
"""Characters of a name without hyphens that fit beside all numbers."""

_PIECES = re.compile(r"[^-_:.]{0,12}[-_:.]|[^-_:.]{1,13}")
"""What of a name stays on one line."""


def print_comparison(run: CompareRun, console: Console, *, verbose: bool = False) -> None:
    """Print the tables of a comparison and the verdict; ``verbose``: all that they rest on."""
    speeds = {(timing.model, timing.verifier): timing for timing in run.meta.timings}
    for model in run.models:
        rows = [row for row in run.results if row.model == model.name]
        console.print(line(_title(run, model), "bold"))
        console.print(_model_table(rows, speeds, verbose=verbose))
        if verbose:
            _print_basis(run, model, rows, console)
        else:
            failed = any(row.verdict == "FAIL" for row in rows)
            for words in under(run, model, rows):
                console.print(line(words, STYLE["FAIL"] if failed else "dim"))
        if any(row.calls for row in rows):
            console.print(_calls_table(rows))
            if any(entry.exact is None for row in rows for entry in row.calls):
                console.print(line("no exact number of tokens: shown, not judged", "dim"))
        console.print()
    if run.layer_parallel:
        print_groups(run, console, verbose=verbose)
    if verbose:
        console.print(line(promise(run)))
    words = verdict_line(run) if verbose else sentence(run)
    console.print(line(words, STYLE[run.verdict]))


def _print_basis(
    run: CompareRun, model: ModelInfo, rows: list[CompareResult], console: Console
) -> None:
    """Print what one model's table rests on, and all that failed."""
    for words in [*methods(rows), *basis(rows)]:
        console.print(line(words, "dim"))
    if run.decoding is not None:
        console.print(line(decoded_line(run.decoding), "dim"))
        console.print(line(optimum_words(run), "dim"))
    where = bound_words(model.bounds)
    for words in optimum_lines(rows):
        console.print(line(words, "dim"))
    bound = _number(model.bounds.coupling)
    console.print(line(f"coupling bound on one iteration{where}: {bound}"))
    failed, more = first([words for row in rows for words in _found(row)], MOST_ITEMS)
    for words in failed:
        console.print(line(words, STYLE["FAIL"]))
    if more:
        console.print(f"{more:,} lines more stand in the run file")
    for words in pair_lines(run, rows):
        console.print(line(words))
    if (found := times(run, model.name)) is not None:
        caption, table = found
        console.print(line(caption))
        console.print(table)
    for words in speedup_words(run, model.name):
        console.print(line(words, "dim"))


def _found(row: CompareResult) -> Iterator[str]:
    for finding in row.lossless.findings:
        yield f"FAIL {row.verifier}: {finding}"
    for words in suspicion(row.lossless.localisation, row.lossless.faults):
        yield f"{row.verifier}: {words}"
    for finding in row.acceptance.findings:
        yield f"FAIL {row.verifier}, {row.acceptance.words}: {finding}"


def _title(run: CompareRun, model: ModelInfo) -> str:
    title = f"{model.name}: V = {model.vocab_size}, gamma = {run.gamma}"
    if run.drafting is not None:
        title += f", {tree_words(run.drafting)}"
    if model.target_perplexity is not None and model.draft_perplexity is not None:
        title += (
            f", perplexity {model.target_perplexity:.2f} target {model.draft_perplexity:.2f} draft"
        )
    if model.draft_distance is not None and model.draft_distance != DEFAULT_DISTANCE:
        title += f", draft distance {model.draft_distance:g}"
    if model.temperature is not None and model.temperature != 1.0:
        title += f", temperature {model.temperature:g}"
    return title


def _model_table(
    rows: list[CompareResult], speeds: dict[tuple[str, str], Timing], *, verbose: bool
) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    # Real models are a million times slower than tables.
    unit, per = ("calls\n/s", 1.0) if _decoded(rows) else ("Mblk\n/s", 1e6)
    table.add_column(Text("\nverifier"), no_wrap=True)
    table.add_column(Text("\nlossless"), no_wrap=True)
    by = ("\nby",) if verbose else ()  # the lines that say what it means come with it
    for header in (
        "\nE[tau]",
        *by,
        "measured\n99.9%",
        "block\neff.",
        "of\nopt.",
        "speed\n-up",
        unit,
    ):
        table.add_column(Text(header), justify="right", no_wrap=True)
    for row in rows:
        verdict = row.lossless.verdict
        speed = speeds[row.model, row.verifier].blocks_per_second / per
        tier = "" if verdict == "INCONCLUSIVE" else f" {row.lossless.tier}"
        table.add_row(
            # The folder of someone's own rule would leave no room for numbers.
            Text(folded(clean(row.verifier.rpartition("/")[2]))),
            Text(verdict + tier, style=STYLE[verdict]),
            _value(row.expected_accepted),
            *((METHODS[row.expected_accepted.method][0],) if verbose else ()),
            _interval(row.measured),
            _fixed(row.block_efficiency, 3),
            _share(row),
            _fixed(row.speedup.predicted, 2) + "x",
            # The sums of a trace were made while it was recorded.
            _speed(speed) if _kernel_ran(row, speed) else "-",
        )
    return table


def folded(name: str) -> str:
    """Return a rule's name on as many lines as it takes, folded behind its hyphens and the like."""
    if len(name) <= (_LONGEST_NAME if "-" in name else _LONGEST_WORD):
        return name
    lines = [""]
    for piece in _PIECES.findall(name):
        if lines[-1] and len(lines[-1]) + len(piece) > _LONGEST_NAME:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _share(row: CompareResult) -> str:
    """Return the share of the optimum that a rule reaches, or the least that it can be."""
    sign = "\N{GREATER-THAN OR EQUAL TO}" if row.optimum.bound else ""
    return f"{sign}{row.optimality:.1%}"


def _speed(speed: float) -> str:
    # Code that is called stands beside compiled kernels.
    return "<0.1" if 0.0 < speed < 0.05 else _fixed(speed, 1)


def _kernel_ran(row: CompareResult, speed: float) -> bool:
    # A readable rule that was judged by its law alone has no tests, and no speed to speak of.
    return bool(row.lossless.tests) and (speed > 0.0 or not _decoded([row]))


def _decoded(rows: list[CompareResult]) -> bool:
    return all(row.lossless.tier == "output" for row in rows)


def _fixed(value: float, decimals: int) -> str:
    # From 10 on one decimal less, so that the widest row still fits 80 columns.
    return f"{value:.{decimals if value < 10 else decimals - 1}f}"


def _interval(measured: Measured) -> str:
    decimals = 4 if measured.ci_high < 10 else 3
    above, below = measured.ci_high - measured.mean, measured.mean - measured.ci_low
    # An interval that its range cuts off has no half width.
    if round(above, decimals) != round(below, decimals):
        return f"{measured.ci_low:.{decimals}f}..{measured.ci_high:.{decimals}f}"
    return f"{measured.mean:.{decimals}f}±{above:.{decimals}f}"


def _value(expected: Expected) -> str:
    if expected.method == "measured":
        return "-"  # what is known of it is what was measured, in the next column
    if expected.method == "counting":
        return f"at most {_fixed(expected.upper, 7)}"
    if expected.exact is not None:
        return _fixed(expected.exact, 7)
    half = (expected.upper - expected.lower) / 2
    middle = (expected.lower + expected.upper) / 2
    if expected.lower == 0.0 and expected.method == "rao-blackwell":
        return f"0 to {expected.upper:.3f}"  # its middle says nothing
    decimals = 3 if middle < 10 else 2
    return f"{middle:.{decimals}f}±{half:.{decimals}f}"


def _number(expected: Expected) -> str:
    return _value(expected) + (f" = {expected.fraction}" if expected.fraction else "")


def _calls_table(rows: list[CompareResult]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("calls", justify="right")
    table.add_column("verifier")
    table.add_column("tokens out, exact", justify="right")
    table.add_column("measured, 99.9%", justify="right")
    last = len(rows[0].calls)
    shown = [i for i in (1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, 1000) if i < last] + [last]
    for i in shown:
        for row in rows:
            entry = row.calls[i - 1]
            exact = "" if entry.exact is None else f"{entry.exact:.6f}"
            if entry.fraction and len(entry.fraction) < LONG_FRACTION:
                exact += f" = {entry.fraction}"
            table.add_row(str(i), line(row.verifier), line(exact), _interval(entry.measured))
    return table
