"""What sampled tests say of the catalogued faults, for the reports of both commands."""

from collections.abc import Iterator

from simverify.reports.view import Block, Cell, Prose, Table
from simverify.reports.words import MOST_ROWS, figure, first, listed, optional
from simverify.results import NamedFaults


def fault_blocks(faults: NamedFaults) -> Iterator[Block]:
    """Yield which faults were refuted, and from which strength on."""
    if faults.refuted:
        shown, more = first(faults.refuted, MOST_ROWS)
        yield Table(
            f"Faults refuted (each wrongly with probability {faults.beta:g} at most)",
            ("fault", "from this strength on", "ln of the e-value"),
            tuple(
                (Cell(f.fault), figure(f.strength), optional(f.log_evalue, "infinite"))
                for f in shown
            ),
            numbers=frozenset({1, 2}),
            left_out=more,
        )
    if faults.not_refuted:
        yield Prose(f"Not refuted by likelihood ratios: {listed(faults.not_refuted, 40)}.")
