"""Comparisons of a draw with a number, an array or another draw."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from simverify.symbolic.draws.operators import Operators, by_array
from simverify.symbolic.draws.races import enter, first_is_less

if TYPE_CHECKING:
    from simverify.symbolic.draws.path import DrawnPath


def compare(draw: Any, other: Any, ufunc: Any) -> Any:
    """Answer one of numpy's six comparisons; two draws are decided by a race."""
    if isinstance(other, Operators):
        same = draw.atom is other.atom and draw.form == other.form
        if same or ufunc in (np.equal, np.not_equal):
            return same == (ufunc not in (np.less, np.greater, np.not_equal))
        if ufunc in (np.less, np.less_equal):
            return _is_less(draw, other)
        return _is_less(other, draw)
    if (x := draw._number(other)) is not None:
        if ufunc in (np.equal, np.not_equal):
            at = draw.form.has_steps() and draw.is_below(x, closed=True) and not draw.is_below(x)
            return at == (ufunc is np.equal)
        below = draw.is_below(x, closed=ufunc in (np.less_equal, np.greater))
        return below if ufunc in (np.less, np.less_equal) else x == x and not below
    if ufunc in (np.equal, np.not_equal) and not isinstance(other, np.ndarray):
        return NotImplemented
    return by_array(ufunc, draw, other)


def _is_less(x: Any, y: Any) -> bool:
    source: DrawnPath = x.source
    if x.atom is y.atom:
        return _less_of_one_atom(source, x, y)
    (x_low, x_high), (y_low, y_high) = x.range(), y.range()
    if x_high <= y_low:
        return True
    if y_high <= x_low:
        return False
    if not (x.atom.single and y.atom.single):
        source.refuse("a comparison of a product of draws with a draw")
    if x.form.has_steps() or y.form.has_steps():
        source.refuse("a comparison of a random integer with another draw")
    try:
        (family, rate_x, sense), (other, rate_y, _) = x.form.race(), y.form.race()
    except OverflowError:
        source.refuse("a race with weights beyond floating point")
    if family != other or math.isinf(rate_x) or math.isinf(rate_y):
        source.refuse("a comparison of two draws of different laws")
    if rate_x == 0 or rate_y == 0:
        # A weight that underflowed never arrives.
        x_first = rate_x > 0
        return rate_x != rate_y and (x_first if sense > 0 else not x_first)
    racer_x = enter(source, x.atom, rate_x, x.form.flip)
    racer_y = enter(source, y.atom, rate_y, y.form.flip)
    x_first = first_is_less(source, racer_x, rate_x, racer_y, rate_y)
    return x_first if sense > 0 else not x_first


def _less_of_one_atom(source: "DrawnPath", x: Any, y: Any) -> bool:
    if x.form == y.form:
        return False
    same_kind = x.form.kind == y.form.kind and x.form.flip == y.form.flip
    if not (same_kind and x.form.kind in ("u", "ea")):
        source.refuse("a comparison of two functions of one draw")
    difference = x - y
    return bool(difference < 0.0)
