"""What explains tokens that are off, and how surely: fits are held against fits by chance.

Every explanation is a context after which the target would choose the emitted token. Some fit by
chance, as a context that is nearly the right one often makes the runner-up the choice. How often is
measured at other places, where nothing is off, the runner-up is as near, and the same
explanation is asked for the runner-up.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.emitted.triage.contexts import BACK
from simverify.emitted.triage.fits import REACHES, Fit, Log, Spot, fits
from simverify.models.real.transformer import TransformerPair
from simverify.results import TriageCause, TriageClass

EXAMINED = 16
"""Off tokens on which explanations are tried; those that are taken are tried on all."""

LEVEL = 0.01
"""An explanation is taken if one fits so often by chance with this probability at most."""

MOST = 0.5
"""Share of the off tokens that a common cause fits; where none fits so many, there is none."""

_SMOOTH, _WIDTH = 0.05, 0.5
"""A share of explanations that is taken as none, and by which factor, to e, others are unlike."""

_CONTROLS = 48
_EACH = (4, 24)
"""Controls of all off tokens together, and of each at least and at most."""


@dataclass(frozen=True)
class Explained:
    """What came of it.

    ``causes``: what was tried and fits anywhere; ``taken``: by index of the spot, the cause;
    ``tried``: explanations in all; ``open``: an explanation that would fit most of the others, but
    not beyond chance; None where none does.
    """

    causes: tuple[TriageCause, ...]
    taken: Mapping[int, TriageCause]
    tried: int
    open: TriageCause | None = None


@dataclass(frozen=True)
class Hypothesis:
    """An explanation, ``name``, of as much as ``REACHES`` says at ``reach``."""

    name: str
    kind: TriageClass
    reach: int

    @property
    def words(self) -> str:
        """Its name with what it gives."""
        return self.name + REACHES[self.reach]

    def of(self, own: Mapping[str, Fit]) -> bool:
        """Whether it fits, by the fits of a spot."""
        fit = own.get(self.name)
        return fit is not None and fit.reaches[self.reach : self.reach + 1] == (True,)


def explained(
    spots: Sequence[Spot], logs: Sequence[Log], pair: TransformerPair, radius: float
) -> Explained:
    """Try every explanation on the first spots, hold it against chance, take what is beyond it.

    What is off by the same token after the same text is counted once.
    """
    if not spots:
        return Explained((), {}, 0)
    alike: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for i, spot in enumerate(spots):
        alike.setdefault((spot.text, spot.token), []).append(i)
    numbers = list(alike.values())
    first = [spots[same[0]] for same in numbers[:EXAMINED]]
    own = fits(first, pair, radius)
    tried = _hypotheses(own)
    fitting = [one for one in tried if any(one.of(fit) for fit in own)]
    names = {one.name for one in tried}
    if not fitting:
        return Explained((), {}, len(names))
    controls = _controls(first, logs, radius)
    among = fits([spot for each in controls for spot in each], pair, radius, names)
    groups = _groups(own, among, [len(each) for each in controls], tried)
    alike_by = [_likeness(group) for group in groups]
    taken: dict[int, TriageCause] = {}
    found: dict[str, TriageCause] = {}
    kept: dict[Hypothesis, TriageCause] = {}
    causes: dict[Hypothesis, TriageCause] = {}
    while rest := [i for i in range(len(first)) if i not in taken]:
        worth = stats.matched_fits([groups[i] for i in rest], [alike_by[i] for i in rest])
        causes = {one: _cause(one, j, [own[i] for i in rest], worth)
                  for j, one in enumerate(tried) if worth.fits[j]}  # fmt: skip
        for one, cause in causes.items():
            found.setdefault(one.words, cause)
        good = [one for one in causes if causes[one].chance <= LEVEL]
        if not good:
            break
        best = min(good, key=lambda one: (worth.tails[tried.index(one)], -one.reach))
        where = {i for i in rest if best.of(own[i])}
        others = [one for one in good if {i for i in rest if one.of(own[i])} == where]
        found[best.words] = kept[best] = _taken(best, causes[best], others)
        taken |= dict.fromkeys(where, kept[best])
    ordered = sorted(found.values(), key=lambda cause: (not cause.taken, cause.chance, -cause.fits))
    result = {i: cause for place, cause in taken.items() for i in numbers[place]}
    if kept and len(numbers) > len(first):
        later = numbers[EXAMINED:]
        more = fits([spots[same[0]] for same in later], pair, radius, {one.name for one in kept})
        for same, fit in zip(later, more, strict=True):
            here = [kept[one] for one in kept if one.of(fit)]
            if here:
                result |= dict.fromkeys(same, max(here, key=lambda cause: cause.fits))
    return Explained(tuple(ordered), result, len(names), _open(causes, rest))


def _hypotheses(own: Sequence[Mapping[str, Fit]]) -> list[Hypothesis]:
    kinds: dict[tuple[str, int], TriageClass] = {}
    for fit in own:
        for name, one in fit.items():
            for reach, said in enumerate(one.reaches):
                if said is not None:
                    kinds.setdefault((name, reach), one.kind)
    return [Hypothesis(name, kind, reach) for (name, reach), kind in kinds.items()]


def _groups(
    own: Sequence[Mapping[str, Fit]], among: Sequence[Mapping[str, Fit]], sizes: Sequence[int],
    tried: Sequence[Hypothesis],
) -> list[npt.NDArray[np.bool_]]:  # fmt: skip
    """Return for each spot which hypotheses fit it, and each of its controls: bool (1 + k, H)."""
    ends = np.cumsum([0, *sizes])
    return [
        np.array([[one.of(fit) for one in tried] for fit in (spot, *among[start:end])])
        for spot, start, end in zip(own, ends[:-1], ends[1:], strict=True)
    ]


def _likeness(group: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """How like the spot each of its group is, by the share of all explanations that fit it.

    A token that half of them would give is one that hangs by a thread, whatever its lead says.
    """
    share = (group.sum(axis=1) + _SMOOTH * group.shape[1]) / group.shape[1]
    found: npt.NDArray[np.float64] = np.exp(-np.abs(np.log(share / share[0])) / _WIDTH)
    return found


def _controls(spots: Sequence[Spot], logs: Sequence[Log], radius: float) -> list[list[Spot]]:
    """Return for each spot places of the target's own choices whose runner-up is as near.

    They lie about as far in an answer, as what is lost in a prompt is felt less and less, none has
    less of it before it than what explanations ask for, and none the same text.
    """
    pool: dict[tuple[int, ...], Spot] = {}
    for log in logs:
        for number, path in enumerate(log.paths):
            for at in np.flatnonzero((path.gap == 0.0) & (path.lead > radius)).tolist():
                spot = Spot(log, number, at, int(path.second[at]), 0)
                pool.setdefault(spot.text, spot)
    for spot in spots:
        pool.pop(spot.text, None)
    each = int(np.clip(-(-_CONTROLS // len(spots)), *_EACH))
    free = list(pool.values())
    found = []
    for spot in spots:
        late = [one for one in free if one.at >= min(spot.at, BACK)]
        late.sort(key=lambda one: _apart(spot, one))
        taken = late[:each]
        free = [one for one in free if one not in taken]
        found.append([
            Spot(one.log, one.number, one.at, one.token,
                 one.log.shared(one.number) or min(spot.shared, len(one.prompt) - 1))
            for one in taken
        ])  # fmt: skip
    return found


def _apart(spot: Spot, other: Spot) -> float:
    """How unlike a control is: by the ratio of how near the tokens are, and of how far in."""
    near = float(spot.path.gap[spot.at]) / float(other.path.lead[other.at])
    return abs(math.log(near)) + abs(math.log((spot.at + 1) / (other.at + 1)))


def _cause(
    one: Hypothesis, number: int, own: Sequence[Mapping[str, Fit]], worth: stats.MatchedFits
) -> TriageCause:
    asked = [fit[one.name] for fit in own if one.name in fit]
    return TriageCause(
        name=one.words, kind=one.kind, places=len(asked), fits=int(worth.fits[number]),
        by_chance=float(worth.by_chance[number]), chance=float(worth.chance[number]), taken=False,
    )  # fmt: skip


def _taken(best: Hypothesis, cause: TriageCause, alike: Sequence[Hypothesis]) -> TriageCause:
    """Return the cause as taken, with another that fits the same places as well."""
    others = sorted((one.kind == best.kind, one.name) for one in alike if one.name != best.name)
    also = f", or: {others[0][1]}" if others else ""
    return TriageCause(
        name=f"{cause.name}{also}", kind=cause.kind, places=cause.places, fits=cause.fits,
        by_chance=cause.by_chance, chance=cause.chance, taken=True,
    )  # fmt: skip


def _open(causes: Mapping[Hypothesis, TriageCause], rest: Sequence[int]) -> TriageCause | None:
    """Return the likeliest of the explanations that fit most of what is left, None for none.

    ``causes``: as they are of the places ``rest``, which no cause was found for.
    """
    likely = [
        cause for one, cause in causes.items()
        if rest and one.kind != "verifier" and cause.fits > MOST * len(rest)
    ]  # fmt: skip
    return min(likely, key=lambda cause: (cause.chance, -cause.fits), default=None)
