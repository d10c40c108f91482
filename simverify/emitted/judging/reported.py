"""The engine's own log probabilities: what they are of, and how far its rows are from ours.

A token that the engine drew from its row P', and of which it says log P', tells a value of
(1 - P / P')+, whose mean under P' is the TV distance from our row P. So the values are averaged,
and bets are made that the mean is above what rounding explains: a few tokens tell wrong weights,
where the tokens alone take thousands.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from simverify import stats
from simverify.arrays import Floats
from simverify.emitted.judging.agreement import doubt
from simverify.emitted.reading.logprobs import fineness
from simverify.emitted.rescoring import Scored
from simverify.stats.means.intervals import empirical_bernstein

NAME = "reported log probabilities"

RIGHT = ("processed", "raw", "by temperature alone", "before temperature", "before truncation")
"""What may be reported: of the law that is sampled, or of the target before some of it."""

_WORDS = {
    "processed": "of the law that is sampled",
    "raw": "of the target before temperature and truncation",
    "by temperature alone": "of the target by temperature, before truncation",
    "before temperature": "of the law before temperature and truncation, with all else",
    "before truncation": "of the law before truncation, with all else",
    "draft": "of the draft, not of the target",
    "row before": "of the token under the row before its own: stale by a row",
    "row after": "of the token under the row after its own: ahead by a row",
    "token before": "those of the token before: off by a place",
}
_CLEARLY = 0.25
"""A kind that must not be is named where its median error is so many times the best right one's."""

_FAR = 0.5
"""A median error, in nats, of what fits nothing: such values are no log probabilities of these
rows (plain probabilities, other logarithms, sums), and weights that are so far off show in the
tokens."""

_ERROR = 1e-3

_LEAST, _EXACT, _NEAR = 16, 3, 10.0
"""Values of a request that say how far it is off; requests that must be exact to be no luck; and
how many times what ours are off an exact one may be, which is far from what bfloat16 moves."""


@dataclass
class Reported:
    """Sums over requests: reported values, and for each kind what ours would be, twice."""

    values: list[Floats] = field(default_factory=list)
    ours: list[Mapping[str, Floats]] = field(default_factory=list)
    again: list[Mapping[str, Floats]] = field(default_factory=list)
    allowed: float = 0.0

    def add(self, scored: Scored) -> None:
        """Count a request, if it has any."""
        if scored.request.logprobs is not None and scored.stated:
            own = scored.request.logprobs
            n = len(scored.request.tokens)
            padded = [np.nan if x is None else x for x in own[:n]] + [np.nan] * (n - len(own))
            self.values.append(np.array(padded, float))
            self.ours.append(scored.stated)
            self.again.append(scored.stated_again)

    def said(self, alpha: float) -> "Said | None":
        """Return what the values are of, by tests at ``alpha``; None where there are none."""
        if not self.values:
            return None
        values = np.concatenate(self.values)
        there = np.isfinite(values)
        if not there.any():
            return None
        known = values[there]
        ours = {name: self._joined(self.ours, name)[there] for name in self.ours[0]}
        errors = {name: float(np.nanmedian(np.abs(own - known))) for name, own in ours.items()}
        right = min(RIGHT, key=lambda name: errors[name])
        wrong = min((n for n in errors if n not in RIGHT), key=lambda name: errors[name])
        unit = fineness(known.tolist())
        kind = right
        if errors[wrong] < _CLEARLY * errors[right] and errors[right] > 10 * unit + 1e-3:
            kind = wrong
        again = self._joined(self.again, right)[there]
        off = _off(ours[right], known)
        own = float(_off(ours[right], again).mean())
        ends = np.cumsum([int(np.isfinite(part).sum()) for part in self.values])[:-1]
        each = [float(part.mean()) for part in np.split(off, ends) if len(part) >= _LEAST]
        whose = np.repeat(np.arange(len(self.values)), [len(part) for part in self.values])[there]
        nearest = np.min([np.abs(ours[k] - known) for k in ours if k in (*RIGHT, "draft")], axis=0)
        why = doubt(known, ours[right], ours["processed"], nearest, whose, unit, alpha)
        return Said(kind, right, errors[kind], off, own + unit, tuple(each), why)

    def _joined(self, parts: list[Mapping[str, Floats]], name: str) -> Floats:
        return np.concatenate([part[name] for part in parts])


@dataclass(frozen=True, eq=False)
class Said:
    """What reported values are of: ``kind``, of ``right`` ones the nearest is ``right``.

    ``error``: median distance from ours, in nats. ``off``: float64 (n,), each token's value of
    (1 - P / P')+. ``rounding``: mean of what computing ours again, and writing them down, moves.
    ``each``: means over the requests of some length. ``doubt``: why values that are off are no
    evidence on the tokens, if so.
    """

    kind: str
    right: str
    error: float
    off: Floats
    rounding: float
    each: tuple[float, ...] = ()
    doubt: str | None = None

    def exact(self, ball: float) -> int:
        """Requests that are off by no more than ours are, where others are beyond ``ball``.

        A coarser precision moves every request, so that it explains no run that has some of them.
        """
        limit = _NEAR * self.limit(ball)
        count = sum(own <= limit for own in self.each)
        return count if _EXACT <= count < len(self.each) else 0

    @property
    def fits(self) -> bool:
        """Whether they are of the target at all, so that its weights can be judged by them."""
        return self.kind in RIGHT and self.error <= _FAR

    @property
    def tells(self) -> bool:
        """Whether they may be held against the tokens where they are off."""
        return self.fits and self.doubt is None

    @property
    def tv(self) -> float:
        """Mean TV distance of the engine's rows from ours, as far as reported values tell."""
        return float(self.off.mean())

    @property
    def upper(self) -> float:
        """A bound on that mean, at error ``_ERROR``."""
        n = len(self.off)
        if n < 2:
            return 1.0
        variance = float(self.off.var(ddof=1))
        _, high = empirical_bernstein(self.tv, variance, n, low=0.0, high=1.0, error=2 * _ERROR)
        return high

    def test(self, alpha: float, ball: float) -> stats.TestResult:
        """Test that the engine's rows are within ``ball`` of ours on average."""
        return stats.capped_mean_test(self.off, limit=self.limit(ball), alpha=alpha, name=NAME)

    def limit(self, ball: float) -> float:
        """What the mean may be: the ball, and what writing the values down moves."""
        return min(max(ball, self.rounding), 0.999)

    def words(self) -> str:
        """What they are of, in words."""
        if self.kind in RIGHT and not self.fits:
            return f"fit nothing here: off by {self.error:.2g} nats at the median"
        return f"are {_WORDS[self.kind]}"


def _off(ours: Floats, theirs: Floats) -> Floats:
    """(1 - P / P')+ of each token."""
    return np.clip(1.0 - np.exp(np.minimum(ours - theirs, 0.0)), 0.0, 1.0)
