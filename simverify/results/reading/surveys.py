"""What goes together in a table of engines, and in a bisection."""

from collections.abc import Iterator

from simverify.results import BisectRun, TableRun


def table_complaints(run: TableRun) -> Iterator[str]:
    """Name each field of a table that another contradicts; its verdicts are ``verdicts``'."""
    if not run.rows:
        yield "rows is empty: expected one or more"
    if len(run.rows) != len(run.meta.row_seconds):
        yield (
            f"meta.row_seconds has {len(run.meta.row_seconds)} values: expected {len(run.rows)}, "
            "one for each row"
        )
    seen: set[str] = set()
    for i, row in enumerate(run.rows):
        if row.engine in seen:
            yield f"rows[{i}].engine is {row.engine!r}, which has a row already"
        seen.add(row.engine)


def bisect_complaints(run: BisectRun) -> Iterator[str]:
    """Name each field of a bisection that another contradicts."""
    order = {version: i for i, version in enumerate(run.versions)}
    if len(run.versions) < 2 or run.versions[0] != run.good or run.versions[-1] != run.bad:
        yield "versions does not begin with good and end with bad"
        return
    changed = {one.version: one.changed for one in run.tried}
    for i, one in enumerate(run.tried):
        if one.version not in order:
            yield f"tried[{i}].version is {one.version!r}, which is not in versions"
        if (one.verdict is None) == (one.state == "judged"):
            yield f"tried[{i}].verdict is {one.verdict} with the state {one.state}"
    if run.outcome == "unchanged":
        if run.first is not None or run.last is not None or run.differences:
            yield "outcome is unchanged: expected neither first nor last nor differences"
        if changed.get(run.bad) is not False:
            yield "outcome is unchanged: expected bad among tried, not changed"
        return
    if run.first is None or run.last is None:
        yield f"outcome is {run.outcome}: expected first and last"
    elif not (changed.get(run.first) is True and changed.get(run.last) is False):
        yield "first and last are not, in tried, one that changed and one that did not"
    elif order[run.first] <= order[run.last]:
        yield "first does not come after last"
    elif (order[run.first] - order[run.last] == 1) != (run.outcome == "changed"):
        between = order[run.first] - order[run.last] - 1
        yield f"outcome is {run.outcome} with {between} versions between last and first"
