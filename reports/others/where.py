"""Where an audit of emitted tokens fails: the worst tokens in context, and the places."""

import json
from collections.abc import Iterator

from simverify.checks import clean
from simverify.reports.view import Block, Cell, Table
from simverify.reports.words import figure
from simverify.results import AtPlace, OutputRun, WorstToken

_FEW = 3
_LONGEST = 40
_OFF = 4.0
"""Standard deviations from which on a place is told without --verbose."""


def where_lines(run: OutputRun, *, verbose: bool) -> Iterator[str]:
    """Yield where a FAIL is: the worst tokens and places, or all of them."""
    for entry in run.worst if verbose else run.worst[:_FEW]:
        slot = "" if entry.slot is None else f" ({_nth(entry.slot)} of its draft)"
        yield (
            f"worst: request {entry.request}, token {entry.position}{slot}: {_quoted(entry.text)} "
            f"after {_quoted(entry.before)}: {_chance(entry)}, rank {entry.rank:,}; expected "
            f"{_quoted(entry.expected_text)} with p = {entry.expected_p:.2g}"
        )
    places = [place for place in run.places if verbose or abs(place.sigmas) >= _OFF]
    if places:
        said = ", ".join(f"{_place(place)} {place.sigmas:+.1f} sd" for place in places)
        yield f"off by place ({places[0].name}): {said}"
    if not verbose and len(run.worst) > _FEW:
        yield f"{len(run.worst) - _FEW} more of the worst tokens, and all places: --verbose"


def where_blocks(run: OutputRun) -> tuple[Block, ...]:
    """Return the worst tokens and the places as tables."""
    tokens = Table(
        "Tokens that the target expected least, the worst first",
        ("request", "token", "in draft", "before", "emitted", "after", "p", "rank", "expected"),
        tuple(
            (
                figure(entry.request),
                figure(entry.position),
                Cell("not known") if entry.slot is None else figure(entry.slot),
                Cell(_quoted(entry.before)),
                Cell(_quoted(entry.text)),
                Cell(_quoted(entry.after)),
                Cell(_chance(entry), entry.p),
                Cell(f"{entry.rank:,}", entry.rank),
                Cell(f"{_quoted(entry.expected_text)}, p = {entry.expected_p:.2g}"),
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
                Cell(_place(place), place.first),
                Cell(f"{place.tokens:,}", place.tokens),
                figure(place.mean, 3),
                figure(place.sigmas, 3),
            )
            for place in run.places
        ),
        numbers=frozenset({1, 2, 3}),
    )
    return tokens, places


def _place(place: AtPlace) -> str:
    if place.of == "draft":
        return f"{_nth(place.first)} of a draft"
    last = "" if place.last == place.first else f" to {place.last}"
    return f"tokens {place.first}{last}" if last else f"token {place.first}"


def _nth(slot: int) -> str:
    return f"place {slot}"


def _chance(entry: WorstToken) -> str:
    return f"p = {entry.p:.2g}" if entry.p > 0.0 else "p = 0, cut off"


def _quoted(text: str) -> str:
    """Return text in quotes, with the blanks it begins or ends with."""
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return clean(json.dumps(cut, ensure_ascii=False))
