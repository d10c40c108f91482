"""Words, numbers and small tables for reports: bounded, printable, in a reader's precision."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from simverify import stats
from simverify.checks import clean_line, printable
from simverify.reports.view import Block, Cell, Mark, Prose, Table
from simverify.results import Certificate, NamedFaults, Suspect, Test

MAX_COMMAND = 20_000

MAX_ROWS = 200
MAX_ITEMS = 100

_AGREEING_PVALUE = 0.01
"""Adjusted p-value below which a test that is not rejected is said to point the same way."""

T = TypeVar("T")


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


def take_first(entries: Sequence[T], most: int) -> tuple[tuple[T, ...], int]:
    """Return the first ``most`` of ``entries`` and how many are left out."""
    return tuple(entries[:most]), max(len(entries) - most, 0)


def join_names(names: Iterable[str], most: int = 8, longest: int = 60) -> str:
    """Return the first names, each cut at ``longest`` characters, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(truncate_line(name, longest) for name in every[:most]) + more


def number_cell(value: float, digits: int = 4) -> Cell:
    """Return a number to so many significant digits, with itself to sort by."""
    return Cell(f"{value:.{digits}g}", value)


def optional_cell(value: float | None, otherwise: str, digits: int = 4) -> Cell:
    """Return a number, or ``otherwise`` where there is none."""
    return Cell(otherwise) if value is None else number_cell(value, digits)


def pvalue_cell(log_pvalue: float | None) -> Cell:
    """Return a p-value given by its natural logarithm, which may be far below any float."""
    if log_pvalue is None:
        return Cell("0 (impossible)", -math.inf)
    if log_pvalue > -11.5:
        return Cell(f"{math.exp(log_pvalue):.3g}", log_pvalue)
    return Cell(f"10^{log_pvalue / math.log(10):,.1f}", log_pvalue)


def certificate_words(certificate: Certificate) -> str:
    """Return what a certificate promises, with its assumption."""
    assumption = f", if {certificate.assumption}" if certificate.assumption else ""
    return (
        f"mean one-token TV at most {certificate.bound:.3g}, but for a probability of "
        f"{certificate.delta:g} ({certificate.method}){assumption}"
    )


def tests_table(caption: str, tests: Sequence[tuple[str, Test]]) -> Table:
    """Return tests, each with whose it is; the rejected ones first, then those that agree.

    Once a test is rejected, Holm's adjustment says which of the others point there too.
    """
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
    else:
        agree = set()
    ordered = sorted(tests, key=lambda entry: (not entry[1].rejected, id(entry[1]) not in agree))
    shown, left_out = take_first(ordered, MAX_ROWS)
    return Table(
        caption,
        ("of", "test", "outcome", "p-value", "rejected below", "statistic", "N", "found from"),
        tuple(
            (
                Cell(owner),
                Cell(test.name),
                Cell(*_test_outcome(test, also=id(test) in agree)),
                pvalue_cell(test.log_pvalue),
                number_cell(test.alpha, 3),
                number_cell(test.statistic),
                Cell(f"{test.n:,}", test.n),
                optional_cell(test.min_detectable, "nothing", 3),
            )
            for owner, test in shown
        ),
        numbers=frozenset({3, 4, 5, 6, 7}),
        names=frozenset({0, 1}),
        folded=True,
        left_out=left_out,
    )


def _test_outcome(test: Test, *, also: bool) -> tuple[str, None, Mark]:
    if test.rejected:
        return "REJECTED", None, "fail"
    return ("also off" if also else "not rejected"), None, ""


# Faults in sampled tests, for both commands: what failed, and which are refuted.


def fault_blocks(faults: NamedFaults) -> Iterator[Block]:
    """Yield which faults were refuted, and from which strength on."""
    if faults.refuted:
        shown, more = take_first(faults.refuted, MAX_ROWS)
        yield Table(
            f"Faults refuted (each wrongly with probability {faults.beta:g} at most)",
            ("fault", "from this strength on", "ln of the e-value"),
            tuple(
                (Cell(f.fault), number_cell(f.strength), optional_cell(f.log_evalue, "infinite"))
                for f in shown
            ),
            numbers=frozenset({1, 2}),
            left_out=more,
        )
    if faults.not_refuted:
        yield Prose(f"Not refuted by likelihood ratios: {join_names(faults.not_refuted, 40)}.")


def suspect_lines(place: Suspect | None, faults: NamedFaults | None) -> list[str]:
    """Return a line for the part that failed and one for the best-fitting fault, if any."""
    lines = []
    if place is not None:
        part = f"localised: {place.part}" if place.part else "not localised"
        lines.append(f"{part}; {place.why}")
    if faults is not None and faults.best is not None and faults.explains is not None:
        best = faults.best
        lines.append(
            f"fits best: {best.fault} at strength {best.strength:g}, which explains "
            f"{faults.explains:.0%} of the deviation (a diagnosis, without an error rate)"
        )
    return lines
