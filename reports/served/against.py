"""Two engines against each other as a report, and the same as text for a terminal."""

from collections.abc import Iterator

from rich.console import Console

from simverify.reports.audit.found import count
from simverify.reports.compare.decoded import law_words
from simverify.reports.served.parts import print_served, served_report
from simverify.reports.view import Case, Cell, Command, Fact, Items, Report, Section, Table
from simverify.reports.words import MOST_ITEMS, certified, first, tests_table
from simverify.results import AgainstRun

_UNITS = {"ids": "token", "token texts": "token", "text": "text piece"}


def against_report(run: AgainstRun) -> Report:
    """Return the report of two engines against each other."""
    return served_report(
        run, "audit", _title(run), _ruling(run), _facts(run),
        _sections(run), (_case(run),), run.seed,
    )  # fmt: skip


def print_against(run: AgainstRun, console: Console, *, verbose: bool = False) -> None:
    """Print the verdict, what it rests on, and the command; ``verbose``: every test too."""
    lines = [_ruling(run)]
    lines += [f"{fact.name}: {fact.text}" for fact in _facts(run)]
    lines += [f"what failed: {finding}" for finding in run.findings]
    lines += [f"differs most: {shown}" for shown in run.shown]
    lines += [f"note: {note}" for note in run.notes]
    if verbose:
        lines += [f"test: {test.name}: {test.method}, {_pvalue(test.log_pvalue)}, rejected below "
                  f"{test.alpha:.2g}" for test in run.tests]  # fmt: skip
    print_served(run, _title(run), lines, console)


def _pvalue(log_pvalue: float | None) -> str:
    return "p = 0" if log_pvalue is None else f"p = 1e{log_pvalue / 2.302585092994046:.1f}"


def _title(run: AgainstRun) -> str:
    return f"{run.first} against {run.second}"


def _ruling(run: AgainstRun) -> str:
    if run.verdict == "INCONCLUSIVE":
        return f"Do not decide on this run: {run.inconclusive}."
    if run.verdict == "FAIL":
        return "The two do not answer alike: one of them, or both, does not sample what it claims."
    bound = 1.0 if run.certificate is None else run.certificate.bound
    return (
        f"No difference between the two was found. One of a mean TV of {run.detectable:.2g} "
        f"between the laws of an answer's first two tokens is found with power {run.power:g}. The "
        f"laws of the first token differ by {bound:.2g} at most. Of later tokens and of other "
        f"prompts nothing is promised; both may be off in the same way."
    )


def _facts(run: AgainstRun) -> Iterator[Fact]:
    unit = _UNITS[run.units]
    due = f" of {run.planned:,} planned" if run.pairs < run.planned else ""
    how = "in pairs, side by side" if run.endpoint else "from two files"
    yield Fact(
        "Compared",
        f"{count(run.pairs, 'pair')} of answers{due}, {how}: {_prompts(run)}; "
        f"{run.tokens[0]:,} and {count(run.tokens[1], unit)}",
    )
    if run.asked is not None:
        law = law_words(run.asked.temperature, run.asked.top_k, run.asked.top_p)
        yield Fact("Asked for", f"{law}, {run.asked.max_tokens:,} tokens at most")
    found = f"of {run.detectable:.2g} or more"
    alone = (
        f", not confined to the {run.once:.0%} of answers that begin as no other does"
        if run.once >= 0.005 else ""
    )  # fmt: skip
    tells = (
        f"so few pairs find no deviation, not even the largest, with power {run.power:g}"
        if run.detectable >= 1.0
        else f"{run.power:g} against {run.deviation}, {found}{alone}"
    )
    yield Fact("Power", f"{tells} (asked was {run.detect:g}); false-alarm rate {run.alpha:g}")
    if run.certificate is not None:
        yield Fact("Certificate", certified(run.certificate))


def _prompts(run: AgainstRun) -> str:
    """Return how many prompts were asked, and how often."""
    if run.asked_most == run.prompts:
        return f"{count(run.prompts, 'prompt')}, {run.repeats:,} times at most"
    return f"{count(run.prompts, 'prompt')}, {run.asked_most:,} of them {run.repeats:,} times"


def _sections(run: AgainstRun) -> Iterator[Section]:
    if run.findings:
        yield Section("What failed", (Items(*first(run.findings, MOST_ITEMS)),))
    if run.shown:
        yield Section("Where they differ most", (Items(*first(run.shown, MOST_ITEMS)),))
    rows = [
        ("false-alarm rate (alpha)", f"{run.alpha:g} for the whole run"),
        ("power", f"{run.power:g} against {run.deviation} of {run.detectable:.2g}"),
        ("pairs asked for", f"{run.planned:,}"),
        ("what was compared", f"{run.units}, sha256 {run.sha256}"),
    ]
    if run.certificate is not None:
        rows.append(("certificate", certified(run.certificate)))
    yield Section(
        "What was promised",
        (Table("Error rates and limits", ("what", "value"),
               tuple((Cell(a), Cell(b)) for a, b in rows)),),
    )  # fmt: skip
    yield Section(
        "Tests", (tests_table("Tests of two engines", [("pairs", test) for test in run.tests]),)
    )
    if run.notes:
        yield Section("Notes", (Items(*first(run.notes, MOST_ITEMS)),))
    yield Section("To reproduce", (Command(run.reproduce),))


def _case(run: AgainstRun) -> Case:
    if run.verdict == "FAIL":
        return Case(f"audit {_title(run)}", "failed", "\n".join((_ruling(run), *run.findings)))
    if run.verdict == "INCONCLUSIVE":
        return Case(f"audit {_title(run)}", "inconclusive", run.inconclusive or "")
    return Case(f"audit {_title(run)}", "passed")
