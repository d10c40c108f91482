"""What sampled tests point at, in words: the part that failed, and the fault it looks like."""

from simverify.results import NamedFaults, Suspect


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
