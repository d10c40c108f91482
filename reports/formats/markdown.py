"""A report as Markdown, for a job's summary or a comment: no charts, tables cut short.

Every text is escaped so that GitHub shows it as it is: no markup, link, mention or formula of
a hostile name comes through.
"""

import re
from collections.abc import Iterator, Sequence

from simverify.checks import clean
from simverify.reports.report import report_of
from simverify.reports.view import (
    Block,
    Command,
    Items,
    Node,
    Pictures,
    Prose,
    Report,
    Table,
    Tree,
)
from simverify.reports.words import (
    shell,
)
from simverify.results import Document

MOST_CHARACTERS = 500_000
"""GitHub takes a step's summary of 1 MiB at most."""

_MOST_ROWS, _FEW_ROWS = 40, 10
"""Rows of a table; few of one that a page would fold away and that has more than the most."""

_SIGNS = {"PASS": "\N{WHITE HEAVY CHECK MARK}", "FAIL": "\N{CROSS MARK}"}


def markdown_report(run: Document) -> str:
    """Return the Markdown of ``run``, bounded; the same bytes for the same document."""
    text = "\n\n".join(_parts(report_of(run))) + "\n"
    if len(text) <= MOST_CHARACTERS:
        return text
    return text[:MOST_CHARACTERS].rpartition("\n")[0] + "\n\nThe rest stands in the run file.\n"


def _parts(report: Report) -> Iterator[str]:
    verdict = report.verdict or report.command.capitalize()
    sign = _SIGNS.get(verdict, "")
    yield f"## {sign} {verdict}: {escape(report.title)}".replace("##  ", "## ")
    yield escape(report.ruling)
    yield "\n".join(f"- **{escape(fact.name)}**: {escape(fact.text)}" for fact in report.facts)
    for section in report.sections:
        yield f"### {escape(section.title)}"
        for block in section.blocks:
            yield from _block(block)
    when = f"started {escape(report.started)} on " if report.started else ""
    yield (
        f"simverify {escape(report.version)}, seed {report.seed}, {when}{escape(report.machine)}."
    )


def _block(block: Block) -> Iterator[str]:
    match block:
        case Prose(text):
            yield escape(text)
        case Items(entries, left_out):
            more = [f"- {left_out:,} more stand in the run file."] if left_out else []
            yield "\n".join([*(f"- {escape(entry)}" for entry in entries), *more])
        case Table():
            yield _table(block)
        case Tree(caption, roots, left_out):
            lines = [f"{caption}; * marks the output that deviates most", *_nodes(roots, 0)]
            more = [f"{left_out:,} branches more stand in the run file"] if left_out else []
            yield _fenced([*lines, *more])
        case Command(text):
            yield _fenced([shell(text)])
        case Pictures():  # their numbers stand in the tables
            pass


def _table(table: Table) -> str:
    long = table.folded and len(table.rows) > _MOST_ROWS
    rows = table.rows if table.whole else table.rows[: _FEW_ROWS if long else _MOST_ROWS]
    left_out = len(table.rows) - len(rows) + table.left_out
    sides = ["---:" if i in table.numbers else "---" for i in range(len(table.columns))]
    lines = [
        f"**{escape(table.caption)}**",
        "",
        _line([escape(name) for name in table.columns]),
        _line(sides),
        *(_line([escape(cell.text) for cell in row]) for row in rows),
    ]
    if left_out:
        lines += ["", f"{left_out:,} rows more stand in the run file."]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _nodes(nodes: Sequence[Node], depth: int) -> Iterator[str]:
    for node in nodes:
        mark = "*" if node.on_path else " "
        yield (
            f"{'  ' * depth}{mark} {node.token}: emitted {node.emitted_text}, due {node.due_text}"
        )
        yield from _nodes(node.children, depth + 1)


def _fenced(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def escape(text: str) -> str:
    """Return ``text`` on one line, so that GitHub's Markdown shows it as it is."""
    line = re.sub(r"([\\`*_{}\[\]|~#$])", r"\\\1", clean(text))
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A mention, and an address, would become a link.
    line = line.replace("@", "&#64;").replace("://", ":&#47;&#47;")
    return line.replace("www.", "www&#46;")
