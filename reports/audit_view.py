"""An audit as a report: the verdict, the counterexample, what was promised and refuted."""

from collections.abc import Iterator, Sequence

from simverify.reports import found as say
from simverify.reports.counterexample import counterexample_blocks, trial_blocks
from simverify.reports.failure import failure_lines
from simverify.reports.fault_blocks import fault_blocks
from simverify.reports.sampled import looked_on, promises, scope
from simverify.reports.suspicion import suspicion
from simverify.reports.view import (
    Block,
    Case,
    Cell,
    Command,
    Fact,
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
    certified,
    figure,
    first,
    listed,
    optional,
    tests_table,
)
from simverify.results import AuditRun, Certificate, Probe, SampledTier

_OUTCOMES: dict[str, Mark] = {"violation": "fail", "warning": "open", "ok": "pass"}


def audit_report(run: AuditRun) -> Report:
    """Return the report of an audit."""
    return Report(
        command="audit",
        title=run.spec,
        verdict=run.verdict,
        ruling=_ruling(run),
        facts=tuple(_facts(run)),
        sections=tuple(_sections(run)),
        cases=tuple(_cases(run)),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
        file=_file(run.spec),
    )


def _ruling(run: AuditRun) -> str:
    warnings = sum(probe.outcome == "warning" for probe in run.probes)
    if run.verdict == "FAIL":
        found = run.counterexample
        if found is None:
            return f"Do not ship it: {'; '.join(run.findings[:2]) or 'it failed'}."
        return (
            "Do not ship it: its output does not follow the target model. On an instance with "
            f"{found.instance.vocab_size} tokens and drafts of {found.instance.gamma} it is off "
            f"by a total variation of {say.probability(found.tv)}."
        )
    if run.verdict == "INCONCLUSIVE":
        return f"Do not decide on this run: {run.inconclusive or 'it reached no verdict'}."
    if run.tier == "exact":
        what = (
            "Lossless on every instance tried, exactly: nothing here speaks against shipping it. "
            "What was not tried (larger vocabularies, other precisions) is not covered."
        )
    else:
        what = (
            "No deviation was found, with the error rates below, on the sizes sampled: nothing "
            "here speaks against shipping it."
        )
    if not warnings:
        return what
    return f"{what} First read what the probes warn of ({say.count(warnings, 'warning')})."


def _facts(run: AuditRun) -> Iterator[Fact]:
    yield Fact("Judged", scope(run))
    if run.instances:
        worst = max(instance.max_abs_deviation for instance in run.instances)
        yield Fact(
            "Exact tier",
            f"{say.count(len(run.instances), 'instance')}, {say.count(run.paths, 'path')}: largest "
            f"deviation {worst:.2g}, tolerance {run.tolerance:g} ({run.dtype})",
        )
    if run.not_enumerable:
        yield Fact("Not followed exactly", run.not_enumerable)
    if (tier := run.sampled) is not None:
        yield Fact(
            "Sampled tier",
            f"{say.count(tier.samples, 'call')}, {say.count(len(tier.tests), 'test')}: "
            f"false-alarm rate {tier.alpha:g}, on {looked_on(tier)}",
        )
        for sizes, found, bound in promises(tier):
            what = f"power {tier.power:g} against {found}" + (f", {bound}" if bound else "")
            yield Fact(f"On {sizes}", what)
        if tier.certificate is not None:
            yield Fact("Certificate", _certified_on(tier, tier.certificate))
    if (place := run.localisation) is not None:
        yield Fact("Where", f"{say.place_words(place)}.")
    elif run.sampled is not None:
        for line in suspicion(run.sampled.localisation, run.sampled.faults):
            name, _, words = line.partition(": ")
            yield Fact(name.capitalize(), words)
    if resemblance := say.resemblance(run):
        yield Fact("Resembles", resemblance)
    if run.refuted:
        yield Fact("Refuted", f"{say.count(len(run.refuted), 'fault')} of the catalogue")
    if run.probes:
        told = [
            say.count(sum(probe.outcome == outcome for probe in run.probes), outcome)
            for outcome in ("violation", "warning")
        ]
        yield Fact("Edge probes", f"{len(run.probes)} run: {', '.join(told)}")


def _sections(run: AuditRun) -> Iterator[Section]:
    findings, more = first(say.findings(run), MOST_ITEMS)
    if findings:
        yield Section("What failed", (Items(findings, more),))
    if run.counterexample is not None:
        yield Section(
            "Smallest counterexample", tuple(counterexample_blocks(run, run.counterexample))
        )
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
        rows.append(("tolerance", f"{run.tolerance:g}, for rounding in {run.dtype}"))
        worst = max(instance.max_abs_deviation for instance in run.instances)
        certificate = f"no output is off by more than {worst:.2g}, on the instances tried"
        rows.append(("certificate" if run.verdict == "PASS" else "largest deviation", certificate))
    if (tier := run.sampled) is not None:
        rows += [
            ("false-alarm rate (alpha)", f"{tier.alpha:g} for the whole run"),
            *(
                (f"power on {sizes}", f"{tier.power:g} against a mean one-token {found}")
                for sizes, found, _ in promises(tier)
            ),
            ("samples", f"{say.count(tier.samples, 'call')}, {say.count(tier.looks, 'look')}"),
        ]
        if tier.certificate is not None:
            rows.append(("certificate", _certified_on(tier, tier.certificate)))
    rows.append(("probes", "a violation fails the audit; a warning only under strict probes"))
    yield Table(
        "Error rates and limits", ("what", "value"), tuple((Cell(a), Cell(b)) for a, b in rows)
    )


def _certified_on(tier: SampledTier, certificate: Certificate) -> str:
    return f"on {looked_on(tier)}: {certified(certificate)}"


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
        ordered = sorted(run.instances, key=lambda instance: not instance.failed)
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
        yield Case(f"audit {run.spec}", "failed", "\n".join(failure_lines(run)))
    elif run.verdict == "INCONCLUSIVE":
        yield Case(f"audit {run.spec}", "inconclusive", run.inconclusive or "")
    else:
        yield Case(f"audit {run.spec}", "passed")
    for probe in run.probes:
        if say.fatal(run, probe):
            yield Case(f"probe {probe.name}", "failed", probe.message)
        elif probe.outcome == "warning":
            yield Case(f"probe {probe.name}", "warned", probe.message)
        else:
            skipped = probe.outcome == "not run"
            yield Case(f"probe {probe.name}", "skipped" if skipped else "passed", probe.message)


def _file(spec: str) -> str | None:
    path, colon, _ = spec.rpartition(":")
    return path if colon and path.endswith(".py") else None
