"""A self-test and a plan as reports."""

from simverify.reports.others.plan import basis, time_here, title
from simverify.reports.others.self_test import OUTCOMES, UNITS
from simverify.reports.view import Case, Cell, Command, Fact, Prose, Report, Section, Table
from simverify.reports.words import MOST_ROWS, figure, first, listed, optional
from simverify.results import PlanRun, SelfTestRun, Tried


def self_test_report(run: SelfTestRun) -> Report:
    """Return the report of a self-test."""
    faults = [entry for entry in run.results if entry.kind == "fault"]
    controls = [entry for entry in run.results if entry.kind == "control"]
    caught = sum(entry.caught for entry in faults)
    ruling = (
        "The audit is fit for use here: it caught every catalogued fault and passed every control."
        if run.verdict == "PASS"
        else f"Do not trust audits on this machine: unexpected is {listed(run.unexpected)}."
    )
    shown, left_out = first(sorted(run.results, key=lambda e: e.as_expected), 2 * MOST_ROWS)
    table = Table(
        "Every entry on trial",
        ("name", "kind", "outcome", "tier", "effort", "of", "TV"),
        tuple(_entry(entry) for entry in shown),
        numbers=frozenset({4, 6}),
        left_out=left_out,
    )
    return Report(
        command="self-test",
        title="the catalogue of faults and controls",
        verdict=run.verdict,
        ruling=ruling,
        facts=(
            Fact("Faults", f"{caught} of {len(faults)} caught"),
            Fact("Controls", f"{sum(not e.caught for e in controls)} of {len(controls)} passed"),
            Fact("Size", f"gamma up to {run.gamma}, V up to {run.vocab_size}"),
            Fact("Sampled tier", f"alpha {run.alpha:g} each, power .9 against {run.detect:g}"),
        ),
        sections=(
            Section("Entries", (table,)),
            Section("To reproduce", (Command(f"simverify audit --self-test --seed {run.seed}"),)),
        ),
        cases=tuple(
            Case(
                f"{entry.kind} {entry.name}",
                "passed" if entry.as_expected else "failed",
                "" if entry.as_expected else OUTCOMES[entry.kind, entry.caught],
            )
            for entry in run.results
        ),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
    )


def _entry(entry: Tried) -> tuple[Cell, ...]:
    return (
        Cell(entry.name),
        Cell(entry.kind),
        Cell(OUTCOMES[entry.kind, entry.caught], mark="pass" if entry.as_expected else "fail"),
        Cell(entry.tier),
        Cell(f"{entry.effort:,}", entry.effort),
        Cell(UNITS[entry.tier]),
        optional(entry.tv, "", 3),
    )


def plan_report(run: PlanRun) -> Report:
    """Return the report of a plan, which has no verdict."""
    rows, left_out = first(list(zip(run.rows, run.meta.row_seconds, strict=True)), MOST_ROWS)
    table = Table(
        title(run),
        ("test", "level", "deviation", "samples", "of", "time here", "measure"),
        tuple(
            (
                Cell(row.test),
                figure(row.level, 2),
                optional(row.deviation, "none", 3),
                optional(row.samples, "none will do", 3),
                Cell(row.unit),
                Cell("" if seconds is None else time_here(seconds), seconds),
                Cell(row.measure),
            )
            for row, seconds in rows
        ),
        numbers=frozenset({1, 2, 3, 5}),
        left_out=left_out,
    )
    asked = {"deviation": run.deviation, "samples": run.samples, "seconds": run.seconds}
    given = asked[run.asked]
    command = (
        f"simverify plan --alpha {run.alpha:g} --power {run.power:g} --vocab {run.vocab_size} "
        f"--gamma {run.gamma} --{run.asked} {given:g}"
    )
    return Report(
        command="plan",
        title=title(run),
        verdict=None,
        ruling="A plan: what a claim costs before it is made. It judges nothing.",
        facts=(
            Fact("Size", f"V = {run.vocab_size:,}, gamma = {run.gamma}"),
            Fact("Error rates", f"alpha {run.alpha:g}, power {run.power:g}"),
        ),
        sections=(
            Section("What each test needs", (table, *(Prose(line) for line in basis(run)))),
            Section("To reproduce", (Command(command),)),
        ),
        cases=(),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
    )
