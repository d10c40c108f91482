"""What reports say of failures of every kind, of a self-test and of a plan."""

import pytest
from html_page import Page, check
from msgspec.structs import replace
from report_runs import example

from simverify.reports.html import html_report
from simverify.reports.markdown import markdown_report
from simverify.reports.report import report_of
from simverify.results import (
    Certificate,
    FailingTrial,
    FaultAtStrength,
    NamedFaults,
    PlanLine,
    PlanMeta,
    PlanRun,
    SampledModel,
    SampledTier,
    SelfTestRun,
    Suspect,
    Timing,
    Tried,
)

FAULTS = NamedFaults(
    refuted=(FaultAtStrength(fault="inverted-ratio", strength=0.3, log_evalue=12.5),),
    not_refuted=("lenient(0.9)",),
    beta=1e-3,
    best=FaultAtStrength(fault="target-residual", strength=0.1, log_evalue=40.0),
    explains=0.93,
)
SUSPECT = Suspect(part="residual", position=0, why="slot 1 after a rejection alone rejects")


def words(run):
    return " ".join(check(html_report(run)).text.split())


@pytest.fixture(scope="module")
def lossy():
    """A comparison whose first kernel fails, and whose second accepts as another rule."""
    run = example("compare")
    first, second, *rest = run.results
    lossless = replace(
        first.lossless, verdict="FAIL", findings=("transitions: p = 1e-40",),
        localisation=SUSPECT, faults=FAULTS,
    )  # fmt: skip
    acceptance = replace(second.acceptance, verdict="FAIL", words="not the declared rule",
                         findings=("acceptance: p = 1e-30",))  # fmt: skip
    rows = (
        replace(first, verdict="FAIL", lossless=lossless),
        replace(second, verdict="FAIL", acceptance=acceptance),
        *rest,
    )
    return replace(run, verdict="FAIL", results=rows)


def test_a_lossy_verifier_and_a_strange_one_are_told_apart(lossy):
    ruling = report_of(lossy).ruling
    assert ruling.startswith("Do not ship token on compact: the output does not follow")
    assert "block on compact: accepts otherwise than the rule" in ruling
    text = words(lossy)
    for part in (
        "token on compact: transitions: p = 1e-40",
        "token on compact: localised: residual; slot 1 after a rejection alone rejects",
        "fits best: target-residual at strength 0.1, which explains 93% of the deviation",
        "Faults refuted (each wrongly with probability 0.001 at most)",
        "Not refuted by likelihood ratios: lenient(0.9)",
    ):
        assert part in text, part
    assert [case.outcome for case in report_of(lossy).cases[:3]] == ["failed", "failed", "passed"]


def test_too_few_samples_are_no_reason_to_ship():
    run = example("compare")
    row = run.results[0]
    row = replace(
        row, verdict="INCONCLUSIVE", lossless=replace(row.lossless, verdict="INCONCLUSIVE")
    )
    run = replace(run, verdict="INCONCLUSIVE", results=(row, *run.results[1:]))
    assert report_of(run).ruling == (
        "Do not decide on this run about token on compact: too few samples."
    )


@pytest.fixture(scope="module")
def sampled():
    run = example("transformers")
    tests = example("compare").results[-1].lossless.tests
    tier = SampledTier(
        samples=1000, looks=4, alpha=1e-6, detect=0.01, power=0.9, tests=tests, detectable=0.008,
        certificate=Certificate(bound=0.004, delta=1e-3, method="plug-in", assumption="N fixed"),
        optimality=None, findings=(), faults=FAULTS, localisation=None,
        instances=(
            SampledModel("compact, gamma=3", 3, 3, 900, 0.01, 0.008, 0.002),
            SampledModel("wide, V=12, gamma=1", 12, 1, 100, 0.03, 0.024, 0.004),
        ),
    )  # fmt: skip
    return replace(run, tier="sampled", not_enumerable="cannot follow f() at x.py:3", sampled=tier)


def test_a_sampled_pass_says_its_error_rates_certificate_and_what_it_refutes(sampled):
    text = words(sampled)
    for part in (
        "No deviation was found, with the error rates below",
        "1,000 calls",
        "false-alarm rate 1e-06, on V=3 gamma=3, V=12 gamma=1, nothing beyond",
        "power 0.9 against TV 0.024 or more, asked against 0.03, TV at most 0.004",
        "on V=3 gamma=3, V=12 gamma=1, nothing beyond: mean one-token TV at most 0.004",
        "at most 0.004, but for a probability of 0.001 (plug-in), if N fixed",
        "cannot follow f() at x.py:3",
        "inverted-ratio",
        "Tests of the sampled tier",
    ):
        assert part in text, part


def test_a_sampled_failure_says_where_and_shows_a_trial(sampled):
    trial = FailingTrial(
        instance=example("faulty-block").counterexample.instance, number=0, pilot=False,
        trial=12345, emitted=(1, 0), why="it emits a token of probability 0",
    )  # fmt: skip
    tier = replace(sampled.sampled, localisation=SUSPECT, findings=("G2: p = 1e-20",))
    run = replace(sampled, verdict="FAIL", sampled=tier, trial=trial, findings=("G2: p = 1e-20",))
    text = words(run)
    for part in (
        "Do not ship it: G2: p = 1e-20",
        "residual; slot 1 after a rejection alone rejects",
        "Trial 12,345 on",
        "emitted 1, 0; it emits a token of probability 0",
    ):
        assert part in text, part


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
