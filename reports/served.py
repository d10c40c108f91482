"""Served engines as reports: audits of emitted tokens, two engines, matrix, triage, watch."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace

from simverify import results
from simverify.checks import clean_line
from simverify.reports.view import Block, Case, Cell, Fact, Items, On, Prose, Report, Section, Table
from simverify.reports.words import (
    certificate_words,
    command_section,
    join_names,
    limits_table,
    make_report,
    make_table,
    notes_section,
    number_cell,
    pluralize,
    sampling_words,
    section_of,
    tests_table,
    verdict_case,
)
from simverify.results.served import OPEN_OUTCOMES, SOUND_OUTCOMES

# The worst tokens of an audit of emitted tokens, in context, and their positions.


_MAX_WORST_TOKENS = 3
_MAX_QUOTE = 40
_MIN_SIGMAS = 4.0
"""Standard deviations from which on a terminal shows a place without --verbose."""


def _worst_blocks(run: results.OutputRun) -> Iterator[Block]:
    """Yield the worst tokens and places as tables; a terminal shows a few without --verbose."""
    tokens = make_table(
        "Tokens that the target expected least, the worst first",
        "request | token | in draft | before | emitted | after | p | rank | expected",
        (
            (
                entry.request,
                entry.position,
                "not known" if entry.slot is None else entry.slot,
                _quote_text(entry.before),
                _quote_text(entry.text),
                _quote_text(entry.after),
                Cell(f"{entry.p:.2g}" if entry.p > 0.0 else "0, cut off", entry.p),
                entry.rank,
                f"{_quote_text(entry.expected_text)}, p = {entry.expected_p:.2g}",
            )
            for entry in run.worst
        ),
        "0:request | 1:token | 2:in draft | 3:before | 4:emitted | 6:p | 7:rank | 8:expected",
    )
    yield replace(tokens.first(_MAX_WORST_TOKENS), on=On.SHORT)
    yield replace(tokens, on=On.DETAIL)
    far = [place for place in run.places if abs(place.sigmas) >= _MIN_SIGMAS]
    for places, on in ((far, On.SHORT), (run.places, On.DETAIL)):
        if places:
            yield make_table(
                f"How far a mean is off by place: {places[0].name}",
                "place | tokens | mean | standard deviations",
                (
                    (
                        Cell(_position_text(place), place.first),
                        place.tokens,
                        number_cell(place.mean, 3),
                        number_cell(place.sigmas, 3),
                    )
                    for place in places
                ),
                on=on,
            )


def _position_text(place: results.AtPlace) -> str:
    if place.of == "draft":
        return f"place {place.first} of a draft"
    if place.of == "rejection":
        return f"{'after' if place.first else 'before'} the first rejected draft"
    if place.last == place.first:
        return f"token {place.first}"
    return f"tokens {place.first} to {place.last}"


def _quote_text(text: str) -> str:
    """Return text in quotes, with the blanks it begins or ends with."""
    cut = text if len(text) <= _MAX_QUOTE else f"{text[:_MAX_QUOTE]}..."
    return clean_line(json.dumps(cut, ensure_ascii=False))


# Two engines against each other.


_UNIT_WORDS = {"ids": "token", "token texts": "token", "text": "text piece"}


def against_report(run: results.AgainstRun) -> Report:
    """Return the report of two engines against each other."""
    title, ruling = f"{run.first} against {run.second}", _against_ruling(run)
    message = run.inconclusive or "\n".join((ruling, *run.findings))
    return make_report(
        run,
        "audit",
        title,
        ruling,
        _against_facts(run),
        _against_sections(run),
        [verdict_case(f"audit {title}", run.verdict, message)],
    )


def _against_ruling(run: results.AgainstRun) -> str:
    if run.verdict == "INCONCLUSIVE":
        return f"Do not decide on this run: {run.inconclusive}."
    if run.verdict == "FAIL":
        return "The two do not answer alike: one of them, or both, does not sample what it claims."
    bound = 1.0 if run.certificate is None else run.certificate.bound
    return (
        f"No difference between the two was found. One of a mean TV of {run.detectable:.2g} "
        f"between the distributions of an answer's first two tokens is found with power "
        f"{run.power:g}. The distributions of the first token differ by {bound:.2g} at most. Of "
        f"later tokens and of other prompts nothing is promised; both may be off in the same way."
    )


def _against_facts(run: results.AgainstRun) -> Iterator[Fact]:
    unit = _UNIT_WORDS[run.units]
    plan = f" of {run.planned:,} planned" if run.pairs < run.planned else ""
    how = "in pairs, side by side" if run.endpoint else "from two files"
    repeats = (
        f"{run.repeats:,} times at most"
        if run.asked_most == run.prompts
        else f"{run.asked_most:,} of them {run.repeats:,} times"
    )
    yield Fact(
        "Compared",
        f"{pluralize(run.pairs, 'pair')} of answers{plan}, {how}: "
        f"{pluralize(run.prompts, 'prompt')}, {repeats}; "
        f"{run.tokens[0]:,} and {pluralize(run.tokens[1], unit)}",
    )
    if run.asked is not None:
        law = sampling_words(run.asked.temperature, run.asked.top_k, run.asked.top_p)
        yield Fact("Asked for", f"{law}, {run.asked.max_tokens:,} tokens at most")
    alone = (
        f", not confined to the {run.once:.0%} of answers that begin as no other does"
        if run.once >= 0.005
        else ""
    )
    power = (
        f"too few pairs to find any deviation with power {run.power:g}"
        if run.detectable >= 1.0
        else f"{run.power:g} against {run.deviation}, of {run.detectable:.2g} or more{alone}"
    )
    yield Fact("Power", f"{power} (asked was {run.detect:g}); false-alarm rate {run.alpha:g}")
    if run.certificate is not None:
        yield Fact("Certificate", certificate_words(run.certificate))


def _against_sections(run: results.AgainstRun) -> Iterator[Section]:
    yield from section_of("What failed", run.findings)
    yield from section_of("Where they differ most", run.shown)
    rows = [
        ("pairs asked for", f"{run.planned:,}"),
        ("what was compared", f"{run.units}, sha256 {run.sha256}"),
    ]
    yield Section("What was promised", (limits_table(rows),))
    yield from _last_sections(run, "Tests of two engines", "pairs")


def _last_sections(
    run: results.AgainstRun | results.OutputRun, caption: str, owner: str
) -> Iterator[Section]:
    tests = tests_table(caption, [(owner, test) for test in run.tests])
    yield Section("Tests", (tests,), On.DETAIL)
    yield from notes_section(run.notes)
    yield command_section(run)


# A matrix of parameters.


def matrix_report(run: results.MatrixRun) -> Report:
    """Return the report of a matrix."""
    rows = (
        (
            cell.name,
            cell.value,
            cell.outcome,
            cell.words,
            cell.tokens or None,
            number_cell(cell.found, 3),
            ", ".join(cell.tried),
        )
        for cell in run.cells
    )
    table = make_table(
        "Every parameter",
        "parameter | asked | outcome | in words | tokens | finds | looked for",
        rows,
        names=frozenset({0}),
        narrow="0:parameter | 2:outcome | 4:tokens | 5:finds",
    )
    words = tuple(f"{cell.name}: {cell.value}; {cell.outcome}: {cell.words}" for cell in run.cells)
    sections = (
        Section("Parameters", (table, Items(words, on=On.TERMINAL)), On.ALL),
        *notes_section(run.notes),
        command_section(run),
    )
    cases = map(_matrix_case, run.cells)
    return make_report(
        run, "matrix", run.source, _matrix_ruling(run), _matrix_facts(run), sections, cases
    )


def _matrix_ruling(run: results.MatrixRun) -> str:
    wrong = [c.name for c in run.cells if c.outcome not in (*SOUND_OUTCOMES, *OPEN_OUTCOMES)]
    undecided = [c.name for c in run.cells if c.outcome == "inconclusive"]
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
    if undecided:
        return f"Not decided: {', '.join(undecided)}. More --tokens, or other prompts, may tell."
    if not honoured:
        return "The server takes none of the parameters."
    return f"{honoured} of {len(run.cells)} are honoured; the server says that it takes no other."


def _matrix_facts(run: results.MatrixRun) -> Iterator[Fact]:
    yield Fact("Target", f"{run.target}, {run.dtype}")
    if run.proxy is not None:
        yield Fact("Proxy for the draft", run.proxy)
    yield Fact(
        "Error rate",
        f"{run.alpha:g} for all cells, {run.cell_alpha:.2g} each: the chance that a cell names "
        f"something that the server does not do",
    )
    yield Fact(
        "Finds",
        f"the smallest share of tokens drawn without the parameter that shows with power .9, with "
        f"at most {run.budget:,} tokens a cell",
    )
    yield Fact("Ball", f"TV {run.ball:.2g} on average")


def _matrix_case(cell: results.MatrixCell) -> Case:
    name, message = f"matrix {cell.name}", f"{cell.outcome}: {cell.words}"
    if cell.outcome == "honoured":
        return Case(name, "passed")
    if cell.outcome == "refused":
        return Case(name, "skipped", message)
    return Case(name, "inconclusive" if cell.outcome in OPEN_OUTCOMES else "failed", message)


# An audit of emitted tokens.


def output_report(run: results.OutputRun) -> Report:
    """Return the report of an audit of emitted tokens."""
    ruling = _output_ruling(run)
    message = run.inconclusive or "\n".join((ruling, *run.findings))
    return make_report(
        run,
        "audit",
        run.source,
        ruling,
        _output_facts(run),
        _output_sections(run),
        [verdict_case(f"audit {run.source}", run.verdict, message)],
    )


def _output_ruling(run: results.OutputRun) -> str:
    if run.verdict == "INCONCLUSIVE":
        return f"Do not decide on this run: {run.inconclusive}."
    if run.verdict == "PASS":
        leads = [own.lead for own in (run.acceptance, run.counters) if own and own.lead]
        return " ".join((*leads[:1], _pass_basis(run), *_untested_words(run)))
    failed = [test.name for test in run.tests if test.rejected]
    if run.counters is not None and set(run.findings) <= set(run.counters.findings):
        return (
            "Do not trust its counters: they cannot be right. No deviation of the tokens was found."
        )
    if not failed and not run.unsupported:
        return f"Do not ship it: {run.findings[0].removeprefix('answers: ')}."
    are = "is a copy" if run.copies == 1 else "are copies"
    copies = (
        f"{run.copies:,} of {run.requests:,} answers {are} of another: one seed for all requests, "
        f"or a cache?"
    )
    tokens_pass = not run.unsupported and all(name.startswith("pairs") for name in failed)
    # Answers that are copies are drawn with the same numbers, and say it themselves.
    few_copies = run.copies <= _MAX_COPIES * run.requests
    shared = few_copies and any(name.startswith(_SHARED_STREAM) for name in failed)
    unknown = "Answers that depend on each other do not tell whether each one follows the target."
    if shared and not run.unsupported:
        each = "Each request's own tokens follow the target model." if tokens_pass else unknown
        return (
            f"Do not ship it: its requests share their random numbers: one seed for all requests? "
            f"{f'{copies} ' if run.copies else ''}{each}"
        )
    if _SAME_TOKEN in failed and set(failed) <= {_SAME_TOKEN, *_LEARNED} and not run.unsupported:
        return (
            "Do not ship it: its requests emit the same tokens as those before them too often: one "
            f"seed for all requests? {unknown}"
        )
    if tokens_pass:
        if run.copies:
            return f"Do not ship it: {copies} Those that are no copies follow the target model."
        return "Do not ship it: its requests depend on each other, or a request's tokens do."
    if _right_until_rejection(run):
        return (
            "Do not ship it: the emitted tokens follow the target model until a request's first "
            "rejected draft, and not after it. Its state (recurrent, convolution, window or cache) "
            "may still hold what was rejected."
        )
    if run.copies:
        return (
            f"Do not ship it: the emitted tokens do not follow the target model, those of copies "
            f"left out. {copies}{_explained(run)}"
        )
    return f"Do not ship it: the emitted tokens do not follow the target model.{_explained(run)}"


_DRAFT_NAMES = ("q/p", "q > p", "(q-p)")
"""Parts of the names of tests that look at the draft's probabilities."""

_DRAFT_MARGIN = 1.3
"""How many times the log p-value of the tests by q/p must be that of all others."""


def _shows_by_draft(run: results.OutputRun) -> bool:
    """Tell whether tests in the order of q/p reject far more strongly than those without q."""
    by_draft, others = [0.0], [0.0]
    for test in run.tests:
        if test.rejected:
            of = by_draft if any(x in test.name for x in _DRAFT_NAMES) else others
            of.append(-math.inf if test.log_pvalue is None else test.log_pvalue)
    return min(by_draft) < _DRAFT_MARGIN * min(others)


_MAX_EXPLANATIONS = 3

_SHARED_STREAM = "pairs, repeated stream neighbouring requests, token order"
"""A test that wrong tokens alone do not fail, unlike those of other orders."""

_MAX_COPIES = 0.1
"""Share of answers that are copies up to which it is the others that share a stream."""

_SAME_TOKEN = "pairs, same token as the request before"
_LEARNED = ("rates of single tokens", "looks, bets on tokens as they come")
"""Bets that learn from the requests before, which win where those draw with the same noise."""


def _explained(run: results.OutputRun) -> str:
    """Say which other ways to sample fit the tokens, in a sentence that a blank precedes."""
    if (explained := run.explained) is None:
        return ""
    if _shows_by_draft(run):
        return (
            " They deviate most in the order of q/p, of the draft's probability and the target's: "
            "look at the rule that accepts drafts."
        )
    limit = f"below 1e{math.ceil(explained.rest_log_pvalue / math.log(10.0)):d}"
    if not explained.fits:
        return (
            f" None of {explained.tried} explanations fits them, such as another temperature or "
            f"cut: each p-value is {limit}."
        )
    shown = [f"{one.words} (p-value {one.pvalue:.2g})" for one in explained.fits]
    more = len(shown) - _MAX_EXPLANATIONS
    if more > 0:
        shown = [*shown[:_MAX_EXPLANATIONS], f"{more} more"]
    words = " or ".join(shown)
    rest = explained.tried - len(explained.fits)
    if rest == 1:
        return f" They are consistent with {words}; what was asked for is {limit}."
    return f" They are consistent with {words}; all {rest} other explanations are {limit}."


_MIN_BEFORE, _MAX_SIGMAS_BEFORE, _MIN_SIGMAS_AFTER, _MIN_SIGMAS_APART = 100, 3.0, 6.0, 3.0
"""Tokens before the first rejected draft from which on they tell anything, how far off they may be,
and how far off those after it and the difference of the two must be."""


def _right_until_rejection(run: results.OutputRun) -> bool:
    """Tell whether a mean is right before the first rejected draft and off after it."""
    both = {place.first: place for place in run.places if place.of == "rejection"}
    if len(both) < 2 or both[0].tokens < _MIN_BEFORE:
        return False
    before, after = both[0], both[1]
    # By the spread that the target gives each mean.
    spread = math.hypot(*(own.mean / own.sigmas if own.sigmas else 0.0 for own in both.values()))
    apart = abs(after.mean - before.mean)
    return (
        abs(before.sigmas) < _MAX_SIGMAS_BEFORE
        and abs(after.sigmas) >= _MIN_SIGMAS_AFTER
        and apart >= _MIN_SIGMAS_APART * spread
    )


def _untested_words(run: results.OutputRun) -> Iterator[str]:
    """Say which parameters a server may ignore although the run passed."""
    if run.untested:
        names = join_names(run.untested)
        yield (
            f"No bound holds for {names}, which requests name: simverify matrix tests whether "
            f"each is honoured."
        )


def _pass_basis(run: results.OutputRun) -> str:
    """What a PASS rests on, in its own sentence: no number without the assumption that it needs.

    In descending P a wrong temperature or truncation is monotone by what it is; a fault of the
    acceptance is so in q/p alone, and rows of another context in no order that is known here.
    """
    bound = 1.0 if run.certificate is None else run.certificate.bound
    if run.proxy is None:
        words = (
            f"No deviation from the target was found. A wrong temperature, top-k or top-p has a "
            f"mean TV of {bound:.2g} at most: its P'/P is monotone in descending P, in the same "
            f"direction in every context. There is no bound for faults of the acceptance, for rows "
            f"of another context or for other weights, such as rounded ones: their P'/P need not "
            f"be monotone."
        )
    else:
        words = (
            f"No deviation from the target was found. If its P'/P is monotone in q/p (q from "
            f"--draft), in the same direction in every context, its mean TV is {bound:.2g} at "
            f"most. There is no bound for other deviations, and the tokens do not show which kind "
            f"it is."
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


def _output_facts(run: results.OutputRun) -> Iterator[Fact]:
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
        law = ", ".join((law, *_processing_parts(run.processing)))
    if run.otherwise:
        alike = run.requests - run.otherwise
        law = f"each request by its own parameters, {alike:,} of {run.requests:,} by {law}"
    yield Fact("Target", f"{run.target}, {run.dtype} on {run.device}, {law}")
    if run.proxy is not None:
        yield Fact("Proxy for the draft", run.proxy)
    seen = run.rescoring
    fine = "" if seen.precision is None else f", {run.dtype} against float32 {seen.precision:.2g}"
    yield Fact(
        "Row tolerance",
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
            f"{pluralize(text.requests, 'request')} without token ids, tokenized again; "
            f"{text.not_round_tripping:,} of these texts are not what their tokens spell; of "
            f"{text.control_tokens:,} tokens that the target wrote, {text.changed:,} came back as "
            f"others, which the row tolerance allows for",
        )
    yield Fact(
        "Power",
        f"{run.power:g} against {run.deviation}, of {run.detectable:.2g} or more (asked was "
        f"{run.detect:g}); false-alarm rate {run.alpha:g}",
    )
    if run.counters is not None:
        yield Fact("Counters", _counter_words(run.counters))
    if run.acceptance is not None:
        yield Fact("Drafts", _acceptance_words(run.acceptance))
    if (explained := run.explained) is not None:
        yield Fact(
            "Explanations",
            f"the first {pluralize(explained.tokens, 'token')} were compared with "
            f"{explained.tried} ways to sample, including the one that was asked for; the true one "
            f"is ruled out with probability {explained.alpha:g} at most",
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


def _acceptance_words(acceptance: results.AcceptedDrafts) -> str:
    both = (("up to", acceptance.before), ("after", acceptance.after))
    words = [
        f"{rate.accepted:,} of {rate.drafts:,} accepted {place} a request's first rejected draft "
        f"(the token rule accepts {rate.expected:,.1f} on average)"
        for place, rate in both
        if rate.drafts
    ]
    return "; ".join(words)


def _counter_words(counted: results.EngineCounters) -> str:
    """Say what the engine counted, in rates where it counted both parts of them."""
    parts = [
        f"{value:,.0f} {words}"
        for value, words in (
            (counted.drafts, "verifications"),
            (counted.drafted, "drafted"),
            (counted.accepted, "accepted"),
        )
        if value is not None
    ]
    if counted.per_position and counted.drafts:
        rates = ", ".join(f"{own / counted.drafts:.1%}" for own in counted.per_position)
        parts.append(f"by position {rates}")
    if counted.accept_length is not None:
        parts.append(f"{counted.accept_length:.3g} tokens a verification in the last interval")
    if counted.optimum is not None:
        parts.append(f"at most {counted.optimum:.1%} of the first drafts may be accepted")
    return "; ".join(parts)


def _weight_power_words(run: results.OutputRun) -> str:
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


def _processing_parts(own: results.Processing) -> Iterator[str]:
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
    if own.allowed_token_ids:
        yield f"{len(own.allowed_token_ids):,} allowed tokens"
    if own.mask is not None:
        yield f"mask {own.mask}"
    if own.order is not None:
        yield f"in the order {', '.join(own.order)}"


def _output_sections(run: results.OutputRun) -> Iterator[Section]:
    yield from section_of("What failed", run.findings)
    if run.worst or run.places:
        yield Section("Where it fails", tuple(_worst_blocks(run)), On.ALL)
    support = (
        f"{run.near:,} tokens outside the rescored support, within what logits off by "
        f"{run.rescoring.margin:.2g} allow; {run.unsupported:,} beyond"
    )
    rows = [
        ("N, fixed beforehand", f"{run.planned:,} tokens, request after request"),
        ("support", support),
        ("ids judged", f"sha256 {run.sha256}"),
    ]
    yield Section("What was promised", (limits_table(rows),))
    if run.weights:
        yield Section("Rounded weights", (_format_table(run),))
    yield from _last_sections(run, "Tests of the output tier", "tokens")


def _format_table(run: results.OutputRun) -> Table:
    return make_table(
        f"What these tokens would have told, and tokens for a power of {run.power:g}",
        "weights rounded to | TV | power | tokens",
        (
            (
                rounding.name,
                number_cell(rounding.tv, 2),
                number_cell(rounding.power, 2),
                "none do" if rounding.needed is None else rounding.needed,
            )
            for rounding in sorted(run.weights, key=lambda x: -x.tv)
        ),
    )


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


def triage_report(run: results.TriageRun) -> Report:
    """Return the report of a triage."""
    ruling = _triage_ruling(run)
    message = "\n".join((ruling, *run.findings))
    return make_report(
        run,
        "triage",
        f"{run.a} against {run.b}",
        ruling,
        _triage_facts(run),
        _triage_sections(run),
        [verdict_case(f"triage {run.a} {run.b}", run.verdict, message)],
    )


def _triage_ruling(run: results.TriageRun) -> str:
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


def _triage_facts(run: results.TriageRun) -> Iterator[Fact]:
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
        "at temperature 0 nothing is drawn, so a token that is off is certain, unless the engine "
        "rounds by more than that; a cause is a guess, with the probability to fit so often by "
        "chance",
    )
    if run.certificate is not None:
        yield Fact(
            "Certificate",
            f"of requests like these {run.certificate.bound:.2g} at most have a fault, but for a "
            f"probability of {run.certificate.delta:g}, if {run.certificate.assumption}",
        )


def _worst_case_lines(case: results.TriageCase) -> Iterator[str]:
    where = f"line {case.line_a} of A and {case.line_b} of B"
    at = "" if case.at is None else f", at token {case.at + 1:,}"
    yield f"request {case.request:,} ({where}){at}: {case.kind}, {case.cause}"
    if case.gap is not None and case.side is not None:
        yield (
            f"{_side_words(case)} emit{'' if case.side == 'both' else 's'} the target's choice "
            "number "
            f"{(case.rank or 0) + 1:,}, {case.gap:.3g} logits behind the first"
        )
    if case.chance is not None:
        yield f"so much would fit by luck with probability {case.chance:.1g}"
    if case.slot is not None:
        yield f"it is token {case.slot[0] + 1} of {case.slot[1]} of its call"
    yield f"before: {case.before!r}"
    yield f"A: {case.text_a!r} (token {_token_id(case.token_a)})"
    yield f"B: {case.text_b!r} (token {_token_id(case.token_b)})"
    yield f"the target chooses token {_token_id(case.choice)}"


def _side_words(case: results.TriageCase) -> str:
    return "both" if case.side == "both" else (case.side or "").upper()


def _token_id(token: int | None) -> str:
    return "none" if token is None else str(token)


def _triage_sections(run: results.TriageRun) -> Iterator[Section]:
    yield from section_of("What failed", run.findings)
    yield Section("Requests by class", (_class_table(run),), On.ALL)
    for number, case in enumerate(run.cases[:_MAX_VERBOSE_CASES]):
        title, on = ("The next", On.VERBOSE) if number else ("The worst case", On.ALL)
        yield from section_of(title, tuple(_worst_case_lines(case)), on)
    if run.cases:
        yield Section("Requests that differ", (_case_table(run),))
    if run.causes:
        words = (
            "A context after which the target would choose the token that was emitted. By chance: "
            "at other places, where nothing is off and the runner-up is as near, how often it "
            "gives the runner-up."
        )
        title = f"Explanations that fit, of {run.tried} tried"
        yield Section(title, (Prose(words), _cause_table(run)), On.DETAIL)
    yield from notes_section(run.notes)
    yield command_section(run)


def _class_table(run: results.TriageRun) -> Table:
    return make_table(
        "Every request once, by the gravest that is known of it",
        "class | requests | off in A | in B | in both | how certain",
        (
            (
                count.kind,
                count.requests,
                count.side_a,
                count.side_b,
                count.both,
                CLASS_CERTAINTY[count.kind],
            )
            for count in run.counts
            if count.requests
        ),
        narrow="0:class | 1:requests | 2:off in A | 3:in B | 4:in both",
    )


def _case_table(run: results.TriageRun) -> Table:
    return make_table(
        "The gravest first",
        "request | class | off | token | logits behind | cause | before | A | B",
        (
            (
                case.request,
                case.kind,
                _side_words(case),
                None if case.at is None else case.at + 1,
                number_cell(case.gap, 3),
                case.cause,
                repr(case.before),
                repr(case.text_a),
                repr(case.text_b),
            )
            for case in run.cases
        ),
        names=frozenset({6, 7, 8}),
        left_out=run.left_out,
    )


def _cause_table(run: results.TriageRun) -> Table:
    return make_table(
        "The surest first",
        "explanation | class | places | fits | by chance | probability of that | taken",
        (
            (
                cause.name,
                cause.kind,
                cause.places,
                cause.fits,
                number_cell(cause.by_chance, 2),
                number_cell(cause.chance, 2),
                "yes" if cause.taken else "no",
            )
            for cause in run.causes
        ),
        names=frozenset({0}),
    )


# A watch.


def watch_report(run: results.WatchRun) -> Report:
    """Return the report of a watch."""
    ruling = _watch_ruling(run)
    again = "To watch another life, with another --state" if run.alarm else "To go on"
    delays = make_table(
        f"Within how many tokens a TV of {run.detect:g} is told, with probability {run.power:g}",
        "tokens before it | tokens until the alarm",
        ((_token_cell(delay.after), _token_cell(delay.tokens)) for delay in run.delays),
    )
    sections = (
        Section("Delays", (delays,)),
        *notes_section(run.notes),
        command_section(run, title=again),
    )
    message = run.inconclusive or ruling
    case = verdict_case(f"watch {run.source}", run.verdict, message)
    return make_report(run, "watch", run.source, ruling, _watch_facts(run), sections, [case])


def _watch_ruling(run: results.WatchRun) -> str:
    if run.alarm is not None:
        return f"ALARM at token {run.alarm_at:,}: {run.alarm}."
    if run.verdict == "INCONCLUSIVE":
        return f"No alarm, and too early to say more: {run.inconclusive}."
    return (
        f"No alarm: a deviation of TV {run.detect:g} from the start, across one cut of an order, "
        f"would have been told with probability {run.power:g}."
    )


def _watch_facts(run: results.WatchRun) -> Iterator[Fact]:
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
        "Row tolerance",
        f"rows are allowed to be off by {max(run.balls.values()):.2g} in an order, on average over "
        f"any stretch",
    )


def _power_words(log: float) -> str:
    return f"10^{log / math.log(10.0):.1f}"


def _token_cell(n: float | None) -> Cell:
    return Cell("none will do") if n is None else Cell(f"{n:,.0f}", float(n))
