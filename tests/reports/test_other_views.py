"""What reports say of a self-test and of a plan."""

from support.pages.html_page import Page, check
from support.pages.report_runs import example

from simverify.reports.formats.html import html_report
from simverify.reports.formats.markdown import markdown_report
from simverify.reports.report import report_of
from simverify.results import PlanLine, PlanMeta, PlanRun, SelfTestRun, Timing, Tried


def words(run):
    return " ".join(check(html_report(run)).text.split())


META = example("compare").meta


def test_a_self_test():
    def entry(name, kind, caught):
        return Tried(name=name, kind=kind, caught=caught, tier="exact", effort=7, tv=0.1)

    run = SelfTestRun(
        schema_version=1, seed=0, gamma=3, vocab_size=4, alpha=1e-6, detect=0.01, verdict="FAIL",
        results=(entry("good", "control", False), entry("bad", "fault", True),
                 entry("worse", "fault", False)),
        unexpected=("worse",), meta=META,
    )  # fmt: skip
    text = words(run)
    assert "FAIL Do not trust audits on this machine: unexpected is worse." in text
    assert "1 of 2 caught" in text
    assert "1 of 1 passed" in text
    assert [case.outcome for case in report_of(run).cases] == ["passed", "passed", "failed"]


def test_a_plan_has_no_verdict():
    meta = PlanMeta(
        version="0", started="", seconds=0.0, machine="", python="", threads=2,
        timings=(Timing(model="markov-64", verifier="token", blocks_per_second=1e6),),
        row_seconds=(90.0, None),
    )  # fmt: skip
    rows = (
        PlanLine(test="G2", level=1e-7, samples=1e6, unit="tokens", deviation=0.01, measure="TV"),
        PlanLine(test="KS", level=1e-7, samples=None, unit="tokens", deviation=0.01, measure="D"),
    )
    run = PlanRun(
        schema_version=1, seed=0, alpha=1e-6, power=0.9, vocab_size=64, gamma=8, contexts=577,
        asked="deviation", deviation=0.01, samples=None, seconds=None, tokens_per_block=3.7,
        rows=rows, meta=meta,
    )  # fmt: skip
    text = words(run)
    for part in ("It judges nothing", "1.5 min", "none will do", "--deviation 0.01"):
        assert part in text, part
    assert markdown_report(run).startswith("## Plan: To find 0.01")
    assert "PASS" not in Page(html_report(run)).text
