"""A report as JUnit XML, for servers that count tests."""

from xml.etree import ElementTree

from simverify.checks import clean
from simverify.reports.report import report_of
from simverify.reports.view import Case
from simverify.results import Document

MOST_CASES = 2000


def junit_report(run: Document) -> str:
    """Return the XML of ``run``: an inconclusive verdict is an error, a warning passes.

    What a case that passed rests on are its properties.
    """
    report = report_of(run)
    cases = report.cases[:MOST_CASES]
    suite = ElementTree.Element(
        "testsuite",
        name=f"simverify {report.command}",
        tests=str(len(cases)),
        failures=str(sum(case.outcome == "failed" for case in cases)),
        errors=str(sum(case.outcome == "inconclusive" for case in cases)),
        skipped=str(sum(case.outcome == "skipped" for case in cases)),
    )
    if report.started:  # a sweep holds no time
        suite.set("timestamp", clean(report.started))
    for case in cases:
        _add(suite, case, f"simverify.{report.command}")
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _add(suite: ElementTree.Element, case: Case, group: str) -> None:
    element = ElementTree.SubElement(suite, "testcase", classname=group, name=clean(case.name))
    lines = [clean(line) for line in case.message.splitlines()[:200]]
    head, text = " ".join(lines)[:300], "\n".join(lines)
    if case.rests_on:
        known = ElementTree.SubElement(element, "properties")
        for name, value in case.rests_on:
            ElementTree.SubElement(known, "property", name=name, value=clean(value))
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
