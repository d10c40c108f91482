"""From any result document to its report."""

from simverify.reports.audit.view import audit_report
from simverify.reports.compare.view import compare_report
from simverify.reports.others.bisection import bisect_report
from simverify.reports.others.engine_views import table_report
from simverify.reports.others.sweeps import sweep_report
from simverify.reports.others.views import plan_report, self_test_report
from simverify.reports.served.against import against_report
from simverify.reports.served.matrix import matrix_report
from simverify.reports.served.output_view import output_report
from simverify.reports.served.triage import triage_report
from simverify.reports.served.watch import watch_report
from simverify.reports.view import Report
from simverify.results import (
    AgainstRun,
    AuditRun,
    BisectRun,
    CompareRun,
    Document,
    MatrixRun,
    OutputRun,
    PlanRun,
    SweepRun,
    TableRun,
    TriageRun,
    WatchRun,
)


def report_of(run: Document) -> Report:
    """Return the one view of ``run`` that every renderer shows."""
    if isinstance(run, CompareRun):
        return compare_report(run)
    if isinstance(run, AuditRun):
        return audit_report(run)
    if isinstance(run, OutputRun):
        return output_report(run)
    if isinstance(run, TriageRun):
        return triage_report(run)
    if isinstance(run, WatchRun):
        return watch_report(run)
    if isinstance(run, AgainstRun):
        return against_report(run)
    if isinstance(run, PlanRun):
        return plan_report(run)
    if isinstance(run, TableRun):
        return table_report(run)
    if isinstance(run, BisectRun):
        return bisect_report(run)
    if isinstance(run, SweepRun):
        return sweep_report(run)
    if isinstance(run, MatrixRun):
        return matrix_report(run)
    return self_test_report(run)
