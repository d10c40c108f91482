"""A triage as a report, and the same as text for a terminal."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from simverify.reports.audit.found import count
from simverify.reports.served.parts import print_command, print_verdict, served_report
from simverify.reports.terminal import print_wrapped
from simverify.reports.view import Case, Cell, Command, Fact, Items, Prose, Report, Section, Table
from simverify.reports.words import MOST_ITEMS, MOST_ROWS, figure, first, optional
from simverify.results import TriageCase, TriageRun

SURE = {
    "same": "both have the target's tokens",
    "numerics": "both tokens are the target's within rounding: no fault is shown, none is excluded",
    "precision": "open: bfloat16 explains it, the declared precision does not",
    "text": "open: its tokens are known by text alone",
    "early stop": "a fact: one ends where the other or the target goes on",
    "template": "a fact where the prompts differ, else a guess",
    "cache or rows": "off for sure, if rounding stays in its bounds; the cause is a guess",
    "verifier": "off for sure, if rounding stays in its bounds; the cause is what is left",
    "unclear": "off for sure, if rounding stays in its bounds; the cause is open: too few requests",
}
"""How certain each class is."""

_VERBOSE = 20


def print_triage(run: TriageRun, console: Console, *, verbose: bool = False) -> None:
    """Print the verdict, the table, the worst case with both texts, and the command."""
    print_verdict(run, f"{run.a} against {run.b}", console)
    print_wrapped([_ruling(run), ""], console)
    for line in _table_lines(run):
        console.print(Text(line), soft_wrap=True)
    lines = ["", *(f"{fact.name}: {fact.text}" for fact in _facts(run))]
    lines += [f"what failed: {finding}" for finding in run.findings]
    lines += [f"note: {note}" for note in run.notes]
    shown = run.cases[: _VERBOSE if verbose else 1]
    for n, case in enumerate(shown):
        lines += ["", "The worst case:" if n == 0 else "The next:", *_case_lines(case)]
    if verbose and run.causes:
        lines += ["", "Explanations that fit somewhere:"]
        lines += [
            f"  {cause.name}: {cause.fits} of {cause.places} places, by chance "
            f"{cause.by_chance:.2g} of them; {cause.chance:.1g}{' (taken)' * cause.taken}"
            for cause in run.causes[:_VERBOSE]
        ]
    print_wrapped(lines, console)
    print_command(run, console)


def triage_report(run: TriageRun) -> Report:
    """Return the report of a triage."""
    outcome = {"PASS": "passed", "FAIL": "failed", "INCONCLUSIVE": "inconclusive"}[run.verdict]
    message = "" if run.verdict == "PASS" else "\n".join((_ruling(run), *run.findings))
    name = f"triage {run.a} {run.b}"
    case = {
        "passed": Case(name, "passed"),
        "failed": Case(name, "failed", message),
        "inconclusive": Case(name, "inconclusive", message),
    }[outcome]
    return served_report(
        run, "triage", f"{run.a} against {run.b}", _ruling(run), _facts(run), _sections(run),
        [case], seed=0,  # nothing is drawn
    )  # fmt: skip


def _ruling(run: TriageRun) -> str:
    if run.verdict == "INCONCLUSIVE":
        return f"Do not decide on this run: {run.inconclusive}."
    if run.verdict == "FAIL":
        return "Do not ship it: the two differ by more than rounding."
    parted = next(c.requests for c in run.counts if c.kind == "numerics")
    told = (
        f"all but {parted:,} are the same, which part" if parted else "all are the same, and none"
    )
    words = f"{told} by rounding" if parted else f"{told} is off"
    return (
        f"Of {count(run.requests, 'request')} {words}: every token of both is the target's choice "
        f"within rounding."
    )


def _facts(run: TriageRun) -> Iterator[Fact]:
    alone = (
        f"; {run.alone_a:,} of A and {run.alone_b:,} of B have no other"
        if run.alone_a or run.alone_b
        else ""
    )
    yield Fact(
        "Read", f"{count(run.requests, 'request')} of both, {run.tokens:,} tokens in all{alone}"
    )
    how = "as declared" if run.declared else "taken, as none was declared"
    yield Fact("Target", f"{run.target}, {run.dtype} on {run.device}, {how}; greedy")
    yield Fact(
        "Rounding",
        f"computed again, alone, among others, token by token"
        f"{', and in float32' * (run.dtype != 'float32')}, two logits moved by {run.moved:.2g} at "
        f"most; an engine may come to twice that, {run.radius:.2g}",
    )
    parted = next(c.requests for c in run.counts if c.kind == "numerics")
    if parted or run.due_numerics >= 0.05:
        yield Fact(
            "Parted by rounding",
            f"{parted:,} requests; the rounding seen here makes {run.due_numerics:.2g} at most, on "
            f"average",
        )
    yield Fact(
        "Error rates",
        "at temperature 0 nothing is drawn: that a token is off is certain unless the engine "
        "rounds by more than that; a cause is a guess, with the chance of fitting so often by luck",
    )
    if run.certificate is not None:
        yield Fact(
            "Certificate",
            f"of requests like these {run.certificate.bound:.2g} at most have a fault, but for a "
            f"probability of {run.certificate.delta:g}, if {run.certificate.assumption}",
        )


def _table_lines(run: TriageRun) -> Iterator[str]:
    widest = max(len(c.kind) for c in run.counts)
    yield f"{'class':{widest}}  requests  off in A   B  both"
    for one in run.counts:
        if one.requests:
            yield (
                f"{one.kind:{widest}}  {one.requests:>8,}  {one.side_a:>8,} {one.side_b:>3,} "
                f"{one.both:>5,}"
            )


def _case_lines(case: TriageCase) -> Iterator[str]:
    where = f"line {case.line_a} of A and {case.line_b} of B"
    at = "" if case.at is None else f", at token {case.at + 1:,}"
    yield f"  request {case.request:,} ({where}){at}: {case.kind}, {case.cause}"
    if case.gap is not None and case.side is not None:
        yield (
            f"  {_whose(case)} emit{'' if case.side == 'both' else 's'} the target's choice number "
            f"{(case.rank or 0) + 1:,}, {case.gap:.3g} logits behind the first"
        )
    if case.chance is not None:
        yield f"  so much would fit by luck with probability {case.chance:.1g}"
    if case.slot is not None:
        yield f"  it is token {case.slot[0] + 1} of {case.slot[1]} of its call"
    yield f"  before: {_quoted(case.before)}"
    yield f"  A: {_quoted(case.text_a)} (token {_id(case.token_a)})"
    yield f"  B: {_quoted(case.text_b)} (token {_id(case.token_b)})"
    yield f"  the target chooses token {_id(case.choice)}"


def _whose(case: TriageCase) -> str:
    return "both" if case.side == "both" else (case.side or "").upper()


def _id(token: int | None) -> str:
    return "none" if token is None else str(token)


def _quoted(text: str) -> str:
    return repr(text)


def _sections(run: TriageRun) -> Iterator[Section]:
    if run.findings:
        yield Section("What failed", (Items(*first(run.findings, MOST_ITEMS)),))
    yield Section("Requests by class", (_classes(run),))
    if run.cases:
        lines = tuple(line.strip() for line in _case_lines(run.cases[0]))
        yield Section("The worst case", (Items(lines),))
        yield Section("Requests that differ", (_cases(run),))
    if run.causes:
        words = (
            "A context after which the target would choose the token that was emitted. By chance: "
            "at other places, where nothing is off and the runner-up is as near, how often it "
            "gives the runner-up."
        )
        yield Section(f"Explanations that fit, of {run.tried} tried", (Prose(words), _causes(run)))
    if run.notes:
        yield Section("Notes", (Items(*first(run.notes, MOST_ITEMS)),))
    yield Section("To reproduce", (Command(run.reproduce),))


def _classes(run: TriageRun) -> Table:
    return Table(
        "Every request once, by the gravest that is known of it",
        ("class", "requests", "off in A", "in B", "in both", "how certain"),
        tuple(
            (Cell(one.kind), figure(one.requests), figure(one.side_a), figure(one.side_b),
             figure(one.both), Cell(SURE[one.kind]))
            for one in run.counts
            if one.requests
        ),
        numbers=frozenset({1, 2, 3, 4}),
    )  # fmt: skip


def _cases(run: TriageRun) -> Table:
    shown, left_out = first(run.cases, MOST_ROWS)
    return Table(
        "The gravest first",
        ("request", "class", "off", "token", "logits behind", "cause", "before", "A", "B"),
        tuple(
            (
                figure(case.request, 9), Cell(case.kind), Cell(_whose(case)),
                optional(None if case.at is None else case.at + 1, "", 9),
                optional(case.gap, "", 3), Cell(case.cause),
                Cell(_quoted(case.before)), Cell(_quoted(case.text_a)), Cell(_quoted(case.text_b)),
            )
            for case in shown
        ),
        numbers=frozenset({0, 3, 4}),
        names=frozenset({6, 7, 8}),
        left_out=left_out + run.left_out,
    )  # fmt: skip


def _causes(run: TriageRun) -> Table:
    shown, left_out = first(run.causes, MOST_ROWS)
    return Table(
        "The surest first",
        ("explanation", "class", "places", "fits", "by chance", "probability of that", "taken"),
        tuple(
            (
                Cell(cause.name), Cell(cause.kind), figure(cause.places), figure(cause.fits),
                figure(cause.by_chance, 2), figure(cause.chance, 2),
                Cell("yes" if cause.taken else "no"),
            )
            for cause in shown
        ),
        numbers=frozenset({2, 3, 4, 5}),
        names=frozenset({0}),
        left_out=left_out,
    )  # fmt: skip
