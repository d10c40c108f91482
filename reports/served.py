"""Served engines as reports and on a terminal: audits, two engines, matrix, triage, watch."""

import json
import math
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from simverify.checks import clean_line
from simverify.reports.audit_text import pluralize
from simverify.reports.compare_text import sampling_words
from simverify.reports.view import (
    VERDICT_STYLES,
    Block,
    Case,
    Cell,
    Command,
    Fact,
    Items,
    Prose,
    Report,
    Section,
    Table,
    print_wrapped,
)
from simverify.reports.words import (
    MAX_ITEMS,
    MAX_ROWS,
    certificate_words,
    number_cell,
    optional_cell,
    shell_line,
    take_first,
    tests_table,
)
from simverify.results import (
    AgainstRun,
    AtPlace,
    MatrixCell,
    MatrixRun,
    OutputRun,
    Processing,
    TriageCase,
    TriageRun,
    WatchRun,
    WorstToken,
)
from simverify.results.served import OPEN_OUTCOMES, SOUND_OUTCOMES

# The worst tokens of an audit of emitted tokens, in context, and their positions.


_MAX_WORST_TOKENS = 3
_MAX_QUOTE = 40
_MIN_SIGMAS = 4.0
"""Standard deviations from which on a place is told without --verbose."""


def worst_place_lines(run: OutputRun, *, verbose: bool) -> Iterator[str]:
    """Yield where a FAIL is: the worst tokens and places, or all of them."""
    for entry in run.worst if verbose else run.worst[:_MAX_WORST_TOKENS]:
        slot = "" if entry.slot is None else f" ({_slot_name(entry.slot)} of its draft)"
        yield (
            f"worst: request {entry.request}, token {entry.position}{slot}: "
            f"{_quote_text(entry.text)} "
            f"after {_quote_text(entry.before)}: {_probability_text(entry)}, rank {entry.rank:,}; "
            "expected "
            f"{_quote_text(entry.expected_text)} with p = {entry.expected_p:.2g}"
        )
    places = [place for place in run.places if verbose or abs(place.sigmas) >= _MIN_SIGMAS]
    if places:
        deviations = ", ".join(
            f"{_position_text(place)} {place.sigmas:+.1f} sd" for place in places
        )
        yield f"off by place ({places[0].name}): {deviations}"
    if not verbose and len(run.worst) > _MAX_WORST_TOKENS:
        yield (
            f"{len(run.worst) - _MAX_WORST_TOKENS} more of the worst tokens, and all places: "
            "--verbose"
        )


def worst_place_blocks(run: OutputRun) -> tuple[Block, ...]:
    """Return the worst tokens and the places as tables."""
    tokens = Table(
        "Tokens that the target expected least, the worst first",
        ("request", "token", "in draft", "before", "emitted", "after", "p", "rank", "expected"),
        tuple(
            (
                number_cell(entry.request),
                number_cell(entry.position),
                Cell("not known") if entry.slot is None else number_cell(entry.slot),
                Cell(_quote_text(entry.before)),
                Cell(_quote_text(entry.text)),
                Cell(_quote_text(entry.after)),
                Cell(_probability_text(entry), entry.p),
                Cell(f"{entry.rank:,}", entry.rank),
                Cell(f"{_quote_text(entry.expected_text)}, p = {entry.expected_p:.2g}"),
            )
            for entry in run.worst
        ),
        numbers=frozenset({0, 1, 7}),
    )
    if not run.places:
        return (tokens,)
    name = run.places[0].name
    places = Table(
        f"How far a mean is off by place: {name}",
        ("place", "tokens", "mean", "standard deviations"),
        tuple(
            (
                Cell(_position_text(place), place.first),
                Cell(f"{place.tokens:,}", place.tokens),
                number_cell(place.mean, 3),
                number_cell(place.sigmas, 3),
            )
            for place in run.places
        ),
        numbers=frozenset({1, 2, 3}),
    )
    return tokens, places


def _position_text(place: AtPlace) -> str:
    if place.of == "draft":
        return f"{_slot_name(place.first)} of a draft"
    last = "" if place.last == place.first else f" to {place.last}"
    return f"tokens {place.first}{last}" if last else f"token {place.first}"


def _slot_name(slot: int) -> str:
    return f"place {slot}"


def _probability_text(entry: WorstToken) -> str:
    return f"p = {entry.p:.2g}" if entry.p > 0.0 else "p = 0, cut off"


def _quote_text(text: str) -> str:
    """Return text in quotes, with the blanks it begins or ends with."""
    cut = text if len(text) <= _MAX_QUOTE else f"{text[:_MAX_QUOTE]}..."
    return clean_line(json.dumps(cut, ensure_ascii=False))


# Parts that all of these share: a run's own fields, and the lines on a terminal.


ServedRun = AgainstRun | MatrixRun | OutputRun | TriageRun | WatchRun


def served_report(
    run: ServedRun,
    command: str,
    title: str,
    ruling: str,
    facts: Iterable[Fact],
    sections: Iterable[Section],
    cases: Iterable[Case],
    seed: int,
) -> Report:
    """Return the report of a run, which says its verdict, and when and where it was made."""
    return Report(
        command=command,
        title=title,
        verdict=run.verdict,
        ruling=ruling,
        facts=tuple(facts),
        sections=tuple(sections),
        cases=tuple(cases),
        version=run.meta.version,
        started=run.meta.started,
        machine=run.meta.machine,
        seed=seed,
    )


def print_verdict(run: ServedRun, title: str, console: Console) -> None:
    """Print the first line."""
    console.print(Text(clean_line(f"{run.verdict} {title}"), style=VERDICT_STYLES[run.verdict]))


def print_served(
    run: ServedRun,
    title: str,
    lines: Iterable[str],
    console: Console,
    again: str = "to reproduce",
) -> None:
    """Print the verdict, the lines, and unless it passed the command, which ``again`` leads to."""
    print_verdict(run, title, console)
    print_wrapped(lines, console)
    print_command(run, console, again)


def print_command(run: ServedRun, console: Console, again: str = "to reproduce") -> None:
    """Print the command unless the run passed."""
    if run.verdict != "PASS":
        console.print(Text(f"{again}: {shell_line(run.reproduce)}"), soft_wrap=True)


# Two engines against each other.


_UNIT_WORDS = {"ids": "token", "token texts": "token", "text": "text piece"}


def against_report(run: AgainstRun) -> Report:
    """Return the report of two engines against each other."""
    return served_report(
        run,
        "audit",
        _against_title(run),
        _against_ruling(run),
        _against_facts(run),
        _against_sections(run),
        (_against_case(run),),
        run.seed,
    )


def print_against(run: AgainstRun, console: Console, *, verbose: bool = False) -> None:
    """Print the verdict, what it rests on, and the command; ``verbose``: every test too."""
    lines = [_against_ruling(run)]
    lines += [f"{fact.name}: {fact.text}" for fact in _against_facts(run)]
    lines += [f"what failed: {finding}" for finding in run.findings]
    lines += [f"differs most: {shown}" for shown in run.shown]
    lines += [f"note: {note}" for note in run.notes]
    if verbose:
        lines += [
            f"test: {test.name}: {test.method}, {_pvalue_text(test.log_pvalue)}, rejected below "
            f"{test.alpha:.2g}"
            for test in run.tests
        ]
    print_served(run, _against_title(run), lines, console)


def _pvalue_text(log_pvalue: float | None) -> str:
    return "p = 0" if log_pvalue is None else f"p = 1e{log_pvalue / 2.302585092994046:.1f}"


def _against_title(run: AgainstRun) -> str:
    return f"{run.first} against {run.second}"


def _against_ruling(run: AgainstRun) -> str:
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


def _against_facts(run: AgainstRun) -> Iterator[Fact]:
    unit = _UNIT_WORDS[run.units]
    plan = f" of {run.planned:,} planned" if run.pairs < run.planned else ""
    how = "in pairs, side by side" if run.endpoint else "from two files"
    yield Fact(
        "Compared",
        f"{pluralize(run.pairs, 'pair')} of answers{plan}, {how}: {_prompt_counts(run)}; "
        f"{run.tokens[0]:,} and {pluralize(run.tokens[1], unit)}",
    )
    if run.asked is not None:
        law = sampling_words(run.asked.temperature, run.asked.top_k, run.asked.top_p)
        yield Fact("Asked for", f"{law}, {run.asked.max_tokens:,} tokens at most")
    size = f"of {run.detectable:.2g} or more"
    alone = (
        f", not confined to the {run.once:.0%} of answers that begin as no other does"
        if run.once >= 0.005
        else ""
    )
    tells = (
        f"so few pairs find no deviation, not even the largest, with power {run.power:g}"
        if run.detectable >= 1.0
        else f"{run.power:g} against {run.deviation}, {size}{alone}"
    )
    yield Fact("Power", f"{tells} (asked was {run.detect:g}); false-alarm rate {run.alpha:g}")
    if run.certificate is not None:
        yield Fact("Certificate", certificate_words(run.certificate))


def _prompt_counts(run: AgainstRun) -> str:
    """Return how many prompts were asked, and how often."""
    if run.asked_most == run.prompts:
        return f"{pluralize(run.prompts, 'prompt')}, {run.repeats:,} times at most"
    return f"{pluralize(run.prompts, 'prompt')}, {run.asked_most:,} of them {run.repeats:,} times"


def _against_sections(run: AgainstRun) -> Iterator[Section]:
    if run.findings:
        yield Section("What failed", (Items(*take_first(run.findings, MAX_ITEMS)),))
    if run.shown:
        yield Section("Where they differ most", (Items(*take_first(run.shown, MAX_ITEMS)),))
    rows = [
        ("false-alarm rate (alpha)", f"{run.alpha:g} for the whole run"),
        ("power", f"{run.power:g} against {run.deviation} of {run.detectable:.2g}"),
        ("pairs asked for", f"{run.planned:,}"),
        ("what was compared", f"{run.units}, sha256 {run.sha256}"),
    ]
    if run.certificate is not None:
        rows.append(("certificate", certificate_words(run.certificate)))
    yield Section(
        "What was promised",
        (
            Table(
                "Error rates and limits",
                ("what", "value"),
                tuple((Cell(a), Cell(b)) for a, b in rows),
            ),
        ),
    )
    yield Section(
        "Tests", (tests_table("Tests of two engines", [("pairs", test) for test in run.tests]),)
    )
    if run.notes:
        yield Section("Notes", (Items(*take_first(run.notes, MAX_ITEMS)),))
    yield Section("To reproduce", (Command(run.reproduce),))


def _against_case(run: AgainstRun) -> Case:
    if run.verdict == "FAIL":
        return Case(
            f"audit {_against_title(run)}",
            "failed",
            "\n".join((_against_ruling(run), *run.findings)),
        )
    if run.verdict == "INCONCLUSIVE":
        return Case(f"audit {_against_title(run)}", "inconclusive", run.inconclusive or "")
    return Case(f"audit {_against_title(run)}", "passed")


# A matrix of parameters.


_COLUMN_WIDTHS = (42, 16, 7, 5)
"""Widths of the columns on a terminal."""


def print_matrix(run: MatrixRun, console: Console, *, verbose: bool = False) -> None:
    """Print the verdict, a row for each cell, and what is not honoured in words."""
    print_verdict(run, run.source, console)
    print_wrapped([_matrix_ruling(run), ""], console)
    console.print(Text(_matrix_line(("parameter", "outcome", "tokens", "finds"))), soft_wrap=True)
    for cell in run.cells:
        deviation = "" if cell.found is None else f"{cell.found:.2g}"
        tokens = f"{cell.tokens:,}" if cell.tokens else ""
        console.print(
            Text(_matrix_line((cell.name, cell.outcome, tokens, deviation))), soft_wrap=True
        )
    lines = [f"{cell.name}: {cell.value}; {cell.outcome}: {cell.words}" for cell in run.cells]
    lines += [f"{fact.name}: {fact.text}" for fact in _matrix_facts(run)]
    print_wrapped(["", *lines, *(f"note: {note}" for note in run.notes)], console)
    print_command(run, console)


def matrix_report(run: MatrixRun) -> Report:
    """Return the report of a matrix."""
    rows = tuple(
        (
            Cell(cell.name),
            Cell(cell.value),
            Cell(cell.outcome),
            Cell(cell.words),
            Cell(f"{cell.tokens:,}", float(cell.tokens)),
            Cell("" if cell.found is None else f"{cell.found:.3g}", cell.found),
            Cell(", ".join(cell.tried)),
        )
        for cell in run.cells
    )
    table = Table(
        "Every parameter",
        ("parameter", "asked", "outcome", "in words", "tokens", "finds", "looked for"),
        rows,
        numbers=frozenset({4, 5}),
    )
    sections = [Section("Parameters", (table,))]
    if run.notes:
        sections.append(Section("Notes", (Items(run.notes),)))
    sections.append(Section("To reproduce", (Command(run.reproduce),)))
    cases = [_matrix_case(cell) for cell in run.cells]
    return served_report(
        run,
        "matrix",
        run.source,
        _matrix_ruling(run),
        _matrix_facts(run),
        sections,
        cases,
        run.seed,
    )


def _matrix_line(cells: tuple[str, ...]) -> str:
    texts = [
        text.rjust(wide) if i > 1 else text.ljust(wide)
        for i, (text, wide) in enumerate(zip(cells, _COLUMN_WIDTHS, strict=True))
    ]
    return "  ".join(texts).rstrip()


def _matrix_ruling(run: MatrixRun) -> str:
    wrong = [c.name for c in run.cells if c.outcome not in (*SOUND_OUTCOMES, *OPEN_OUTCOMES)]
    open_ = [c.name for c in run.cells if c.outcome == "inconclusive"]
    lost = [c.name for c in run.cells if c.outcome == "no answer"]
    honoured = sum(c.outcome == "honoured" for c in run.cells)
    if wrong:
        more = f" It gave no answer to: {', '.join(lost)}." if lost else ""
        return f"The server does not do what it is asked for with: {', '.join(wrong)}.{more}"
    if lost:
        return (
            f"The server broke off, and gave no answer to: {', '.join(lost)}. Start it again and "
            f"repeat the command with --keep: what is kept is not asked again."
        )
    if open_:
        return f"Not decided: {', '.join(open_)}. More --tokens, or other prompts, may tell."
    if not honoured:
        return "The server takes none of the parameters."
    return f"{honoured} of {len(run.cells)} are honoured; the server says that it takes no other."


def _matrix_facts(run: MatrixRun) -> Iterator[Fact]:
    yield Fact("Target", f"{run.target}, {run.dtype}")
    if run.proxy is not None:
        yield Fact("Proxy for the draft", run.proxy)
    yield Fact(
        "Error rate",
        f"{run.alpha:g} for all cells, {run.cell_alpha:.2g} each, that what the server does is "
        f"called something else",
    )
    yield Fact(
        "Finds",
        f"with power .9, so large a share of tokens drawn without the parameter; the budget is "
        f"{run.budget:,} tokens a cell",
    )
    yield Fact("Ball", f"TV {run.ball:.2g} on average")


def _matrix_case(cell: MatrixCell) -> Case:
    outcome = f"{cell.outcome}: {cell.words}"
    if cell.outcome == "honoured":
        return Case(f"matrix {cell.name}", "passed")
    if cell.outcome == "refused":
        return Case(f"matrix {cell.name}", "skipped", outcome)
    kind = "inconclusive" if cell.outcome in OPEN_OUTCOMES else "failed"
    return Case(f"matrix {cell.name}", kind, outcome)  # type: ignore[arg-type]


# An audit of emitted tokens.


def output_report(run: OutputRun) -> Report:
    """Return the report of an audit of emitted tokens."""
    return served_report(
        run,
        "audit",
        run.source,
        _output_ruling(run),
        _output_facts(run),
        _output_sections(run),
        (_output_case(run),),
        run.seed,
    )


def print_outputs(run: OutputRun, console: Console, *, verbose: bool = False) -> None:
    """Print the verdict, what it rests on, and the command; ``verbose``: every place of a FAIL."""
    lines = [_output_ruling(run)]
    lines += [f"{fact.name}: {fact.text}" for fact in _output_facts(run)]
    lines += [f"what failed: {finding}" for finding in run.findings]
    lines += worst_place_lines(run, verbose=verbose)
    lines += [f"note: {note}" for note in run.notes]
    print_served(run, run.source, lines, console)


def _output_ruling(run: OutputRun) -> str:
    if run.verdict == "INCONCLUSIVE":
        return f"Do not decide on this run: {run.inconclusive}."
    if run.verdict == "PASS":
        return _pass_basis(run)
    failed = [test.name for test in run.tests if test.rejected]
    if failed and not run.unsupported and all(name.startswith("pairs") for name in failed):
        return "Do not ship it: its requests depend on each other, or a request's tokens do."
    return "Do not ship it: the emitted tokens do not follow the target model."


def _pass_basis(run: OutputRun) -> str:
    """What a PASS rests on, in its own sentence: no number without the assumption that it needs.

    In descending P a wrong temperature or truncation is monotone by what it is; a fault of the
    acceptance is so in q/p alone, and rows of another context in no order that is known here.
    """
    bound = 1.0 if run.certificate is None else run.certificate.bound
    if run.proxy is None:
        words = (
            f"No deviation from the target was found. A wrong temperature, top-k or top-p has a "
            f"mean TV of {bound:.2g} at most: its P'/P is monotone in descending P, in the same "
            f"direction in every context. Of faults of the acceptance, of rows that are another "
            f"context's, and of other weights, rounded ones say, no size is excluded: such P'/P "
            f"need not be monotone, and nothing here can tell."
        )
    else:
        words = (
            f"No deviation from the target was found. One whose P'/P is monotone in q/p, q the "
            f"proxy's, in the same direction in every context, has a mean TV of {bound:.2g} at "
            f"most; of any other no size is excluded, and nothing here can tell which it is."
        )
    if run.ball <= run.ball_measured:
        return words
    claim = (
        f"PASS if the engine's rows are off by TV {run.ball:.2g} on average, as --row-tolerance "
        "claims: "
        f"computing them again moved them by {run.ball_measured:.2g}, and a deviation within the "
        f"claim is not seen. {words}"
    )
    if not run.hidden:
        return claim
    return f"{claim} Without the claim it is a FAIL: {'; '.join(run.hidden)}."


def _output_facts(run: OutputRun) -> Iterator[Fact]:
    beside = f", {run.left_out:,} beyond N left out" if run.left_out else ""
    plan = f" of N = {run.planned:,}" if run.tokens < run.planned else ""
    yield Fact(
        "Judged",
        f"{pluralize(run.tokens, 'token')}{plan} of {pluralize(run.requests, 'request')}{beside}; "
        f"{run.ended:,} end with an end-of-sequence token"
        + (f", {run.restored:,} of them put back by their finish_reason" if run.restored else ""),
    )
    if run.longest_answer:
        yield Fact(
            "Reached",
            f"prompts of up to {pluralize(run.longest_prompt, 'token')}, answers of up to "
            f"{run.longest_answer:,}: what begins later than that was not seen",
        )
    law = sampling_words(run.temperature, run.top_k, run.top_p)
    if run.processing is not None:
        law = ", ".join((law, *processing_parts(run.processing)))
    more = (
        f"; {pluralize(run.otherwise, 'request')} by what they were asked for"
        if run.otherwise
        else ""
    )
    yield Fact("Target", f"{run.target}, {run.dtype} on {run.device}, {law}{more}")
    if run.proxy is not None:
        yield Fact("Proxy for the draft", run.proxy)
    seen = run.rescoring
    fine = "" if seen.precision is None else f", {run.dtype} against float32 {seen.precision:.2g}"
    yield Fact(
        "Ball",
        f"TV {run.ball:.2g} on average, {'as given' if run.ball_given else 'as was seen'}: "
        f"rows computed again differ by {seen.mean:.2g} ({seen.largest:.2g} at most){fine}",
    )
    if (reported := run.reported) is not None:
        after = "" if reported.needed is None else f"; {reported.needed:,} were enough to tell it"
        if run.stopped and run.failed_from is None:
            after += ": the server was asked no more"
        words = (
            f"{reported.kind}: by them the engine's rows are off by TV {reported.tv:.2g} on "
            "average, "
            f"{reported.allowed:.2g} is allowed for{after}"
        )
        if not reported.fits:
            words = f"nearest to {reported.kind}, which tells nothing of the weights"
        yield Fact(
            "Reported", f"log probabilities of {pluralize(reported.tokens, 'token')}, {words}"
        )
    if (text := run.text) is not None:
        yield Fact(
            "Text",
            f"{pluralize(text.requests, 'request')} without token ids, read as the tokenizer reads "
            f"them; {text.not_round_tripping:,} are not what their tokens spell; of "
            f"{text.control_tokens:,} tokens that the target wrote itself {text.changed:,} came "
            f"back as others, which the ball allows for",
        )
    yield Fact(
        "Power",
        f"{run.power:g} against {run.deviation}, of {run.detectable:.2g} or more (asked was "
        f"{run.detect:g}); false-alarm rate {run.alpha:g}",
    )
    if run.weights:
        yield Fact("Rounded weights", _weight_power_words(run))
    if run.failed_from is not None:
        early = ": the server was asked no more" if run.stopped else ""
        yield Fact(
            "Bets as tokens came", f"FAIL after {pluralize(run.failed_from, 'token')}{early}"
        )
    if run.budget is not None:
        yield Fact("Budget", f"{pluralize(run.budget, 'token')} that the server might emit")
    if run.certificate is not None:
        yield Fact("Certificate", certificate_words(run.certificate))


def _weight_power_words(run: OutputRun) -> str:
    """Say which rounded weights these tokens would have told, and what the others take."""
    seen = [own for own in run.weights if own.power >= run.power]
    words = f"power {run.power:g} or more against {len(seen)} of {len(run.weights)} formats"
    missed = sorted((own for own in run.weights if own.power < run.power), key=lambda x: -x.tv)
    if not missed:
        return words
    rounding = missed[0]
    after = (
        "the bets end too soon to tell it"
        if rounding.needed is None
        else f"it takes {pluralize(rounding.needed, 'token')}"
    )
    return (
        f"{words}; of those missed {rounding.name} is the farthest from the target: TV "
        f"{rounding.tv:.2g}, "
        f"power {rounding.power:.2f}; {after}"
    )


def processing_parts(own: Processing) -> Iterator[str]:
    """Yield what else was asked for, a few words each."""
    for name in (
        "min_p",
        "typical_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
    ):
        value = getattr(own, name)
        if value is not None:
            yield f"{name.replace('_', '-')} {value:g}"
    if own.logit_bias:
        yield f"logit-bias of {pluralize(len(own.logit_bias), 'token')}"
    if own.bad_words:
        yield f"{len(own.bad_words):,} bad words"
    if own.min_tokens:
        yield f"min-tokens {own.min_tokens:,}"
    if own.mask is not None:
        yield f"mask {own.mask}"
    if own.order is not None:
        yield f"in the order {', '.join(own.order)}"


def _output_sections(run: OutputRun) -> Iterator[Section]:
    if run.findings:
        yield Section("What failed", (Items(*take_first(run.findings, MAX_ITEMS)),))
    if run.worst:
        yield Section("Where it fails", worst_place_blocks(run))
    yield Section("What was promised", (_promise_table(run),))
    if run.weights:
        yield Section("Rounded weights", (_format_table(run),))
    yield Section("Tests", tuple(_test_blocks(run)))
    if run.notes:
        yield Section("Notes", (Items(*take_first(run.notes, MAX_ITEMS)),))
    yield Section("To reproduce", (Command(run.reproduce),))


def _promise_table(run: OutputRun) -> Table:
    rows = [
        ("false-alarm rate (alpha)", f"{run.alpha:g} for the whole run"),
        ("power", f"{run.power:g} against {run.deviation} of {run.detectable:.2g}"),
        ("N, fixed beforehand", f"{run.planned:,} tokens, request after request"),
        ("ball", f"the engine's own rows within TV {run.ball:.2g} of ours, on average"),
        (
            "support",
            f"{run.near:,} tokens outside the rescored support, within what "
            f"logits off by {run.rescoring.margin:.2g} allow; {run.unsupported:,} beyond",
        ),
        ("ids judged", f"sha256 {run.sha256}"),
    ]
    if run.certificate is not None:
        rows.append(("certificate", certificate_words(run.certificate)))
    return Table(
        "Error rates and limits", ("what", "value"), tuple((Cell(a), Cell(b)) for a, b in rows)
    )


def _format_table(run: OutputRun) -> Table:
    return Table(
        f"What these tokens would have told, and tokens for a power of {run.power:g}",
        ("weights rounded to", "TV", "power", "tokens"),
        tuple(
            (
                Cell(own.name),
                number_cell(own.tv, 2),
                number_cell(own.power, 2),
                Cell("none do") if own.needed is None else Cell(f"{own.needed:,}", own.needed),
            )
            for own in sorted(run.weights, key=lambda x: -x.tv)
        ),
        numbers=frozenset(range(1, 4)),
    )


def _test_blocks(run: OutputRun) -> Iterator[Block]:
    yield tests_table("Tests of the output tier", [("tokens", test) for test in run.tests])


def _output_case(run: OutputRun) -> Case:
    if run.verdict == "FAIL":
        return Case(
            f"audit {run.source}", "failed", "\n".join((_output_ruling(run), *run.findings))
        )
    if run.verdict == "INCONCLUSIVE":
        return Case(f"audit {run.source}", "inconclusive", run.inconclusive or "")
    return Case(f"audit {run.source}", "passed")


# A triage.


CLASS_CERTAINTY = {
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

_MAX_VERBOSE_CASES = 20


def print_triage(run: TriageRun, console: Console, *, verbose: bool = False) -> None:
    """Print the verdict, the table, the worst case with both texts, and the command."""
    print_verdict(run, f"{run.a} against {run.b}", console)
    print_wrapped([_triage_ruling(run), ""], console)
    for line in _class_lines(run):
        console.print(Text(line), soft_wrap=True)
    lines = ["", *(f"{fact.name}: {fact.text}" for fact in _triage_facts(run))]
    lines += [f"what failed: {finding}" for finding in run.findings]
    lines += [f"note: {note}" for note in run.notes]
    shown = run.cases[: _MAX_VERBOSE_CASES if verbose else 1]
    for n, case in enumerate(shown):
        lines += ["", "The worst case:" if n == 0 else "The next:", *_worst_case_lines(case)]
    if verbose and run.causes:
        lines += ["", "Explanations that fit somewhere:"]
        lines += [
            f"  {cause.name}: {cause.fits} of {cause.places} places, by chance "
            f"{cause.by_chance:.2g} of them; {cause.chance:.1g}{' (taken)' * cause.taken}"
            for cause in run.causes[:_MAX_VERBOSE_CASES]
        ]
    print_wrapped(lines, console)
    print_command(run, console)


def triage_report(run: TriageRun) -> Report:
    """Return the report of a triage."""
    outcome = {"PASS": "passed", "FAIL": "failed", "INCONCLUSIVE": "inconclusive"}[run.verdict]
    message = "" if run.verdict == "PASS" else "\n".join((_triage_ruling(run), *run.findings))
    name = f"triage {run.a} {run.b}"
    case = {
        "passed": Case(name, "passed"),
        "failed": Case(name, "failed", message),
        "inconclusive": Case(name, "inconclusive", message),
    }[outcome]
    return served_report(
        run,
        "triage",
        f"{run.a} against {run.b}",
        _triage_ruling(run),
        _triage_facts(run),
        _triage_sections(run),
        [case],
        seed=0,  # nothing is drawn
    )


def _triage_ruling(run: TriageRun) -> str:
    if run.verdict == "INCONCLUSIVE":
        return f"Do not decide on this run: {run.inconclusive}."
    if run.verdict == "FAIL":
        return "Do not ship it: the two differ by more than rounding."
    parted = next(c.requests for c in run.counts if c.kind == "numerics")
    summary = (
        f"all but {parted:,} are the same, which part" if parted else "all are the same, and none"
    )
    words = f"{summary} by rounding" if parted else f"{summary} is off"
    return (
        f"Of {pluralize(run.requests, 'request')} {words}: every token of both is the target's "
        "choice "
        f"within rounding."
    )


def _triage_facts(run: TriageRun) -> Iterator[Fact]:
    alone = (
        f"; {run.alone_a:,} of A and {run.alone_b:,} of B have no other"
        if run.alone_a or run.alone_b
        else ""
    )
    yield Fact(
        "Read", f"{pluralize(run.requests, 'request')} of both, {run.tokens:,} tokens in all{alone}"
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


def _class_lines(run: TriageRun) -> Iterator[str]:
    widest = max(len(c.kind) for c in run.counts)
    yield f"{'class':{widest}}  requests  off in A   B  both"
    for one in run.counts:
        if one.requests:
            yield (
                f"{one.kind:{widest}}  {one.requests:>8,}  {one.side_a:>8,} {one.side_b:>3,} "
                f"{one.both:>5,}"
            )


def _worst_case_lines(case: TriageCase) -> Iterator[str]:
    where = f"line {case.line_a} of A and {case.line_b} of B"
    at = "" if case.at is None else f", at token {case.at + 1:,}"
    yield f"  request {case.request:,} ({where}){at}: {case.kind}, {case.cause}"
    if case.gap is not None and case.side is not None:
        yield (
            f"  {_side_words(case)} emit{'' if case.side == 'both' else 's'} the target's choice "
            "number "
            f"{(case.rank or 0) + 1:,}, {case.gap:.3g} logits behind the first"
        )
    if case.chance is not None:
        yield f"  so much would fit by luck with probability {case.chance:.1g}"
    if case.slot is not None:
        yield f"  it is token {case.slot[0] + 1} of {case.slot[1]} of its call"
    yield f"  before: {_quoted_text(case.before)}"
    yield f"  A: {_quoted_text(case.text_a)} (token {_token_id(case.token_a)})"
    yield f"  B: {_quoted_text(case.text_b)} (token {_token_id(case.token_b)})"
    yield f"  the target chooses token {_token_id(case.choice)}"


def _side_words(case: TriageCase) -> str:
    return "both" if case.side == "both" else (case.side or "").upper()


def _token_id(token: int | None) -> str:
    return "none" if token is None else str(token)


def _quoted_text(text: str) -> str:
    return repr(text)


def _triage_sections(run: TriageRun) -> Iterator[Section]:
    if run.findings:
        yield Section("What failed", (Items(*take_first(run.findings, MAX_ITEMS)),))
    yield Section("Requests by class", (_class_table(run),))
    if run.cases:
        lines = tuple(line.strip() for line in _worst_case_lines(run.cases[0]))
        yield Section("The worst case", (Items(lines),))
        yield Section("Requests that differ", (_case_table(run),))
    if run.causes:
        words = (
            "A context after which the target would choose the token that was emitted. By chance: "
            "at other places, where nothing is off and the runner-up is as near, how often it "
            "gives the runner-up."
        )
        yield Section(
            f"Explanations that fit, of {run.tried} tried", (Prose(words), _cause_table(run))
        )
    if run.notes:
        yield Section("Notes", (Items(*take_first(run.notes, MAX_ITEMS)),))
    yield Section("To reproduce", (Command(run.reproduce),))


def _class_table(run: TriageRun) -> Table:
    return Table(
        "Every request once, by the gravest that is known of it",
        ("class", "requests", "off in A", "in B", "in both", "how certain"),
        tuple(
            (
                Cell(one.kind),
                number_cell(one.requests),
                number_cell(one.side_a),
                number_cell(one.side_b),
                number_cell(one.both),
                Cell(CLASS_CERTAINTY[one.kind]),
            )
            for one in run.counts
            if one.requests
        ),
        numbers=frozenset({1, 2, 3, 4}),
    )


def _case_table(run: TriageRun) -> Table:
    shown, left_out = take_first(run.cases, MAX_ROWS)
    return Table(
        "The gravest first",
        ("request", "class", "off", "token", "logits behind", "cause", "before", "A", "B"),
        tuple(
            (
                number_cell(case.request, 9),
                Cell(case.kind),
                Cell(_side_words(case)),
                optional_cell(None if case.at is None else case.at + 1, "", 9),
                optional_cell(case.gap, "", 3),
                Cell(case.cause),
                Cell(_quoted_text(case.before)),
                Cell(_quoted_text(case.text_a)),
                Cell(_quoted_text(case.text_b)),
            )
            for case in shown
        ),
        numbers=frozenset({0, 3, 4}),
        names=frozenset({6, 7, 8}),
        left_out=left_out + run.left_out,
    )


def _cause_table(run: TriageRun) -> Table:
    shown, left_out = take_first(run.causes, MAX_ROWS)
    return Table(
        "The surest first",
        ("explanation", "class", "places", "fits", "by chance", "probability of that", "taken"),
        tuple(
            (
                Cell(cause.name),
                Cell(cause.kind),
                number_cell(cause.places),
                number_cell(cause.fits),
                number_cell(cause.by_chance, 2),
                number_cell(cause.chance, 2),
                Cell("yes" if cause.taken else "no"),
            )
            for cause in shown
        ),
        numbers=frozenset({2, 3, 4, 5}),
        names=frozenset({0}),
        left_out=left_out,
    )


# A watch.


def print_watch(run: WatchRun, console: Console, *, verbose: bool = False) -> None:
    """Print the verdict, what it rests on, and the command that goes on."""
    lines = [_watch_ruling(run), *(f"{fact.name}: {fact.text}" for fact in _watch_facts(run))]
    lines += [f"note: {note}" for note in run.notes]
    again = "a new life takes another --state" if run.alarm else "to go on"
    print_served(run, run.source, lines, console, again)


def watch_report(run: WatchRun) -> Report:
    """Return the report of a watch."""
    name = f"watch {run.source}"
    cases = {
        "PASS": Case(name, "passed"),
        "FAIL": Case(name, "failed", _watch_ruling(run)),
        "INCONCLUSIVE": Case(name, "inconclusive", run.inconclusive or ""),
    }
    sections = [Section("Delays", (_delay_table(run),))]
    if run.notes:
        sections.append(Section("Notes", (Items(*take_first(run.notes, MAX_ITEMS)),)))
    sections.append(Section("To go on", (Command(run.reproduce),)))
    return served_report(
        run,
        "watch",
        run.source,
        _watch_ruling(run),
        _watch_facts(run),
        sections,
        (cases[run.verdict],),
        run.seed,
    )


def _watch_ruling(run: WatchRun) -> str:
    if run.alarm is not None:
        return f"ALARM at token {run.alarm_at:,}: {run.alarm}."
    if run.verdict == "INCONCLUSIVE":
        return f"No alarm, and too early to say more: {run.inconclusive}."
    return (
        f"No alarm: a deviation of TV {run.detect:g} from the start, across one cut of an order, "
        f"would have been told with probability {run.power:g}."
    )


def _watch_facts(run: WatchRun) -> Iterator[Fact]:
    yield Fact("Seen", f"{run.tokens:,} tokens of {run.requests:,} requests, kept in {run.state}")
    law = sampling_words(run.temperature, run.top_k, run.top_p)
    yield Fact("Target", f"{run.target}, {run.dtype} on {run.device}, {law}")
    yield Fact(
        "Evidence",
        f"e-value {_power_words(run.log_evalue)} now, {_power_words(run.highest)} at most (token "
        f"{run.highest_at:,}); the alarm is at {_power_words(run.hurdle)}",
    )
    yield Fact(
        "False alarms", f"one with probability {run.alpha:g} at most, ever, by this state's life"
    )
    delays = ", ".join(
        f"{'no number of' if delay.tokens is None else f'{delay.tokens:,.0f}'} tokens after "
        f"{delay.after:,}"
        for delay in run.delays
    )
    yield Fact(
        "Delay", f"TV {run.detect:g} is told within, with probability {run.power:g}: {delays}"
    )
    if run.weights:
        yield Fact(
            "Weights",
            f"one request in {run.weights:,} is scored with weights in few bits, too; no delay is "
            f"promised for them",
        )
    yield Fact(
        "Ball",
        f"rows are allowed to be off by {max(run.balls.values()):.2g} in an order, on average over "
        f"any stretch",
    )


def _power_words(log: float) -> str:
    return f"10^{log / math.log(10.0):.1f}"


def _delay_table(run: WatchRun) -> Table:
    return Table(
        f"Within how many tokens a TV of {run.detect:g} is told, with probability {run.power:g}",
        ("tokens before it", "tokens until the alarm"),
        tuple((_token_cell(delay.after), _token_cell(delay.tokens)) for delay in run.delays),
        numbers=frozenset({0, 1}),
    )


def _token_cell(n: float | None) -> Cell:
    return Cell("none will do") if n is None else Cell(f"{n:,.0f}", float(n))
