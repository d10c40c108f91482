"""An audit's first screen: what to do with the code, and what the verdict rests on."""

from collections.abc import Iterator

from simverify.reports.audit import found as say
from simverify.reports.audit.found import (
    certified_on,
    looked_on,
    promises,
    scope,
    what_is_wrong,
)
from simverify.reports.audit.lines import decided_words
from simverify.reports.audit.tried import exact_words, reached_words
from simverify.reports.faults import suspicion
from simverify.reports.view import Fact
from simverify.results import AuditRun


def audit_ruling(run: AuditRun) -> str:
    """Return in a few sentences what to do with what was audited."""
    warnings = sum(probe.outcome == "warning" for probe in run.probes)
    if run.verdict == "FAIL":
        return f"Do not ship it: {what_is_wrong(run)}"
    if run.verdict == "INCONCLUSIVE":
        return f"Do not decide on this run: {run.inconclusive or 'it reached no verdict'}."
    right = "Its tokens follow the law that it reports" if run.contract == "draft" else "Lossless"
    if run.tier == "exact":
        where = "every instance tried"
        if (stop := run.stopped) is not None:
            where = f"the {stop.judged} of {stop.instances} instances that there was time for"
        what = (
            f"{right} on {where}, exactly: nothing here speaks against shipping it. "
            "What was not tried (larger vocabularies, other precisions) is not covered."
        )
    else:
        tried = run.sampled.instances if run.sampled is not None else ()
        where = tried[0].name if len(tried) == 1 else "the sizes sampled"
        what = (
            f"No deviation was found, with the error rates below, on {where}: nothing here speaks "
            "against shipping it."
        )
    if not warnings:
        return what
    return f"{what} First read what the probes warn of ({say.count(warnings, 'warning')})."


def audit_facts(run: AuditRun) -> Iterator[Fact]:
    """Yield what was judged, on what the verdict rests, and where what failed sits."""
    yield Fact("Judged", scope(run))
    if words := say.stopped_words(run):
        yield Fact("Clock", words)
    if run.instances:
        yield Fact("Exact tier", exact_words(run))
    if run.not_enumerable:
        yield Fact("Not followed exactly", run.not_enumerable)
    if (tier := run.sampled) is not None:
        yield Fact(
            "Sampled tier",
            f"{say.count(tier.samples, 'call')}, {say.count(len(tier.tests), 'test')}: "
            f"false-alarm rate {tier.alpha:g}, on {looked_on(tier)}",
        )
        for sizes, found, asked, bound in promises(tier):
            what = f"power {tier.power:g} against {found}, asked against {asked:g}"
            what += f", {bound}" if bound else ""
            yield Fact(f"On {sizes}", what)
        if tier.certificate is not None:
            yield Fact("Certificate", certified_on(tier, tier.certificate))
    if (place := run.localisation) is not None:
        yield Fact("Where", f"{say.place_words(place)}. {decided_words(place)}".strip())
    elif run.sampled is not None:
        for line in suspicion(run.sampled.localisation, run.sampled.faults):
            name, _, words = line.partition(": ")
            yield Fact(name.capitalize(), words)
    if resemblance := say.resemblance(run):
        yield Fact("Resembles", resemblance)
    if run.refuted:
        yield Fact("Refuted", f"{say.count(len(run.refuted), 'fault')} of the catalogue")
    if reached := reached_words(run.coverage, verbose=True):
        yield Fact("Lines", reached)
    if run.probes:
        told = [
            say.count(sum(probe.outcome == outcome for probe in run.probes), outcome)
            for outcome in ("violation", "warning")
        ]
        yield Fact("Edge probes", f"{len(run.probes)} run: {', '.join(told)}")
