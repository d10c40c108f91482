"""What explains tokens that are off, and how surely: fits are held against fits by chance.

Every explanation is a context after which the target would choose the emitted token. Some fit by
chance, as a context that is nearly the right one often makes the runner-up the choice. How often is
measured at other places, where nothing is off, the runner-up is as near, and the same
explanation is asked for the runner-up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from simverify.arrays import Ints
from simverify.emitted.triage.choices import Text, choices, takes_positions
from simverify.emitted.triage.contexts import contexts, shared_beginning
from simverify.emitted.triage.reading import Answer
from simverify.emitted.triage.scoring import Path
from simverify.models.real.transformer import TransformerPair
from simverify.results import TriageCause, TriageClass

EXAMINED = 16
"""Off tokens on which explanations are tried; those that are taken are tried on all."""

LEVEL = 1e-3
"""An explanation is taken if it fits so often by chance with this probability at most."""

FOLLOWING = 8
"""Tokens behind an off one that an explanation may explain too."""

DRAFTED = "the draft's own token is kept"

_CONTROLS = 32
_NEIGHBOURS = 4


@dataclass(frozen=True, eq=False)
class Log:
    """One log: its answers, their paths, and the draft's choices at each place, None for none."""

    answers: Sequence[Answer]
    paths: Sequence[Path]
    drafts: Sequence[Ints] | None

    def shared(self, number: int) -> int:
        """Return how much of a prompt one of the answers before has, in the order of the log."""
        texts = ((*own.request.prompt, *own.request.tokens) for own in self.answers[:number])
        return shared_beginning(self.answers[number].request.prompt, texts)


@dataclass(frozen=True, eq=False)
class Spot:
    """A token: of which log and answer, where, and what is to be explained there."""

    log: Log
    number: int
    at: int
    token: int

    @property
    def tokens(self) -> tuple[int, ...]:
        """The answer's tokens."""
        return self.log.answers[self.number].request.tokens


@dataclass(frozen=True)
class Fit:
    """Whether an explanation gives the token, and how many of the off ones behind it."""

    kind: TriageClass
    first: bool
    later: int
    later_of: int


@dataclass(frozen=True)
class Explained:
    """``causes``: what was tried and fits anywhere; ``taken``: by index of the spot, the cause."""

    causes: tuple[TriageCause, ...]
    taken: Mapping[int, TriageCause]
    tried: int


def explained(
    spots: Sequence[Spot], logs: Sequence[Log], pair: TransformerPair, radius: float
) -> Explained:
    """Try every explanation on the first spots, hold it against chance, take what is beyond it."""
    if not spots:
        return Explained((), {}, 0)
    first = spots[:EXAMINED]
    fits = _fits(first, pair, radius, None)
    names = dict.fromkeys(name for own in fits for name in own)
    tried = len(names)
    fitting = {name for own in fits for name, fit in own.items() if fit.first}
    controls = _controls(first, logs, radius)
    by_chance = _rates(fitting, _fits(controls, pair, radius, fitting))
    taken: dict[int, TriageCause] = {}
    found: dict[str, TriageCause] = {}
    kept: dict[str, TriageCause] = {}
    while True:
        rest = [i for i in range(len(first)) if i not in taken]
        causes = [_cause(name, [fits[i] for i in rest], by_chance, tried) for name in names
                  if name in fitting and any(name in fits[i] for i in rest)]  # fmt: skip
        for cause in causes:
            found.setdefault(cause.name, cause)
        good = [cause for cause in causes if cause.chance <= LEVEL]
        best = max(good, key=lambda cause: (cause.fits, -cause.chance), default=None)
        if best is None:
            break
        where = {i for i in rest if _at(fits[i], best.name)}
        named = _taken(best, [n for n in fitting if {i for i in rest if _at(fits[i], n)} == where])
        found[best.name] = kept[best.name] = named
        taken |= dict.fromkeys(where, named)
    if kept:
        others = spots[len(first) :]
        for i, own in enumerate(_fits(others, pair, radius, set(kept)), len(first)):
            fitting_here = [kept[name] for name, fit in own.items() if fit.first]
            if fitting_here:
                taken[i] = max(fitting_here, key=lambda cause: cause.fits)
    ordered = sorted(found.values(), key=lambda cause: (not cause.taken, cause.chance, -cause.fits))
    return Explained(tuple(ordered), taken, tried)


def _fits(
    spots: Sequence[Spot], pair: TransformerPair, radius: float, wanted: set[str] | None
) -> list[dict[str, Fit]]:
    """Return for each spot the explanations, of those ``wanted``, and whether they fit."""
    jobs: list[tuple[int, str, TriageClass, Text]] = []
    found: list[dict[str, Fit]] = []
    placed = takes_positions(pair)
    for i, spot in enumerate(spots):
        answer, path = spot.log.answers[spot.number], spot.log.paths[spot.number]
        drafts = None if spot.log.drafts is None else spot.log.drafts[spot.number].tolist()
        own = _at_hand(spot)
        found.append({name: fit for name, fit in own.items() if wanted is None or name in wanted})
        made = contexts(
            answer.request.prompt, spot.tokens, spot.at, int(path.top[spot.at]), drafts, pair,
            spot.log.shared(spot.number),
        )  # fmt: skip
        for context in made:
            if context.positions is not None and not placed:
                continue
            follows = spot.tokens[spot.at : spot.at + FOLLOWING]
            fits_in = len(context.tokens) + len(follows) <= pair.context
            if fits_in and (wanted is None or context.name in wanted):
                text = Text.of((*context.tokens, *follows), context.positions)
                jobs.append((i, context.name, context.kind, text))
    texts = list(dict.fromkeys(text for *_, text in jobs))
    given_after = choices(texts, pair)
    for i, name, kind, text in jobs:
        spot = spots[i]
        follows = spot.tokens[spot.at : spot.at + FOLLOWING]
        given = given_after[text][-len(follows) - 1 :]
        off = spot.log.paths[spot.number].off(radius) - spot.at
        later = [int(j) for j in off if 0 < j < len(follows)]
        right = sum(int(given[j]) == follows[j] for j in later)
        found[i][name] = Fit(kind, int(given[0]) == spot.token, right, len(later))
    return found


def _at_hand(spot: Spot) -> dict[str, Fit]:
    """Explanations that take no model: other requests' rows at the same place, and the draft."""
    found = {}
    for k in range(-_NEIGHBOURS, _NEIGHBOURS + 1):
        other = spot.number + k
        if k and 0 <= other < len(spot.log.paths) and spot.at < len(spot.log.paths[other].top):
            side = "before" if k < 0 else "after"
            far = "" if abs(k) == 1 else f"{abs(k)} "
            name = f"the row of the request {far}{side}"
            fits = int(spot.log.paths[other].top[spot.at]) == spot.token
            found[name] = Fit("cache or rows", fits, 0, 0)
    if spot.log.drafts is not None:
        drafted = int(spot.log.drafts[spot.number][spot.at])
        found[DRAFTED] = Fit("verifier", drafted == spot.token, 0, 0)
    return found


def _controls(spots: Sequence[Spot], logs: Sequence[Log], radius: float) -> list[Spot]:
    """Return places of the target's own choices whose runner-up is as near as the spots' tokens."""
    pool = [
        (float(path.lead[at]), log, number, at)
        for log in logs
        for number, path in enumerate(log.paths)
        for at in np.flatnonzero((path.gap == 0.0) & (path.lead > radius)).tolist()
    ]
    each = -(-_CONTROLS // len(spots))
    found = []
    for spot in spots:
        gap = float(spot.log.paths[spot.number].gap[spot.at])
        pool.sort(key=lambda entry: abs(entry[0] - gap))
        for _, log, number, at in pool[:each]:
            found.append(Spot(log, number, at, int(log.paths[number].second[at])))
        pool = pool[each:]
    return found


def _rates(names: set[str], fits: Sequence[Mapping[str, Fit]]) -> dict[str, float]:
    """Share of controls that each explanation fits, one fit and one miss more (Laplace)."""
    found = {}
    for name in names:
        own = [fit[name].first for fit in fits if name in fit]
        found[name] = (sum(own) + 1) / (len(own) + 2)
    return found


def _cause(
    name: str, fits: Sequence[Mapping[str, Fit]], by_chance: Mapping[str, float], tried: int
) -> TriageCause:
    own = [fit[name] for fit in fits if name in fit]
    hits = [fit for fit in own if fit.first]
    alone = (len(hits), len(own))
    # A fault that stays explains the off tokens behind it too, one that passes does not.
    later = (sum(fit.later for fit in hits), sum(fit.later_of for fit in hits))
    tails = [
        float(stats.binom.sf(right - 1, trials, by_chance[name]))
        for right, trials in (alone, (alone[0] + later[0], alone[1] + later[1]))
    ]
    chance = 2.0 * tried * min(tails) if hits else 1.0
    return TriageCause(
        name=name, kind=own[0].kind, places=len(own), fits=len(hits),
        by_chance=by_chance[name], chance=min(chance, 1.0), taken=False,
    )  # fmt: skip


def _at(fits: Mapping[str, Fit], name: str) -> bool:
    return name in fits and fits[name].first


def _taken(cause: TriageCause, alike: Sequence[str]) -> TriageCause:
    """Return the cause as taken, with another that fits the same places as well."""
    others = sorted(name for name in alike if name != cause.name)
    also = f", or: {others[0]}" if others else ""
    return TriageCause(
        name=f"{cause.name}{also}", kind=cause.kind, places=cause.places, fits=cause.fits,
        by_chance=cause.by_chance, chance=cause.chance, taken=True,
    )  # fmt: skip
