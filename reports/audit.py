"""An audit of code as a report, and as plain text, 80 columns wide, for the terminal and pytest."""

import shlex
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from simverify.reports.audit_text import (
    ALLOWED_MASS,
    certificate_scope,
    clock_stop_words,
    decided_words,
    distinct_row_pairs,
    divergence_words,
    drafted_clause,
    exact_coverage_words,
    failure_reason,
    failure_texts,
    instance_bounds,
    instance_size,
    is_fatal,
    likeliest_lines,
    line_coverage_words,
    output_prefix,
    pluralize,
    prefix_text,
    probability_text,
    resembling_faults,
    row_numbers,
    sampled_sizes,
    short_location,
    token_text,
    truncated_instances,
    verdict_scope,
    verdict_sentence,
)
from simverify.reports.view import (
    WIDTH,
    Block,
    Case,
    Cell,
    Command,
    Fact,
    Items,
    Mark,
    Node,
    Prose,
    Report,
    Section,
    Table,
    Tree,
)
from simverify.reports.words import (
    MAX_ITEMS,
    MAX_ROWS,
    fault_blocks,
    join_names,
    number_cell,
    optional_cell,
    suspect_lines,
    take_first,
    tests_table,
    truncate,
)
from simverify.results import (
    AuditRun,
    Branch,
    Breach,
    Counterexample,
    DraftCall,
    FailingTrial,
    Instance,
    Localisation,
    Probe,
)

# A drafter's call that deviates, one fact a line.


_SHARE_ROUNDING, _SUM_TOLERANCE = 1e-9, 1e-6


def draft_call_lines(found: Counterexample, call: DraftCall) -> Iterator[str]:
    """Yield what a call of a drafter was asked and reports, and how often its tokens come."""
    after = call.prefix[len(found.instance.prompt) :]
    row = found.instance.draft_probs[",".join(map(str, after))]
    yield f"prefix: {token_text(call.prefix) or 'no token'}"
    yield f"draft row: {row_numbers(row)}"
    yield f"asked for: {pluralize(call.asked, 'token')}, scheme {found.instance.scheme}"
    total = sum(call.reported)
    off = f" (their sum is {total:.6g})" if abs(total - 1) > _SUM_TOLERANCE else ""
    yield f"reported: {', '.join(probability_text(x) for x in call.reported)}{off}"
    if call.before:
        calls = "; ".join(token_text(answer) or "no token" for answer in call.before)
        yield f"the calls before it drafted: {calls}"
    if call.share < 1 - _SHARE_ROUNDING:
        output = pluralize(len(found.sequence), "token")
        yield (
            f"in {probability_text(call.share)} of all runs it reports this and returns "
            f"{output}; then"
        )
    noun = "Token" if len(found.sequence) == 1 else "Tokens"
    yield (
        f"{noun} {token_text(found.sequence)} {'has' if noun == 'Token' else 'have'} probability "
        f"{probability_text(found.probability_emitted)}; by the report it is "
        f"{probability_text(found.probability_expected)}."
    )


def is_drafter_breach(found: Breach) -> bool:
    """Whether the call that broke its contract is one of a drafter's."""
    return found.instance.parents is not None and found.draft_tokens is None


# The counterexample, or a failing trial, as blocks of a report.


_TREE_CAPTION = "Outputs by their first tokens: probability emitted, and due"
_MAX_DEPTH, _MAX_BRANCHES = 32, 64


def counterexample_blocks(run: AuditRun, found: Counterexample) -> Iterator[Block]:
    """Yield the output that deviates most, its instance and the tree around it."""
    instance = found.instance
    if found.call is not None:
        yield Prose(f"V = {instance.vocab_size}.")
        for line in draft_call_lines(found, found.call):
            yield Prose(line[0].upper() + line[1:])
        if resemblance := resembling_faults(run):
            yield Prose(resemblance)
        return
    before = output_prefix(instance)
    yield Prose(
        f"{instance_size(instance)}. {before} An output that begins "
        f"{token_text(found.sequence)} has probability "
        f"{probability_text(found.probability_emitted)}; "
        f"it should have {probability_text(found.probability_expected)}."
    )
    yield _rows_table(instance)
    if found.tree:
        yield _output_tree(found)
    if run.localisation is not None:
        yield Prose(
            f"{divergence_words(run.localisation)}; TV of the whole "
            f"output {probability_text(found.tv)}. {decided_words(run.localisation)}".strip()
        )
    if resemblance := resembling_faults(run):
        yield Prose(resemblance)


def breach_blocks(found: Breach) -> Iterator[Block]:
    """Yield the call that broke its contract, by its drafted block and its instance."""
    instance = found.instance
    yield Prose(
        f"{instance_size(instance)}{drafted_clause(found)}. {output_prefix(instance)} "
        f"{found.message}"
    )
    yield _rows_table(instance)


def trial_blocks(trial: FailingTrial) -> Iterator[Block]:
    """Yield the trial, by its address in the run, and its instance."""
    instance = trial.instance
    words = (
        "the call broke its contract"
        if trial.emitted is None
        else f"emitted {token_text(trial.emitted)}"
    )
    yield Prose(
        f"{'Pilot trial' if trial.pilot else 'Trial'} {trial.trial:,} on {instance.name}, V = "
        f"{instance.vocab_size}, gamma = {instance.gamma}: {words}; {trial.why}."
    )
    yield _rows_table(instance)


def _rows_table(instance: Instance) -> Table:
    pairs = distinct_row_pairs(instance)
    rows, more = take_first(list(pairs.items()), MAX_ROWS)
    every = "after every prefix" if len(pairs) == 1 else None
    return Table(
        "The instance: target p and draft q",
        ("rows", "p", "q"),
        tuple(
            (Cell(every or prefix_text(prefixes, 60)), Cell(p), Cell(q))
            for (p, q), prefixes in rows
        ),
        left_out=more,
    )


def _output_tree(found: Counterexample) -> Tree:
    """The first places' branches, those off the path as leaves.

    Each place is looked at once, so that the tree is no larger than the branches are many.
    """
    places = min(len(found.sequence), _MAX_DEPTH)
    nodes: tuple[Node, ...] = ()
    shown = 0
    for place in reversed(range(places)):
        path = found.sequence[: place + 1]
        siblings = [branch for branch in found.tree if len(branch.sequence) == place + 1]
        # The path goes on whatever is left out beside it.
        siblings.sort(key=lambda branch: branch.sequence != path)
        branches = sorted(siblings[:_MAX_BRANCHES], key=lambda branch: branch.sequence)
        shown += len(branches)
        nodes = tuple(_tree_node(branch, path, nodes) for branch in branches)
    return Tree(_TREE_CAPTION, nodes, left_out=len(found.tree) - shown)


def _tree_node(branch: Branch, path: tuple[int, ...], after: tuple[Node, ...]) -> Node:
    on_path = branch.sequence == path
    return Node(
        token=branch.sequence[-1],
        emitted=branch.probability_emitted,
        due=branch.probability_expected,
        emitted_text=probability_text(branch.probability_emitted),
        due_text=probability_text(branch.probability_expected),
        on_path=on_path,
        children=after if on_path else (),
    )


# The first screen: what to do with the code, and what the verdict rests on.


def audit_advice(run: AuditRun) -> str:
    """Return in a few sentences what to do with what was audited."""
    warnings = sum(probe.outcome == "warning" for probe in run.probes)
    if run.verdict == "FAIL":
        return f"Do not ship it: {failure_reason(run)}"
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
        instances = run.sampled.instances if run.sampled is not None else ()
        where = instances[0].name if len(instances) == 1 else "the sizes sampled"
        what = (
            f"No deviation was found, with the error rates below, on {where}: nothing here speaks "
            "against shipping it."
        )
    if not warnings:
        return what
    return f"{what} First read what the probes warn of ({pluralize(warnings, 'warning')})."


def audit_facts(run: AuditRun) -> Iterator[Fact]:
    """Yield what was judged, on what the verdict rests, and where what failed sits."""
    yield Fact("Judged", verdict_scope(run))
    if words := clock_stop_words(run):
        yield Fact("Clock", words)
    if run.instances:
        yield Fact("Exact tier", exact_coverage_words(run))
    if run.not_enumerable:
        yield Fact("Not followed exactly", run.not_enumerable)
    if (tier := run.sampled) is not None:
        yield Fact(
            "Sampled tier",
            f"{pluralize(tier.samples, 'call')}, {pluralize(len(tier.tests), 'test')}: "
            f"false-alarm rate {tier.alpha:g}, on {sampled_sizes(tier)}",
        )
        for sizes, deviation, detect, bound in instance_bounds(tier):
            what = f"power {tier.power:g} against {deviation}, asked against {detect:g}"
            what += f", {bound}" if bound else ""
            yield Fact(f"On {sizes}", what)
        if tier.certificate is not None:
            yield Fact("Certificate", certificate_scope(tier, tier.certificate))
    if (place := run.localisation) is not None:
        yield Fact("Where", f"{divergence_words(place)}. {decided_words(place)}".strip())
    elif run.sampled is not None:
        for line in suspect_lines(run.sampled.localisation, run.sampled.faults):
            name, _, words = line.partition(": ")
            yield Fact(name.capitalize(), words)
    if resemblance := resembling_faults(run):
        yield Fact("Resembles", resemblance)
    if run.refuted:
        yield Fact("Refuted", f"{pluralize(len(run.refuted), 'fault')} of the catalogue")
    if reached := line_coverage_words(run.coverage, verbose=True):
        yield Fact("Lines", reached)
    if run.probes:
        counts = [
            pluralize(sum(probe.outcome == outcome for probe in run.probes), outcome)
            for outcome in ("violation", "warning")
        ]
        yield Fact("Edge probes", f"{len(run.probes)} run: {', '.join(counts)}")


# The plain text of an audit.


MAX_TEXT_CHARACTERS = 10_000
"""Characters of one text: longer ones, which code under audit may raise, stand in the document."""

_MAX_LINES = 200
_MAX_ROW_PAIRS = 100
_MAX_SHORT_NOTES = 2


def verdict_lines(run: AuditRun, *, verbose: bool = False) -> list[str]:
    """Return the verdict, what it rests on and, of a PASS, what it refutes.

    ``verbose``: with every note and the name of every fault. Lines have 80 columns at most and
    no control characters.
    """
    failed = run.verdict == "FAIL"
    notes = [f"note: {note}" for note in run.notes]
    if not verbose and len(notes) > _MAX_SHORT_NOTES:
        more = pluralize(len(notes) - _MAX_SHORT_NOTES, "note")
        notes = [*notes[:_MAX_SHORT_NOTES], f"{more} more: see --verbose"]
    return [
        *_wrap(f"{run.verdict}: {verdict_sentence(run)}"),
        *_wrap(f"Checked: {verdict_scope(run)}, seed {run.seed}"),
        *_wrap(clock_stop_words(run)),
        *_wrap(_exact_text(run)),
        *_wrap(_sampled_text(run) if verbose else _sampled_summary(run)),
        *_wrap(_refuted_text(run, verbose=verbose)),
        *(
            _wrap(line_coverage_words(run.coverage, verbose=verbose))
            if verbose or not failed
            else ()
        ),
        *_bounded_lines(notes),
    ]


def audit_lines(run: AuditRun, *, verbose: bool = False) -> list[str]:
    """Return the verdict and all that explains it: counterexample, faults, probes, command.

    Lines have 80 columns at most, but for a command of which one word is longer; no line has
    control characters, whatever the code under audit raised.
    """
    sections = [verdict_lines(run, verbose=verbose)]
    if run.sampled is not None and run.verdict == "FAIL":
        words = failure_reason(run)  # the tests' names alone say little
        sections.append(_wrap(words[0].upper() + words[1:]))
    sections.append(_list_lines("What failed:", failure_texts(run)))
    if run.rows is not None and run.rows.message:
        sections.append(_wrap(f"Which rows: {run.rows.message}"))
    if run.breach is not None:
        sections.append(_breach_lines(run.breach))
    if run.counterexample is not None:
        sections.append(_counterexample_lines(run.counterexample, run.localisation))
        sections.append(_wrap(resembling_faults(run)))
    if run.sampled is not None:
        texts = suspect_lines(run.sampled.localisation, run.sampled.faults)
        sections.append([line for text in texts for line in _wrap(text)])
    sections.append(_list_lines("Probes:", _probe_lines(run)))
    sections.append(_inconclusive_lines(run))
    if run.verdict != "PASS":
        sections.append(["To reproduce:", *_command_lines(run.reproduce)])
    lines: list[str] = []
    for section in filter(None, sections):
        lines += ["", *section] if lines else section
    return lines


def _exact_text(run: AuditRun) -> str:
    """What the exact tier did."""
    if not run.instances:
        if run.not_enumerable:
            return f"not followed exactly: {run.not_enumerable}"
        return "no law was computed: the code did not get so far"
    why = f"; beyond: {run.not_enumerable}" if run.not_enumerable else ""
    return f"exact on {exact_coverage_words(run)}{why}"


def _sampled_text(run: AuditRun) -> str:
    """What the sampled tier did, and the certificate it gives."""
    tier = run.sampled
    if tier is None:
        return ""
    line = (
        f"sampled: {pluralize(tier.samples, 'call')}, {pluralize(len(tier.tests), 'test')}, "
        "false-alarm "
        f"rate {tier.alpha:g}"
    )
    for sizes, deviation, detect, bound in instance_bounds(tier):
        line += f"; on {sizes}: power {tier.power:g} against {deviation}, asked against {detect:g}"
        line += f", {bound}" if bound else ""
    line += "; nothing is promised beyond"
    if tier.certificate is not None:
        line += f"; the bounds hold but for {tier.certificate.delta:g}"
    if tier.faults is not None:
        number = len(tier.faults.refuted)
        line += f"; refutes {number} of {number + len(tier.faults.not_refuted)} named faults"
    return line


def _sampled_summary(run: AuditRun) -> str:
    """What the sampled tier did: its size, its error rate and what it would have found."""
    tier = run.sampled
    if tier is None:
        return ""
    line = (
        f"sampled: {pluralize(tier.samples, 'call')}, {pluralize(len(tier.tests), 'test')}; a "
        "lossless "
        f"verifier fails with probability {tier.alpha:g} at most"
    )
    deviations = [f"{size} on {sizes}" for sizes, size, _, _ in instance_bounds(tier)]
    return f"{line}; found with probability {tier.power:g}: {'; '.join(deviations)}"


def _refuted_text(run: AuditRun, *, verbose: bool) -> str:
    if not run.refuted:
        return ""
    if verbose:
        return f"refutes the faults {', '.join(run.refuted)}"
    return f"refutes {pluralize(len(run.refuted), 'named fault')} (simverify faults)"


def _breach_lines(found: Breach) -> list[str]:
    instance = found.instance
    return [
        *_wrap(f"It broke its contract at {instance_size(instance)}{drafted_clause(found)}:"),
        *_wrap(found.message, "  "),
        *(_draft_row_lines(instance) if is_drafter_breach(found) else _row_lines(instance)),
        *_wrap(output_prefix(instance), "  "),
    ]


def _counterexample_lines(found: Counterexample, place: Localisation | None) -> list[str]:
    instance = found.instance
    if found.call is not None:
        head = f"Smallest counterexample: V = {instance.vocab_size}"
        texts = draft_call_lines(found, found.call)
        return [*_wrap(head), *(line for text in texts for line in _wrap(text, "  "))]
    lines = [
        *_wrap(f"Smallest counterexample: {instance_size(instance)}"),
        *_row_lines(instance),
        *_wrap(output_prefix(instance), "  "),
        *_wrap(
            f"An output beginning {token_text(found.sequence)} has probability "
            f"{probability_text(found.probability_emitted)}; it should have "
            f"{probability_text(found.probability_expected)}.",
            "  ",
        ),
    ]
    where = f"{divergence_words(place)}; TV of the whole output {probability_text(found.tv)}."
    return [*lines, *_wrap(where, "  "), *_wrap(decided_words(place), "  ")]


def _draft_row_lines(instance: Instance) -> list[str]:
    """The rows that a drafter is handed, each once."""
    rows: dict[str, list[str]] = {}
    for prefix, row in instance.draft_probs.items():
        rows.setdefault(row_numbers(row), []).append(prefix)
    shown, more = take_first(list(rows.items()), _MAX_ROW_PAIRS)
    lines = [
        line
        for row, prefixes in shown
        for line in _wrap(f"draft row {prefix_text(prefixes, WIDTH // 2)}: {row}", "  ")
    ]
    return [*lines, f"  {more:,} more rows stand in the run file"] if more else lines


def _row_lines(instance: Instance) -> list[str]:
    """The rows of ``instance``, each pair of p and q once, with the prefixes it follows."""
    pairs = distinct_row_pairs(instance)
    lines = []
    shown, more = take_first(list(pairs.items()), _MAX_ROW_PAIRS)
    for (p, q), prefixes in shown:
        follows = "after every prefix" if len(pairs) == 1 else prefix_text(prefixes, WIDTH - 4)
        lines.append(f"  {follows}:")
        lines += _wrap(f"p = {p}", "    ") + _wrap(f"q = {q}", "    ")
    return [*lines, f"  {more:,} more rows stand in the run file"] if more else lines


def _probe_lines(run: AuditRun) -> list[str]:
    """Violations and warnings, those with the same message on one line."""
    groups: dict[tuple[str, str], list[str]] = {}
    for probe in run.probes:
        if probe.outcome in ("violation", "warning"):
            strict = probe.outcome == "warning" and is_fatal(probe)
            outcome = "warning, strict" if strict else probe.outcome
            groups.setdefault((outcome, probe.message), []).append(probe.name)
    return [
        f"{outcome}: {message} ({', '.join(names)})" for (outcome, message), names in groups.items()
    ]


def _inconclusive_lines(run: AuditRun) -> list[str]:
    if run.verdict != "INCONCLUSIVE":
        return []
    return _wrap(
        f"There is no verdict: {run.inconclusive}. Allow more paths, samples or seconds, or ask "
        "for a larger deviation."
    )


def _list_lines(title: str, entries: list[str]) -> list[str]:
    if not entries:
        return []
    return [title, *_bounded_lines(entries, "  ", "    ")]


def _bounded_lines(entries: Sequence[str], indent: str = "", rest: str | None = None) -> list[str]:
    """Entries on their lines, as far as a reader would scroll, and how many are left out."""
    lines: list[str] = []
    for i, entry in enumerate(entries):
        if i == MAX_ITEMS or len(lines) >= _MAX_LINES:
            return [*lines, f"{indent}{len(entries) - i:,} more stand in the run file"]
        lines += _wrap(entry, indent, rest)
    return lines


def _command_lines(command: str) -> list[str]:
    """The command on lines that a shell takes as one; its words are never broken."""
    try:
        words = [shlex.quote(word) for word in shlex.split(_printable(command))]
    except ValueError:  # a quotation mark in a name
        words = _printable(command).split()
    groups: list[str] = []
    for earlier, word in zip(["", *words], words, strict=False):
        if earlier.startswith("--") and not word.startswith("--"):
            groups[-1] += f" {word}"
        else:
            groups.append(word)
    lines = [f"  {groups[0]}"]
    for group in groups[1:]:
        if len(lines[-1]) + 1 + len(group) + 2 > WIDTH:
            lines[-1] += " \\"
            lines.append(f"    {group}")
        else:
            lines[-1] += f" {group}"
    return lines


def _wrap(text: str, indent: str = "", rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        _printable(truncate(text, MAX_TEXT_CHARACTERS)),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  " if rest is None else rest,
        break_on_hyphens=False,
    )


def _printable(text: str) -> str:
    """Return ``text`` without characters that could move the cursor or change colours."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


# The report: the verdict, the counterexample, what was promised and refuted.


_PROBE_MARKS: dict[str, Mark] = {"violation": "fail", "warning": "open", "ok": "pass"}


def audit_report(run: AuditRun) -> Report:
    """Return the report of an audit."""
    return Report(
        command="audit",
        title=run.spec,
        verdict=run.verdict,
        ruling=audit_advice(run),
        facts=tuple(audit_facts(run)),
        sections=tuple(_audit_sections(run)),
        cases=tuple(_audit_cases(run)),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=run.seed,
        file=(file := _source_file(run.spec)),
        line=_failing_line(run, file),
        where=short_location(run.findings, run.localisation) if run.verdict == "FAIL" else "",
    )


def _audit_sections(run: AuditRun) -> Iterator[Section]:
    findings, more = take_first(failure_texts(run), MAX_ITEMS)
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
    yield Section("What was promised", tuple(_promise_blocks(run)))
    if refuted := list(_refuted_blocks(run)):
        yield Section("Faults", tuple(refuted))
    if run.probes:
        yield Section("Edge probes", (_probe_table(run.probes),))
    if details := list(_detail_blocks(run)):
        yield Section("Instances and tests", tuple(details))
    if run.notes:
        yield Section("Notes", (Items(*take_first(run.notes, MAX_ITEMS)),))
    yield Section("To reproduce", (Command(run.reproduce),))


def _promise_blocks(run: AuditRun) -> Iterator[Block]:
    rows = []
    if run.instances:
        rows.append(("exact tier", "no false alarms: the law itself, over all paths of the code"))
        apart = (
            f", and {ALLOWED_MASS:g} for paths that are left out"
            if truncated_instances(run)
            else ""
        )
        rows.append(("tolerance", f"{run.tolerance:g}, for rounding in {run.dtype}{apart}"))
        # A few trivial instances are no certificate of code that went to the sampled tier.
        whole = run.verdict == "PASS" and run.not_enumerable is None
        rows.append(("certificate" if whole else "largest deviation", _exact_limit(run)))
    if (tier := run.sampled) is not None:
        rows += [
            ("false-alarm rate (alpha)", f"{tier.alpha:g} for the whole run"),
            *(
                (
                    f"power on {sizes}",
                    f"{tier.power:g} against a mean one-token {found}, asked against {asked:g}",
                )
                for sizes, found, asked, _ in instance_bounds(tier)
            ),
            (
                "samples",
                f"{pluralize(tier.samples, 'call')}, {pluralize(tier.looks, 'look')}",
            ),
        ]
        if tier.certificate is not None:
            rows.append(("certificate", certificate_scope(tier, tier.certificate)))
    rows.append(("probes", "a violation fails the audit; a warning only under strict probes"))
    yield Table(
        "Error rates and limits", ("what", "value"), tuple((Cell(a), Cell(b)) for a, b in rows)
    )


def _exact_limit(run: AuditRun) -> str:
    """How far off the law is at most, on the instances that the exact tier tried."""
    worst = max(instance.max_abs_deviation for instance in run.instances)
    scope = f"the {pluralize(len(run.instances), 'instance')} tried exactly"
    return f"no output is off by more than {worst:.2g}, on {scope}"


def _refuted_blocks(run: AuditRun) -> Iterator[Block]:
    if run.refuted:
        yield Prose("Their laws differ from the one found, exactly, on the instances tried:")
        yield Items((join_names(run.refuted, 60),))
    if run.sampled is not None and run.sampled.faults is not None:
        yield from fault_blocks(run.sampled.faults)
    if run.diagnosis:
        nearest, more = take_first(sorted(run.diagnosis, key=lambda d: d.distance), 10)
        yield Table(
            "Nearest faults of the catalogue, on the counterexample's instance",
            ("fault", "TV to the law found"),
            tuple((Cell(d.fault), number_cell(d.distance)) for d in nearest),
            numbers=frozenset({1}),
            left_out=more,
        )


def _probe_table(probes: Sequence[Probe]) -> Table:
    rank = {"violation": 0, "warning": 1, "not run": 2, "ok": 3}
    shown, more = take_first(sorted(probes, key=lambda probe: rank[probe.outcome]), MAX_ROWS)
    return Table(
        "Edge probes",
        ("probe", "outcome", "what happened"),
        tuple(
            (Cell(p.name), Cell(p.outcome, mark=_PROBE_MARKS.get(p.outcome, "")), Cell(p.message))
            for p in shown
        ),
        left_out=more,
    )


def _detail_blocks(run: AuditRun) -> Iterator[Block]:
    if run.instances:
        # The worst come first: a short rendering shows no more than these.
        ordered = sorted(run.instances, key=lambda x: (not x.failed, -x.max_abs_deviation))
        shown, more = take_first(ordered, MAX_ROWS)
        yield Table(
            "Instances of the exact tier",
            ("instance", "V", "gamma", "paths", "largest deviation", "TV", "E[tau]", "optimum"),
            tuple(
                (
                    Cell(i.name, mark="fail" if i.failed else ""),
                    *(Cell(f"{n:,}", n) for n in (i.vocab_size, i.gamma, i.paths)),
                    number_cell(i.max_abs_deviation, 3),
                    number_cell(i.tv, 3),
                    optional_cell(i.expected_accepted, "", 6),
                    optional_cell(i.optimum, "", 6),
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


def _audit_cases(run: AuditRun) -> Iterator[Case]:
    if run.verdict == "FAIL":
        yield Case(f"audit {run.spec}", "failed", "\n".join(audit_lines(run)))
    elif run.verdict == "INCONCLUSIVE":
        yield Case(f"audit {run.spec}", "inconclusive", run.inconclusive or "")
    else:
        rests_on = {"tier": run.tier, "certificate": _certificate_text(run)}
        yield Case(f"audit {run.spec}", "passed", rests_on=tuple(rests_on.items()))
    for probe in run.probes:
        if is_fatal(probe):
            yield Case(f"probe {probe.name}", "failed", probe.message)
        elif probe.outcome == "warning":
            yield Case(f"probe {probe.name}", "warned", probe.message)
        else:
            skipped = probe.outcome == "not run"
            yield Case(f"probe {probe.name}", "skipped" if skipped else "passed", probe.message)


def _certificate_text(run: AuditRun) -> str:
    """Return what a PASS promises, by the tier that it rests on."""
    if run.tier == "exact":
        return _exact_limit(run)
    if run.sampled is None or run.sampled.certificate is None:
        return "none"
    return certificate_scope(run.sampled, run.sampled.certificate)


def _source_file(spec: str) -> str | None:
    path, colon, _ = spec.rpartition(":")
    return path if colon and path.endswith(".py") else None


def _failing_line(run: AuditRun, file: str | None) -> int | None:
    """Return the line of ``file`` that decides what failed, or else its likeliest before that."""
    if file is None:
        return None
    for place in likeliest_lines(run.findings, run.localisation):
        where, _, line = place.rpartition(":")
        if line.isdecimal() and Path(where).resolve() == Path(file).resolve():
            return int(line)
    return None
