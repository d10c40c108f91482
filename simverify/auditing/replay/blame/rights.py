"""Decisions that are as the rows demand, so that the numbers behind them are right.

A draft may be drawn from any law. A draft x that came from the law D is kept with the probability
min(1, p(x) / D(x)); what comes after a rejection is drawn in proportion to max(p - D, 0); a token
that is settled by one draw is the target's. A decision that is none of these rests on a wrong
number, or is wrong itself.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simverify.arrays import Row
from simverify.auditing.replay.blame.partings import decision
from simverify.auditing.replay.instance_rows import InstanceRows
from simverify.symbolic.draws.path import Decided
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.enumeration.recorder import Leaf

Place = tuple[int, ...]
"""A decision, by the branches that are taken before it."""

Law = Mapping[int, float]

_SAME = 1e-5


@dataclass(frozen=True)
class Known:
    """Steps of a path that decide as the rows demand, and those that do not.

    Both are empty where nothing of the call is wrong by the rows: then something else than a number
    is, as one that is used twice. ``undrawn``: that every decision is right, as where a token is
    taken that nothing draws. ``always_kept``: as in :class:`Verdicts`.
    """

    right: frozenset[int] = frozenset()
    wrong: frozenset[int] = frozenset()
    undrawn: bool = False
    always_kept: bool = False


@dataclass(frozen=True)
class Verdicts:
    """Which decisions of a call are as the rows demand, of those where that is known.

    ``always_kept``: a draft is emitted where a coin should have been asked and was not.
    """

    known: Mapping[Place, bool]
    always_kept: bool = False

    def of(self, leaf: Leaf) -> Known:
        """Return what is known of a path."""
        if all(self.known.values()) and not self.always_kept:
            return Known(undrawn=bool(self.known))
        found: dict[bool, set[int]] = {True: set(), False: set()}
        for begin, end in _stretches(leaf):
            place = _taken(leaf, begin)
            if place in self.known:
                steps = (decision(leaf, depth) for depth in range(begin, end))
                found[self.known[place]].update(step for step in steps if step is not None)
        return Known(frozenset(found[True]), frozenset(found[False]), always_kept=self.always_kept)


UNKNOWN = Verdicts({})


def verdicts_on(
    leaves: Sequence[Leaf], rows: InstanceRows, sequence: Tokens | None = None
) -> Verdicts:
    """Return what the rows say of the decisions of a call.

    ``sequence``: paths that leave it were cut short there.
    """
    forks = {
        place: fork
        for place, fork in _forks(leaves)
        if sequence is None or fork.before == sequence[: fork.position]
    }
    drafted: dict[tuple[Place, int], Law] = {}
    known: dict[Place, bool] = {}
    always_kept = False
    for place in sorted(forks, key=len):
        fork = forks[place]
        prefix = (*rows.prompt, *fork.before)
        try:
            p, q = rows.target(prefix), rows.draft(prefix)
        except ValueError:
            continue
        if any(token is not None and not 0 <= token < len(p) for token in fork.next_tokens()):
            continue
        if (drafts := fork.drafts(q, forks)) is not None:
            drafted[place, fork.position], kept = drafts
            always_kept |= any(p[token] < drafts[0][token] - _SAME for token in kept)
            known[place] = True
            continue
        before = (drafted.get((place[:i], fork.position)) for i in range(len(place)))
        drawn = next((_row(own, len(q)) for own in before if own is not None), q)
        is_right = fork.is_right(p, drawn)
        law = fork.settled()
        if sequence is not None and is_right is False and law is not None and _is_same(law, q):
            is_right = always_kept = True
        if is_right is not None:
            known[place] = is_right
    return Verdicts(known, always_kept)


@dataclass(frozen=True)
class _Fork:
    """A decision: the shares of its branches, and which tokens come next behind each.

    ``position``: of the first token of the output that its paths do not share; ``before``: the
    output up to there.
    """

    place: Place
    coin: bool
    before: Tokens
    shares: Mapping[Place, float]
    tokens: Mapping[Place, frozenset[int | None]]

    @property
    def position(self) -> int:
        """Index of the next token."""
        return len(self.before)

    def next_tokens(self) -> frozenset[int | None]:
        """Return the next tokens of all paths; None of one that ends before."""
        return frozenset().union(*self.tokens.values())

    def settled(self) -> Law | None:
        """Return the law of the next token where this decision settles it, else None."""
        law: dict[int, float] = defaultdict(float)
        for way, tokens in self.tokens.items():
            token = _one(tokens)
            if token is None:
                return None
            law[token] += self.shares[way]
        return law

    def drafts(self, q: Row, forks: "Mapping[Place, _Fork]") -> tuple[Law, list[int]] | None:
        """Return the law of what it drafts, and the tokens that are kept without a coin.

        None where it drafts nothing.
        A coin comes after it whose chances depend on what was drawn, and on one side of which the
        token is the one that was drawn. What could be a coin itself drafts where it has the law q.
        """
        if self.settled() is not None:
            return None
        behind = {way: self._coin(way, forks) for way in self.tokens}
        chances = [0.0 if coin is None else coin.shares[0,] for coin in behind.values()]
        if max(chances) - min(chances) < _SAME:
            return None
        for side in ((0,), (1,)):
            kept = {
                way: _one(self.tokens[way] if coin is None else coin.tokens[side])
                for way, coin in behind.items()
            }
            law = {token: self.shares[way] for way, token in kept.items() if token is not None}
            if len(law) == len(kept) and (not self.coin or _is_same(law, q)):
                uncoined = (kept[way] for way, coin in behind.items() if coin is None)
                return law, [token for token in uncoined if token is not None]
        return None

    def is_right(self, p: Row, d: Row) -> bool | None:
        """Return whether it is as rows demand, ``d`` that of the draft; None if that is unknown."""
        found: list[bool] = []
        law = self.settled()
        if law is not None:
            rest = np.maximum(p - d, 0.0)
            due = [p] if rest.sum() < _SAME else [p, rest / rest.sum()]
            found += [_is_same(law, row) for row in due]
        if self.coin:
            for way, tokens in self.tokens.items():
                x = _one(tokens)
                if x is not None and d[x] > 0:
                    found.append(bool(abs(self.shares[way] - min(1.0, p[x] / d[x])) < _SAME))
        return any(found) if found else None

    def _coin(self, way: Place, forks: "Mapping[Place, _Fork]") -> "_Fork | None":
        fork = forks.get((*self.place, *way))
        return fork if fork is not None and fork.coin and fork.position == self.position else None


def _is_same(law: Law, row: Row) -> bool:
    return bool(np.abs(_row(law, len(row)) - row).max() < _SAME)


def _row(law: Law, size: int) -> Row:
    return np.array([law.get(token, 0.0) for token in range(size)])


def _one(tokens: frozenset[int | None]) -> int | None:
    (*more, token) = tokens
    return None if more else token


def _forks(leaves: Sequence[Leaf]) -> Iterator[tuple[Place, _Fork]]:
    at: dict[Place, dict[Place, list[Leaf]]] = defaultdict(lambda: defaultdict(list))
    shares: dict[Place, float] = {}
    kinds: dict[Place, Decided] = {}
    for leaf in leaves:
        for begin, end in _stretches(leaf):
            place, way = _taken(leaf, begin), _taken(leaf, end)[begin:]
            at[place][way].append(leaf)
            kinds[place] = leaf.branches[begin].kind
            shares[place + way] = math.prod(own.weight for own in leaf.branches[begin:end])
    for place, ways in at.items():
        if len(ways) < 2:
            continue
        through = [leaf.tokens for own in ways.values() for leaf in own]
        same = [a == b for a, b in zip(min(through), max(through), strict=False)]
        before = through[0][: (*same, False).index(False)]
        tokens = {way: frozenset(_next(leaf, before) for leaf in own) for way, own in ways.items()}
        coin = kinds[place] is Decided.BOUND and set(ways) == {(0,), (1,)}
        yield place, _Fork(place, coin, before, {way: shares[place + way] for way in ways}, tokens)


def _stretches(leaf: Leaf) -> Iterator[tuple[int, int]]:
    """Yield where decisions begin and end: comparisons of one draw in one line are one."""
    begin, branches = 0, leaf.branches
    for i in range(1, len(branches) + 1):
        if (
            i == len(branches)
            or branches[i].draw is None
            or (branches[i].draw, branches[i].where)
            != (branches[begin].draw, branches[begin].where)
        ):
            yield begin, i
            begin = i


def _taken(leaf: Leaf, end: int) -> Place:
    return tuple(branch.taken for branch in leaf.branches[:end])


def _next(leaf: Leaf, before: Tokens) -> int | None:
    return leaf.tokens[len(before)] if len(leaf.tokens) > len(before) else None
