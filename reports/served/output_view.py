"""An audit of emitted tokens as a report, and the same as text for a terminal."""

from collections.abc import Iterator

from rich.console import Console

from simverify.reports.audit.found import count
from simverify.reports.compare.decoded import law_words
from simverify.reports.others.where import where_blocks, where_lines
from simverify.reports.served.parts import print_served, served_report
from simverify.reports.view import Block, Case, Cell, Command, Fact, Items, Report, Section, Table
from simverify.reports.words import (
    MOST_ITEMS,
    certified,
    figure,
    first,
    tests_table,
)
from simverify.results import OutputRun, Processing


def output_report(run: OutputRun) -> Report:
    """Return the report of an audit of emitted tokens."""
    return served_report(
        run, "audit", run.source, _ruling(run), _facts(run),
        _sections(run), (_case(run),), run.seed,
    )  # fmt: skip


def print_outputs(run: OutputRun, console: Console, *, verbose: bool = False) -> None:
    """Print the verdict, what it rests on, and the command; ``verbose``: every place of a FAIL."""
    lines = [_ruling(run)]
    lines += [f"{fact.name}: {fact.text}" for fact in _facts(run)]
    lines += [f"what failed: {finding}" for finding in run.findings]
    lines += where_lines(run, verbose=verbose)
    lines += [f"note: {note}" for note in run.notes]
    print_served(run, run.source, lines, console)


def _ruling(run: OutputRun) -> str:
    if run.verdict == "INCONCLUSIVE":
        return f"Do not decide on this run: {run.inconclusive}."
    if run.verdict == "PASS":
        return _passed(run)
    failed = [test.name for test in run.tests if test.rejected]
    if failed and not run.unsupported and all(name.startswith("pairs") for name in failed):
        return "Do not ship it: its requests depend on each other, or a request's tokens do."
    return "Do not ship it: the emitted tokens do not follow the target model."


def _passed(run: OutputRun) -> str:
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


def _facts(run: OutputRun) -> Iterator[Fact]:
    beside = f", {run.left_out:,} beyond N left out" if run.left_out else ""
    due = f" of N = {run.planned:,}" if run.tokens < run.planned else ""
    yield Fact(
        "Judged",
        f"{count(run.tokens, 'token')}{due} of {count(run.requests, 'request')}{beside}; "
        f"{run.ended:,} end with an end-of-sequence token"
        + (f", {run.restored:,} of them put back by their finish_reason" if run.restored else ""),
    )
    if run.longest_answer:
        yield Fact(
            "Reached",
            f"prompts of up to {count(run.longest_prompt, 'token')}, answers of up to "
            f"{run.longest_answer:,}: what begins later than that was not seen",
        )
    law = law_words(run.temperature, run.top_k, run.top_p)
    if run.processing is not None:
        law = ", ".join((law, *processing_words(run.processing)))
    more = (
        f"; {count(run.otherwise, 'request')} by what they were asked for" if run.otherwise else ""
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
    if (own := run.reported) is not None:
        after = "" if own.needed is None else f"; {own.needed:,} were enough to tell it"
        if run.stopped and run.failed_from is None:
            after += ": the server was asked no more"
        told = (
            f"{own.kind}: by them the engine's rows are off by TV {own.tv:.2g} on average, "
            f"{own.allowed:.2g} is allowed for{after}"
        )
        if not own.fits:
            told = f"nearest to {own.kind}, which tells nothing of the weights"
        yield Fact("Reported", f"log probabilities of {count(own.tokens, 'token')}, {told}")
    if (text := run.text) is not None:
        yield Fact(
            "Text",
            f"{count(text.requests, 'request')} without token ids, read as the tokenizer reads "
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
        yield Fact("Rounded weights", _weights_words(run))
    if run.failed_from is not None:
        early = ": the server was asked no more" if run.stopped else ""
        yield Fact("Bets as tokens came", f"FAIL after {count(run.failed_from, 'token')}{early}")
    if run.budget is not None:
        yield Fact("Budget", f"{count(run.budget, 'token')} that the server might emit")
    if run.certificate is not None:
        yield Fact("Certificate", certified(run.certificate))


def _weights_words(run: OutputRun) -> str:
    """Say which rounded weights these tokens would have told, and what the others take."""
    seen = [own for own in run.weights if own.power >= run.power]
    words = f"power {run.power:g} or more against {len(seen)} of {len(run.weights)} formats"
    missed = sorted((own for own in run.weights if own.power < run.power), key=lambda x: -x.tv)
    if not missed:
        return words
    own = missed[0]
    after = (
        "the bets end too soon to tell it"
        if own.needed is None
        else f"it takes {count(own.needed, 'token')}"
    )
    return (
        f"{words}; of those missed {own.name} is the farthest from the target: TV {own.tv:.2g}, "
        f"power {own.power:.2f}; {after}"
    )


def processing_words(own: Processing) -> Iterator[str]:
    """Yield what else was asked for, a few words each."""
    for name in (
        "min_p", "typical_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
    ):  # fmt: skip
        value = getattr(own, name)
        if value is not None:
            yield f"{name.replace('_', '-')} {value:g}"
    if own.logit_bias:
        yield f"logit-bias of {count(len(own.logit_bias), 'token')}"
    if own.bad_words:
        yield f"{len(own.bad_words):,} bad words"
    if own.min_tokens:
        yield f"min-tokens {own.min_tokens:,}"
    if own.mask is not None:
        yield f"mask {own.mask}"
    if own.order is not None:
        yield f"in the order {', '.join(own.order)}"


def _sections(run: OutputRun) -> Iterator[Section]:
    if run.findings:
        yield Section("What failed", (Items(*first(run.findings, MOST_ITEMS)),))
    if run.worst:
        yield Section("Where it fails", where_blocks(run))
    yield Section("What was promised", (_promise(run),))
    if run.weights:
        yield Section("Rounded weights", (_formats(run),))
    yield Section("Tests", tuple(_tests(run)))
    if run.notes:
        yield Section("Notes", (Items(*first(run.notes, MOST_ITEMS)),))
    yield Section("To reproduce", (Command(run.reproduce),))


def _promise(run: OutputRun) -> Table:
    rows = [
        ("false-alarm rate (alpha)", f"{run.alpha:g} for the whole run"),
        ("power", f"{run.power:g} against {run.deviation} of {run.detectable:.2g}"),
        ("N, fixed beforehand", f"{run.planned:,} tokens, request after request"),
        ("ball", f"the engine's own rows within TV {run.ball:.2g} of ours, on average"),
        ("support", f"{run.near:,} tokens outside the rescored support, within what "
                    f"logits off by {run.rescoring.margin:.2g} allow; {run.unsupported:,} beyond"),
        ("ids judged", f"sha256 {run.sha256}"),
    ]  # fmt: skip
    if run.certificate is not None:
        rows.append(("certificate", certified(run.certificate)))
    return Table(
        "Error rates and limits", ("what", "value"), tuple((Cell(a), Cell(b)) for a, b in rows)
    )


def _formats(run: OutputRun) -> Table:
    return Table(
        f"What these tokens would have told, and tokens for a power of {run.power:g}",
        ("weights rounded to", "TV", "power", "tokens"),
        tuple(
            (
                Cell(own.name), figure(own.tv, 2), figure(own.power, 2),
                Cell("none do") if own.needed is None else Cell(f"{own.needed:,}", own.needed),
            )
            for own in sorted(run.weights, key=lambda x: -x.tv)
        ),
        numbers=frozenset(range(1, 4)),
    )  # fmt: skip


def _tests(run: OutputRun) -> Iterator[Block]:
    yield tests_table("Tests of the output tier", [("tokens", test) for test in run.tests])


def _case(run: OutputRun) -> Case:
    if run.verdict == "FAIL":
        return Case(f"audit {run.source}", "failed", "\n".join((_ruling(run), *run.findings)))
    if run.verdict == "INCONCLUSIVE":
        return Case(f"audit {run.source}", "inconclusive", run.inconclusive or "")
    return Case(f"audit {run.source}", "passed")
