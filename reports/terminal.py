"""A comparison as text for a terminal, 80 columns wide."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from simverify.names import printable
from simverify.reports.suspicion import suspicion
from simverify.results import (
    CompareResult,
    CompareRun,
    Expected,
    Measured,
    ModelInfo,
    Timing,
    Verdict,
)

_STYLE: dict[Verdict, str] = {"PASS": "green", "FAIL": "bold red", "INCONCLUSIVE": "yellow"}
_METHOD = {
    "enumeration": ("enum", "every drafted block enumerated"),
    "closed-form": ("form", "closed form"),
    "dp": ("dp", "certified dynamic programme"),
    "rao-blackwell": ("r-b", "Rao-Blackwell over drafted blocks"),
}

_LONG_FRACTION = 20


def print_comparison(run: CompareRun, console: Console) -> None:
    """Print the tables of a comparison, what they rest on, and the verdict."""
    speeds = {(timing.model, timing.verifier): timing for timing in run.meta.timings}
    for model in run.models:
        rows = [row for row in run.results if row.model == model.name]
        console.print(Text(_title(run, model), style="bold"))
        console.print(_model_table(rows, speeds))
        for line in [*_methods(rows), *_basis(rows)]:
            console.print(Text(line, style="dim"))
        console.print(Text(f"coupling bound on one iteration: {_number(model.bounds.coupling)}"))
        for row in rows:
            for finding in row.lossless.findings:
                console.print(Text(f"FAIL {row.verifier}: {finding}", style=_STYLE["FAIL"]))
            for line in suspicion(row.lossless.localisation, row.lossless.faults):
                console.print(Text(f"{row.verifier}: {line}", style=_STYLE["FAIL"]))
            for finding in row.acceptance.findings:
                text = f"FAIL {row.verifier}, {row.acceptance.words}: {finding}"
                console.print(Text(text, style=_STYLE["FAIL"]))
        if any(row.calls for row in rows):
            console.print(_calls_table(rows))
            if any(entry.exact is None for row in rows for entry in row.calls):
                console.print(Text("no exact number of tokens: shown, not judged", style="dim"))
        console.print()
    console.print(Text(_promise(run)))
    console.print(Text(run.verdict, style=_STYLE[run.verdict]))


def _promise(run: CompareRun) -> str:
    """What the whole run promises: its false-alarm rate, and what it finds on which models."""
    models: dict[str, list[str]] = {}
    for row in run.results:
        names = models.setdefault(row.lossless.deviation, [])
        if printable(row.model) not in names:
            names.append(printable(row.model))
    found = [
        deviation + (f" ({', '.join(names)})" if len(models) > 1 else "")
        for deviation, names in models.items()
    ]
    # The second verdict of a row, on its acceptance, waits for the same power.
    found += dict.fromkeys(row.acceptance.deviation for row in run.results)
    return (
        f"Seed {run.seed}. If every verifier here is right, a run reports a fault with "
        f"probability {run.alpha:g} at most. Found with probability {run.power:g} from "
        f"{run.detect:g} on, or the verdict is INCONCLUSIVE: {'; '.join(found)}."
    )


def _title(run: CompareRun, model: ModelInfo) -> str:
    title = f"{printable(model.name)}: V = {model.vocab_size}, gamma = {run.gamma}"
    if model.target_perplexity is not None and model.draft_perplexity is not None:
        title += (
            f", perplexity {model.target_perplexity:.2f} target {model.draft_perplexity:.2f} draft"
        )
    return title


def _model_table(rows: list[CompareResult], speeds: dict[tuple[str, str], Timing]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(Text("\nverifier"), no_wrap=True)
    table.add_column(Text("\nlossless"), no_wrap=True)
    for header in (
        "\nE[tau]",
        "\nby",
        "measured\n99.9%",
        "block\neff.",
        "of\nopt.",
        "speed\n-up",
        "Mblk\n/s",
    ):
        table.add_column(Text(header), justify="right", no_wrap=True)
    for row in rows:
        verdict = row.lossless.verdict
        tier = "" if verdict == "INCONCLUSIVE" else f" {row.lossless.tier}"
        table.add_row(
            Text(row.verifier),
            Text(verdict + tier, style=_STYLE[verdict]),
            _value(row.expected_accepted),
            _METHOD[row.expected_accepted.method][0],
            _interval(row.measured),
            _fixed(row.block_efficiency, 3),
            f"{row.optimality:.1%}",
            _fixed(row.speedup.predicted, 2) + "x",
            _fixed(speeds[row.model, row.verifier].blocks_per_second / 1e6, 1),
        )
    return table


def _fixed(value: float, decimals: int) -> str:
    # From 10 on one decimal less, so that the widest row still fits 80 columns.
    return f"{value:.{decimals if value < 10 else decimals - 1}f}"


def _interval(measured: Measured) -> str:
    half = (measured.ci_high - measured.ci_low) / 2
    decimals = 4 if max(measured.mean, half) < 10 else 3
    return f"{measured.mean:.{decimals}f}±{half:.{decimals}f}"


def _value(expected: Expected) -> str:
    if expected.exact is not None:
        return _fixed(expected.exact, 7)
    half = (expected.upper - expected.lower) / 2
    middle = (expected.lower + expected.upper) / 2
    decimals = 3 if middle < 10 else 2
    return f"{middle:.{decimals}f}±{half:.{decimals}f}"


def _number(expected: Expected) -> str:
    return _value(expected) + (f" = {expected.fraction}" if expected.fraction else "")


def _methods(rows: list[CompareResult]) -> list[str]:
    """One line for each way in which the table's exact E[tau] was found."""
    lines = []
    for method, (short, words) in _METHOD.items():
        used = [row.expected_accepted for row in rows if row.expected_accepted.method == method]
        if not used:
            continue
        line = f"{short}: {words}"
        if method == "dp":
            width = max(expected.upper - expected.lower for expected in used)
            line += f", bounds {width:.0e} apart"
        elif used[0].confidence is not None:
            line += f", {used[0].confidence:.1%} interval"
        lines.append(line)
    fractions = [
        f"{row.verifier} {row.expected_accepted.fraction}"
        for row in rows
        if row.expected_accepted.fraction and len(row.expected_accepted.fraction) < _LONG_FRACTION
    ]
    if fractions:
        lines.append(f"E[tau]: {', '.join(fractions)}")
    return lines


def _basis(rows: list[CompareResult]) -> list[str]:
    """What the losslessness verdicts rest on: the rules' laws, then the kernels' samples."""
    scopes: dict[str, list[str]] = {}
    for row in rows:
        if (exact := row.lossless.exact) is not None:
            key = f"exact, {exact.arithmetic}, by {exact.method}: {exact.scope}: TV {exact.tv:.2g}"
            scopes.setdefault(key, []).append(row.verifier)
    lines = [f"{', '.join(names)}: {scope}" for scope, names in scopes.items()]
    tests = [len(row.lossless.tests) for row in rows]
    tokens = [max((test.n for test in row.lossless.tests), default=0) for row in rows]
    lines.append(
        f"kernels sampled: {_range(tests, 'd')} tests on {_range(tokens, '.1e')} tokens each"
    )
    lines += _refuted(rows)
    main = [(row.lossless.deviation, row.lossless.detectable) for row in rows]
    beside = [(power.deviation, power.detectable) for row in rows for power in row.lossless.beside]
    lines += [*_powers(main), *(f"beside it: {power}" for power in _powers(beside))]
    bounds: dict[tuple[float, str | None], list[float]] = {}
    for row in rows:
        if (certificate := row.lossless.certificate) is not None:
            terms = certificate.delta, certificate.assumption
            bounds.setdefault(terms, []).append(certificate.bound)
    lines += [
        f"certified at {1 - delta:.1%}: mean one-token TV at most {_range(found, '.4f')}, if "
        f"{assumption}"
        for (delta, assumption), found in bounds.items()
    ]
    return lines + _acceptance(rows)


def _refuted(rows: list[CompareResult]) -> list[str]:
    """How many of the named faults each verifier's tokens refute."""
    said: dict[str, list[str]] = {}
    for row in rows:
        if (faults := row.lossless.faults) is not None:
            number = len(faults.refuted)
            count = f"{number} of {number + len(faults.not_refuted)}"
            said.setdefault(count, []).append(row.verifier)
    parts = [f"{', '.join(names)} {count}" for count, names in said.items()]
    return [f"named faults refuted: {'; '.join(parts)}"] if parts else []


def _acceptance(rows: list[CompareResult]) -> list[str]:
    """Whether the kernels accept as their rules do, which losslessness does not rest on."""
    said: dict[str, list[CompareResult]] = {}
    for row in rows:
        said.setdefault(row.acceptance.words, []).append(row)
    lines = []
    for words, group in said.items():
        powers = _powers([(row.acceptance.deviation, row.acceptance.detectable) for row in group])
        names = ", ".join(row.verifier for row in group)
        lines.append(f"{names}: {words}; {'; '.join(powers)}")
    return lines


def _powers(found: list[tuple[str, float | None]]) -> list[str]:
    """Return for each kind of deviation the size from which on all of its tests find it."""
    sizes: dict[str, list[float | None]] = {}
    for deviation, size in found:
        sizes.setdefault(deviation, []).append(size)
    return [
        f"{deviation}: power .9 for nothing"
        if None in every
        else f"{deviation}: power .9 from {max(x for x in every if x is not None):.4f} on"
        for deviation, every in sizes.items()
    ]


def _range(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


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
            if entry.fraction and len(entry.fraction) < _LONG_FRACTION:
                exact += f" = {entry.fraction}"
            table.add_row(str(i), row.verifier, exact, _interval(entry.measured))
    return table
