"""An audit of code as a report, and in words."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from msgspec import UNSET

from simverify import results
from simverify.options.option import words_of
from simverify.reports.terminal import report_text
from simverify.reports.view import (
    WIDTH,
    Block,
    Case,
    Cell,
    Fact,
    Items,
    Mark,
    Node,
    On,
    Outcome,
    Prose,
    Report,
    Section,
    Table,
    Tree,
)
from simverify.reports.words import (
    capitalize,
    certificate_words,
    command_section,
    fault_blocks,
    file_name,
    join_lines,
    join_names,
    limits_table,
    make_report,
    make_table,
    notes_section,
    number_cell,
    pluralize,
    section_of,
    suspect_facts,
    tests_table,
    truncate_line,
    verdict_case,
)

_PROBE_OUTCOMES: dict[str, Outcome] = {"warning": "warned", "not run": "skipped"}
_PROBE_MARKS: dict[str, Mark] = {"violation": "fail", "warning": "open", "ok": "pass"}
_MAX_SHORT_NOTES = 2


def audit_report(run: results.AuditRun) -> Report:
    """Return the report of an audit."""
    failed = run.verdict == "FAIL"
    path, colon, _ = run.spec.rpartition(":")
    file = path if colon and path.endswith(".py") else None
    report = make_report(
        run,
        "audit",
        run.spec,
        audit_advice(run),
        _audit_facts(run),
        _audit_sections(run),
        (),
        headline=f"{run.verdict}: {verdict_sentence(run)}",
        file=file,
        line=None if file is None else _failing_line(run, file),
        where=_failure_location(run) if failed else "",
    )
    return replace(report, cases=tuple(_audit_cases(run, report)))


def audit_advice(run: results.AuditRun) -> str:
    """Return in a few sentences what to do with what was audited."""
    if run.verdict == "FAIL":
        return f"Do not ship it: {failure_reason(run)}"
    if run.verdict == "INCONCLUSIVE":
        return f"Do not decide on this run: {_open_reason(run)}"
    right = (
        "Its tokens follow the distribution that it reports"
        if run.contract == "draft"
        else "Lossless"
    )
    if run.tier == "exact":
        where = "every instance tried"
        if (stop := run.stopped) is not None:
            where = f"the {stop.judged} of {stop.instances} instances that there was time for"
        what = (
            f"{right} on {where}, exactly: this run gives no reason not to ship it. "
            "What was not tried (larger vocabularies, other precisions) is not covered."
        )
    else:
        instances = run.sampled.instances if run.sampled is not None else ()
        where = instances[0].name if len(instances) == 1 else "the sizes sampled"
        what = (
            f"No deviation was found on {where} (error rates below): this run gives no reason not "
            "to ship it."
        )
    warnings = sum(probe.outcome == "warning" for probe in run.probes)
    if not warnings:
        return what
    return f"{what} Read the probes' {pluralize(warnings, 'warning')} first."


def _open_reason(run: results.AuditRun) -> str:
    return f"{run.inconclusive or 'it reached no verdict'}."


def _audit_facts(run: results.AuditRun) -> Iterator[Fact]:
    yield Fact("Checked", f"{verdict_scope(run)}, seed {run.seed}")
    if run.processing is not None:
        yield Fact(
            "Target",
            f"the target's rows after {target_words(run.processing)}, as stated: the code gets "
            "them before that, and the draft's rows as they are",
        )
    if words := clock_stop_words(run):
        yield Fact("Clock", words)
    if run.instances:
        yield Fact("Exact", exact_coverage_words(run))
    elif not run.not_enumerable:
        yield Fact("Exact", "no distribution was computed: the code did not get that far")
    if run.not_enumerable:
        yield Fact("Not followed exactly", run.not_enumerable)
    if run.sampled is not None:
        yield from _sampled_facts(run.sampled)
    if run.verdict == "INCONCLUSIVE":
        yield Fact("No verdict", _open_reason(run), On.TERMINAL)
    elif run.sampled is not None and run.verdict == "FAIL":
        yield Fact("Reason", failure_reason(run), On.TERMINAL)  # tests' names alone say little
    if (place := run.localisation) is not None:
        words = f"{divergence_words(place)}. {decided_words(place)}".strip()
        yield Fact("Where", words, On.PAGE)
    elif run.sampled is not None:
        for name, words in suspect_facts(run.sampled.localisation, run.sampled.faults):
            yield Fact(name, words)
    if resemblance := resembling_faults(run):
        yield Fact("Resembles", resemblance, On.PAGE)
    if run.refuted:
        number = pluralize(len(run.refuted), "named fault")
        yield Fact("Refuted", f"{number} (simverify faults)", On.PAGE | On.SHORT)
        yield Fact("Refuted", f"the faults {', '.join(run.refuted)}", On.VERBOSE)
    if words := line_coverage_words(run.coverage, verbose=True):
        yield Fact("Lines", words, On.DETAIL)
    if run.verdict != "FAIL" and (words := line_coverage_words(run.coverage)):
        yield Fact("Lines", words, On.SHORT)
    if run.probes:
        counts = [
            pluralize(sum(probe.outcome == outcome for probe in run.probes), outcome)
            for outcome in ("violation", "warning")
        ]
        yield Fact("Edge probes", f"{len(run.probes)} run: {', '.join(counts)}", On.PAGE)


def _sampled_facts(tier: results.SampledTier) -> Iterator[Fact]:
    words = (
        f"{pluralize(tier.samples, 'call')}, {pluralize(len(tier.tests), 'test')}; a lossless "
        f"verifier fails with probability {tier.alpha:g} at most"
    )
    bounds = list(instance_bounds(tier))
    found_sizes = "; ".join(f"{size} on {sizes}" for sizes, size, _, _ in bounds)
    yield Fact("Sampled", f"{words}; found with probability {tier.power:g}: {found_sizes}")
    for sizes, deviation, detect, bound in bounds:
        what = f"power {tier.power:g} against {deviation}, asked against {detect:g}"
        yield Fact(f"On {sizes}", what + (f", {bound}" if bound else ""), On.DETAIL)
    if tier.certificate is not None:
        yield Fact("Certificate", certificate_scope(tier, tier.certificate), On.DETAIL)
    if (faults := tier.faults) is not None:
        number = len(faults.refuted)
        words = f"{number} of {number + len(faults.not_refuted)} named faults"
        yield Fact("Refuted", words, On.DETAIL)


def _audit_sections(run: results.AuditRun) -> Iterator[Section]:
    yield from section_of("What failed", failure_texts(run))
    if run.follows is not None:
        yield Section(
            "What it follows", (Prose(followed_words(run.follows, run.processing)),), On.ALL
        )
    if run.rows is not None and run.rows.message:
        yield Section("Which rows", (Prose(run.rows.message),), On.ALL)
    lines = (truncate_line(f"{file_name(place)}: {text}", WIDTH - 4) for place, text in run.code)
    yield from section_of("The lines", tuple(lines))
    if run.breach is not None:
        size = f"{instance_size(run.breach.instance)}{drafted_clause(run.breach)}"
        title = f"It broke its contract at {size}"
        yield Section(title, tuple(_breach_blocks(run.breach)), On.ALL)
    if (failure := run.counterexample) is not None:
        size = (
            f"V = {failure.instance.vocab_size}"
            if failure.call
            else instance_size(failure.instance)
        )
        title = f"Smallest counterexample: {size}"
        yield Section(title, tuple(counterexample_blocks(run, failure)), On.ALL)
    if run.trial is not None:
        yield Section("A trial to look at", tuple(_trial_blocks(run.trial)))
    yield Section("What was promised", (limits_table(_promises(run)),))
    if refuted := tuple(_refuted_blocks(run)):
        yield Section("Faults", refuted)
    if run.probes:
        probes = (Items(tuple(_probe_lines(run)), on=On.TERMINAL), _probe_table(run.probes))
        yield Section("Probes", probes, On.ALL)
    if details := tuple(_detail_blocks(run)):
        yield Section("Instances and tests", details)
    yield from notes_section(run.notes, _MAX_SHORT_NOTES)
    yield command_section(run)


# The counterexample, a breach or a failing trial.


_TREE_CAPTION = "Outputs by their first tokens: probability emitted, and due"
_MAX_DEPTH, _MAX_BRANCHES = 32, 64
_SHARE_ROUNDING, _SUM_TOLERANCE = 1e-9, 1e-6


def counterexample_blocks(
    run: results.AuditRun, counterexample: results.Counterexample
) -> Iterator[Block]:
    """Yield the output that deviates most, its instance and the tree around it."""
    instance = counterexample.instance
    if counterexample.call is not None:
        yield from map(
            Prose, map(capitalize, _draft_call_lines(counterexample, counterexample.call))
        )
    else:
        yield _rows_table(instance)
        if before := output_prefix(instance):
            yield Prose(before)
        yield Prose(
            f"An output beginning {token_text(counterexample.sequence)} has probability "
            f"{probability_text(counterexample.probability_emitted)}; it should have "
            f"{probability_text(counterexample.probability_expected)}."
        )
        if counterexample.tree:
            yield _output_tree(counterexample)
        where = divergence_words(run.localisation)
        yield Prose(f"{where}; TV of the whole output {probability_text(counterexample.tv)}.")
        if words := decided_words(run.localisation):
            yield Prose(words)
    if resemblance := resembling_faults(run):
        yield Prose(resemblance)


def _draft_call_lines(
    counterexample: results.Counterexample, call: results.DraftCall
) -> Iterator[str]:
    """Yield what a call of a drafter was asked and reports, and how often its tokens come."""
    after = call.prefix[len(counterexample.instance.prompt) :]
    row = counterexample.instance.draft_probs[",".join(map(str, after))]
    yield f"prefix: {token_text(call.prefix) or 'no token'}"
    yield f"draft row: {row_numbers(row)}"
    yield f"asked for: {pluralize(call.asked, 'token')}, scheme {counterexample.instance.scheme}"
    total = sum(call.reported)
    off = f" (their sum is {total:.6g})" if abs(total - 1) > _SUM_TOLERANCE else ""
    yield f"reported: {', '.join(probability_text(x) for x in call.reported)}{off}"
    if call.before:
        calls = "; ".join(token_text(answer) or "no token" for answer in call.before)
        yield f"the calls before it drafted: {calls}"
    if call.share < 1 - _SHARE_ROUNDING:
        output = pluralize(len(counterexample.sequence), "token")
        yield (
            f"in {probability_text(call.share)} of all runs it reports this and returns "
            f"{output}; then"
        )
    noun = "Token" if len(counterexample.sequence) == 1 else "Tokens"
    tokens = f"{noun} {token_text(counterexample.sequence)}"
    yield (
        f"{tokens} {'has' if noun == 'Token' else 'have'} probability "
        f"{probability_text(counterexample.probability_emitted)}; by the report it is "
        f"{probability_text(counterexample.probability_expected)}."
    )


def _breach_blocks(breach: results.Breach) -> Iterator[Block]:
    yield Prose(breach.message)
    # A drafter is handed no target rows.
    drafts = breach.instance.parents is not None and breach.draft_tokens is None
    yield _draft_rows_table(breach.instance) if drafts else _rows_table(breach.instance)
    if before := output_prefix(breach.instance):
        yield Prose(before)


def _trial_blocks(trial: results.FailingTrial) -> Iterator[Block]:
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


def _rows_table(instance: results.Instance) -> Table:
    """Return the rows of an instance, each pair of p and q once, with the prefixes it follows."""
    pairs = distinct_row_pairs(instance)
    processed = instance.expected_probs is not None
    return make_table(
        "The instance: target p and draft q",
        "rows | p | p after processing | q" if processed else "rows | p | q",
        (
            (
                Cell(prefix_text(prefixes, 60), short=prefix_text(prefixes, WIDTH - 4))
                if len(pairs) > 1
                else "after every prefix",
                *pair,
            )
            for pair, prefixes in pairs.items()
        ),
        listed=True,
    )


def _draft_rows_table(instance: results.Instance) -> Table:
    """Return the rows that a drafter is handed, each once."""
    rows: dict[str, list[str]] = {}
    for prefix, row in instance.draft_probs.items():
        rows.setdefault(row_numbers(row), []).append(prefix)
    return make_table(
        "The instance: the draft's rows",
        "rows | draft row",
        ((prefix_text(prefixes, WIDTH // 2), row) for row, prefixes in rows.items()),
        listed=True,
    )


def _output_tree(counterexample: results.Counterexample) -> Tree:
    """The first places' branches, those off the path as leaves.

    Each place is looked at once, so that the tree is no larger than the branches are many.
    """
    places = min(len(counterexample.sequence), _MAX_DEPTH)
    nodes: tuple[Node, ...] = ()
    shown = 0
    for place in reversed(range(places)):
        path = counterexample.sequence[: place + 1]
        siblings = [branch for branch in counterexample.tree if len(branch.sequence) == place + 1]
        # The path goes on whatever is left out beside it.
        siblings.sort(key=lambda branch: branch.sequence != path)
        branches = sorted(siblings[:_MAX_BRANCHES], key=lambda branch: branch.sequence)
        shown += len(branches)
        nodes = tuple(
            Node(
                branch.sequence[-1],
                branch.probability_emitted,
                branch.probability_expected,
                probability_text(branch.probability_emitted),
                probability_text(branch.probability_expected),
                on_path=(on_path := branch.sequence == path),
                children=nodes if on_path else (),
            )
            for branch in branches
        )
    return Tree(_TREE_CAPTION, nodes, left_out=len(counterexample.tree) - shown)


# Error rates, faults, probes and tests.


def _promises(run: results.AuditRun) -> Iterator[tuple[str, str]]:
    if run.instances:
        yield (
            "exact tier",
            "no false alarms: the distribution is computed over all paths of the code",
        )
        apart = (
            f", and {ALLOWED_MASS:g} for paths that are left out"
            if truncated_instances(run)
            else ""
        )
        yield ("tolerance", f"{run.tolerance:g}, for rounding in {run.dtype}{apart}")
        # A few trivial instances are no certificate of code that went to the sampled tier.
        whole = run.verdict == "PASS" and run.not_enumerable is None
        yield ("certificate" if whole else "largest deviation", _exact_limit(run))
    if (tier := run.sampled) is not None:
        yield "samples", f"{pluralize(tier.samples, 'call')}, {pluralize(tier.looks, 'look')}"
    yield "probes", "a violation fails the audit; a warning only under strict probes"


def _exact_limit(run: results.AuditRun) -> str:
    """How far off the law is at most, on the instances that the exact tier tried."""
    worst = max(instance.max_abs_deviation for instance in run.instances)
    scope = f"the {pluralize(len(run.instances), 'instance')} tried exactly"
    return f"no output is off by more than {worst:.2g}, on {scope}"


def _refuted_blocks(run: results.AuditRun) -> Iterator[Block]:
    if run.refuted:
        yield Prose("Their exact distributions differ from the code's on the instances tried:")
        yield Items((join_names(run.refuted, 60),))
    if run.sampled is not None and run.sampled.faults is not None:
        yield from fault_blocks(run.sampled.faults)
    if run.diagnosis:
        yield make_table(
            "Nearest faults of the catalogue, on the counterexample's instance",
            "fault | TV to the code's distribution",
            ((d.fault, float(d.distance)) for d in sorted(run.diagnosis, key=lambda d: d.distance)),
        ).first(10)


def _probe_lines(run: results.AuditRun) -> list[str]:
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


def _probe_table(probes: Sequence[results.Probe]) -> Table:
    rank = {"violation": 0, "warning": 1, "not run": 2, "ok": 3}
    return make_table(
        "Edge probes",
        "probe | outcome | what happened",
        (
            (p.name, Cell(p.outcome, mark=_PROBE_MARKS.get(p.outcome, "")), p.message)
            for p in sorted(probes, key=lambda probe: rank[probe.outcome])
        ),
        on=On.PAGE,
    )


def _detail_blocks(run: results.AuditRun) -> Iterator[Block]:
    if run.instances:
        yield make_table(
            "Instances of the exact tier",
            "instance | V | gamma | paths | largest deviation | TV | E[tau] | optimum",
            (
                (
                    Cell(i.name, mark="fail" if i.failed else ""),
                    i.vocab_size,
                    i.gamma,
                    i.paths,
                    number_cell(i.max_abs_deviation, 3),
                    number_cell(i.tv, 3),
                    number_cell(i.expected_accepted, 6),
                    number_cell(i.optimum, 6),
                )
                # The worst come first: a short rendering shows no more than these.
                for i in sorted(run.instances, key=lambda x: (not x.failed, -x.max_abs_deviation))
            ),
            folded=True,
        )
    if run.sampled is not None and run.sampled.tests:
        tests = [(run.spec, test) for test in run.sampled.tests]
        yield tests_table("Tests of the sampled tier", tests)


def _audit_cases(run: results.AuditRun, report: Report) -> Iterator[Case]:
    name = f"audit {run.spec}"
    if run.verdict == "PASS":
        words = "none"
        if run.tier == "exact":
            words = _exact_limit(run)
        elif run.sampled is not None and run.sampled.certificate is not None:
            words = certificate_scope(run.sampled, run.sampled.certificate)
        yield Case(name, "passed", rests_on=(("tier", run.tier), ("certificate", words)))
    else:
        yield verdict_case(name, run.verdict, run.inconclusive or report_text(report))
    for probe in run.probes:
        outcome = "failed" if is_fatal(probe) else _PROBE_OUTCOMES.get(probe.outcome, "passed")
        yield Case(f"probe {probe.name}", outcome, probe.message)


def _failing_line(run: results.AuditRun, file: str) -> int | None:
    """Return the line of ``file`` that decides what failed, or else its likeliest before that."""
    for place in (*likeliest_lines(run.findings, run.localisation), *_part_lines(run)):
        where, _, line = place.rpartition(":")
        if line.isdecimal() and Path(where).resolve() == Path(file).resolve():
            return int(line)
    return None


# The lines of code that a failure may come from, in words.


def _failure_location(run: results.AuditRun) -> str:
    words = short_location(run.findings, run.localisation)
    if not words and (lines := _part_lines(run)):
        return f"decided at {join_lines(lines)}"
    return words


def _part_lines(run: results.AuditRun) -> tuple[str, ...]:
    """Return the lines of the part of a call that the sampled tests point at."""
    suspect = None if run.sampled is None else run.sampled.localisation
    return () if suspect is None else suspect.lines


MAX_SOURCE_LINES = 12
"""Lines that an audit names behind the one that decides, or that raised."""


def decided_words(place: results.Localisation | None) -> str:
    """Return the lines where the deviating token is decided, and those its numbers come from.

    "" where none is known.
    """
    if place is None or not place.lines:
        return ""
    that = "That token" if place.alone else "No line decides that token alone; the output up to it"
    places = join_names(map(file_name, place.lines))
    return f"{that} is decided at {places}. {source_words(place)}".rstrip()


def source_words(origin: results.Localisation | results.Finding) -> str:
    """Return the lines that numbers, or what the code raised on, come from; "" if unknown."""
    if not origin.sources:
        return ""
    what = (
        "Its numbers come"
        if isinstance(origin, results.Localisation)
        else "What it raised on comes"
    )
    lines = join_lines(origin.sources, MAX_SOURCE_LINES)
    return f"{what} from these lines, the likeliest mistake first: {lines}."


def short_location(findings: Sequence[results.Finding], place: results.Localisation | None) -> str:
    """Return where a failure is decided, or where the code raised, and the best guesses behind it.

    The lines of a constant seed come first, by which draws are decided already. "" where no line is
    known.
    """
    words = []
    if seeds := _seed_lines(findings):
        words.append(f"seeds at {join_lines(dict.fromkeys(seeds))}")
    finding = _raised_finding(findings)
    if place is not None and place.lines:
        words.append(f"decided at {join_lines(place.lines)}")
        if place.sources:
            words.append(f"its numbers come from {join_lines(place.sources)}")
    elif not seeds and finding is not None and finding.line:
        calls = f", called at {join_lines(finding.callers)}" if finding.callers else ""
        how = "raised" if "raised" in finding.text else "found"
        words.append(f"{how} at {join_lines([finding.line])}{calls}")
        if finding.sources:
            words.append(f"what it raised on comes from {join_lines(finding.sources)}")
    return "; ".join(words)


def _seed_lines(findings: Sequence[results.Finding]) -> list[str]:
    return [
        finding.line for finding in findings if finding.broke == "constant-seed" and finding.line
    ]


def likeliest_lines(
    findings: Sequence[results.Finding], place: results.Localisation | None
) -> Iterator[str]:
    """Yield the lines of :func:`short_location` and all behind them, the likeliest first."""
    yield from _seed_lines(findings)
    if place is not None:
        yield from place.lines
        yield from place.sources or ()
    if (finding := _raised_finding(findings)) is not None and finding.line:
        yield finding.line
        yield from finding.callers or ()
        yield from finding.sources or ()


def _raised_finding(findings: Sequence[results.Finding]) -> results.Finding | None:
    """Return the finding with a line of which most is known."""
    lines = [finding for finding in findings if finding.line]
    return max(lines, key=lambda x: (bool(x.sources), bool(x.callers)), default=None)


_MAX_DENOMINATOR = 10_000
_STAGE_WORDS = {
    "accepted": "a draft token that was accepted",
    "residual": "the token drawn after a rejection",
    "bonus": "the bonus token, drawn when every draft token is accepted",
}


def token_text(sequence: Iterable[int]) -> str:
    """Return token ids with commas between them."""
    return ", ".join(map(str, sequence))


def probability_text(value: float) -> str:
    """Return the number as a short fraction where it is one, with its decimals."""
    near = Fraction(value).limit_denominator(_MAX_DENOMINATOR)
    if near.denominator == 1 and near == value:
        return str(near)
    # A number that is no such fraction comes this close to one once in a million.
    exact = abs(float(near) - value) < 1e-14 and near != 0
    return f"{near} = {value:.4g}" if exact else f"{value:.4g}"


def instance_size(instance: results.Instance) -> str:
    """Return the size of an instance in words, and how its draft trees are drafted."""
    words = f"V = {instance.vocab_size}, gamma = {instance.gamma}"
    if instance.parents is None:
        return words
    from simverify.trees import TreeShape  # numpy, which most reports do not need

    shape = TreeShape(instance.parents)
    return f"{words}, draft trees of {shape.words()}, scheme {instance.scheme}"


def drafted_clause(breach: results.Breach) -> str:
    """Return what was drafted for the call, as the end of a clause; "" if it drafts itself."""
    if breach.draft_tokens is None:
        return ""
    if breach.parents is None:
        return f", draft tokens {token_text(breach.draft_tokens)}"
    from simverify.trees import TreeShape, tree_text

    drawn = tree_text(TreeShape(breach.parents), breach.draft_tokens)
    return f", draft tree {drawn} (children in brackets)"


def output_prefix(instance: results.Instance) -> str:
    """Return what comes before the output, and what ends it, where that is not plain."""
    parts = []
    if instance.prompt:
        parts.append(
            f"A prompt of {pluralize(len(instance.prompt), 'token')} comes first: "
            f"{token_text(instance.prompt)}."
        )
    if instance.earlier_calls:
        calls = pluralize(instance.earlier_calls, "call")
        parts.append(f"Another generation, of {calls} at most, comes first; then reset().")
    if instance.eos is not None:
        parts.append(f"Token {instance.eos} ends a generation: what follows it is dropped.")
    return " ".join(parts)


def distinct_row_pairs(instance: results.Instance) -> dict[tuple[str, ...], list[str]]:
    """Return each pair of rows p and q of ``instance`` once, with the prefixes it follows.

    Where the code processes p, what that gives stands between them.
    """
    sides = (instance.target_probs, instance.expected_probs, instance.draft_probs)
    pairs: dict[tuple[str, ...], list[str]] = {}
    for prefix in instance.target_probs:
        pair = tuple(row_numbers(rows[prefix]) for rows in sides if rows is not None)
        pairs.setdefault(pair, []).append(prefix)
    return pairs


def prefix_text(prefixes: list[str], width: int) -> str:
    """Return ``after no token | 0 | 0 2``, as far as it fits into ``width``."""
    named = ["no token" if prefix == "" else prefix.replace(",", " ") for prefix in prefixes]
    for shown in range(len(named), 0, -1):
        rest = len(named) - shown
        more = f" | {rest} more" if rest else ""
        line = f"after {' | '.join(named[:shown])}{more}"
        if len(line) < width:
            break
    return line


def divergence_words(place: results.Localisation | None) -> str:
    """Return where the law leaves the target first."""
    if place is None:
        return "No position of the output stands out"
    where = f"It deviates first at output token {place.position + 1}"
    return where if place.stage is None else f"{where}, {_STAGE_WORDS[place.stage]}"


def resembling_faults(run: results.AuditRun) -> str:
    """Return which catalogued faults the law found is, or is far nearer to than to the target's."""
    counterexample = run.counterexample
    if counterexample is None or not run.diagnosis:
        return ""
    same = [d.fault for d in run.diagnosis if d.distance <= run.tolerance]
    if same:
        faults = " and of ".join(same)
        return f"Its distribution there equals that of the fault {faults} (simverify faults)."
    nearest = min(run.diagnosis, key=lambda d: d.distance)
    fault = nearest.fault
    far = (
        f"the two distributions differ by TV {nearest.distance:.3g}, there or on a richer instance"
    )
    if nearest.distance < counterexample.tv / 10:
        return f"It looks like the fault {fault} (simverify faults): {far}."
    unknown = "It looks like none of the catalogued faults."
    if nearest.distance > counterexample.tv / 2:
        # As far from it as from the target, or nearly: its name would lead nowhere.
        return unknown
    return f"{unknown} The nearest is {fault}: {far}."


def clock_stop_words(run: results.AuditRun) -> str:
    """Return how far the exact tier came, where the clock stopped it; "" where it did not."""
    stop = run.stopped
    if stop is None:
        return ""
    words = (
        f"stopped by the clock after {stop.seconds:g} s, {stop.judged} of "
        f"{pluralize(stop.instances, 'instance')}"
    )
    if run.verdict == "PASS" and run.sampled is None:
        words += f": lossless on those {stop.judged}"
    words += f"; the next is {stop.next}"
    return words if run.verdict == "FAIL" else f"{words} (raise --seconds)"


def failure_texts(run: results.AuditRun) -> list[str]:
    """Return what failed; the probes, which have lines of their own, where nothing else did."""
    others = [finding for finding in run.findings if finding.kind != "probe"]
    return [
        f"{finding.text}. {behind}" if (behind := source_words(finding)) else finding.text
        for finding in others or run.findings
    ]


def is_fatal(probe: results.Probe) -> bool:
    """Return whether ``probe`` failed its audit: a violation, or a warning under strict ones."""
    return probe.failed or probe.outcome == "violation"


def row_numbers(row: Iterable[float | str]) -> str:
    """Return a row's numbers, or fractions, with commas between them."""
    return ", ".join(x if isinstance(x, str) else f"{x:.6g}" for x in row)


_FAILED_SENTENCES = {
    "law": "does not emit the target's distribution",
    "contract": "breaks its contract",
    "tests": "fails its statistical tests",
    "probe": "fails an edge probe",
    "process": "interferes with the process that runs it",
    "coverage": "has lines that the audit did not reach",
}
"""What a FAIL says of the code by the kind of its gravest finding, which comes first."""


def verdict_sentence(run: results.AuditRun) -> str:
    """Return what the verdict says of the code, as a sentence."""
    if run.verdict == "INCONCLUSIVE":
        return f"{run.spec} could not be judged."
    drafts = run.contract == "draft"
    if run.verdict == "FAIL":
        kinds = {finding.kind for finding in run.findings}
        kind = next((kind for kind in _FAILED_SENTENCES if kind in kinds), None)
        if kind == "law" and drafts:
            return f"{run.spec} does not draft from the distribution that it reports."
        return f"{run.spec} {_FAILED_SENTENCES.get(kind or '', 'failed its audit')}."
    if run.sampled is not None:
        detects = [x.detect for x in run.sampled.instances] or [run.sampled.detect]
        least, most = min(detects), max(detects)
        shown = f"{least:g}" if least == most else f"{least:g} to {most:g}, depending on the size,"
        return f"{run.spec} passed every statistical test: a deviation of TV {shown} would show."
    exactly = "" if run.stopped is not None else " exactly"
    says = f"{run.spec} emits{exactly} the target's distribution"
    if drafts:
        says = f"{run.spec} drafts{exactly} from the distribution that it reports"
    elif run.processing is not None:
        words = target_words(run.processing)
        says = f"{run.spec} emits{exactly} the distribution of the target after {words}"
    if (stop := run.stopped) is not None:
        return f"{says} on {stop.judged} of {stop.instances} instances; the time limit ended it."
    if run.left_out:
        count = len(run.instances)
        return f"{says} on {count} of {count + run.left_out} instances; the paths ran out."
    return f"{says}."


def followed_words(
    processing: results.TargetProcessing, stated: results.TargetProcessing | None
) -> str:
    """Return what the output follows instead of what is ``stated``, and the options for it."""
    values = ((name, getattr(processing, name)) for name in processing.__struct_fields__)
    given = {name: value for name, value in values if name != "order" and value is not None}
    if given["temperature"] == 1.0:
        del given["temperature"]
    words = [word for name, value in given.items() for word in words_of(name, value)]
    from simverify.models.distribution import STAGES

    if list(processing.order) != sorted(processing.order, key=STAGES.index):
        words += words_of("order", ",".join(processing.order))
    if not words:
        return (
            "The output follows the target's rows as they are on the instances tried. If that is "
            "intended, state no processing."
        )
    advice = f"add {' '.join(words)}" if stated is None else f"state {' '.join(words)} instead"
    return (
        f"The output follows the target after {target_words(processing)} on the instances tried. "
        f"If that is intended, {advice}."
    )


def target_words(processing: results.TargetProcessing) -> str:
    """Return what is done to the target's rows, first to last."""
    names = {
        "repetition": ("repetition_penalty",),
        "presence": ("presence_penalty", "frequency_penalty"),
    }

    def words(step: str) -> str:
        fields = names.get(step, (step.replace("-", "_"),))
        given = ((x, getattr(processing, x)) for x in fields)
        parts = (f"{x.replace('_', '-')} {value:g}" for x, value in given if value is not None)
        return " and ".join(parts)

    return ", then ".join(map(words, processing.order))


def verdict_scope(run: results.AuditRun) -> str:
    """Return on what sizes the verdict stands."""
    what = f"{run.contract} contract" + (
        f", in mixed batches ({run.company})" if run.company else ""
    )
    if run.pair is not None:
        what = f"drafter and verifier, {run.pair.contract} contract"
    if run.sampled is not None and run.not_enumerable is not None:
        return f"{what}, sampled on {_sampled_sizes(run.sampled)}"
    return f"{what}, gamma up to {run.gamma}, V up to {run.vocab_size}"


def _sampled_sizes(tier: results.SampledTier) -> str:
    """Return the sizes of all instances, in the order in which they were run."""
    sizes = _size_list(tier.instances)
    if len(tier.instances) == 1:
        return f"{tier.instances[0].name} alone ({sizes})"
    return f"{sizes} only"


def instance_bounds(tier: results.SampledTier) -> Iterator[tuple[str, str, float, str | None]]:
    """Yield, for the instances of which the same TV is asked: sizes, TV found, asked, its bound.

    The bound, of a PASS, is the largest of them.
    """
    for detect in sorted({x.detect for x in tier.instances}):
        instances = [x for x in tier.instances if x.detect == detect]
        deviations = [x.detectable for x in instances if x.detectable is not None]
        every = len(deviations) == len(instances)
        reached = f"TV {max(deviations):.2g} or more" if every else "no TV yet"
        bounds = [x.bound for x in instances if x.bound is not None]
        bound = f"TV at most {max(bounds):.3g}" if bounds else None
        yield _size_list(instances), reached, detect, bound


def certificate_scope(tier: results.SampledTier, certificate: results.Certificate) -> str:
    """Return what the certificate of all instances promises, and on which."""
    return f"on {_sampled_sizes(tier)}: {certificate_words(certificate)}"


def _size_list(instances: Iterable[results.SampledModel]) -> str:
    names = dict.fromkeys(f"V={x.vocab_size} gamma={x.gamma}" for x in instances)
    return ", ".join(names)


_PART_WORDS = {
    "accept": "it accepts draft tokens otherwise than a lossless rule may",
    "residual": "the token that it draws after a rejection does not follow the target",
    "bonus": "the bonus token, drawn when every draft token is accepted, does not follow the "
    "target",
    "draft contract": "the draft tokens do not come from the distribution that it takes for "
    "the draft's",
    "row plumbing": "it judges a token by rows that are not those of the token's place",
    "random stream": "it uses random numbers more than once, or others than it should",
}
_MIN_EXPLAINED = 0.75
"""Part of the deviation from which on a fault is named as what it looks like."""


def failure_reason(run: results.AuditRun) -> str:
    """Return why ``run`` failed; its words begin with a small letter and end in a full stop."""
    failure, tier = run.counterexample, run.sampled
    if failure is not None and failure.call is not None:
        return (
            "its draft tokens do not follow the distribution that it reports. On an instance with "
            f"{failure.instance.vocab_size} tokens they are off by a total variation of "
            f"{probability_text(failure.tv)}."
        )
    if failure is not None:
        return (
            "its output does not follow the target model. On an instance with "
            f"{failure.instance.vocab_size} tokens and drafts of {failure.instance.gamma} it is "
            f"off by a total variation of {probability_text(failure.tv)}."
        )
    if run.breach is not None:
        return f"it breaks its contract: {_as_sentence(run.breach.message)}"
    if tier is not None and tier.findings and tier.localisation is not None:
        return _sampled_reason(tier)
    probes = [probe for probe in run.probes if is_fatal(probe)]
    if probes and all(finding.kind == "probe" for finding in run.findings):
        return f"it fails {pluralize(len(probes), 'edge probe')}: {_as_sentence(probes[0].message)}"
    return _as_sentence(run.findings[0].text if run.findings else "it failed")


def _sampled_reason(tier: results.SampledTier) -> str:
    place, faults = tier.localisation, tier.faults
    best = faults.best if faults is not None else None
    part = None if place is None else place.part
    if part == "random stream" and best is None:
        return (
            "its calls, or rows of a batch, depend on each other, although each alone follows the "
            "target model."
        )
    words = "its output does not follow the target model"
    words += f": {_PART_WORDS[part]}" if part else "; no part of it alone explains that"
    if best is not None and faults is not None and (faults.explains or 0.0) >= _MIN_EXPLAINED:
        words += f". It looks like the fault {best.fault} (simverify faults)"
    if tier.precision is not None:
        words += f". It is consistent with {tier.precision}"
    return f"{words}."


def _as_sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


# What an audit covered: the exact tier's paths, the lines reached, how far calls went.


ALLOWED_MASS = 1e-6
"""Mass that may be left out where paths have no end, as the exact tier allows."""

_MAX_MISSED_LINES = 4
_MAX_REASON = 90


def exact_coverage_words(run: results.AuditRun) -> str:
    """Return how far the law is off where all was run, and what was left out elsewhere."""
    cut = truncated_instances(run)
    words = f"{pluralize(len(run.instances), 'instance')}, {pluralize(run.paths, 'path')}: "
    whole = [i.max_abs_deviation for i in run.instances if i not in cut]
    words += f"largest deviation {max(whole):.2g}, " if whole else ""
    words += f"tolerance {run.tolerance:g} ({run.dtype})"
    if not cut:
        return words
    where = f"{len(cut)} of them" if whole else "each of them"
    most = max(instance.max_abs_deviation for instance in cut)
    return (
        f"{words}; on {where} the lightest paths are left out: with what they may hide, no output "
        f"is off by more than {most:.2g} ({ALLOWED_MASS:g} is allowed)"
    )


def truncated_instances(run: results.AuditRun) -> list[results.ExactInstance]:
    """Return the instances that pass although more of them than the tolerance was left out."""
    if run.not_enumerable is not None:
        return []  # such a run decides nothing by them
    return [i for i in run.instances if not i.failed and i.max_abs_deviation > run.tolerance]


def line_coverage_words(coverage: results.Coverage | None, *, verbose: bool = False) -> str:
    """Return how many lines ran and which did not; "" where none were counted.

    ``verbose``: with all of them, and the branches that were not taken.
    """
    if coverage is None or not coverage.lines:
        return ""
    text = f"reached {coverage.lines_reached} of {pluralize(coverage.lines, 'line')}"
    missed = [_missed_location(x) for x in coverage.not_reached]
    if verbose:
        text += f" and {coverage.branches_reached} of {coverage.branches:,} branches"
        missed += list(coverage.not_taken)
    most = len(missed) if verbose else _MAX_MISSED_LINES
    if missed:
        text += f"; not reached: {'; '.join(missed[:most])}"
    if missed[most:]:
        text += f"; {len(missed) - most} more: see --verbose"
    # How far the calls went, where that may matter.
    limits = []
    if coverage.prefix is not UNSET:
        limits.append(f"prefixes of more than {pluralize(coverage.prefix, 'token')}")
    if coverage.calls is not UNSET:
        limits.append(f"more than {pluralize(coverage.calls, 'call')} in a row")
    return f"{text}; not tried: {' or '.join(limits)}" if limits else text


def _missed_location(missed: results.MissedLines) -> str:
    last = "" if missed.last == missed.first else f"-{missed.last}"
    why = f" ({truncate_line(missed.why, _MAX_REASON)})" if missed.why else ""
    return f"{missed.file}:{missed.first}{last}{why}"
