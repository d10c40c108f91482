"""An audit's result in plain words, 80 columns wide: pytest's failure text, the terminal's."""

import shlex
import textwrap
from collections.abc import Iterable
from fractions import Fraction

from simverify.results import AuditRun, Counterexample, Instance, Localisation, Probe

WIDTH = 80

_LARGEST_DENOMINATOR = 10_000
_STAGES = {
    "accepted": "a draft token that was accepted",
    "residual": "the token drawn after a rejection",
    "bonus": "the bonus token, drawn when every draft token is accepted",
}


def verdict_lines(run: AuditRun) -> list[str]:
    """Return the verdict, what it rests on and, of a PASS, what it refutes.

    Lines have 80 columns at most and no control characters.
    """
    scope = f"{run.contract} contract, gamma up to {run.gamma}, V up to {run.vocab_size}"
    return [
        *_wrap(f"{run.verdict} {run.spec}: {scope}, seed {run.seed}"),
        *_wrap(_exact(run)),
        *_wrap(_sampled(run)),
        *_wrap(f"refutes the faults {', '.join(run.refuted)}" if run.refuted else ""),
        *(line for note in run.notes for line in _wrap(f"note: {note}")),
    ]


def failure_lines(run: AuditRun) -> list[str]:
    """Return the verdict and all that explains it: counterexample, faults, probes, command.

    Lines have 80 columns at most, but for a command of which one word is longer; no line has
    control characters, whatever the code under audit raised.
    """
    sections = [verdict_lines(run), _listed("What failed:", _findings(run))]
    if run.counterexample is not None:
        sections.append(_counterexample(run.counterexample, run.localisation))
        sections.append(_wrap(_resemblance(run)))
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
    worst = max(instance.max_abs_deviation for instance in run.instances)
    return (
        f"exact on {_count(len(run.instances), 'instance')}, {_count(run.paths, 'path')}: "
        f"largest deviation {worst:.2g}, tolerance {run.tolerance:g} ({run.dtype}){why}"
    )


def _sampled(run: AuditRun) -> str:
    """What the sampled tier did, and the certificate it gives."""
    tier = run.sampled
    if tier is None:
        return ""
    reached = "no TV yet" if tier.detectable is None else f"TV {tier.detectable:.2g} or more"
    line = (
        f"sampled: {_count(tier.samples, 'call')}, {_count(len(tier.tests), 'test')}, false-alarm "
        f"rate {tier.alpha:g}, power {tier.power:g} against {reached}, asked against "
        f"{tier.detect:g}"
    )
    if tier.certificate is not None:
        line += f"; TV at most {tier.certificate.bound:.3g}, but for {tier.certificate.delta:g}"
    return line


def _counterexample(found: Counterexample, place: Localisation | None) -> list[str]:
    instance = found.instance
    sequence = _tokens(found.sequence)
    lines = [
        f"Smallest counterexample: V = {instance.vocab_size}, gamma = {instance.gamma}",
        *_rows(instance),
        *_wrap(_before(instance), "  "),
        *_wrap(
            f"An output beginning {sequence} has probability "
            f"{_probability(found.probability_emitted)}; it should have "
            f"{_probability(found.probability_expected)}.",
            "  ",
        ),
    ]
    if place is None:
        where = "No position of the output stands out"
    else:
        where = f"It deviates first at output token {place.position + 1}"
        if place.stage is not None:
            where += f", {_STAGES[place.stage]}"
    where += f"; TV of the whole output {_probability(found.tv)}."
    return lines + _wrap(where, "  ")


def _before(instance: Instance) -> str:
    """What comes before the output, and what ends it, where that is not plain."""
    parts = []
    if instance.earlier_calls:
        calls = _count(instance.earlier_calls, "call")
        parts.append(f"Another generation, of {calls} at most, comes first; then reset().")
    if instance.eos is not None:
        parts.append(f"Token {instance.eos} ends a generation: what follows it is dropped.")
    return " ".join(parts)


def _rows(instance: Instance) -> list[str]:
    """The rows of ``instance``, each pair of p and q once, with the prefixes it follows."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for prefix, target in instance.target_probs.items():
        pair = _row(target), _row(instance.draft_probs[prefix])
        pairs.setdefault(pair, []).append(prefix)
    lines = []
    for (p, q), prefixes in pairs.items():
        after = "after every prefix" if len(pairs) == 1 else _after(prefixes)
        lines.append(f"  {after}:")
        lines += _wrap(f"p = {p}", "    ") + _wrap(f"q = {q}", "    ")
    return lines


def _after(prefixes: list[str]) -> str:
    """``after no token | 0 | 0 2``, as far as it fits on a line."""
    named = ["no token" if prefix == "" else prefix.replace(",", " ") for prefix in prefixes]
    for shown in range(len(named), 0, -1):
        rest = len(named) - shown
        more = f" | {rest} more" if rest else ""
        line = f"after {' | '.join(named[:shown])}{more}"
        if len(line) < WIDTH - 4:
            break
    return line


def _row(row: Iterable[float | str]) -> str:
    return ", ".join(x if isinstance(x, str) else f"{x:.6g}" for x in row)


def _tokens(sequence: Iterable[int]) -> str:
    return ", ".join(map(str, sequence))


def _probability(value: float) -> str:
    """The number as a short fraction where it is one, with its decimals."""
    near = Fraction(value).limit_denominator(_LARGEST_DENOMINATOR)
    if near.denominator == 1 and near == value:
        return str(near)
    # A number that is no such fraction comes this close to one once in a million.
    exact = abs(float(near) - value) < 1e-14 and near != 0
    return f"{near} = {value:.4g}" if exact else f"{value:.4g}"


def _resemblance(run: AuditRun) -> str:
    """Which catalogued faults the law found is, or is nearer to than to the target's."""
    found = run.counterexample
    if found is None or not run.diagnosis:
        return ""
    same = [d.fault for d in run.diagnosis if d.distance <= run.tolerance]
    if same:
        return f"Its law there is that of the fault {' and of '.join(same)} (simverify faults)."
    nearest = min(run.diagnosis, key=lambda d: d.distance)
    fault = nearest.fault
    far = f"the two laws differ by TV {nearest.distance:.3g}, there or on a richer instance"
    if nearest.distance < found.tv / 10:
        return f"It looks like the fault {fault} (simverify faults): {far}."
    return f"It looks like none of the catalogued faults. The nearest is {fault}: {far}."


def _findings(run: AuditRun) -> list[str]:
    """What failed, but for the probes, which have lines of their own."""
    probes = {_finding(probe) for probe in run.probes}
    return [finding for finding in run.findings if finding not in probes]


def _probes(run: AuditRun) -> list[str]:
    """Violations and warnings, those with the same message on one line."""
    told: dict[tuple[str, str], list[str]] = {}
    for probe in run.probes:
        if probe.outcome in ("violation", "warning"):
            fatal = probe.outcome == "warning" and _finding(probe) in run.findings
            outcome = "warning, strict" if fatal else probe.outcome
            told.setdefault((outcome, probe.message), []).append(probe.name)
    return [
        f"{outcome}: {message} ({', '.join(names)})" for (outcome, message), names in told.items()
    ]


def _finding(probe: Probe) -> str:
    return f"probe {probe.name}: {probe.message}"


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
    return [title, *(line for entry in entries for line in _wrap(entry, "  ", "    "))]


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _command(command: str) -> list[str]:
    """The command on lines that a shell takes as one; its words are never broken."""
    try:
        words = [shlex.quote(word) for word in shlex.split(_plain(command))]
    except ValueError:  # a quotation mark in a name
        words = _plain(command).split()
    groups: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        if before.startswith("--") and not word.startswith("--"):
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


def _wrap(text: str, first: str = "", rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        _plain(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=f"{first}  " if rest is None else rest,
        break_on_hyphens=False,
    )


def _plain(text: str) -> str:
    """Return ``text`` without characters that could move the cursor or change colours."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
