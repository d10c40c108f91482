"""Symbolic scalars: anything monotone in a uniform, or in a product of uniforms.

Comparing a draw with a number forks the path and narrows the uniform's interval; the
narrowed uniform stays the same draw, so code that uses it twice gets what it deserves.
Its integer part is in :mod:`.integers`; whatever would turn a draw into a number (``float``,
``hash``, formatting) is refused, in :mod:`.refusals`.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from simverify.symbolic.draws.comparisons import compare
from simverify.symbolic.draws.forms import Form, NotMonotone
from simverify.symbolic.draws.grids import HALVES
from simverify.symbolic.draws.integers import Integers
from simverify.symbolic.draws.operators import number
from simverify.symbolic.draws.refusals import Refusals

if TYPE_CHECKING:
    from simverify.symbolic.draws.path import Atom, DrawnPath

NEGLIGIBLE = 2e-7
"""Clipping a draw on less than this probability leaves it alone and adds to the slack."""


class _Arrays:
    """What arrays do with draws; :mod:`.arrays`, which builds on this module, fills it in."""

    apply_ufunc: Callable[..., Any]
    of: Callable[..., Any]
    holding: Callable[..., Any]


ARRAYS = _Arrays()


class Draw(Integers, Refusals):
    """``form`` of ``atom``; the base of all symbolic scalars."""

    __slots__ = ("atom", "form")

    atom: "Atom"
    form: Form

    def __init__(self, atom: "Atom", form: Form) -> None:
        self.atom = atom
        self.form = form

    @property
    def source(self) -> "DrawnPath":
        """The path's randomness."""
        return self.atom.source

    def is_below(self, bound: float, *, closed: bool = False) -> bool:
        """Whether the draw is below a number, or at most it if ``closed``."""
        if bound != bound:
            return False
        t, increasing = self.form.threshold(bound, closed=closed)
        atom = self.atom
        below = atom.split(t) if atom.low < t < atom.high else t >= atom.high
        return below if increasing else not below

    def range(self) -> tuple[float, float]:
        """Smallest and largest value it can still take."""
        return self.form.range(self.atom.low, self.atom.high)

    # -- comparisons; < and <= differ for steps alone --

    def __lt__(self, other: Any) -> Any:
        if isinstance(other, float):
            return self.is_below(float(other))
        return compare(self, other, np.less)

    def __gt__(self, other: Any) -> Any:
        if isinstance(other, float):
            return other == other and not self.is_below(float(other), closed=True)
        return compare(self, other, np.greater)

    def __le__(self, other: Any) -> Any:
        if isinstance(other, float):
            return self.is_below(float(other), closed=True)
        return compare(self, other, np.less_equal)

    def __ge__(self, other: Any) -> Any:
        if isinstance(other, float):
            return other == other and not self.is_below(float(other))
        return compare(self, other, np.greater_equal)

    def __eq__(self, other: Any) -> Any:
        return compare(self, other, np.equal)

    def __ne__(self, other: Any) -> Any:
        return compare(self, other, np.not_equal)

    # A class with an __eq__ of its own inherits none.
    __hash__ = Refusals.__hash__

    def __bool__(self) -> bool:
        # A continuous draw is zero with probability zero.
        return not self.form.has_steps() or bool(self != 0)

    def clip(self, low: float | None, high: float | None) -> Any:
        """Return the draw held between two numbers, as ``np.clip``."""
        atom = self.atom
        for bound, is_low in ((low, True), (high, False)):
            if bound is None:
                continue
            t, increasing = self.form.threshold(float(bound))
            outside = t - atom.low if increasing == is_low else atom.high - t
            if outside <= 0:
                continue
            alone = atom.single and atom.owner is None
            if alone and outside <= NEGLIGIBLE * (atom.high - atom.low):
                self.source.slack += outside
            elif self.is_below(float(bound)) == is_low:
                return float(bound)
        return self

    def __copy__(self) -> "Draw":
        return self

    def __deepcopy__(self, memo: Any) -> "Draw":
        return self

    def __repr__(self) -> str:
        return f"<a draw in [{self.range()[0]:.6g}, {self.range()[1]:.6g}]>"

    def __getitem__(self, index: Any) -> Any:
        """Index as a numpy scalar is: ``u[..., None]`` is an array of one."""
        return ARRAYS.holding(self)[index]

    # Python would otherwise iterate by index, and find nothing.
    __iter__ = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ARRAYS.apply_ufunc(ufunc, method, inputs, kwargs)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise TypeError(f"{func.__name__} of a draw")  # the mode that follows torch comes first

    def item(self) -> "Draw":
        """Return itself, as a numpy scalar does."""
        return self

    tolist = item

    @property
    def real(self) -> "Draw":
        """Return itself, as a float does."""
        return self

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Integers and booleans fork, as for arrays."""
        kind = np.dtype(dtype).kind
        return int(self) if kind in "iu" else bool(self) if kind == "b" else self.cast(dtype)

    def cast(self, dtype: Any) -> "Draw":
        """Return the draw as a float of a numpy or torch dtype; 16 bits make it a step function.

        float32 leaves it alone, as it leaves the uniforms that are drawn in float32.
        """
        self.source.meet(dtype)
        name = str(dtype if "torch" in str(dtype) else np.dtype(dtype)).removeprefix("torch.")
        if name not in HALVES:
            return self
        return self._map(lambda: self.form.rounded(name))  # type: ignore[no-any-return]

    def _refuse(self, call: str) -> NoReturn:
        self.source.refuse(call)

    def _number(self, x: Any) -> float | None:
        """Read a real number that meets the draw; None if it is something else."""
        if isinstance(x, np.floating | np.ndarray) and x.dtype.itemsize < 8:
            self.source.meet(x.dtype)
        return number(x)

    def _map(self, make: Any) -> Any:
        try:
            form = make()
        except NotMonotone as error:
            self._refuse(str(error))
        if form.slack > self.form.slack:
            self.source.slack += form.slack - self.form.slack
        return Draw(self.atom, form)

    def _affine(self, scale: float, shift: float) -> Any:
        if scale == 0 and math.isfinite(shift):
            return shift
        if math.isinf(shift) or shift != shift or scale != scale:
            return scale * 0.5 + shift if math.isfinite(scale) else math.nan
        if math.isinf(scale) and shift == 0:
            low, high = self.range()
            return scale if low >= 0 else -scale if high <= 0 else self._refuse("inf times a draw")
        return self._map(lambda: self.form.affine(scale, shift))

    def _over_zero(self, zero: Any) -> Any:
        if not isinstance(zero, np.generic | np.ndarray):
            raise ZeroDivisionError("float division by zero")
        return self._affine(math.copysign(math.inf, float(zero)), 0.0)

    def _power(self, k: float) -> Any:
        return self._map(lambda: self.form.power(k))

    def _plus(self, other: "Draw") -> Any:
        x, y = self.form, other.form
        if self.atom is other.atom and x.kind == y.kind and x.kind in ("u", "ea"):
            if x.flip == y.flip:
                if x.a + y.a == 0:
                    return x.b + y.b
                form = Form(x.kind, x.a + y.a, x.b + y.b, x.flip)
                return Draw(self.atom, form)
        elif x.kind == y.kind == "ea" and x.a == y.a and not (x.flip or y.flip):
            return Draw(self._chain(other), Form("ea", x.a, x.b + y.b))
        return self._refuse("the sum of two draws")

    def _times(self, other: "Draw") -> Any:
        x, y = self.form._centred(), other.form._centred()
        if x.kind == y.kind and x.kind in ("up", "ep"):
            if self.atom is other.atom and x.flip == y.flip:
                if x.b + y.b == 0:
                    return x.a * y.a
                form = Form(x.kind, x.a * y.a, x.b + y.b, x.flip)
                return Draw(self.atom, form._plain())
            if x.kind == "up" and x.b == y.b and not (x.flip or y.flip):
                return Draw(self._chain(other), Form("up", x.a * y.a, x.b)._plain())
        return self._refuse("the product of two draws")

    def _chain(self, other: "Draw") -> Any:
        if other.atom.single:
            return self.source.chain(self.atom, other.atom)
        if self.atom.single:
            return self.source.chain(other.atom, self.atom)
        return self._refuse("the product of two products of draws")
