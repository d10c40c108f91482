"""MLX's random functions, made symbolic: its keys, the state that it splits, and who follows it."""

# ruff: noqa: D102 - twins are documented in the library that they stand for

__simverify_role__ = "stand-in"


import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, wraps
from math import prod
from typing import Any, NoReturn

import mlx.core as mx
import numpy as np

from simverify.symbolic.array_functions import sorted_positions
from simverify.symbolic.arrays import (
    UFUNC_RULES,
    array_of_objects,
    as_objects,
    defer_winner,
    element_list,
)
from simverify.symbolic.forms import Form, Machine, grid_machine
from simverify.symbolic.keys import Key, KeyBook, KeyWord, Word, words_in_blocks
from simverify.symbolic.mlx_arrays import (
    REAL,
    REAL_METHODS,
    WATCHED_FUNCTIONS,
    DrawnArray,
    MlxOps,
    RealArray,
    dtype_name,
)
from simverify.symbolic.promotion import Float64Promotion
from simverify.symbolic.provenance import CompiledFunction, current_user_line, names
from simverify.symbolic.races import CodeSite, current_site, decide_first
from simverify.symbolic.scalar import Draw
from simverify.symbolic.source import SYMBOLIC_CALL_COST, RandomSource, refusing_call

_IMPLEMENTATION = "threefry2x32"
_POINTS = 2**32
_REAL_KEY, _REAL_SPLIT = mx.random.key, mx.random.split
REAL_SEED: Any = mx.random.seed
REAL_STATE: Any = mx.random.state
"""The key that MLX splits where none is given, in a list of one."""

_REFUSED = names("normal truncated_normal laplace multivariate_normal")


_BELOW_ONE = {"float32": 1 - 2.0**-24, "float16": 1 - 2.0**-11, "bfloat16": 1 - 2.0**-8}


@cache
def uniform_machine(name: str) -> Machine:
    """Return the grid of MLX's uniforms of a type, before they are rounded to 16 bits.

    32 bits are rounded to float32, and what is above becomes the last number of the type below 1
    (``uniform`` in mlx/random.cpp).
    """
    if name == "float64":
        return grid_machine(lambda k: np.float64(k * 2.0**-32), _POINTS)
    last = np.float32(_BELOW_ONE[name])
    return grid_machine(lambda k: np.minimum(np.asarray(k * 2.0**-32, np.float32), last), _POINTS)


@cache
def looks_up_single_rows() -> bool:
    """Whether a single row is looked up in its running sum, as in later versions, and not raced."""
    key, row = _REAL_KEY(7), REAL.zeros((1, 64))
    race = np.array(REAL.argmax(_REAL["gumbel"]((1, 32, 64), key=key), axis=-1))
    return not np.array_equal(race, _REAL["categorical"](row, num_samples=32, key=key))


class MlxKeyBook(KeyBook):
    """Keys of MLX's."""

    one_key = "an MLX key"

    def derived(self, key: Key, name: tuple[Any, ...]) -> tuple[int, ...]:
        assert key.data is not None
        return _derived(key.data, *name)

    def split(self, key: Key, count: int) -> list[Key]:
        key = self.current(key)
        return [self.child(key, (count, i)) for i in range(count)]

    def bits(self, key: Key, count: int) -> list[Word]:
        return self.words([self.current(key)], 32, count, lambda _: words_in_blocks(count))


def _gumbel_of(u: Any) -> Any:
    """Return -log(-log(u)), whose form is the same for all uniforms of which nothing is known."""
    fresh = (u.atom.low, u.atom.high, u.atom.owner) == (0, 1, None)
    known = _GUMBEL.get(id(u.machine)) if fresh else None
    if known is None:
        noise, count = u, len(u.source.path.choices)
        for ufunc in (np.log, np.negative, np.log, np.negative):
            noise = UFUNC_RULES[ufunc](noise)
        if not fresh or not isinstance(noise, Draw) or len(u.source.path.choices) != count:
            return noise
        known = _GUMBEL[id(u.machine)] = u.machine, noise.form, noise.machine
    return Draw.kind(u.atom, *known[1:])


_GUMBEL: dict[int, tuple[Machine, Form, Machine]] = {}
"""By the grid of the uniform, of which there are few."""


@cache
def _derived(data: tuple[int, ...], count: int, index: int) -> tuple[int, ...]:
    made = _REAL_SPLIT(RealArray(data, dtype=mx.uint32), count)
    return tuple(np.array(made)[index].tolist())


class _State:
    """What ``mx.random.state`` is: a list of the one key that functions without a key split."""

    def __init__(self, random: "MlxRandom") -> None:
        self._random = random

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Any:
        return iter([self[0]])

    def __getitem__(self, index: Any) -> Any:
        return [self._random.read_state()][index]


class MlxRandom:
    """MLX's functions that draw; ``drawn`` counts their draws."""

    def __init__(self, source: RandomSource, ops: MlxOps) -> None:
        self.source, self.ops = source, ops
        self.book = MlxKeyBook(source, current_user_line)
        self.state: Key | None = None
        self._shown: Any = None
        self.drawn = 0
        source.on_begin.append(self.begin)

    def begin(self) -> None:
        """Start a path, after a look at where the one before left the state."""
        left = None if self.state is None else self.current_state()
        # The state moves to a key that nobody has drawn from, unless code put another one there.
        if left is not None and (left.words or left.children) and not self.source.cut:
            self.source.find(
                "repeated-draws",
                "violation",
                "mx.random.state is left at a key that was drawn from, so the draws repeat",
            )
        self.state = self._shown = None

    # -- keys --

    def current_state(self) -> Key:
        """Return the key that the next draw without a key splits."""
        if threading.current_thread() is not threading.main_thread():
            self.source.refuse("MLX's random state of another thread (give each thread a key)")
        if self._shown is not None:
            # Code may have written into what it was shown, which is the state itself.
            self.state = self.key_of(self._shown)
        if self.state is None:
            self.state = Key(_IMPLEMENTATION, self.source.epoch)
        return self.state

    def read_state(self) -> Any:
        key = self.current_state()
        self.source.addressed["mx.random.state"] = key
        self._shown = self.array_of_keys([key], (2,))
        return self._shown

    def next_key(self) -> Key:
        made = self.book.split(self.current_state(), 2)
        self.state, self._shown = made[0], None
        return made[1]

    def rows(self) -> "RowContext":
        """Return what each row of a vmapped function runs in: the state is the same for all."""
        state = self.current_state()

        @contextmanager
        def row() -> Iterator[None]:
            self.state, self._shown = state, None
            before = len(self.source.draws), self.drawn
            yield
            if len(self.source.draws) - before[0] > self.drawn - before[1]:
                self.source.refuse("draws of other libraries inside mx.vmap (draw them before)")

        return row

    def array_of_keys(self, keys: list[Key], shape: Any) -> Any:
        words = [KeyWord(key, i) for key in keys for i in range(2)]
        return DrawnArray.of(array_of_objects(words).reshape(shape), mx.uint32)

    def key_of(self, x: Any) -> Key:
        """Return the key whose words an array has; draws from the state for None."""
        if x is None:
            return self.next_key()
        if not hasattr(x, "shape") or x.shape != (2,) or x.dtype != mx.uint32:
            self.ops.asked(_REAL["uniform"], key=x)  # which raises
            self.source.refuse("a key that is no array of two words")
        words = as_objects(self.ops.numbers(x)).ravel().tolist()
        first = words[0]
        if isinstance(first, KeyWord):
            if [(w.key, w.index) for w in words if isinstance(w, KeyWord)] != [
                (first.key, 0),
                (first.key, 1),
            ]:
                self.source.refuse("an MLX key made of the words of others")
            return first.key
        if any(isinstance(w, Draw) for w in words):
            return self.book.drawn(_IMPLEMENTATION, words)
        return self.book.constant(_IMPLEMENTATION, tuple(map(int, words)))

    def kept_key(self, x: Any) -> Any:
        """Return what stands for keys that were bound to a name before the call."""
        rows = np.array(x).reshape(-1, 2).tolist()
        keys = [self.book.constant(_IMPLEMENTATION, tuple(row)) for row in rows]
        for key in keys:
            key.outside, key.seed = True, None
        return self.array_of_keys(keys, x.shape)

    def key(self, seed: Any) -> Any:
        if not self.ops.is_symbolic(seed):
            words = tuple(np.array(_REAL_KEY(seed)).tolist())
            return self.array_of_keys([self.book.constant(_IMPLEMENTATION, words)], (2,))
        return self.array_of_keys([self.book.drawn(_IMPLEMENTATION, seed)], (2,))

    def seed(self, seed: Any) -> None:
        self.current_state()  # of this thread
        self.state, self._shown = self.key_of(self.key(seed)), None

    def split(self, key: Any, num: int = 2, stream: Any = None) -> Any:
        del stream
        return self.array_of_keys(self.book.split(self.key_of(key), num), (num, 2))

    # -- draws --

    def _units(self, shape: Any, dtype: Any, key: Any) -> Any:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        of = self.key_of(key)
        self.source.torch_calls += SYMBOLIC_CALL_COST
        name = dtype_name(dtype)
        self.source.meet(name)
        words = self.book.bits(of, prod(shape))
        self.drawn += len(words)
        made = [word.uniform(name, uniform_machine(name), _POINTS) for word in words]
        return self.ops.made(array_of_objects(made).reshape(shape), dtype)

    def _checked(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return what MLX gives of ones in the place of draws; raises what it raises."""
        return self.ops.asked(_REAL[name], *args, **kwargs, key=_REAL_KEY(0))

    def _kind(self, dtype: Any) -> Any:
        return mx.float64 if dtype in self.ops.lifted else dtype

    def uniform(
        self, low: Any = 0, high: Any = 1, shape: Any = (), dtype: Any = mx.float32,
        key: Any = None, stream: Any = None,
    ) -> Any:  # fmt: skip
        del stream
        dtype = mx.float32 if dtype is None else dtype
        self._checked("uniform", low, high, shape, dtype)
        units = self._units(shape, self._kind(dtype), key)
        if type(low) in (int, float) and type(high) in (int, float) and (low, high) == (0, 1):
            return units
        call = self.ops.call
        low, high = (call("astype", self.ops.array(x), units.dtype) for x in (low, high))
        return call("add", call("multiply", call("subtract", high, low), units), low)

    def gumbel(
        self, shape: Any = (), dtype: Any = mx.float32, key: Any = None, stream: Any = None
    ) -> Any:
        del stream
        kind = self._kind(mx.float32 if dtype is None else dtype)
        return self._as_gumbel(self._units(shape, kind, key))

    def _as_gumbel(self, noise: Any) -> Any:
        for name in ("log", "negative", "log", "negative"):
            noise = self.ops.call(name, noise)
        return noise

    def bernoulli(
        self, p: Any = 0.5, shape: Any = None, key: Any = None, stream: Any = None
    ) -> Any:
        del stream
        asked = self._checked("bernoulli", p, shape)
        return self.ops.call("less", self._units(asked.shape, self._kind(mx.float32), key), p)

    def randint(
        self, low: Any, high: Any, shape: Any = (), dtype: Any = mx.int32,
        key: Any = None, stream: Any = None,
    ) -> Any:  # fmt: skip
        del stream
        dtype, call = mx.int32 if dtype is None else dtype, self.ops.call
        self._checked("randint", low, high, shape, dtype)
        low, high = (self.ops.array(x) for x in (low, high))
        whole = call("astype", call("floor", self.uniform(low, high, shape, key=key)), dtype)
        last = call("astype", call("subtract", high, 1), dtype)
        return call("maximum", call("minimum", whole, last), call("astype", low, dtype))

    def permutation(self, x: Any, axis: int = 0, key: Any = None, stream: Any = None) -> Any:
        del stream
        x = self.ops.call("arange", x, dtype=mx.uint32) if type(x) is int else x
        order = self.ops.call("argsort", self._units((x.shape[axis],), mx.float32, key))
        return self.ops.call("take", x, order, axis=axis)

    def categorical(
        self, logits: Any, axis: int = -1, shape: Any = None, num_samples: int | None = None,
        key: Any = None, stream: Any = None,
    ) -> Any:  # fmt: skip
        del stream
        asked, call = self._checked("categorical", logits, axis, shape, num_samples), self.ops.call
        logits = self.ops.followed(self.ops.decide(logits))
        n, axis = logits.shape[axis], axis % logits.ndim
        if logits.size == n > 0 and asked.ndim and looks_up_single_rows():
            return self._looked_up(call("reshape", logits, (n,)), asked.shape, key)
        if num_samples is not None:
            logits = call("expand_dims", logits, -1)
        drawn = list(asked.shape)
        offset = axis + len(drawn) - logits.ndim + 1
        drawn.insert(offset, n)
        units = self._units(drawn, self._kind(mx.float32), key)
        if units.known is not None:
            return call("argmax", call("add", self._as_gumbel(units), logits), axis=offset)
        lanes = np.moveaxis(units.elements, offset, -1)
        rows = np.moveaxis(np.broadcast_to(self.ops.numbers(logits), drawn), offset, -1)
        site, winners = current_site(), np.empty(lanes.shape[:-1], dtype=object)
        for place in np.ndindex(winners.shape):
            winners[place] = self._race(lanes[place], rows[place], site)
        return self.ops.made(winners, mx.uint32)

    def _race(self, units: Any, logits: Any, site: CodeSite) -> Any:
        """Return who wins a race of Gumbel noise: its scores are computed where it is decided."""
        kind = np.float64 if logits.dtype == np.float64 else np.float32

        def score(u: Any, logit: Any) -> Any:
            if logit == -np.inf:
                return kind(logit)
            return UFUNC_RULES[np.add](_gumbel_of(u).cast(kind), kind(logit))

        def index() -> int:
            lane = list(map(score, units.tolist(), element_list(logits)))
            first = decide_first(lane, largest=True)
            return int(array_of_objects(lane).argmax()) if first is None else first

        return defer_winner(self.source, index, site)

    def _looked_up(self, row: Any, shape: Any, key: Any) -> Any:
        call = self.ops.call
        row = row if row.dtype == mx.float64 else call("astype", row, mx.float32)
        top = call("max", row)
        only = call("astype", call("equal", row, top), row.dtype)
        weights = call("where", call("isinf", top), only, call("exp", call("subtract", row, top)))
        cells = call("cumsum", weights, 0, inclusive=False).numbers().astype(object)
        units = self._units(shape, self._kind(mx.float32), key)
        drawn = call("multiply", units, call("sum", weights))
        site = current_site()

        def place(u: Any) -> Any:
            def index() -> int:
                return int(sorted_positions(cells, array_of_objects([u]), "right")[0]) - 1

            return defer_winner(self.source, index, site) if isinstance(u, Draw) else index()

        flat = [place(u) for u in element_list(as_objects(self.ops.numbers(drawn)))]
        return self.ops.made(array_of_objects(flat).reshape(shape), mx.uint32)


_DRAWING = names("uniform gumbel bernoulli randint permutation categorical")
_REAL = {name: getattr(mx.random, name) for name in _DRAWING}


# Functions that are transformed: compiled ones run as their source, vmapped ones row by row.


def transformed(function: Any) -> tuple[str, Any, tuple[Any, ...]]:
    """Return how MLX transformed a function, the function, and the arguments of that.

    "compile", "vmap" or "grad", which stands for all others.
    """
    _, *options, python = gc.get_referents(function)
    if len(options) != 2:
        return "grad", python, ()
    return ("vmap" if _has_axis(options) else "compile"), python, tuple(options)


def innermost(function: Any) -> Any:
    """Return the Python function that MLX, or a decorator, wraps."""
    while True:
        if isinstance(function, mx._gc_func):  # type: ignore[attr-defined]
            function = transformed(function)[1]
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function


def _has_axis(x: Any) -> bool:
    return isinstance(x, int) or (isinstance(x, list | tuple) and any(map(_has_axis, x)))


def _holds_state(x: Any) -> bool:
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, list | tuple):
        return any(map(_holds_state, x))
    return x is REAL_STATE or isinstance(x, _State)


RowContext = Callable[[], AbstractContextManager[None]]


def vmap_by_rows(
    call: Callable[..., Any],
    rows: Callable[[], RowContext],
    function: Any,
    in_axes: Any,
    out_axes: Any,
    refuse: Callable[[str], NoReturn],
) -> Callable[..., Any]:
    """Return what does the same as ``mx.vmap`` for a function that changes nothing outside.

    ``call(name, ...)`` calls a function of MLX's; ``rows()`` returns what a row runs in: what draws
    without a key draws once for all rows.
    """

    def run(*args: Any) -> Any:
        axes = in_axes if isinstance(in_axes, list | tuple) else [in_axes] * len(args)
        if any(isinstance(x, list | tuple | dict) for x in (*args, *axes)):
            refuse("mx.vmap of containers")
        pairs = list(zip(args, axes, strict=True))
        sizes = {x.shape[axis] for x, axis in pairs if axis is not None}
        if len(sizes) != 1:
            refuse("mx.vmap over axes of several sizes")
        made, row = [], rows()
        for i in range(sizes.pop()):
            with row():
                parts = [x if axis is None else call("take", x, i, axis=axis) for x, axis in pairs]
                made.append(function(*parts))
        several = isinstance(made[0], list | tuple)
        columns = list(zip(*made, strict=True)) if several else [made]
        outs = out_axes if isinstance(out_axes, list | tuple) else [out_axes] * len(columns)
        if None in outs:
            refuse("mx.vmap with out_axes=None")
        joined = [
            call("stack", list(column), axis=axis)
            for column, axis in zip(columns, outs, strict=True)
        ]
        return type(made[0])(joined) if several else joined[0]

    return run


def real_vmap_by_rows(function: Any, in_axes: Any, out_axes: Any) -> Callable[..., Any]:
    """Return the same on numbers, for a comparison with MLX's own."""

    def call(name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(REAL, name)(*args, **kwargs)

    def rows() -> RowContext:
        high, low = REAL_STATE[0].tolist()

        @contextmanager
        def row() -> Iterator[None]:
            REAL_SEED(high << 32 | low)
            yield

        return row

    def refuse(what: str) -> NoReturn:
        raise TypeError(f"{what} is not followed")

    return vmap_by_rows(call, rows, function, in_axes, out_axes, refuse)


@contextmanager
def intercept_mlx(
    source: RandomSource,
    swap: Callable[[Any, str, Any], None],
    patch: Callable[[Any, str, Any], None],
    lift: Float64Promotion | None,
) -> Iterator[Callable[[Any], Any]]:
    """Follow MLX until left; yields what stands for a key that was kept outside the call.

    ``swap(owner, name, new)`` replaces a name for the duration, ``patch`` an attribute of a type;
    ``lift``: types that count as float64, which is of the CPU alone.
    """
    ops = MlxOps(source, lift)
    random = MlxRandom(source, ops)
    for name in names("key seed split state") | _DRAWING:
        swap(mx.random, name, _State(random) if name == "state" else getattr(random, name))
    for name in _REFUSED:
        swap(mx.random, name, refusing_call(source, f"mx.random.{name}"))

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        how, python, options = transformed(function)
        if how == "vmap":
            return vmapped(python, *options)(*args, **kwargs)
        if how == "compile":
            return compiled(python, *options)(*args, **kwargs)
        return source.refuse("a function of mx.grad, mx.checkpoint or their like")

    def compiled(fun: Any, inputs: Any = None, outputs: Any = None, shapeless: bool = False) -> Any:
        del shapeless
        if _holds_state(inputs) != _holds_state(outputs):
            source.refuse("mx.compile with mx.random.state among inputs or outputs, not both")
        return noted("compile", fun, fun)

    def noted(how: str, fun: Any, run: Any) -> Any:
        @wraps(fun, updated=())
        def call(*args: Any, **kwargs: Any) -> Any:
            source.compiled.add(CompiledFunction.of(innermost(fun), f"mx.{how}"))
            return run(*args, **kwargs)

        return call

    def vmapped(fun: Any, in_axes: Any = 0, out_axes: Any = 0) -> Any:
        rows = vmap_by_rows(ops.call, random.rows, fun, in_axes, out_axes, source.refuse)
        return noted("vmap", fun, rows)

    def evaluate(*values: Any) -> None:
        del values  # numbers are computed where they are read

    patch(mx._gc_func, "__call__", call)  # type: ignore[attr-defined]
    swap(mx, "compile", compiled)
    swap(mx, "vmap", vmapped)
    for name in ("eval", "async_eval"):
        swap(mx, name, evaluate)
    for module in (mx, mx.fast, mx.linalg, mx.fft):
        for name, value in list(vars(module).items()):
            if name in WATCHED_FUNCTIONS or (module is not mx and callable(value)):
                swap(module, name, ops.watched(name, value))
    for name, method in REAL_METHODS.items():
        patch(RealArray, name, ops.watched(name, method))
    swap(mx, "array", DrawnArray)
    twins: dict[int, tuple[Any, Any]] = {}

    def twin_of(value: Any) -> Any:
        if type(value) is not RealArray or value.dtype != mx.uint32 or value.shape[-1:] != (2,):
            return None
        if id(value) not in twins:
            twins[id(value)] = (value, random.kept_key(value))
        return twins[id(value)][1]

    before, device = DrawnArray.ops, mx.default_device()
    DrawnArray.ops = ops
    if lift:
        mx.set_default_device(mx.cpu)
    try:
        yield twin_of
    finally:
        DrawnArray.ops = before
        mx.set_default_device(device)
