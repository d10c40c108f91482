"""How a judged sampler is shown, and the table of generators."""

from collections.abc import Iterator, Mapping, Sequence

from simverify import results
from simverify.reports.view import Cell, Fact, Items, On, Prose, Report, Section, Table
from simverify.reports.words import (
    capitalize,
    command_section,
    make_report,
    make_table,
    number_cell,
    tests_table,
    verdict_case,
)
from simverify.samplers.catalogue import installed_version
from simverify.samplers.table import MeasuredRow, MeasuredSampler, measured_table
from simverify.samplers.uniforms import DRAWS, UniformGrid

_ROW_WORDS = {"flat": "equal probabilities", "peaked": ".75 for token 0", "heavy": "1 / rank"}


def sampler_report(run: results.SamplerRun) -> Report:
    """Return the report of a judged sampler."""
    version = f"{run.package or 'Python'} {run.package_version}"
    known = "" if run.known else "; this version is not in the table of simverify generators"
    title = f"{run.name} in {run.dtype} at V = {run.vocab_size:,}"
    message = "; ".join(_row_words(row) for row in run.rows if row.verdict != "PASS")
    return make_report(
        run,
        "sampler",
        title,
        capitalize(f"it {_ruling(run)}"),
        (
            Fact("Library", f"{version}{known}"),
            Fact("Method", run.method),
            Fact(
                "Limits",
                f"fails from a TV of {run.detect:g} on; where it is sampled, a right sampler fails "
                f"with probability {run.alpha:g} at most",
            ),
        ),
        _sections(run),
        [verdict_case(f"sampler {run.name}", run.verdict, message)],
        headline=f"{run.verdict}: {title} {_ruling(run)}",
    )


def _ruling(run: results.SamplerRun) -> str:
    if run.verdict == "PASS":
        return "emits the rows that it is given."
    if run.verdict == "FAIL":
        return "does not emit the rows that it is given: use a wider type, or another function."
    return "needs more draws than a few minutes allow: pass a larger --detect."


def _sections(run: results.SamplerRun) -> Iterator[Section]:
    items = tuple(_row_words(row) for row in run.rows)
    yield Section("Rows", (Items(items, on=On.TERMINAL), _row_table(run)), On.ALL)
    tests = [(row.row, test) for row in run.rows for test in row.tests]
    if tests:
        yield Section("Tests", (tests_table("The tests of the sampled rows", tests),), On.DETAIL)
    yield command_section(run, Prose("The same seed gives the same draws."))


def _row_words(row: results.SamplerRow) -> str:
    words = f"{row.row} ({_ROW_WORDS[row.row]}): {row.verdict}, "
    if row.tv is not None:
        words += f"exactly: TV {row.tv:.2g} from the row"
        if row.never and row.never_mass is not None:
            words += f"; {row.never:,} tokens of mass {row.never_mass:.2g} never come out"
        if row.impossible:
            words += f"; tokens of probability 0 come out with probability {row.impossible:.2g}"
    else:
        found = "nothing" if row.detectable is None else f"a TV of {row.detectable:.2g}"
        words += f"{row.samples:,} draws, which find {found}"
        if row.impossible:
            words += f"; {row.impossible:.2g} of them have probability 0"
    if row.verdict == "FAIL":
        words += f"; token {row.worst:,} has {row.expected:.3g} and comes with {row.emitted:.3g}"
    if row.cast_tv > _SMALL_TV:
        words += f"; the type itself moves the row by {row.cast_tv:.2g}"
    return words


_SMALL_TV = 1e-4


def _row_table(run: results.SamplerRun) -> Table:
    return make_table(
        "The rows. TV: total variation between what comes out and the row in its type",
        "row | verdict | how | TV | by the type | never come out | their mass | token furthest off "
        "| its probability | comes with | compared draws | equal",
        (
            (
                row.row,
                Cell(row.verdict, mark="pass" if row.verdict == "PASS" else "fail"),
                row.tier,
                number_cell(row.tv, 3, "-"),
                number_cell(row.cast_tv, 3),
                number_cell(row.never, 6, "-"),
                number_cell(row.never_mass, 3, "-"),
                row.worst,
                number_cell(row.expected, 4),
                number_cell(row.emitted, 4),
                row.compared,
                row.same,
            )
            for row in run.rows
        ),
        on=On.PAGE,
    )


# The table of ``simverify generators``.


def uniform_words(grid: UniformGrid) -> str:
    """Return what was measured of a generator, in a line."""
    zeros = "never 0" if not grid.zeros else f"0 once in {DRAWS / grid.zeros:,.0f}"
    ones = "" if not grid.ones else f", 1 once in {DRAWS / grid.ones:,.0f}"
    return (
        f"multiples of 2^-{grid.bits}, {grid.different:,} different; {zeros}{ones}; from "
        f"{grid.least:.3g} to {grid.largest:.9g}; mean {grid.mean:.4f}"
    )


def measured_words(rows: Sequence[MeasuredRow]) -> Iterator[str]:
    """Yield a line for each size of the vocabulary."""
    for vocab in dict.fromkeys(row.vocab for row in rows):
        parts = [measured_part(row) for row in rows if row.vocab == vocab]
        yield f"V = {vocab:,}: {', '.join(parts)}"


def measured_part(row: MeasuredRow) -> str:
    """Return the total variation on one row, and how many tokens never come out."""
    if row.tv is None:
        if row.rejected:
            return f"{row.row} off"
        found = "?" if row.detectable is None else f"{row.detectable:.2g}"
        return f"{row.row} below {found}"
    never = f" ({row.never:,} never)" if row.never else ""
    return f"{row.row} {row.tv:.2g}{never}"


def version_words(package: str) -> str:
    """Return the version of the table, and whether it is the installed one."""
    known, here = measured_table().versions[package], installed_version(package)
    name = f"{package or 'Python'} {known}"
    if here == known:
        return name
    if here is None:
        return f"{name}; not installed here"
    return f"{name}; {here} is installed, which is not in the table"


def generator_entries() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each uniform generator in each type, with its lines."""
    for one in measured_table().uniforms:
        seeds = f"Seeds: {pairs_words(one.seeds)}"
        words = capitalize(uniform_words(one.grid)), seeds, version_words(one.grid.package)
        yield f"{one.grid.name} {one.grid.dtype}", words


def sampler_entries() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each sampler in each type, with its lines."""
    for sampler in measured_table().samplers:
        yield f"{sampler.name} {sampler.dtype}", (*_lines(sampler), version_words(sampler.package))


def _lines(sampler: MeasuredSampler) -> tuple[str, ...]:
    strange = f"Rows that are no distributions: {pairs_words(sampler.strange)}"
    return capitalize(sampler.method), *measured_words(sampler.rows), strange


def pairs_words(words: Mapping[str, str]) -> str:
    """Return names with what is said of them."""
    return ", ".join(f"{name} {value}" for name, value in words.items())
