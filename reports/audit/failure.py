"""An audit's result in plain words, 80 columns wide: pytest's failure text, the terminal's."""

import shlex
import textwrap
from collections.abc import Sequence

from simverify.reports.audit.drafted import call_lines, is_drafter
from simverify.reports.audit.found import (
    after,
    before,
    count,
    drafted,
    fatal,
    findings,
    place_words,
    probability,
    promises,
    resemblance,
    row_pairs,
    row_text,
    scope,
    size,
    stopped_words,
    tokens,
    what_is_wrong,
)
from simverify.reports.audit.lines import decided_words
from simverify.reports.audit.tried import exact_words, reached_words
from simverify.reports.faults import suspicion
from simverify.reports.terminal import WIDTH
from simverify.reports.words import MOST_ITEMS, bounded, first
from simverify.results import AuditRun, Breach, Counterexample, Instance, Localisation

LONGEST = 10_000
"""Characters of one text: longer ones, which code under audit may raise, stand in the document."""

_MOST_LINES = 200
_MOST_PAIRS = 100
_FEW_NOTES = 2


def verdict_lines(run: AuditRun, *, verbose: bool = False) -> list[str]:
    """Return the verdict, what it rests on and, of a PASS, what it refutes.

    ``verbose``: with every note and the name of every fault. Lines have 80 columns at most and
    no control characters.
    """
    failed = run.verdict == "FAIL"
    notes = [f"note: {note}" for note in run.notes]
    if not verbose and len(notes) > _FEW_NOTES:
        more = count(len(notes) - _FEW_NOTES, "note")
        notes = [*notes[:_FEW_NOTES], f"{more} more: see --verbose"]
    return [
        *_wrap(f"{run.verdict} {run.spec}: {scope(run)}, seed {run.seed}"),
        *_wrap(stopped_words(run)),
        *_wrap(_exact(run)),
        *_wrap(_sampled(run) if verbose else _sampled_in_short(run)),
        *_wrap(_refuted(run, verbose=verbose)),
        *(_wrap(reached_words(run.coverage, verbose=verbose)) if verbose or not failed else ()),
        *_bounded(notes),
    ]


def audit_lines(run: AuditRun, *, verbose: bool = False) -> list[str]:
    """Return the verdict and all that explains it: counterexample, faults, probes, command.

    Lines have 80 columns at most, but for a command of which one word is longer; no line has
    control characters, whatever the code under audit raised.
    """
    sections = [verdict_lines(run, verbose=verbose)]
    if run.sampled is not None and run.verdict == "FAIL":
        words = what_is_wrong(run)  # the tests' names alone say little
        sections.append(_wrap(words[0].upper() + words[1:]))
    sections.append(_listed("What failed:", findings(run)))
    if run.rows is not None and run.rows.message:
        sections.append(_wrap(f"Which rows: {run.rows.message}"))
    if run.breach is not None:
        sections.append(_breach(run.breach))
    if run.counterexample is not None:
        sections.append(_counterexample(run.counterexample, run.localisation))
        sections.append(_wrap(resemblance(run)))
    if run.sampled is not None:
        found = suspicion(run.sampled.localisation, run.sampled.faults)
        sections.append([line for text in found for line in _wrap(text)])
    sections.append(_listed("Probes:", _probes(run)))
    sections.append(_inconclusive(run))
    if run.verdict != "PASS":
        sections.append(["To reproduce:", *_command(run.reproduce)])
    lines: list[str] = []
    for section in filter(None, sections):
        lines += ["", *section] if lines else section
    return lines


def _exact(run: AuditRun) -> str:
    """What the exact tier did."""
    if not run.instances:
        if run.not_enumerable:
            return f"not followed exactly: {run.not_enumerable}"
        return "no law was computed: the code did not get so far"
    why = f"; beyond: {run.not_enumerable}" if run.not_enumerable else ""
    return f"exact on {exact_words(run)}{why}"


def _sampled(run: AuditRun) -> str:
    """What the sampled tier did, and the certificate it gives."""
    tier = run.sampled
    if tier is None:
        return ""
    line = (
        f"sampled: {count(tier.samples, 'call')}, {count(len(tier.tests), 'test')}, false-alarm "
        f"rate {tier.alpha:g}"
    )
    for sizes, found, asked, bound in promises(tier):
        line += f"; on {sizes}: power {tier.power:g} against {found}, asked against {asked:g}"
        line += f", {bound}" if bound else ""
    line += "; nothing is promised beyond"
    if tier.certificate is not None:
        line += f"; the bounds hold but for {tier.certificate.delta:g}"
    if tier.faults is not None:
        number = len(tier.faults.refuted)
        line += f"; refutes {number} of {number + len(tier.faults.not_refuted)} named faults"
    return line


def _sampled_in_short(run: AuditRun) -> str:
    """What the sampled tier did: its size, its error rate and what it would have found."""
    tier = run.sampled
    if tier is None:
        return ""
    line = (
        f"sampled: {count(tier.samples, 'call')}, {count(len(tier.tests), 'test')}; a lossless "
        f"verifier fails with probability {tier.alpha:g} at most"
    )
    found = [f"{size} on {sizes}" for sizes, size, _, _ in promises(tier)]
    return f"{line}; found with probability {tier.power:g}: {'; '.join(found)}"


def _refuted(run: AuditRun, *, verbose: bool) -> str:
    if not run.refuted:
        return ""
    if verbose:
        return f"refutes the faults {', '.join(run.refuted)}"
    return f"refutes {count(len(run.refuted), 'named fault')} (simverify faults)"


def _breach(found: Breach) -> list[str]:
    instance = found.instance
    return [
        *_wrap(f"It broke its contract at {size(instance)}{drafted(found)}:"),
        *_wrap(found.message, "  "),
        *(_draft_rows(instance) if is_drafter(found) else _rows(instance)),
        *_wrap(before(instance), "  "),
    ]  # fmt: skip


def _counterexample(found: Counterexample, place: Localisation | None) -> list[str]:
    instance = found.instance
    if found.call is not None:
        head = f"Smallest counterexample: V = {instance.vocab_size}"
        told = call_lines(found, found.call)
        return [*_wrap(head), *(line for text in told for line in _wrap(text, "  "))]
    lines = [
        *_wrap(f"Smallest counterexample: {size(instance)}"),
        *_rows(instance),
        *_wrap(before(instance), "  "),
        *_wrap(
            f"An output beginning {tokens(found.sequence)} has probability "
            f"{probability(found.probability_emitted)}; it should have "
            f"{probability(found.probability_expected)}.",
            "  ",
        ),
    ]
    where = f"{place_words(place)}; TV of the whole output {probability(found.tv)}."
    return [*lines, *_wrap(where, "  "), *_wrap(decided_words(place), "  ")]


def _draft_rows(instance: Instance) -> list[str]:
    """The rows that a drafter is handed, each once."""
    rows: dict[str, list[str]] = {}
    for prefix, row in instance.draft_probs.items():
        rows.setdefault(row_text(row), []).append(prefix)
    shown, more = first(list(rows.items()), _MOST_PAIRS)
    lines = [
        line
        for row, prefixes in shown
        for line in _wrap(f"draft row {after(prefixes, WIDTH // 2)}: {row}", "  ")
    ]
    return [*lines, f"  {more:,} more rows stand in the run file"] if more else lines


def _rows(instance: Instance) -> list[str]:
    """The rows of ``instance``, each pair of p and q once, with the prefixes it follows."""
    pairs = row_pairs(instance)
    lines = []
    shown, more = first(list(pairs.items()), _MOST_PAIRS)
    for (p, q), prefixes in shown:
        follows = "after every prefix" if len(pairs) == 1 else after(prefixes, WIDTH - 4)
        lines.append(f"  {follows}:")
        lines += _wrap(f"p = {p}", "    ") + _wrap(f"q = {q}", "    ")
    return [*lines, f"  {more:,} more rows stand in the run file"] if more else lines


def _probes(run: AuditRun) -> list[str]:
    """Violations and warnings, those with the same message on one line."""
    told: dict[tuple[str, str], list[str]] = {}
    for probe in run.probes:
        if probe.outcome in ("violation", "warning"):
            strict = probe.outcome == "warning" and fatal(probe)
            outcome = "warning, strict" if strict else probe.outcome
            told.setdefault((outcome, probe.message), []).append(probe.name)
    return [
        f"{outcome}: {message} ({', '.join(names)})" for (outcome, message), names in told.items()
    ]


def _inconclusive(run: AuditRun) -> list[str]:
    if run.verdict != "INCONCLUSIVE":
        return []
    return _wrap(
        f"There is no verdict: {run.inconclusive}. Allow more paths, samples or seconds, or ask "
        "for a larger deviation."
    )


def _listed(title: str, entries: list[str]) -> list[str]:
    if not entries:
        return []
    return [title, *_bounded(entries, "  ", "    ")]


def _bounded(entries: Sequence[str], indent: str = "", rest: str | None = None) -> list[str]:
    """Entries on their lines, as far as a reader would scroll, and how many are left out."""
    lines: list[str] = []
    for i, entry in enumerate(entries):
        if i == MOST_ITEMS or len(lines) >= _MOST_LINES:
            return [*lines, f"{indent}{len(entries) - i:,} more stand in the run file"]
        lines += _wrap(entry, indent, rest)
    return lines


def _command(command: str) -> list[str]:
    """The command on lines that a shell takes as one; its words are never broken."""
    try:
        words = [shlex.quote(word) for word in shlex.split(_plain(command))]
    except ValueError:  # a quotation mark in a name
        words = _plain(command).split()
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
        _plain(bounded(text, LONGEST)),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  " if rest is None else rest,
        break_on_hyphens=False,
    )


def _plain(text: str) -> str:
    """Return ``text`` without characters that could move the cursor or change colours."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
