"""What a comparison's table rests on, in lines for a terminal."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from simverify.reports.compare.speedups import speedup_table
from simverify.reports.terminal import line
from simverify.results import CompareResult, CompareRun

METHODS = {
    "enumeration": ("enum", "every drafted block, or every step down a tree, enumerated"),
    "closed-form": ("form", "closed form"),
    "dp": ("dp", "certified dynamic programme"),
    "measured": ("-", "not known: what is measured stands alone"),
    "rao-blackwell": ("r-b", "Rao-Blackwell over drafted blocks"),
}
"""Ways to an exact E[tau]: the word in the table, and what it stands for."""

LONG_FRACTION = 20
"""Characters of a fraction from which on it is left out."""


def promise(run: CompareRun) -> str:
    """Return what the whole run promises: its false-alarm rate, and what it finds where."""
    models: dict[str, list[str]] = {}
    for row in run.results:
        names = models.setdefault(row.lossless.deviation, [])
        if row.model not in names:
            names.append(row.model)
    found = [
        deviation + (f" ({', '.join(names)})" if len(models) > 1 else "")
        for deviation, names in models.items()
    ]
    # The second verdict of a row, on its acceptance, waits for the same power.
    found += dict.fromkeys(row.acceptance.deviation for row in run.results if row.acceptance.tests)
    return (
        f"Seed {run.seed}. If every verifier here is right, a run reports a fault with "
        f"probability {run.alpha:g} at most. Found with probability {run.power:g} from "
        f"{run.detect:g} on, or the verdict is INCONCLUSIVE: {'; '.join(found)}."
    )


def methods(rows: Sequence[CompareResult]) -> list[str]:
    """Return a line for each way in which the table's exact E[tau] was found."""
    lines = []
    for method, (short, words) in METHODS.items():
        used = [row.expected_accepted for row in rows if row.expected_accepted.method == method]
        if not used:
            continue
        line = f"{short}: {words}"
        if method == "dp":
            width = max(expected.upper - expected.lower for expected in used)
            line += f", bounds {width:.0e} apart"
        elif used[0].confidence is not None and method != "measured":
            line += f", {used[0].confidence:.1%} interval"
        lines.append(line)
    fractions = [
        f"{row.verifier} {row.expected_accepted.fraction}"
        for row in rows
        if row.expected_accepted.fraction and len(row.expected_accepted.fraction) < LONG_FRACTION
    ]
    if fractions:
        lines.append(f"E[tau]: {', '.join(fractions)}")
    return lines


def basis(rows: Sequence[CompareResult]) -> list[str]:
    """Return what the losslessness verdicts rest on: the rules' laws, then the kernels' samples."""
    scopes: dict[str, list[str]] = {}
    for row in rows:
        if (exact := row.lossless.exact) is not None:
            key = f"exact, {exact.arithmetic}, by {exact.method}: {exact.scope}: TV {exact.tv:.2g}"
            scopes.setdefault(key, []).append(row.verifier)
    lines = [f"{', '.join(names)}: {scope}" for scope, names in scopes.items()]
    tests = [len(row.lossless.tests) for row in rows]
    tokens = [max((test.n for test in row.lossless.tests), default=0) for row in rows]
    decoded = any(row.lossless.tier == "output" for row in rows)
    what = "emitted tokens judged" if decoded else "kernels sampled"
    lines.append(f"{what}: {_range(tests, 'd')} tests on {_range(tokens, '.1e')} tokens each")
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


def _refuted(rows: Sequence[CompareResult]) -> list[str]:
    """How many of the named faults each verifier's tokens refute."""
    said: dict[str, list[str]] = {}
    for row in rows:
        if (faults := row.lossless.faults) is not None:
            number = len(faults.refuted)
            count = f"{number} of {number + len(faults.not_refuted)}"
            said.setdefault(count, []).append(row.verifier)
    parts = [f"{', '.join(names)} {count}" for count, names in said.items()]
    return [f"named faults refuted: {'; '.join(parts)}"] if parts else []


def _acceptance(rows: Sequence[CompareResult]) -> list[str]:
    """Whether the kernels accept as their rules do, which losslessness does not rest on."""
    said: dict[str, list[CompareResult]] = {}
    for row in rows:
        said.setdefault(row.acceptance.words, []).append(row)
    lines = []
    for words, group in said.items():
        judged = [row.acceptance for row in group if row.acceptance.tests]
        powers = _powers([(part.deviation, part.detectable) for part in judged])
        names = ", ".join(row.verifier for row in group)
        lines.append(f"{names}: {'; '.join([words, *powers])}")
    return lines


def _powers(found: list[tuple[str, float | None]]) -> list[str]:
    """Return for each kind of deviation the size from which on all of its tests find it."""
    sizes: dict[str, list[float | None]] = {}
    for deviation, size in found:
        sizes.setdefault(deviation, []).append(size)
    return [
        f"{deviation}: not found at any size"
        if None in every
        else f"{deviation}: power .9 from {max(x for x in every if x is not None):.4f} on"
        for deviation, every in sizes.items()
    ]


def _range(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


_HEADERS = (
    "\nverifier", "\nmeasured", "predicted\nc={:g}", "predicted\nown c", "own\nc", "block\ncost",
    "a\ntoken", "\ndraft", "\ntarget", "\nverify",
)  # fmt: skip


def pair_lines(run: CompareRun, rows: Sequence[CompareResult]) -> Iterator[str]:
    """Yield lines of text; none for a simulated model."""
    for row in rows:
        if (paired := row.paired) is not None:
            half = (paired.ci_high - paired.ci_low) / 2
            yield (
                f"on the {paired.blocks:,} drafted blocks of {paired.baseline}, E[tau] of "
                f"{row.verifier} less {paired.baseline}'s: {paired.difference:+.4f}"
                f"\N{PLUS-MINUS SIGN}{half:.4f}"
            )
    if run.decoding is not None:
        for row in rows:
            kept = " ".join(f"{share:.2f}" for share in row.acceptance_ccdf.measured)
            yield f"{row.verifier} keeps l tokens or more, l = 1 to {run.gamma}: {kept}"


def times(run: CompareRun, model: str) -> tuple[str, Table] | None:
    """Return the caption and the table of the speed-ups on a model, if it was timed."""
    found = speedup_table(run, model)
    if found is None:
        return None
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for i, header in enumerate(_HEADERS):
        words = header.format(run.results[0].speedup.cost_ratio)
        table.add_column(Text(words), justify="right" if i else "left", no_wrap=True)
    for row in found.rows:
        table.add_row(*(line(cell.text) for cell in row))
    return found.caption, table
