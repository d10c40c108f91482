"""The findings and the coverage of an audit in words, for the terminal, pytest and the reports."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from msgspec import UNSET

from simverify.reports.words import certificate_words, join_names, take_first, truncate_line
from simverify.results import (
    AuditRun,
    Breach,
    Certificate,
    Coverage,
    ExactInstance,
    Finding,
    Instance,
    Localisation,
    MissedLines,
    Probe,
    SampledModel,
    SampledTier,
)
from simverify.trees import TreeShape, tree_text

# The lines of code that a failure may come from, in words.


MAX_SOURCE_LINES = 12
"""Lines that an audit names behind the one that decides, or that raised."""

_MAX_TITLE_LINES = 3
"""Lines that there is room for in a title or a cell."""

_ORDER_WORDS = "likeliest mistake first"


def decided_words(place: Localisation | None) -> str:
    """Return the lines where the deviating token is decided, and those its numbers come from.

    "" where none is known.
    """
    if place is None or not place.lines:
        return ""
    that = "That token" if place.alone else "No line decides that token alone; the output up to it"
    places = join_names(map(_file_name, place.lines))
    return " ".join(filter(None, [f"{that} is decided at {places}.", source_words(place)]))


def source_words(place: Localisation) -> str:
    """Return the lines that what decides a token gets its numbers from; "" where none is known."""
    if not place.sources:
        return ""
    return f"Its numbers come from, {_ORDER_WORDS}, {_join_lines(place.sources, MAX_SOURCE_LINES)}."


def finding_words(found: Finding) -> str:
    """Return what failed, and of code that raised the lines behind the one that did."""
    behind = raised_words(found)
    return f"{found.text}. {behind}" if behind else found.text


def raised_words(found: Finding) -> str:
    """Return the lines that what the code raised on comes from; "" where none is known."""
    if not found.sources:
        return ""
    return (
        f"What it raised on comes from, {_ORDER_WORDS}, "
        f"{_join_lines(found.sources, MAX_SOURCE_LINES)}."
    )


def short_location(findings: Sequence[Finding], place: Localisation | None) -> str:
    """Return where a failure is decided, or where the code raised, and the best guesses behind it.

    The lines of a constant seed come first, by which draws are decided already. "" where no line is
    known.
    """
    seeds = [found.line for found in findings if found.broke == "constant-seed" and found.line]
    words = [f"seeds at {_join_lines(dict.fromkeys(seeds), _MAX_TITLE_LINES)}"] if seeds else []
    if place is not None and place.lines:
        words.append(f"decided at {_join_lines(place.lines, _MAX_TITLE_LINES)}")
        if place.sources:
            words.append(f"its numbers come from {_join_lines(place.sources, _MAX_TITLE_LINES)}")
    elif not seeds and (finding := _raised_finding(findings)) is not None and finding.line:
        calls = (
            f", called at {_join_lines(finding.callers, _MAX_TITLE_LINES)}"
            if finding.callers
            else ""
        )
        how = "raised" if "raised" in finding.text else "found"
        words.append(f"{how} at {_join_lines([finding.line], 1)}{calls}")
        if finding.sources:
            words.append(
                f"what it raised on comes from {_join_lines(finding.sources, _MAX_TITLE_LINES)}"
            )
    return "; ".join(words)


def likeliest_lines(findings: Sequence[Finding], place: Localisation | None) -> Iterator[str]:
    """Yield the lines of :func:`short_location` and all behind them, the likeliest first."""
    yield from (found.line for found in findings if found.broke == "constant-seed" and found.line)
    if place is not None:
        yield from place.lines
        yield from place.sources or ()
    if (finding := _raised_finding(findings)) is not None and finding.line:
        yield finding.line
        yield from finding.callers or ()
        yield from finding.sources or ()


def _raised_finding(findings: Sequence[Finding]) -> Finding | None:
    """Return the finding with a line of which most is known."""
    lines = [found for found in findings if found.line]
    return max(lines, key=lambda x: (bool(x.sources), bool(x.callers)), default=None)


def _join_lines(lines: Iterable[str], most: int) -> str:
    """Return the first lines, of lines of one file in a row its name once."""
    words: list[str] = []
    last = ""
    for line in lines:
        file, _, number = _file_name(line).rpartition(":")
        words.append(number if file == last else f"{file}:{number}")
        last = file
    return join_names(words, most)


def _file_name(line: str) -> str:
    return line.rpartition("/")[2]


_MAX_DENOMINATOR = 10_000
_STAGE_WORDS = {
    "accepted": "a draft token that was accepted",
    "residual": "the token drawn after a rejection",
    "bonus": "the bonus token, drawn when every draft token is accepted",
}


def pluralize(n: int, noun: str) -> str:
    """Return ``1 path``, ``2 paths``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


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


def instance_size(instance: Instance) -> str:
    """Return the size of an instance in words, and how its draft trees are drafted."""
    words = f"V = {instance.vocab_size}, gamma = {instance.gamma}"
    if instance.parents is None:
        return words
    shape = TreeShape(instance.parents)
    return f"{words}, draft trees of {shape.words()}, scheme {instance.scheme}"


def drafted_clause(found: Breach) -> str:
    """Return what was drafted for the call, as the end of a clause; "" if it drafts itself."""
    if found.draft_tokens is None:
        return ""
    if found.parents is None:
        return f", draft tokens {token_text(found.draft_tokens)}"
    drawn = tree_text(TreeShape(found.parents), found.draft_tokens)
    return f", draft tree {drawn} (children in brackets)"


def output_prefix(instance: Instance) -> str:
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


def distinct_row_pairs(instance: Instance) -> dict[tuple[str, str], list[str]]:
    """Return each pair of rows p and q of ``instance`` once, with the prefixes it follows."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for prefix, target in instance.target_probs.items():
        pair = row_numbers(target), row_numbers(instance.draft_probs[prefix])
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


def divergence_words(place: Localisation | None) -> str:
    """Return where the law leaves the target first."""
    if place is None:
        return "No position of the output stands out"
    where = f"It deviates first at output token {place.position + 1}"
    return where if place.stage is None else f"{where}, {_STAGE_WORDS[place.stage]}"


def resembling_faults(run: AuditRun) -> str:
    """Return which catalogued faults the law found is, or is far nearer to than to the target's."""
    counterexample = run.counterexample
    if counterexample is None or not run.diagnosis:
        return ""
    same = [d.fault for d in run.diagnosis if d.distance <= run.tolerance]
    if same:
        return f"Its law there is that of the fault {' and of '.join(same)} (simverify faults)."
    nearest = min(run.diagnosis, key=lambda d: d.distance)
    fault = nearest.fault
    far = f"the two laws differ by TV {nearest.distance:.3g}, there or on a richer instance"
    if nearest.distance < counterexample.tv / 10:
        return f"It looks like the fault {fault} (simverify faults): {far}."
    unknown = "It looks like none of the catalogued faults."
    if nearest.distance > counterexample.tv / 2:
        # As far from it as from the target, or nearly: its name would lead nowhere.
        return unknown
    return f"{unknown} The nearest is {fault}: {far}."


def clock_stop_words(run: AuditRun) -> str:
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
    return f"{words}; the next is {stop.next} (raise --seconds)"


def failure_texts(run: AuditRun) -> list[str]:
    """Return what failed; the probes, which have lines of their own, where nothing else did."""
    others = [found for found in run.findings if found.kind != "probe"]
    return [finding_words(found) for found in others or run.findings]


def is_fatal(probe: Probe) -> bool:
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


def verdict_sentence(run: AuditRun) -> str:
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
        return f"{run.spec} passed every statistical test."
    if drafts:
        return f"{run.spec} drafts exactly from the distribution that it reports."
    return f"{run.spec} emits exactly the target's distribution."


def verdict_scope(run: AuditRun) -> str:
    """Return on what sizes the verdict stands."""
    what = f"{run.contract} contract" + (f", in company ({run.company})" if run.company else "")
    if run.pair is not None:
        what = f"drafter and verifier, {run.pair.contract} contract"
    if run.sampled is not None and run.not_enumerable is not None:
        return f"{what}, sampled on {sampled_sizes(run.sampled)}"
    return f"{what}, gamma up to {run.gamma}, V up to {run.vocab_size}"


def sampled_sizes(tier: SampledTier) -> str:
    """Return the sizes of all instances, in the order in which they were run."""
    sizes = _size_list(tier.instances)
    if len(tier.instances) == 1:
        return f"{tier.instances[0].name} alone ({sizes})"
    return f"{sizes} only"


def instance_bounds(tier: SampledTier) -> Iterator[tuple[str, str, float, str | None]]:
    """Yield, for the instances of which the same TV is asked: sizes, TV found, asked, its bound.

    The bound, of a PASS, is the largest of them.
    """
    for detect in sorted({x.detect for x in tier.instances}):
        instances = [x for x in tier.instances if x.detect == detect]
        deviations = [x.detectable for x in instances if x.detectable is not None]
        reached = (
            f"TV {max(deviations):.2g} or more"
            if len(deviations) == len(instances)
            else "no TV yet"
        )
        bounds = [x.bound for x in instances if x.bound is not None]
        bound = f"TV at most {max(bounds):.3g}" if bounds else None
        yield _size_list(instances), reached, detect, bound


def certificate_scope(tier: SampledTier, certificate: Certificate) -> str:
    """Return what the certificate of all instances promises, and on which."""
    return f"on {sampled_sizes(tier)}: {certificate_words(certificate)}"


def _size_list(instances: Iterable[SampledModel]) -> str:
    names = dict.fromkeys(f"V={x.vocab_size} gamma={x.gamma}" for x in instances)
    return ", ".join(names)


_PART_WORDS = {
    "accept": "it accepts draft tokens otherwise than a lossless rule may",
    "residual": "the token that it draws after a rejection does not follow the target",
    "bonus": "the bonus token, drawn when every draft token is accepted, does not follow the "
    "target",
    "draft contract": "the draft tokens do not come from the law that it takes for the draft's",
    "row plumbing": "it judges a token by rows that are not those of the token's place",
    "random stream": "it uses random numbers more than once, or others than it should",
}
_DEPENDENCE = "calls, or rows of a batch, depend on each other"
_MIN_EXPLAINED = 0.75
"""Part of the deviation from which on a fault is named as what it looks like."""


def failure_reason(run: AuditRun) -> str:
    """Return why ``run`` failed; its words begin with a small letter and end in a full stop."""
    failure, tier = run.counterexample, run.sampled
    if failure is not None and failure.call is not None:
        return (
            "its draft tokens do not follow the law that it reports. On an instance with "
            f"{failure.instance.vocab_size} tokens they are off by a total variation of "
            f"{probability_text(failure.tv)}."
        )
    if failure is not None:
        return (
            "its output does not follow the target model. On an instance with "
            f"{failure.instance.vocab_size} tokens and drafts of {failure.instance.gamma} it is "
            "off "
            f"by a total variation of {probability_text(failure.tv)}."
        )
    if run.breach is not None:
        return f"it breaks its contract: {_as_sentence(run.breach.message)}"
    if tier is not None and tier.findings and tier.localisation is not None:
        return _sampled_reason(tier)
    probes = [probe for probe in run.probes if is_fatal(probe)]
    if probes and all(found.kind == "probe" for found in run.findings):
        return f"it fails {pluralize(len(probes), 'edge probe')}: {_as_sentence(probes[0].message)}"
    return _as_sentence(run.findings[0].text if run.findings else "it failed")


def _sampled_reason(tier: SampledTier) -> str:
    place, faults = tier.localisation, tier.faults
    best = faults.best if faults is not None else None
    part = None if place is None else place.part
    if part == "random stream" and best is None:
        return f"its {_DEPENDENCE}, although each alone follows the target model."
    words = "its output does not follow the target model"
    words += f": {_PART_WORDS[part]}" if part else "; no part of it alone explains that"
    if best is not None and faults is not None and (faults.explains or 0.0) >= _MIN_EXPLAINED:
        words += f". It looks like the fault {best.fault} (simverify faults)"
    return f"{words}."


def _as_sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


# What an audit covered: the exact tier's paths, the lines reached, how far calls went.


ALLOWED_MASS = 1e-6
"""Mass that may be left out where paths have no end, as the exact tier allows."""

_MAX_MISSED_LINES = 4
_MAX_REASON = 90


def exact_coverage_words(run: AuditRun) -> str:
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
        f"{words}; on {where} the lightest paths are left out, and no output is off by more than "
        f"{most:.2g}, what they may hide ({ALLOWED_MASS:g} is allowed)"
    )


def truncated_instances(run: AuditRun) -> list[ExactInstance]:
    """Return the instances that pass although more of them than the tolerance was left out."""
    if run.not_enumerable is not None:
        return []  # such a run decides nothing by them
    return [i for i in run.instances if not i.failed and i.max_abs_deviation > run.tolerance]


def line_coverage_words(found: Coverage | None, *, verbose: bool = False) -> str:
    """Return how many lines ran and which did not; "" where none were counted.

    ``verbose``: with all of them, and the branches that were not taken.
    """
    if found is None or not found.lines:
        return ""
    text = f"reached {found.lines_reached} of {pluralize(found.lines, 'line')}"
    missed = [_missed_location(x) for x in found.not_reached]
    if verbose:
        text += f" and {found.branches_reached} of {found.branches:,} branches"
        missed += list(found.not_taken)
    shown, more = take_first(missed, len(missed) if verbose else _MAX_MISSED_LINES)
    if shown:
        text += f"; not reached: {'; '.join(shown)}"
    if more:
        text += f"; {more} more: see --verbose"
    if limits := _call_lengths(found):
        text += f"; not tried: {' or '.join(limits)}"
    return text


def _call_lengths(found: Coverage) -> list[str]:
    """Return how far the calls went, where that may matter."""
    prefix, calls = found.prefix, found.calls
    return [
        *([f"prefixes of more than {pluralize(prefix, 'token')}"] if prefix is not UNSET else []),
        *([f"more than {pluralize(calls, 'call')} in a row"] if calls is not UNSET else []),
    ]


def _missed_location(missed: MissedLines) -> str:
    last = "" if missed.last == missed.first else f"-{missed.last}"
    why = f" ({truncate_line(missed.why, _MAX_REASON)})" if missed.why else ""
    return f"{missed.file}:{missed.first}{last}{why}"
