"""An audit as a report: the verdict, the counterexample, what was promised and refuted."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from simverify.reports.audit import found as say
from simverify.reports.audit.counterexample import (
    breach_blocks,
    counterexample_blocks,
    trial_blocks,
)
from simverify.reports.audit.facts import audit_facts, audit_ruling
from simverify.reports.audit.failure import audit_lines
from simverify.reports.audit.found import certified_on, promises
from simverify.reports.audit.lines import briefly, likeliest
from simverify.reports.audit.tried import ALLOWED, cut_short
from simverify.reports.faults import fault_blocks
from simverify.reports.view import (
    Block,
    Case,
    Cell,
    Command,
    Items,
    Mark,
    Prose,
    Report,
    Section,
    Table,
)
from simverify.reports.words import (
    MOST_ITEMS,
    MOST_ROWS,
    figure,
    first,
    listed,
    optional,
    tests_table,
)
from simverify.results import AuditRun, Probe

_OUTCOMES: dict[str, Mark] = {"violation": "fail", "warning": "open", "ok": "pass"}


def audit_report(run: AuditRun) -> Report:
    """Return the report of an audit."""
    return Report(
        command="audit",
        title=run.spec,
        verdict=run.verdict,
        ruling=audit_ruling(run),
        facts=tuple(audit_facts(run)),
        sections=tuple(_sections(run)),
        cases=tuple(_cases(run)),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
        file=(file := _file(run.spec)),
        line=_line(run, file),
        where=briefly(run.findings, run.localisation) if run.verdict == "FAIL" else "",
    )


def _sections(run: AuditRun) -> Iterator[Section]:
    findings, more = first(say.findings(run), MOST_ITEMS)
    if findings:
        rows = () if run.rows is None else tuple(filter(None, [run.rows.message]))
        which = tuple(Prose(f"Which rows: {message}") for message in rows)
        yield Section("What failed", (Items(findings, more), *which))
    if run.counterexample is not None:
        yield Section(
            "Smallest counterexample", tuple(counterexample_blocks(run, run.counterexample))
        )
    if run.breach is not None:
        yield Section("Where it breaks its contract", tuple(breach_blocks(run.breach)))
    if run.trial is not None:
        yield Section("A trial to look at", tuple(trial_blocks(run.trial)))
    yield Section("What was promised", tuple(_promise(run)))
    if refuted := list(_refuted(run)):
        yield Section("Faults", tuple(refuted))
    if run.probes:
        yield Section("Edge probes", (_probes(run.probes),))
    if details := list(_details(run)):
        yield Section("Instances and tests", tuple(details))
    if run.notes:
        yield Section("Notes", (Items(*first(run.notes, MOST_ITEMS)),))
    yield Section("To reproduce", (Command(run.reproduce),))


def _promise(run: AuditRun) -> Iterator[Block]:
    rows = []
    if run.instances:
        rows.append(("exact tier", "no false alarms: the law itself, over all paths of the code"))
        apart = f", and {ALLOWED:g} for paths that are left out" if cut_short(run) else ""
        rows.append(("tolerance", f"{run.tolerance:g}, for rounding in {run.dtype}{apart}"))
        # A few trivial instances are no certificate of code that went to the sampled tier.
        whole = run.verdict == "PASS" and run.not_enumerable is None
        rows.append(("certificate" if whole else "largest deviation", _limit(run)))
    if (tier := run.sampled) is not None:
        rows += [
            ("false-alarm rate (alpha)", f"{tier.alpha:g} for the whole run"),
            *(
                (
                    f"power on {sizes}",
                    f"{tier.power:g} against a mean one-token {found}, asked against {asked:g}",
                )
                for sizes, found, asked, _ in promises(tier)
            ),
            ("samples", f"{say.count(tier.samples, 'call')}, {say.count(tier.looks, 'look')}"),
        ]
        if tier.certificate is not None:
            rows.append(("certificate", certified_on(tier, tier.certificate)))
    rows.append(("probes", "a violation fails the audit; a warning only under strict probes"))
    yield Table(
        "Error rates and limits", ("what", "value"), tuple((Cell(a), Cell(b)) for a, b in rows)
    )


def _limit(run: AuditRun) -> str:
    """How far off the law is at most, on the instances that the exact tier tried."""
    worst = max(instance.max_abs_deviation for instance in run.instances)
    tried = f"the {say.count(len(run.instances), 'instance')} tried exactly"
    return f"no output is off by more than {worst:.2g}, on {tried}"


def _refuted(run: AuditRun) -> Iterator[Block]:
    if run.refuted:
        yield Prose("Their laws differ from the one found, exactly, on the instances tried:")
        yield Items((listed(run.refuted, 60),))
    if run.sampled is not None and run.sampled.faults is not None:
        yield from fault_blocks(run.sampled.faults)
    if run.diagnosis:
        nearest, more = first(sorted(run.diagnosis, key=lambda d: d.distance), 10)
        yield Table(
            "Nearest faults of the catalogue, on the counterexample's instance",
            ("fault", "TV to the law found"),
            tuple((Cell(d.fault), figure(d.distance)) for d in nearest),
            numbers=frozenset({1}),
            left_out=more,
        )


def _probes(probes: Sequence[Probe]) -> Table:
    rank = {"violation": 0, "warning": 1, "not run": 2, "ok": 3}
    shown, more = first(sorted(probes, key=lambda probe: rank[probe.outcome]), MOST_ROWS)
    return Table(
        "Edge probes",
        ("probe", "outcome", "what happened"),
        tuple(
            (Cell(p.name), Cell(p.outcome, mark=_OUTCOMES.get(p.outcome, "")), Cell(p.message))
            for p in shown
        ),
        left_out=more,
    )


def _details(run: AuditRun) -> Iterator[Block]:
    if run.instances:
        # The worst come first: a short rendering shows no more than these.
        ordered = sorted(run.instances, key=lambda x: (not x.failed, -x.max_abs_deviation))
        shown, more = first(ordered, MOST_ROWS)
        yield Table(
            "Instances of the exact tier",
            ("instance", "V", "gamma", "paths", "largest deviation", "TV", "E[tau]", "optimum"),
            tuple(
                (
                    Cell(i.name, mark="fail" if i.failed else ""),
                    *(Cell(f"{n:,}", n) for n in (i.vocab_size, i.gamma, i.paths)),
                    figure(i.max_abs_deviation, 3),
                    figure(i.tv, 3),
                    optional(i.expected_accepted, "", 6),
                    optional(i.optimum, "", 6),
                )
                for i in shown
            ),
            numbers=frozenset(range(1, 8)),
            folded=True,
            left_out=more,
        )
    if run.sampled is not None and run.sampled.tests:
        tests = [(run.spec, test) for test in run.sampled.tests]
        yield tests_table("Tests of the sampled tier", tests)


def _cases(run: AuditRun) -> Iterator[Case]:
    if run.verdict == "FAIL":
        yield Case(f"audit {run.spec}", "failed", "\n".join(audit_lines(run)))
    elif run.verdict == "INCONCLUSIVE":
        yield Case(f"audit {run.spec}", "inconclusive", run.inconclusive or "")
    else:
        rests_on = {"tier": run.tier, "certificate": _certificate(run)}
        yield Case(f"audit {run.spec}", "passed", rests_on=tuple(rests_on.items()))
    for probe in run.probes:
        if say.fatal(probe):
            yield Case(f"probe {probe.name}", "failed", probe.message)
        elif probe.outcome == "warning":
            yield Case(f"probe {probe.name}", "warned", probe.message)
        else:
            skipped = probe.outcome == "not run"
            yield Case(f"probe {probe.name}", "skipped" if skipped else "passed", probe.message)


def _certificate(run: AuditRun) -> str:
    """Return what a PASS promises, by the tier that it rests on."""
    if run.tier == "exact":
        return _limit(run)
    if run.sampled is None or run.sampled.certificate is None:
        return "none"
    return certified_on(run.sampled, run.sampled.certificate)


def _file(spec: str) -> str | None:
    path, colon, _ = spec.rpartition(":")
    return path if colon and path.endswith(".py") else None


def _line(run: AuditRun, file: str | None) -> int | None:
    """Return the line of ``file`` that decides what failed, or else its likeliest before that."""
    if file is None:
        return None
    for place in likeliest(run.findings, run.localisation):
        where, _, line = place.rpartition(":")
        if line.isdecimal() and Path(where).resolve() == Path(file).resolve():
            return int(line)
    return None
