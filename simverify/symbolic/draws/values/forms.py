"""Monotone functions of one uniform, in normal forms that keep their law recognisable.

With v = u or 1 - u and E = -log v (a standard exponential), a form is one of

=========  ==================  =========================================
kind       value               arises from
=========  ==================  =========================================
``u``      a u + b             scaling, shifting, ``1 - u``
``up``     a v**b              powers, reciprocals
``ea``     a E + b             ``-log(u)``, exponential draws
``ep``     a E**b              ``p / E``
``le``     a log(E) + b        Gumbel noise plus logits
``g``      op(inner)           anything else that is monotone, with steps too
=========  ==================  =========================================

The first five are what races and products (in ``draws/several``) are made of. A form is a
function of real numbers: what rounding makes of it is in :mod:`.machine`.
"""

import math
from typing import Any

from simverify.symbolic.draws.values.elementary import (
    INF,
    apply,
    exp,
    invert,
    log,
    power,
    power_inverse,
    sample_point,
)

# The real ones: while code is followed, math has others, which take draws and thrice the time.
_isfinite, _log_of = math.isfinite, math.log
TINY_OFFSET = 2e-7
"""``log(u + eps)`` with eps up to this (float32's and a little) is read as ``log(u)``.

The race it enters is then off by at most eps in probability, which is added to the slack.
"""

_POINTS = (2.0**-20, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1 - 2.0**-20)
_APART = 2.0**-24


class NotMonotone(Exception):
    """The operation leaves the monotone functions of one uniform."""


class Form:
    """One monotone function on (0, 1); ``slack`` bounds the probability it is wrong on."""

    __slots__ = ("a", "b", "flip", "inner", "kind", "op", "slack")

    def __init__(
        self,
        kind: str,
        a: float,
        b: float,
        flip: bool = False,
        inner: "Form | None" = None,
        op: str = "",
        slack: float = 0.0,
    ) -> None:
        self.kind = kind
        self.a = a
        self.b = b
        self.flip = flip
        self.inner = inner
        self.op = op
        self.slack = slack

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.kind, self.a, self.b, self.flip, self.inner, self.op

    def value(self, u: float) -> float:
        """Value at ``u`` in [0, 1], the ends as limits."""
        if self.kind == "u":
            return self.a * u + self.b
        if self.inner is not None:
            return apply(self.op, self.a, self.b, self.inner.value(u))
        v = 1 - u if self.flip else u
        if self.kind == "up":
            return self.a * power(v, self.b)
        e = INF if v <= 0 else -_log_of(v)
        if self.kind == "ea":
            return self.a * e + self.b
        if self.kind == "ep":
            return self.a * power(e, self.b)
        return self.a * log(e) + self.b

    def threshold(self, c: float) -> tuple[float, bool]:
        """Return ``(t, increasing)``: value(u) < c iff u < t (increasing) or u > t."""
        if self.kind == "u":
            return (c - self.b) / self.a, self.a > 0
        if self.inner is not None:
            bound, increasing = invert(self.op, self.a, self.b, c)
            t, inner_increasing = self.inner.threshold(bound)
            return t, increasing == inner_increasing
        if self.kind == "up":
            v = power_inverse(c / self.a, self.b)
            increasing = (self.a > 0) == (self.b > 0)
            return (1 - v, not increasing) if self.flip else (v, increasing)
        if self.kind == "ea":
            e, increasing = (c - self.b) / self.a, self.a > 0
        elif self.kind == "ep":
            e = power_inverse(c / self.a, self.b)
            increasing = (self.a > 0) == (self.b > 0)
        else:
            e, increasing = exp((c - self.b) / self.a), self.a > 0
        # E falls as u rises, unless it is the exponential of 1 - u.
        return (-math.expm1(-e), increasing) if self.flip else (exp(-e), not increasing)

    def affine(self, scale: float, shift: float) -> "Form":
        """``scale * value + shift``."""
        if scale == 0 or not _isfinite(scale) or not _isfinite(shift):
            raise NotMonotone(f"{scale} * draw + {shift}")
        if scale == 1 and shift == 0:
            return self
        if self.kind in ("u", "ea", "le"):
            return self._like(self.kind, scale * self.a, scale * self.b + shift)
        if shift == 0 and self.kind in ("up", "ep"):
            return self._like(self.kind, scale * self.a, self.b)
        return self._wrap("affine", scale, shift)

    def log(self) -> "Form":
        """Natural logarithm; the value must be positive."""
        form = self.centred()
        if form.kind == "up" and form.a > 0:
            return form._like("ea", -form.b, _log_of(form.a))
        if form.kind == "ep" and form.a > 0:
            return form._like("le", form.b, _log_of(form.a))
        form._must_be_positive("log")
        return form._wrap("log", 0, 0)

    def exp(self) -> "Form":
        """Exponential."""
        if self.kind == "ea":
            return self._like("up", exp(self.b), -self.a).plain()
        if self.kind == "le":
            return self._like("ep", exp(self.b), self.a).plain()
        return self._wrap("exp", 0, 0)

    def power(self, k: float) -> "Form":
        """``value ** k``; the value must be positive, but for k = -1."""
        if k == 0 or not _isfinite(k):
            raise NotMonotone(f"draw ** {k}")
        form = self.centred()
        if form.kind in ("up", "ep") and (form.a > 0 or k == -1):
            return form._like(form.kind, form.a**k, form.b * k).plain()
        form._must_be_positive("power")
        return form._wrap("power", k, 0)

    def floor(self) -> "Form":
        """Largest integer not above the value."""
        return self._wrap("floor", 0, 0)

    def off_by(self, slack: float) -> "Form":
        """Return the same, wrong on that much more probability."""
        return Form(self.kind, self.a, self.b, self.flip, self.inner, self.op, self.slack + slack)

    def spread(self) -> float:
        """Largest probability that a relative change of the value moves, per unit of it."""
        a, b = self.a, self.b
        if self.kind == "u":
            return max(abs(b), abs(a + b)) / abs(a)
        if self.kind == "ea":
            return 0.37 + abs(b / a)
        if self.kind == "le":
            return 0.37 * (1 + abs(b / a))
        if self.kind in ("up", "ep"):
            return 1 / abs(b)
        return max(map(self.spread_at, _POINTS))

    def spread_at(self, u: float) -> float:
        """Return the same for a change where the uniform is ``u``."""
        low, high = self.value(u), self.value(u + _APART if u < 0.5 else u - _APART)
        if not (_isfinite(low) and _isfinite(high)):
            return 0.0
        return abs(high) * _APART / abs(high - low) if high != low else INF

    def is_whole(self) -> bool:
        """Whether all values are integers."""
        if self.op == "affine" and self.inner is not None:
            return self.a == int(self.a) and self.b == int(self.b) and self.inner.is_whole()
        return self.op == "floor"

    def has_steps(self) -> bool:
        """Whether single values have a probability: there is an integer part inside."""
        return self.op == "floor" or (self.inner is not None and self.inner.has_steps())

    def range(self, low: float, high: float) -> tuple[float, float]:
        """Smallest and largest value over u in [low, high]."""
        x, y = self.value(low), self.value(high)
        return (x, y) if x <= y else (y, x)

    def race(self) -> tuple[tuple[Any, ...], float, int]:
        """Read the value as g(E / rate): the family naming g, the rate, and g's direction.

        Two values of one family compare as their E / rate do (direction +1) or the other
        way round (-1).
        """
        if self.inner is not None:
            family, rate, sense = self.inner.race()
            rising = invert(self.op, self.a, self.b, sample_point(self.op))[1]
            return ("g", self.op, self.a, self.b, family), rate, sense if rising else -sense
        sign = 1 if self.a > 0 else -1
        if self.kind == "u":
            return ("u", self.a, self.b), 1.0, -sign
        if self.kind == "up":
            up = 1 if self.b > 0 else -1
            return ("up", self.a, up), 1 / abs(self.b), -sign * up
        if self.kind == "ea" and self.b != 0:
            return ("ea", self.b, sign), 1 / abs(self.a), sign
        if self.kind == "le":
            return ("le", self.a), exp(-self.b / self.a), sign
        k = self.b if self.kind == "ep" else 1.0
        up = 1 if k > 0 else -1
        return ("ep", k, sign), abs(self.a) ** (-1 / k), sign * up

    def _like(self, kind: str, a: float, b: float) -> "Form":
        if a == 0 or not _isfinite(a) or not _isfinite(b):
            raise NotMonotone(f"a draw scaled by {a} and shifted by {b}")
        return Form(kind, a, b, self.flip, None, "", self.slack)

    def _wrap(self, op: str, a: float, b: float) -> "Form":
        return Form("g", a, b, self.flip, self, op, self.slack)

    def plain(self) -> "Form":
        """Write first powers as the affine kinds."""
        if self.b != 1:
            return self
        if self.kind == "ep":
            return self._like("ea", self.a, 0.0)
        if self.flip:
            return Form("u", -self.a, self.a, slack=self.slack)
        return Form("u", self.a, 0.0, slack=self.slack)

    def centred(self) -> "Form":
        """Write a E or a v as powers, dropping an offset put there to avoid log(0)."""
        a, b = self.a, self.b
        if self.kind == "ea" and abs(b) <= TINY_OFFSET * abs(a):
            return Form("ep", a, 1.0, self.flip, slack=self.slack + abs(b / a))
        if self.kind == "u" and abs(b) <= TINY_OFFSET * abs(a):
            return Form("up", a, 1.0, slack=self.slack + abs(b / a))
        if self.kind == "u" and abs(a + b) <= TINY_OFFSET * abs(a):
            return Form("up", -a, 1.0, flip=True, slack=self.slack + abs((a + b) / a))
        return self

    def _must_be_positive(self, what: str) -> None:
        if min(self.value(0.0), self.value(1.0)) < 0:
            raise NotMonotone(f"{what} of a draw that may be negative")


IDENTITY = Form("u", 1.0, 0.0)
