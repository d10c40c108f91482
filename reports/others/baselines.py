"""A check against a baseline: its lines for the terminal, and its Markdown."""

from collections.abc import Iterator

from simverify.baselines.items import Check, Item
from simverify.checks import clean

_WORDS = {"PASS": "no worse", "FAIL": "worse", "INCONCLUSIVE": "too short to tell"}
_SIGNS = {"worse": "WORSE", "better": "better", "too short": "too short", "same": "same"}
_MOST_ITEMS = 40
"""Lines of two sweeps on a terminal."""


def check_lines(check: Check, name: str, *, verbose: bool = False) -> list[str]:
    """Return what the terminal shows, the verdict first; ``verbose``: all that was held to it."""
    lines = [f"{check.verdict} {name}: {_WORDS[check.verdict]}"]
    shown = check.items if verbose else tuple(_notable(check))
    most = len(shown) if verbose or check.cells is None else _MOST_ITEMS
    lines += [_line(item) for item in shown[:most]]
    if shown[most:]:
        lines.append(f"{len(shown) - most:,} more: --verbose")
    if check.cells is not None:
        moved = {item.subject for item in check.items if _moved(item)}
        lines.append(f"{check.cells - len(moved):,} of {check.cells:,} cells and audits are equal")
    lines += _ruling(check)
    return lines + (list(check.notes) if verbose else [])


def check_markdown(check: Check, name: str) -> str:
    """Return the check as Markdown, for the page of a job."""
    rows = [
        f"| {' | '.join(_cell(cell) for cell in _cells(item))} |"
        for item in check.items
        if item.outcome not in ("same", "shown")
        or (item.what.startswith("E[tau]") and (check.cells is None or item.old != item.new))
    ]
    head = ["| what | baseline | run | difference | |", "| --- | --- | --- | --- | --- |"]
    title = f"## {check.verdict}: baseline {_cell(name)}, {_WORDS[check.verdict]}"
    return "\n".join([title, "", *(head + rows if rows else []), "", *_ruling(check)]) + "\n"


def _notable(check: Check) -> Iterator[Item]:
    """Yield what a reader looks for: of two sweeps, whose cells are many, no equal estimates."""
    if check.cells is not None:
        # What was called something first, then what could not be told: the rest may be long, and
        # is cut short.
        yield from filter(_called, check.items)
        yield from check.of("too short")
        for item in check.items:
            told = _called(item) or item.outcome == "too short" or item.what.startswith("Pr(")
            if (_moved(item) and not told) or item.old == item.new == "FAIL":
                yield item
        return
    for item in check.items:
        told = _called(item) or item.outcome == "too short" or item.what.startswith("E[tau]")
        if told or item.old == item.new == "FAIL":
            yield item


def _called(item: Item) -> bool:
    return item.outcome in ("worse", "better")


def _moved(item: Item) -> bool:
    return _called(item) or item.old != item.new


def _line(item: Item) -> str:
    what, old, new, difference, outcome = _cells(item)
    tail = f", {difference}" if difference else ""
    return f"{outcome}: {what}: {old} -> {new}{tail}"


def _cells(item: Item) -> tuple[str, str, str, str, str]:
    difference = ""
    if item.low is not None and item.high is not None:
        difference = f"difference {item.low:+.4f} to {item.high:+.4f}"
        if item.pvalue is not None and item.outcome in ("worse", "better"):
            difference += f", p {item.pvalue:.1g}"
    old, new = (_number(text) for text in (item.old, item.new))
    told = "; ".join(part for part in (difference, item.note) if part)
    what = clean(f"{item.subject}: {item.what}")
    return what, old, new, told, _SIGNS.get(item.outcome, item.outcome)


def _number(text: str) -> str:
    try:
        return f"{float(text):.4f}" if "." in text and len(text) > 5 else text
    except ValueError:
        return text


def _cell(text: str) -> str:
    return clean(text).replace("|", "\\|").replace("<", "&lt;")


def _ruling(check: Check) -> Iterator[str]:
    if check.blocks is not None:
        whom = "both runs" if check.both else "the run"
        yield f"{check.blocks:,} blocks of {whom} would find a drop of {check.detect:.2%} of E[tau]"
    if check.rate:
        tests = f"{check.tests} tests and both runs' verdicts" if check.tests else "both verdicts"
        yield (
            f"{tests}; where nothing changed, something is called worse or better with "
            f"probability {check.rate:g} at most"
        )
