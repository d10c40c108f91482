"""What would turn a draw into a number, and is refused by name."""

from typing import TYPE_CHECKING, Any, NoReturn

from simverify.symbolic.draws.operators import Operators

_FLOAT_ATTRIBUTES = {
    "data", "dump", "dumps", "getfield", "hex", "imag", "is_integer", "tobytes", "view",
}  # fmt: skip
"""What a float or a numpy scalar can be asked for and a draw cannot answer."""


class Refusals(Operators):
    """What a float can be asked for and a draw cannot answer."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _refuse(self, call: str) -> NoReturn:
            """See Draw."""

    def __float__(self) -> float:
        return self._refuse("float() of a draw")

    def __index__(self) -> int:
        if self.form.is_whole():
            return self._cell()
        return self._refuse("an index that is a draw")

    def __hash__(self) -> int:
        if self.form.is_whole():
            return hash(self._cell())
        return self._refuse("hash() of a draw (in a set, as a key, in a cache)")

    def __getattr__(self, name: str) -> Any:
        if name in _FLOAT_ATTRIBUTES:
            return self._refuse(f".{name} of a draw")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _numba_type_(self) -> NoReturn:
        self._refuse("a draw passed to a function compiled by numba")

    def as_integer_ratio(self) -> tuple[int, int]:
        """Refuse: what ``Fraction`` and ``Decimal`` ask for."""
        return self._refuse("the exact value of a draw (Fraction, as_integer_ratio)")

    def __complex__(self) -> complex:
        return self._refuse("complex() of a draw")

    def __str__(self) -> str:
        return self._refuse("str() of a draw")

    def __format__(self, spec: str) -> str:
        return self._refuse("formatting of a draw")

    def __reduce__(self) -> NoReturn:
        self._refuse("pickling of a draw")
