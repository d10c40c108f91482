"""A report as annotations of a GitHub job: workflow commands on its standard output."""

from collections.abc import Iterator

from simverify.checks import clean
from simverify.reports.report import report_of
from simverify.reports.view import Case, Report
from simverify.results import Document

MOST_ANNOTATIONS = 10
"""GitHub shows no more of a kind in a step."""


def annotations(run: Document) -> Iterator[str]:
    """Yield workflow commands: errors for failures, warnings, or one notice of a pass."""
    report = report_of(run)
    told = [case for case in report.cases if case.outcome in _KINDS]
    for case in told[:MOST_ANNOTATIONS]:
        yield _command(_KINDS[case.outcome], report, case)
    if not told:
        verdict = report.verdict or report.command.capitalize()
        yield _command(
            "notice", report, Case(f"{verdict}: {report.title}", "passed", report.ruling)
        )


_KINDS = {"failed": "error", "inconclusive": "warning", "warned": "warning"}


def _command(kind: str, report: Report, case: Case) -> str:
    place = [f"file={_property(report.file)}"] if report.file else []
    if report.line is not None:
        place.append(f"line={report.line}")
    name = f"simverify {report.command}: {case.name}"
    if report.where and case.outcome == "failed":
        name = f"{clean(name, 200)}: {report.where}"
    title = f"title={_property(clean(name, 400))}"
    lines = "\n".join(clean(line) for line in case.message.splitlines()[:60])
    return f"::{kind} {','.join([*place, title])}::{_data(lines or case.name)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(clean(text)).replace(":", "%3A").replace(",", "%2C")
