"""An explanation as plain text: the rows, then every path with its draws and branches."""

from collections.abc import Iterator, Sequence

from simverify.auditing.replay.paths import Explanation, Trail
from simverify.symbolic.enumeration.recorder import Branch


def render(explanation: Explanation, *, most: int = 10, only: int | None = None) -> str:
    """Plain text of the rows and of the ``most`` heaviest paths; no colour, no width.

    ``only``: the number of the one path to show, from 0 in the order of weight.
    """
    e = explanation
    what = "tokens" if e.head else "output"
    lines = [
        f"{e.instance}: {what} {_list(e.sequence)}",
        *e.head,
        f"emitted with probability {e.emitted:.9g}, due {e.due:.9g}, "
        f"difference {e.emitted - e.due:+.3g}",
        "",
    ]
    for place in e.positions:
        lines.append(f"position {place.index}: token {place.token}")
        lines.append(f"  p = {_row(place.target)}")
        if place.draft is not None:
            lines.append(f"  q = {_row(place.draft)}")
    if not e.trails:
        return "\n".join([*lines, "", "no path leads there: the code never emits it"]) + "\n"
    count = "1 path leads" if len(e.trails) == 1 else f"{len(e.trails)} paths lead"
    lines += ["", f"{count} there, numbered from 0, heaviest first"]
    if only is not None:
        lines += ["", *_trail_lines(only, e.trails[only])]
        return "\n".join(lines) + "\n"
    for number, trail in enumerate(e.trails[:most]):
        lines += ["", *_trail_lines(number, trail)]
    if len(e.trails) > most:
        rest = sum(trail.contribution for trail in e.trails[most:])
        lines += ["", f"{len(e.trails) - most} more paths of weight {rest:.6g} together"]
    return "\n".join(lines) + "\n"


def _trail_lines(number: int, trail: Trail) -> Iterator[str]:
    yield f"path {number}: {trail.contribution:.6g}, emits {_list(trail.emitted)}"
    if trail.drafted is not None:
        drafted = f"tree {trail.tree}" if trail.tree else f"draft {_list(trail.drafted)}"
        yield f"  {drafted}: {trail.draft_probability:.6g}"
    for branch in trail.branches:
        yield branch_line(branch)
    idle = set(range(1, trail.draws + 1)) - {branch.draw for branch in trail.branches}
    if idle and None not in {branch.draw for branch in trail.branches}:
        yield f"  decided nothing: draw {_list(sorted(idle))}"
    if trail.completion != 1:
        yield f"  the target completes it: {trail.completion:.6g}"


def branch_line(branch: Branch) -> str:
    """Return the line of one decision."""
    text = "  draws: " if branch.draw is None else f"  draw {branch.draw}: "
    text += branch.kind.value
    if branch.left is None or branch.ways > 2:
        text += f", number {branch.taken} of 0..{branch.ways - 1}"
    if branch.left is not None:
        text += f", u in [{branch.left[0]:.6g}, {branch.left[1]:.6g})"
    return f"{text}: {branch.weight:.6g}" + (f" at {branch.where}" if branch.where else "")


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _row(row: tuple[float, ...]) -> str:
    return "  ".join(f"{x:.6g}" for x in row)
