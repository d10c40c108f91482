"""Words, numbers and small tables for reports: bounded, printable, in a reader's precision."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from simverify import stats
from simverify.checks import clean_line, printable
from simverify.reports.view import (
    MAX_ITEMS,
    Block,
    Case,
    Cell,
    Command,
    Fact,
    Items,
    On,
    Outcome,
    Prose,
    Report,
    Section,
    Table,
)
from simverify.results import Certificate, NamedFaults, Suspect, Test, Verdict

MAX_COMMAND = 20_000

_AGREEING_PVALUE = 0.01
"""Adjusted p-value below which a test that is not rejected is said to point the same way."""

# Texts and numbers.


def truncate(text: str, most: int) -> str:
    """Return ``text``, or its first ``most`` characters and how long it is."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def truncate_line(text: str, most: int) -> str:
    """Return ``text`` on one line, its end cut off and marked where it is too long."""
    line = clean_line(text)
    return line if len(line) <= most else f"{line[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def shell_line(text: str) -> str:
    """Return a command on one line, with its blanks, printable; a cut one would be another."""
    return printable(truncate(text, MAX_COMMAND))


def join_names(names: Iterable[str], most: int = 8, longest: int = 60) -> str:
    """Return the first names, each cut at ``longest`` characters, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(truncate_line(name, longest) for name in every[:most]) + more


def pluralize(n: int, noun: str) -> str:
    """Return ``1 path``, ``2 paths``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def capitalize(text: str) -> str:
    """Return ``text`` with a capital first letter."""
    return text[:1].upper() + text[1:]


def sampling_words(temperature: float, top_k: int | None, top_p: float | None) -> str:
    """Return what shapes the rows that are sampled and tested."""
    words = [f"temperature {temperature:g}"]
    words += [] if top_k is None else [f"top-k {top_k}"]
    words += [] if top_p is None else [f"top-p {top_p:g}"]
    return ", ".join(words)


def certificate_words(certificate: Certificate) -> str:
    """Return what a certificate promises, with its assumption."""
    assumption = f", if {certificate.assumption}" if certificate.assumption else ""
    return (
        f"mean one-token TV at most {certificate.bound:.3g}, but for a probability of "
        f"{certificate.delta:g} ({certificate.method}){assumption}"
    )


# Cells and tables.


def number_cell(value: float | None, digits: int = 4, otherwise: str = "") -> Cell:
    """Return a number to so many significant digits, or ``otherwise`` where there is none."""
    return Cell(otherwise) if value is None else Cell(f"{value:.{digits}g}", value)


def _pvalue_cell(log_pvalue: float | None) -> Cell:
    """Return a p-value given by its natural logarithm, which may be far below any float."""
    if log_pvalue is None:
        return Cell("0 (impossible)", -math.inf)
    if log_pvalue > -11.5:
        return Cell(f"{math.exp(log_pvalue):.3g}", log_pvalue)
    return Cell(f"10^{log_pvalue / math.log(10):,.1f}", log_pvalue)


def make_table(
    caption: str,
    columns: str | Sequence[str],
    rows: Iterable[Iterable[Any]],
    narrow: str = "",
    **options: Any,
) -> Table:
    """Return a table of cells, texts, numbers and None, which is an empty cell.

    ``columns``: as in "verifier | model". ``narrow``: those of a terminal, as in "1:model | 0:by".
    """
    names = columns.split(" | ") if isinstance(columns, str) else columns
    shown = (entry.partition(":") for entry in narrow.split(" | ") if narrow)
    return Table(
        caption,
        tuple(names),
        tuple(tuple(map(_make_cell, row)) for row in rows),
        narrow={int(index): header for index, _, header in shown},
        **options,
    )


def _make_cell(value: Any) -> Cell:
    if isinstance(value, Cell):
        return value
    if isinstance(value, int):
        return Cell(f"{value:,}", value)
    return number_cell(value) if isinstance(value, float) else Cell(value or "")


def limits_table(rows: Iterable[tuple[str, str]], caption: str = "Error rates and limits") -> Table:
    """Return a table of names and their values."""
    return make_table(caption, "what | value", rows)


def tests_table(caption: str, tests: Sequence[tuple[str, Test]]) -> Table:
    """Return tests, each with its owner; the rejected ones first, then those that agree.

    Once a test is rejected, Holm's adjustment says which of the others point there too.
    """
    agree: set[int] = set()
    if any(test.rejected for _, test in tests):
        logs = [-math.inf if test.log_pvalue is None else test.log_pvalue for _, test in tests]
        adjusted = stats.adjusted_pvalues(logs)
        agree = {
            id(test) for (_, test), p in zip(tests, adjusted, strict=True) if p < _AGREEING_PVALUE
        }
        caption += (
            f'. "also off": below {_AGREEING_PVALUE:g} when all p-values are adjusted for their '
            "number (Holm); it says where, not whether"
        )
    return make_table(
        caption,
        "of | test | outcome | p-value | rejected below | statistic | N | found from",
        (
            (
                owner,
                test.name,
                Cell("REJECTED", mark="fail")
                if test.rejected
                else "also off"
                if id(test) in agree
                else "not rejected",
                _pvalue_cell(test.log_pvalue),
                number_cell(test.alpha, 3),
                test.statistic,
                test.n,
                number_cell(test.min_detectable, 3, "nothing"),
            )
            for owner, test in sorted(
                tests, key=lambda entry: (not entry[1].rejected, id(entry[1]) not in agree)
            )
        ),
        names=frozenset({0, 1}),
        folded=True,
        narrow="1:test | 2:outcome | 3:p-value | 4:rejected\nbelow",
    )


# Parts that all reports share.

_OUTCOMES: dict[Verdict, Outcome] = {
    "PASS": "passed",
    "FAIL": "failed",
    "INCONCLUSIVE": "inconclusive",
}


def verdict_case(name: str, verdict: Verdict, message: str) -> Case:
    """Return the outcome of a verdict; a PASS needs no message."""
    return Case(name, _OUTCOMES[verdict], "" if verdict == "PASS" else message)


def section_of(title: str, entries: Sequence[str], on: On = On.ALL) -> Iterator[Section]:
    """Yield a section with a list, if there are entries."""
    if entries:
        yield Section(title, (Items(tuple(entries)),), on)


def notes_section(notes: Sequence[str], most: int = MAX_ITEMS) -> Iterator[Section]:
    """Yield the notes, if there are any; ``most``: that a terminal shows without --verbose."""
    if more := len(notes) - most if len(notes) > most else 0:
        short = (*notes[:most], f"{pluralize(more, 'note')} more: see --verbose")
        blocks = Items(short, on=On.SHORT), Items(tuple(notes), on=On.DETAIL)
        yield Section("Notes", blocks, On.ALL)
    else:
        yield from section_of("Notes", notes)


def command_section(run: Any, *blocks: Block, title: str = "To reproduce") -> Section:
    """Return the command that gives the run again; a terminal shows it unless the run passed."""
    on = On.PAGE if getattr(run, "verdict", None) in ("PASS", None) else On.ALL
    return Section(title, (*blocks, Command(run.reproduce)), on)


def make_report(
    run: Any,
    command: str,
    title: str,
    ruling: str,
    facts: Iterable[Fact],
    sections: Iterable[Section],
    cases: Iterable[Case],
    **fields: Any,
) -> Report:
    """Return the report of a run, with its verdict, and when and where it was made."""
    own = {
        "verdict": getattr(run, "verdict", None),
        "version": run.meta.version,
        "started": run.meta.started,
        "machine": run.meta.machine,
        "seed": getattr(run, "seed", 0),  # without one, nothing is drawn
    }
    return Report(
        command,
        title,
        ruling=ruling,
        facts=tuple(facts),
        sections=tuple(sections),
        cases=tuple(cases),
        **own | fields,
    )


# Faults in sampled tests, for both commands: what failed, and which are refuted.


def fault_blocks(faults: NamedFaults) -> Iterator[Block]:
    """Yield which faults were refuted, and from which strength on."""
    if faults.refuted:
        yield make_table(
            f"Faults refuted (each wrongly with probability {faults.beta:g} at most)",
            "fault | from this strength on | ln of the e-value",
            (
                (f.fault, float(f.strength), number_cell(f.log_evalue, otherwise="infinite"))
                for f in faults.refuted
            ),
        )
    if faults.not_refuted:
        yield Prose(f"Not refuted by likelihood ratios: {join_names(faults.not_refuted, 40)}.")


_MAX_TITLE_LINES = 3
"""Lines that there is room for in a title or a cell."""


def join_lines(lines: Iterable[str], most: int = _MAX_TITLE_LINES) -> str:
    """Return the first lines, of lines of one file in a row its name once."""
    words: list[str] = []
    last = ""
    for line in lines:
        file, _, number = file_name(line).rpartition(":")
        words.append(number if file == last else f"{file}:{number}")
        last = file
    return join_names(words, most)


def file_name(line: str) -> str:
    """Return ``file:line`` without folders."""
    return line.rpartition("/")[2]


def suspect_facts(place: Suspect | None, faults: NamedFaults | None) -> Iterator[tuple[str, str]]:
    """Yield the part that failed and the fault that fits best, if any, each with its name."""
    if place is not None:
        at = f" at {join_lines(place.lines, 4)}" if place.lines else ""
        yield (
            ("Localised", f"{place.part}{at}; {place.why}")
            if place.part
            else ("Not localised", place.why)
        )
    if faults is not None and faults.best is not None and faults.explains is not None:
        best = faults.best
        yield (
            "Fits best",
            f"{best.fault} at strength {best.strength:g}, which explains {faults.explains:.0%} of "
            "the deviation (a diagnosis, without an error rate)",
        )
