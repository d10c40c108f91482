"""How a judged sampler is shown, and the table of generators."""

from collections.abc import Iterator, Mapping, Sequence

from simverify import results
from simverify.reports.view import VERDICT_MARKS, Cell, Fact, Items, On, Report, Section, Table
from simverify.reports.words import (
    capitalize,
    command_section,
    make_report,
    make_table,
    number_cell,
    tests_table,
    verdict_case,
)
from simverify.samplers.catalogue import (
    MeasuredDraw,
    MeasuredRow,
    MeasuredSampler,
    installed_version,
    measured_table,
)
from simverify.samplers.judge import JudgedCall
from simverify.samplers.uniforms import DRAWS, StreamPair, UniformGrid

_ROW_WORDS = {"flat": "equal probabilities", "peaked": ".75 for token 0", "heavy": "1 / rank"}


def sampler_report(run: results.SamplerRun) -> Report:
    """Return the report of a judged sampler."""
    title = f"{run.name} in {run.dtype} at V = {run.vocab_size:,}"
    message = "; ".join(_row_words(run, row) for row in run.rows if row.verdict != "PASS")
    return make_report(
        run,
        "sampler",
        title,
        capitalize(f"it {_ruling(run)}"),
        tuple(_facts(run)),
        _sections(run),
        [verdict_case(f"sampler {run.name}", run.verdict, message)],
        headline=f"{run.verdict}: {title} {_ruling(run)}",
    )


def _facts(run: results.SamplerRun) -> Iterator[Fact]:
    version = f"{run.package or 'Python'} {run.package_version}"
    known = "" if run.known else "; this version is not in the table of simverify generators"
    yield Fact("Library", f"{version}{known}")
    yield Fact("Method", run.method)
    if compared := sum(row.compared for row in run.rows):
        same = sum(row.same for row in run.rows)
        yield Fact("Replayed", f"{same:,} of {compared:,} draws are those expected of their seed")
    limits = f"exact rows fail above a TV of {run.detect:g}"
    if any(row.tier == "sampled" for row in run.rows):
        limits = (
            f"sampled rows fail on any significant difference, with probability {run.alpha:g} at "
            f"most if there is none; {limits}"
        )
    yield Fact("Limits", limits)


def _ruling(run: results.SamplerRun) -> str:
    if run.verdict == "FAIL":
        return "does not emit the rows that it is given."
    if run.verdict == "INCONCLUSIVE":
        return "needs more draws than a few minutes allow: pass a larger --detect."
    furthest = max((row.tv for row in run.rows if row.tv is not None), default=None)
    found = max((row.detectable for row in run.rows if row.detectable is not None), default=None)
    if found is None:
        return f"is within a TV of {furthest:.2g} of its rows."
    exact = "" if furthest is None else f"is within a TV of {furthest:.2g} of its exact rows, and "
    return f"{exact}shows no deviation where it was sampled: a TV of {found:.2g} would show."


def _sections(run: results.SamplerRun) -> Iterator[Section]:
    items = tuple(_row_words(run, row) for row in run.rows)
    yield Section("Rows", (Items(items, on=On.TERMINAL), _row_table(run)), On.ALL)
    tests = [(row.row, test) for row in run.rows for test in row.tests]
    if tests:
        table = tests_table("The tests of the sampled rows", tests)
        yield Section("Tests", (table,), On.DETAIL)
    yield command_section(run)


def _row_words(run: results.SamplerRun, row: results.SamplerRow) -> str:
    words = f"{row.row} ({_ROW_WORDS[row.row]}): {row.verdict} ({row.tier}): "
    if row.tv is not None:
        words += f"TV {row.tv:.2g}"
        if row.never and row.never_mass is not None:
            words += (
                f"; {row.never:,} tokens, total probability {row.never_mass:.2g}, never come out"
            )
        if row.impossible:
            words += f"; tokens of probability 0 come out with probability {row.impossible:.2g}"
    else:
        words += f"{row.samples:,} draws"
        if row.verdict != "FAIL":
            words += ", no deviation found"
        if row.detectable is not None:
            words += (
                f"; a TV of {row.detectable:.2g} is found 9 times in 10 if it groups by token id "
                "or by probability"
            )
        if row.impossible:
            words += f"; a share of {row.impossible:.2g} has probability 0"
    if row.verdict == "FAIL":
        words += f"; token {row.worst:,}: expected {row.expected:.3g}, observed {row.emitted:.3g}"
    if row.cast_tv > _SMALL_TV:
        words += f"; rounding the row to {run.dtype} costs TV {row.cast_tv:.2g} (not counted)"
    return words


_SMALL_TV = 1e-4


def _row_table(run: results.SamplerRun) -> Table:
    return make_table(
        "The rows. TV: total variation distance between what comes out and the row after rounding",
        "row | verdict | tier | TV | rounding TV | tokens never emitted | their probability | "
        "worst token | expected | observed | draws replayed | draws matched",
        (
            (
                row.row,
                Cell(row.verdict, mark=VERDICT_MARKS[row.verdict]),
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
    zeros = "0 never" if not grid.zeros else f"0 once in {DRAWS / grid.zeros:,.0f}"
    ones = "" if not grid.ones else f", 1 once in {DRAWS / grid.ones:,.0f}"
    words = (
        f"multiples of 2^-{grid.bits}; of {DRAWS:,} draws {grid.different:,} are different, "
        f"{zeros}{ones}; smallest above 0 {grid.least:.3g}, largest {grid.largest:.9g}, mean "
        f"{grid.mean:.4f}"
    )
    if grid.zero is None or grid.one is None:
        return words
    return f"{words}; of all words, {_once(0, grid.zero)}, {_once(1, grid.one)}"


def _once(value: int, probability: float) -> str:
    return f"{value} once in {1 / probability:.3g}" if probability else f"{value} never"


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


def library_names() -> list[str]:
    """Return what :func:`generator_entries` and its like take as ``library``."""
    table = measured_table()
    named = [one.grid.name for one in table.uniforms]
    named += [one.name for one in table.samplers] + [one.name for one in table.draws]
    return sorted({*(name.split(".")[0] for name in named), *map(_package_name, table.versions)})


def _package_name(package: str) -> str:
    return package or "python"


def _is_of(library: str | None, package: str, name: str = "") -> bool:
    return library in (None, _package_name(package), name.split(".")[0])


def generator_entries(library: str | None = None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each uniform generator in each type, with its lines."""
    for one in measured_table().uniforms:
        if not _is_of(library, one.grid.package, one.grid.name):
            continue
        seeds = f"Seeds: {pairs_words(one.seeds)}"
        words = capitalize(uniform_words(one.grid)), seeds, version_words(one.grid.package)
        yield f"{one.grid.name} {one.grid.dtype}", words


def sampler_entries(library: str | None = None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each sampler in each type, with its lines."""
    for sampler in measured_table().samplers:
        if _is_of(library, sampler.package, sampler.name):
            lines = (*_lines(sampler), version_words(sampler.package))
            yield f"{sampler.name} {sampler.dtype}", lines


def stream_entries(library: str | None = None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each library with what pairs of its generators or keys share."""
    pairs: dict[tuple[str, str], list[StreamPair]] = {}
    for pair in measured_table().streams:
        if _is_of(library, pair.package) or (library == "random" and not pair.package):
            pairs.setdefault((pair.package, pair.setting), []).append(pair)
    for (package, setting), of_one in pairs.items():
        lines = [f"{pair.one} and {pair.other}: {pair.share}" for pair in of_one]
        yield stream_title(package, setting), (*lines, version_words(package))


def draw_entries(library: str | None = None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each function that draws integers or normal numbers, with its lines."""
    for draw in measured_table().draws:
        if _is_of(library, draw.package, draw.name):
            calls = [f"{call.call}: {call_words(call)}" for call in draw.calls]
            lines = (method_words(draw), *calls)
            if draw.unusual_calls:
                unusual = (f"  {call}: {words}" for call, words in draw.unusual_calls.items())
                lines += ("Unusual parameters:", *unusual)
            yield draw.name, (*lines, version_words(draw.package))


def method_words(draw: MeasuredDraw) -> str:
    """Return how a function draws, and for which calls its numbers were not compared with that."""
    unknown = [call.call for call in draw.calls if not call.replayed]
    if not unknown:
        return draw.method
    where = "" if len(unknown) == len(draw.calls) else f"{' and '.join(unknown)}: "
    return f"{draw.method} ({where}read in its source, not checked)"


def call_words(call: JudgedCall) -> str:
    """Return how far a call is from its stated law, and its smallest and largest value."""
    if call.tv is not None:
        words = f"TV {call.tv:.2g} (exact)"
    elif call.rejected:
        words = "TV above 0 (tested)"
    else:
        words = "TV untested"
        if call.detectable is not None:
            words = f"TV below {call.detectable:.2g} (tested)"
    least, largest = (
        f"{x:.10g}" if isinstance(x, float) else str(x) for x in (call.least, call.largest)
    )
    return f"{words}; drew {least} to {largest}"


def stream_title(package: str, setting: str) -> str:
    """Return a library with its setting."""
    return f"{package or 'Python'}{setting and f', {setting}'}"


def _lines(sampler: MeasuredSampler) -> tuple[str, ...]:
    strange = f"Invalid rows: {pairs_words(sampler.strange)}"
    return capitalize(sampler.method), *measured_words(sampler.rows), strange


def pairs_words(words: Mapping[str, str]) -> str:
    """Return names with what is said of them."""
    return "; ".join(f"{name}: {value}" for name, value in words.items())
