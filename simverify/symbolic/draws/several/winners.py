"""The winner of a race, or an outcome of a draw, decided when it is read.

Code that draws a token for every slot and uses one of them would fork for all of them. So an
argmax of draws is a :class:`Winner`: a number that is not known until code does more with it
than move it. Reading late loses nothing: it is a function of draws that keep what is known
about them, and once read it stays.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from simverify.symbolic.draws.scalars import ARRAYS, Draw
from simverify.symbolic.draws.several.races import first_of
from simverify.symbolic.draws.several.sites import Site

if TYPE_CHECKING:
    from simverify.symbolic.draws.path import DrawnPath


def winner(lane: "list[Any]", site: Site, *, largest: bool) -> Any:
    """Index of the largest or smallest of draws and numbers, now or when it is read."""
    draw = next((x for x in lane if isinstance(x, Draw)), None)
    index = partial(_index, lane, largest=largest)
    return index() if draw is None else postponed(draw.source, index, site)


def postponed(source: "DrawnPath", index: Callable[[], int], site: Site) -> Any:
    """Return what ``index`` will say, now or when it is read: as the ``site`` needs it."""
    if source.at_once or not source.sites.waits_at(site):
        return index()
    found = Winner(source, index, site)
    source.sites.add(site, found)
    return found


def _index(lane: "list[Any]", *, largest: bool) -> int:
    index = first_of(lane, largest=largest)
    if index is not None:
        return index
    array = np.fromiter(lane, dtype=object, count=len(lane))
    return int((array.argmax if largest else array.argmin)())


class Winner:
    """An index that passes for numpy's; whatever asks for its value decides it."""

    __slots__ = ("_decide", "_epoch", "_index", "_site", "_source")

    def __init__(self, source: "DrawnPath", decide: Callable[[], int], site: Site) -> None:
        self._source = source
        self._decide = decide
        self._site = site
        self._epoch = source.epoch
        self._index: int | None = None
        source.postponed = True

    @property
    def is_read(self) -> bool:
        """Whether the code has asked for it."""
        return self._index is not None

    def read(self) -> Any:
        """Return the index, which forks the first time."""
        if self._index is None:
            if self._epoch != self._source.epoch:
                self._source.refuse("the winner of a race that an earlier call kept")
            # Whoever reads it, it is decided where it was drawn.
            before, self._source.reading = self._source.reading, self._site
            try:
                self._index = self._decide()
            finally:
                self._source.reading = before
        return np.intp(self._index)

    # Code may ask for its type before its value.
    __class__ = property(lambda self: np.intp)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array"):
            # Inside an array it is an object, and stays unread.
            raise AttributeError(name)
        return getattr(self.read(), name)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*map(decided, inputs), **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*decided(args), **{key: decided(x) for key, x in kwargs.items()})

    def __copy__(self) -> "Winner":
        return self

    def __deepcopy__(self, memo: Any) -> "Winner":
        return self

    def __reduce__(self) -> Any:
        return self.read().__reduce__()


def _reading(name: str) -> Callable[..., Any]:
    def method(self: Winner, *others: Any) -> Any:
        return getattr(self.read(), name)(*map(decided, others))

    return method


for _name in (
    "lt", "le", "gt", "ge", "eq", "ne", "hash", "bool", "int", "index", "float",
    "repr", "str", "format", "neg", "pos", "abs", "invert", "round",
    *(side + op for op in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift",
        "and", "or", "xor",
    ) for side in ("", "r")),
):  # fmt: skip
    setattr(Winner, f"__{_name}__", _reading(f"__{_name}__"))


def decided(x: Any) -> Any:
    """Read the winners in a value: itself, a list or tuple of values, an array of objects."""
    if type(x) is Winner:
        return x.read()
    if isinstance(x, list | tuple) and any(type(y) is Winner or _nests(y) for y in x):
        return type(x)(map(decided, x)) if type(x) in (list, tuple) else x
    if isinstance(x, np.ndarray) and x.view(np.ndarray).dtype == object:
        flat = x.ravel().view(np.ndarray).tolist()
        if any(type(y) is Winner for y in flat):
            return ARRAYS.of([decided(y) for y in flat], x.shape)
    return x


def _nests(x: Any) -> bool:
    return isinstance(x, list | tuple | np.ndarray)
