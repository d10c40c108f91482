"""What a drafter's tokens follow, against the law that it reports and the scheme it declares.

A verifier sees how many siblings there are and which law they are said to come from. Given these,
and all that was drafted before, they must be what the scheme draws from that law: else what it
accepts is biased. So a call that drops tokens by their own probability deviates, and one that
counts, or reports, by a coin of its own does not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simverify.arrays import Row
from simverify.auditing.exact.generations.drafts import (
    Answer,
    Reports,
    answers,
    built_drafter,
    grow,
    written,
)
from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.judging.comparison import (
    TOLERANCE,
    Comparison,
    DraftCall,
    OutputSequence,
    Place,
    coarsest,
)
from simverify.auditing.exact.judging.tree import Transcripts
from simverify.symbolic import Enumeration
from simverify.symbolic.enumeration.endings import Tokens
from simverify.trees import SCHEMES, Scheme

_TIE = 1e-12
"""Probabilities so near to each other are equally likely: either may be the likeliest."""

_DIGITS = 9
"""Of reported probabilities, where two drafters are compared."""


def compare_drafts(
    enumeration: Enumeration,
    rule: Callable[..., Any],
    model: SmallModel,
    *,
    tolerance: float | None = None,
    max_paths: int,
    seconds: float | None,
    enough: float | None = None,
) -> Comparison:
    """Compare the law of the tokens that ``rule`` drafts on ``model`` with what it reports.

    A tree is drafted call by call, so that a call depends on those before. Raises as
    :func:`~simverify.auditing.exact.generations.enumerate.enumerate_verify`.
    """
    assert model.drafting is not None, "drafters are tried on trees"
    shape, scheme = model.drafting.shape, model.drafting.scheme
    reports = Reports()

    def call() -> Tokens:
        drafter = built_drafter(rule)
        enumeration.source.sequences.is_built()
        grown = grow(drafter, shape, model.draft, enumeration.rng, model.prompt)
        return written(grown.calls, reports)

    law = enumeration.run(call, max_paths=max_paths, seconds=seconds, enough=enough)
    told = {numbers: tuple(answers(numbers, shape, model.prompt)) for numbers in law.probabilities}
    by_call = [
        list(cells(law.probabilities, told, place, reports.rows, scheme))
        for place in range(max((len(x) for x in told.values()), default=0))
    ]
    dtype = coarsest({*law.dtypes, *reports.dtypes})
    bound = TOLERANCE[dtype] if tolerance is None else tolerance
    tvs = [_distance(found) for found in by_call]
    first = next((i for i, tv in enumerate(tvs) if tv > bound), None)
    every = [cell for found in by_call for cell in found]
    # The earliest call that is off: what it drafted is on the path of all later ones.
    worst = max(
        every if first is None else by_call[first],
        # Of two alike, what the code does, which a replay shows.
        key=lambda cell: (round(abs(cell.gap), 12), -len(cell.answer.tokens), cell.gap > 0),
        default=None,
    )
    gap = max((abs(cell.gap) for cell in every), default=0.0)
    found = Comparison(
        max_abs_deviation=gap + law.pruned,
        tv=max(tvs, default=0.0),
        worst=OutputSequence((), 0.0, 0.0),
        place=None if first is None else Place(first, None, tvs[first]),
        expected_accepted=None,
        bonus=None,
        paths=law.paths,
        pruned=law.pruned,
        lost=law.lost,
        complete=law.complete,
        findings=law.findings,
        emitted=_transcripts(law.probabilities, told, reports.rows),
        dtype=dtype,
        excess=max((cell.gap for cell in every), default=0.0),
    )
    if worst is None:
        return found
    return replace(
        found,
        worst=OutputSequence(worst.answer.tokens, worst.emitted, worst.due),
        call=DraftCall(
            worst.answer.prefix, worst.answer.asked,
            tuple(reports.rows[worst.answer.report].tolist()), worst.share, worst.before,
        ),
    )  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One answer of a call, among those alike in count, report and all before.

    ``share``: the probability of such answers; ``emitted`` and ``due`` of this one among them.
    ``before``: the tokens of the calls before.
    """

    answer: Answer
    before: tuple[Tokens, ...]
    share: float
    emitted: float
    due: float

    @property
    def gap(self) -> float:
        """By how much it comes more often than is due."""
        return self.share * (self.emitted - self.due)


def cells(
    law: dict[Tokens, float],
    told: dict[Tokens, tuple[Answer, ...]],
    place: int,
    rows: list[Row],
    scheme: Scheme,
) -> Iterator[Cell]:
    """Yield what call number ``place`` answers, and what the scheme would draw in its stead.

    ``told``: what the keys of ``law`` say; ``rows``: the reports, by number.
    """
    groups: dict[tuple[Any, ...], dict[Tokens, float]] = {}
    first: dict[tuple[Any, ...], Answer] = {}
    for numbers, mass in law.items():
        if place >= len(told[numbers]):
            continue
        answer = told[numbers][place]
        key = (told[numbers][:place], answer.report, len(answer.tokens))
        found = groups.setdefault(key, {})
        found[answer.tokens] = found.get(answer.tokens, 0.0) + mass
        first.setdefault(key, answer)
    for key, found in groups.items():
        earlier, report, count = key
        before = tuple(answer.tokens for answer in earlier)
        share = sum(found.values())
        emitted = {tokens: mass / share for tokens, mass in found.items()}
        due = siblings_due(scheme, rows[report], first[key].asked, count, emitted)
        for tokens in sorted({*emitted, *due}):
            answer = replace(first[key], tokens=tokens)
            yield Cell(answer, before, share, emitted.get(tokens, 0.0), due.get(tokens, 0.0))


def _distance(found: list[Cell]) -> float:
    """Return the TV of what a call answers from what is due, whose sum need not be 1."""
    more = sum(max(cell.gap, 0.0) for cell in found)
    return max(more, sum(max(-cell.gap, 0.0) for cell in found))


def siblings_due(
    scheme: Scheme, row: Row, asked: int, count: int, emitted: dict[Tokens, float]
) -> dict[Tokens, float]:
    """Return the law of ``count`` siblings, of ``asked``, that ``scheme`` draws from ``row`` (V,).

    Those that are certain are the likeliest; of equally likely tokens any may be, and are taken
    as they are ``emitted``, for nothing is lost by a choice that the others do not depend on.
    """
    certain = scheme.certain(count)
    if scheme.certain(asked) >= count and _nothing_left(row, scheme.fixed(row, count)[:certain]):
        certain = count  # there was none to sample after those that are certain
    usual = SCHEMES["top-k"].fixed(row, certain)
    heads: dict[Tokens, float] = {}
    for tokens, mass in emitted.items():
        head = tokens[:certain] if _are_likeliest(row, tokens[:certain]) else usual
        heads[head] = heads.get(head, 0.0) + mass
    due: dict[Tokens, float] = {}
    waiting = list(heads.items())
    while waiting:
        before, mass = waiting.pop()
        if len(before) == count:
            due[before] = due.get(before, 0.0) + mass
            continue
        # What is left of a row sums to 1 whatever it summed to; the row itself is taken at its
        # word, as a verifier does.
        left = scheme.next_row(row, before) if before else row
        if left is not None:
            tokens_left = np.flatnonzero(left).tolist()
            waiting += [((*before, x), mass * float(left[x])) for x in tokens_left]
    return due


def _nothing_left(row: Row, tokens: Tokens) -> bool:
    """Whether the row has no mass but on ``tokens``."""
    left = row.copy()
    left[list(tokens)] = 0
    return not left.any()


def _are_likeliest(row: Row, tokens: Tokens) -> bool:
    """Whether each of ``tokens`` is the likeliest of those that are not before it."""
    left = row.copy()
    for token in tokens:
        if left[token] < left.max() - _TIE:
            return False
        left[token] = -1.0
    return True


def _transcripts(
    law: dict[Tokens, float], told: dict[Tokens, tuple[Answer, ...]], rows: list[Row]
) -> Transcripts:
    """Return the law by what was reported, in numbers of which two drafters mean the same."""
    names = [tuple(np.round(row, _DIGITS).tolist()) for row in rows]
    found: dict[tuple[Any, ...], float] = {}
    for numbers, mass in law.items():
        key = tuple((names[answer.report], answer.tokens) for answer in told[numbers])
        found[key] = found.get(key, 0.0) + mass
    return Transcripts(found)
