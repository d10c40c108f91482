"""Renderers of a report: HTML, Markdown, JUnit XML and annotations of a GitHub job.

Every text is escaped so that GitHub shows it as it is: no markup, link, mention or formula of
a hostile name comes through.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import msgspec
from markupsafe import Markup, escape

from simverify.checks import clean_line
from simverify.reports.view import (
    MAX_ITEMS,
    MAX_ROWS,
    Block,
    Case,
    Command,
    Items,
    Node,
    On,
    Prose,
    Report,
    Table,
    Tree,
)
from simverify.reports.words import shell_line
from simverify.results import Document
from simverify.results.reading import document_text
from simverify.results.registry import kind_of, load_view

if TYPE_CHECKING:
    import jinja2


def build_report(run: Document) -> Report:
    """Return the one view of ``run`` that every renderer shows."""
    report: Report = load_view(kind_of(run).report)(run)
    return report


def _page_report(run: Document) -> Report:
    """Return what pages show of ``run``: lists and tables no longer than they have room for."""
    report = build_report(run).shown(On.PAGE)
    return replace(
        report,
        sections=tuple(
            replace(section, blocks=tuple(map(_shorten_block, section.blocks)))
            for section in report.sections
        ),
    )


def _shorten_block(block: Block) -> Block:
    if isinstance(block, Table):
        return block.first(MAX_ROWS)
    return block.first(MAX_ITEMS) if isinstance(block, Items) else block


# A report as annotations of a GitHub job: workflow commands on its standard output.


MAX_ANNOTATIONS = 10
"""GitHub shows no more of a kind in a step."""


def github_annotations(run: Document) -> Iterator[str]:
    """Yield workflow commands: errors for failures, warnings, or one notice of a pass."""
    report = build_report(run)
    cases = [case for case in report.cases if case.outcome in _ANNOTATION_LEVELS]
    for case in cases[:MAX_ANNOTATIONS]:
        yield _workflow_command(_ANNOTATION_LEVELS[case.outcome], report, case)
    if not cases:
        verdict = report.verdict or report.command.capitalize()
        yield _workflow_command(
            "notice", report, Case(f"{verdict}: {report.title}", "passed", report.ruling)
        )


_ANNOTATION_LEVELS = {"failed": "error", "inconclusive": "warning", "warned": "warning"}


def _workflow_command(kind: str, report: Report, case: Case) -> str:
    place = [f"file={_escape_property(report.file)}"] if report.file else []
    if report.line is not None:
        place.append(f"line={report.line}")
    name = f"simverify {report.command}: {case.name}"
    if report.where and case.outcome == "failed":
        name = f"{clean_line(name, 200)}: {report.where}"
    title = f"title={_escape_property(clean_line(name, 400))}"
    lines = "\n".join(clean_line(line) for line in case.message.splitlines()[:60])
    return f"::{kind} {','.join([*place, title])}::{_escape_data(lines or case.name)}"


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(clean_line(text)).replace(":", "%3A").replace(",", "%2C")


# A report as one HTML file that needs no network: its style and script stand inside.
#
# The content security policy allows exactly that style and that script, by their hashes, and
# nothing else; the run file itself is embedded as data where it is small enough.


MAX_EMBEDDED = 300_000
"""Characters of a run file that is embedded; a larger one stays beside the report."""


def html_report(run: Document) -> str:
    """Return the page of ``run``: the same bytes for the same document."""
    data = _embedded_json(run)
    style, script = _template_file("report.css"), _template_file("report.js")
    return (
        _jinja_environment()
        .get_template("report.html.j2")
        .render(
            report=_page_report(run),
            style=Markup(style),
            script=Markup(script),
            policy=(
                f"default-src 'none'; style-src {_csp_hash(style)}; script-src "
                f"{_csp_hash(script)}; "
                "base-uri 'none'; form-action 'none'"
            ),
            data=Markup(data) if len(data) <= MAX_EMBEDDED else None,
            size=f"{len(data):,}",
        )
    )


def _embedded_json(run: Document) -> str:
    """The document as JSON that is plain ASCII and cannot end the element it stands in."""
    text = json.dumps(msgspec.to_builtins(run), ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _template_file(name: str) -> str:
    return files("simverify.reports").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _jinja_environment() -> "jinja2.Environment":
    import jinja2  # a twentieth of a second that most commands do not need

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_render_block,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["shell"] = lambda text: escape(shell_line(text))
    environment.filters["kind"] = lambda block: type(block).__name__
    return environment


def _render_block(value: Any) -> Any:
    # Every text that a template prints is bounded and printable; markup is our own.
    return clean_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value


# A report as JUnit XML, for servers that count tests.


MAX_JUNIT_CASES = 2000


def junit_report(run: Document) -> str:
    """Return the XML of ``run``: an inconclusive verdict is an error, a warning passes.

    What a case that passed rests on are its properties.
    """
    report = build_report(run)
    cases = report.cases[:MAX_JUNIT_CASES]
    suite = ElementTree.Element(
        "testsuite",
        name=f"simverify {report.command}",
        tests=str(len(cases)),
        failures=str(sum(case.outcome == "failed" for case in cases)),
        errors=str(sum(case.outcome == "inconclusive" for case in cases)),
        skipped=str(sum(case.outcome == "skipped" for case in cases)),
    )
    if report.started:  # a sweep holds no time
        suite.set("timestamp", clean_line(report.started))
    for case in cases:
        _add_case(suite, case, f"simverify.{report.command}")
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _add_case(suite: ElementTree.Element, case: Case, group: str) -> None:
    element = ElementTree.SubElement(suite, "testcase", classname=group, name=clean_line(case.name))
    lines = [clean_line(line) for line in case.message.splitlines()[:200]]
    head, text = " ".join(lines)[:300], "\n".join(lines)
    if case.rests_on:
        known = ElementTree.SubElement(element, "properties")
        for name, value in case.rests_on:
            ElementTree.SubElement(known, "property", name=name, value=clean_line(value))
    match case.outcome:
        case "failed":
            ElementTree.SubElement(element, "failure", message=head, type="FAIL").text = text
        case "inconclusive":
            ElementTree.SubElement(element, "error", message=head, type="INCONCLUSIVE").text = text
        case "skipped":
            ElementTree.SubElement(element, "skipped", message=head)
        case "warned":
            ElementTree.SubElement(element, "system-out").text = f"warning: {text}"
        case "passed":
            pass


# A report as Markdown, for a job's summary or a comment: no charts, tables cut short.


MAX_MARKDOWN = 500_000
"""GitHub takes a step's summary of 1 MiB at most."""

_MAX_MARKDOWN_ROWS, _MAX_FOLDED_ROWS = 40, 10
"""Rows of a table; few of one that a page would fold away and that has more than the most."""

_VERDICT_ICONS = {"PASS": "\N{WHITE HEAVY CHECK MARK}", "FAIL": "\N{CROSS MARK}"}


def markdown_report(run: Document) -> str:
    """Return the Markdown of ``run``, bounded; the same bytes for the same document."""
    text = "\n\n".join(_markdown_parts(_page_report(run))) + "\n"
    if len(text) <= MAX_MARKDOWN:
        return text
    return text[:MAX_MARKDOWN].rpartition("\n")[0] + "\n\nThe rest stands in the run file.\n"


def _markdown_parts(report: Report) -> Iterator[str]:
    verdict = report.verdict or report.command.capitalize()
    sign = _VERDICT_ICONS.get(verdict, "")
    yield f"## {sign} {verdict}: {escape_markdown(report.title)}".replace("##  ", "## ")
    yield escape_markdown(report.ruling)
    yield "\n".join(
        f"- **{escape_markdown(fact.name)}**: {escape_markdown(fact.text)}" for fact in report.facts
    )
    for section in report.sections:
        yield f"### {escape_markdown(section.title)}"
        for block in section.blocks:
            yield from _markdown_block(block)
    when = f"started {escape_markdown(report.started)} on " if report.started else ""
    yield (
        f"simverify {escape_markdown(report.version)}, seed {report.seed}, "
        f"{when}{escape_markdown(report.machine)}."
    )


def _markdown_block(block: Block) -> Iterator[str]:
    match block:
        case Prose(text):
            yield escape_markdown(text)
        case Items(entries, left_out):
            more = [f"- {left_out:,} more stand in the run file."] if left_out else []
            yield "\n".join([*(f"- {escape_markdown(entry)}" for entry in entries), *more])
        case Table():
            yield _markdown_table(block)
        case Tree(caption, roots, left_out):
            lines = [
                f"{caption}; * marks the output that deviates most",
                *_markdown_nodes(roots, 0),
            ]
            more = [f"{left_out:,} branches more stand in the run file"] if left_out else []
            yield _code_fence([*lines, *more])
        case Command(text):
            yield _code_fence([shell_line(text)])
        # The numbers of pictures are in the tables.


def _markdown_table(table: Table) -> str:
    long = table.folded and len(table.rows) > _MAX_MARKDOWN_ROWS
    shown = table if table.whole else table.first(_MAX_FOLDED_ROWS if long else _MAX_MARKDOWN_ROWS)
    numbers = table.numbers
    sides = ["---:" if i in numbers else "---" for i in range(len(table.columns))]
    lines = [
        f"**{escape_markdown(table.caption)}**",
        "",
        _markdown_row([escape_markdown(name) for name in table.columns]),
        _markdown_row(sides),
        *(_markdown_row([escape_markdown(cell.text) for cell in row]) for row in shown.rows),
    ]
    if shown.left_out:
        lines += ["", f"{shown.left_out:,} rows more stand in the run file."]
    return "\n".join(lines)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_nodes(nodes: Sequence[Node], depth: int) -> Iterator[str]:
    for node in nodes:
        mark = "*" if node.on_path else " "
        yield (
            f"{'  ' * depth}{mark} {node.token}: emitted {node.emitted_text}, due {node.due_text}"
        )
        yield from _markdown_nodes(node.children, depth + 1)


def _code_fence(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def escape_markdown(text: str) -> str:
    """Return ``text`` on one line, so that GitHub's Markdown shows it as it is."""
    line = re.sub(r"([\\`*_{}\[\]|~#$])", r"\\\1", clean_line(text))
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A mention, and an address, would become a link.
    line = line.replace("@", "&#64;").replace("://", ":&#47;&#47;")
    return line.replace("www.", "www&#46;")


# The files of a report.


FORMATS: dict[str, Callable[[Document], str]] = {
    "report.html": html_report,
    "report.md": markdown_report,
    "junit.xml": junit_report,
    "run.json": document_text,
}
"""What renders a run to each file of a report."""


def register_format(file: str, render: Callable[[Document], str]) -> None:
    """Add a file to every report: from now on ``render`` writes it from the run.

    ``render`` may call :func:`build_report` for what the report says. Raises ``ValueError`` if the
    file has a format already; ``FORMATS.pop(file)`` removes one.
    """
    if file in FORMATS:
        raise ValueError(f"{file} is a file of reports already: choose another name")
    FORMATS[file] = render
