"""What sampled tests say of faults, for both commands: what failed, and which are refuted."""

from collections.abc import Iterator

from simverify.reports.view import Block, Cell, Prose, Table
from simverify.reports.words import MOST_ROWS, figure, first, listed, optional
from simverify.results import NamedFaults, Suspect


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


def suspicion(place: Suspect | None, faults: NamedFaults | None) -> list[str]:
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
