"""JAX, followed: a trace that is given every primitive, and the arrays that it hands out.

While code is intercepted, this trace is JAX's current one. So all of JAX's own functions and
transformations come down to calls of primitives here, compiled functions to one call of a program.
"""

# ruff: noqa: D102 - methods are documented in the library that they stand for

__simverify_role__ = "stand-in"


import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from simverify.symbolic.arrays import DrawArray, Winner, as_objects, resolve_winners
from simverify.symbolic.integers import MixedInteger
from simverify.symbolic.jax_programs import (
    Moved,
    Runner,
    Step,
    Value,
    is_known,
    is_randint,
    settle_shape,
)
from simverify.symbolic.promotion import Float64Promotion
from simverify.symbolic.scalar import ARRAY_HOOKS, Draw
from simverify.symbolic.source import SYMBOLIC_CALL_COST, RandomSource

_CONFIG: Any = jax.config
top_trace: Callable[[Any], Any] = core.find_top_trace


def current_trace(trace: "DrawTrace") -> AbstractContextManager[None]:
    """Make this the trace that is given JAX's primitives inside a block, on this thread."""
    block: AbstractContextManager[None] = core.set_current_trace(trace)  # type: ignore[no-untyped-call]
    return block


class DrawTracer(jax.core.Tracer["DrawTrace"]):
    """An array of JAX's whose values may be draws."""

    __slots__ = ("value",)

    def __init__(self, trace: "DrawTrace", aval: Any, value: Value) -> None:
        super().__init__(trace, aval)
        self.value = value

    def _numbers(self) -> Any:
        """Return the elements as an array, plain where nothing in it is a draw."""
        value = self._trace.runner.force(self.value)
        if type(value) is DrawArray:
            value = settle_shape(resolve_winners(value))
        return value

    def item(self, *args: Any) -> Any:
        value = self._numbers()
        if is_known(value):
            return value.item(*args)
        elements = value.view(np.ndarray).ravel().tolist()
        if len(elements) != 1:
            return np.zeros(value.shape).item(*args)  # which raises
        return elements[0].as_python()

    def tolist(self) -> Any:
        value = self._numbers()
        return value.tolist() if value.ndim else self.item()

    def to_concrete_value(self) -> Any:
        if isinstance(self.value, Moved):
            return None
        value = self._numbers()
        return value if is_known(value) else None

    def _scalar(self) -> Any:
        """Return the only element, or raise what JAX raises."""
        value = self._numbers()
        if value.size != 1 or value.ndim:
            raise TypeError(f"Only scalar arrays can be converted to scalars; got {value.ndim=}")
        return value[()]

    def __bool__(self) -> bool:
        if self.size == 1:
            return bool(self._numbers().reshape(())[()])
        return bool(np.ones(self.shape))  # which raises

    def __int__(self) -> Any:
        return int(self._scalar())

    def __index__(self) -> Any:
        return self._scalar().__index__()

    def __float__(self) -> Any:
        return float(self._scalar())

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        value = self._numbers()
        if is_known(value):
            return np.asarray(value, *args[:1])
        return value.__array__(*args[:1])

    def __format__(self, spec: str) -> str:
        return format(self.item() if not self.shape else self._numbers(), spec)

    def block_until_ready(self) -> "DrawTracer":
        return self

    def __copy__(self) -> "DrawTracer":
        return self

    def __deepcopy__(self, memo: Any) -> "DrawTracer":
        return self


class DrawTrace(jax.core.Trace):
    """Runs every primitive on draws; see the module."""

    def __init__(self, runner: Runner) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.runner = runner

    def lower(self, x: Any) -> Value:
        return x.value if type(x) is DrawTracer else self.runner.lower(x)

    def wrap(self, value: Value, aval: Any) -> DrawTracer:
        return DrawTracer(self, aval, value)

    def stage_value(self, val: Any) -> Any:
        if type(val) is DrawTracer:
            return val
        value, aval = self.lower(val), jax.typeof(val)
        kind = self.runner.kind(getattr(aval, "dtype", None))
        return self.wrap(value if kind is None else value.astype(kind, copy=False), aval)

    def stage_outside(self, val: Any) -> Any:
        """Return what stands for keys that were bound to a name before the call."""
        twin = self.stage_value(val)
        if isinstance(twin.value, Moved):
            for key in twin.value.elements.ravel():
                key.outside = True
        return twin

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        """Run one primitive."""
        runner = self.runner
        runner.source.torch_calls += SYMBOLIC_CALL_COST
        args = [self.lower(x) for x in tracers]
        if primitive.name in ("jit", "pjit"):
            closed = params["jaxpr"]
            if is_randint(primitive.name, params):
                results = runner.apply(Step(primitive, params, [], [], ""), args, "")
            else:
                results = runner.run(closed, args)
            return list(map(self.wrap, results, closed.out_avals))
        avals = [x.aval if type(x) is DrawTracer else jax.typeof(x) for x in tracers]
        made, _effects = primitive.abstract_eval(*avals, **params)
        several = primitive.multiple_results
        outs = list(made) if several else [made]
        step = Step(primitive, params, [], [], "")
        step.kinds = [runner.kind(getattr(x, "dtype", None)) for x in outs]
        results = runner.apply(step, args, "")
        wrapped = list(map(self.wrap, results, outs))
        return wrapped if several else wrapped[0]

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, *, symbolic_zeros: Any
    ) -> Any:
        """Run the function itself: nobody asks for its derivative."""
        with current_trace(self):
            return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(
        self,
        primitive: Any,
        fun: Any,
        fwd: Any,
        bwd: Any,
        tracers: Any,
        /,
        *,
        out_trees: Any,
        symbolic_zeros: Any,
    ) -> Any:
        """Run the function itself: nobody asks for its derivative."""
        with current_trace(self):
            return fun.call_wrapped(*tracers)

    def process_shard_map(self, *_: Any, **__: Any) -> Any:
        """Refuse ``jax.shard_map`` outside of a compiled function."""
        self.runner.refuse("jax.shard_map outside of jax.jit")

    # -- functions that are given draws of others --

    def of_draws(self, x: Any, dtype: Any = None) -> Any:
        """Return a draw of numpy's or Python's, an array or a list with some, as JAX's array."""
        elements = as_objects(x)
        value = (
            x
            if type(x) is DrawArray
            else settle_shape(ARRAY_HOOKS.of(elements.ravel().tolist(), elements.shape))
            if elements.ndim
            else settle_shape(elements[()])
        )
        kind = np.dtype(jax.dtypes.canonicalize_dtype(value.dtype if dtype is None else dtype))
        lifted = self.runner.kind(kind)
        value = value if value.dtype == lifted else settle_shape(value.astype(lifted))
        return self.wrap(value, jax.core.ShapedArray(value.shape, kind))


_COMPILED = type(jax.jit(abs))


_MAX_KEPT, _MAX_KEPT_BYTES = 1000, 2**16
"""Arrays of JAX's that are made once for all paths, and the bytes that one may have."""


def _holds_draws(x: Any) -> bool:
    if isinstance(x, list | tuple):
        return any(map(_holds_draws, x))
    return isinstance(x, Draw | Winner | MixedInteger) or type(x) is DrawArray


@contextmanager
def intercept_jax(
    source: RandomSource,
    swap: Callable[[Any, str, Any], None],
    lift: Float64Promotion | None,
    *,
    plain: bool = False,
) -> Iterator[Callable[[Any], Any]]:
    """Follow JAX until left, on this thread; yields what stands for a key kept outside the call.

    ``swap(owner, name, new)`` replaces a name for the duration; ``lift``: types that count as
    float64; ``plain``: draws are numbers, and JAX computes with them.
    """
    runner = Runner(source, lift, plain=plain)
    trace = DrawTrace(runner)
    book = runner.book

    @functools.cache
    def kind_of_key(make: Any, impl: Any, _default: str) -> tuple[str, Any]:
        with jax.core.eval_context():
            like = make(0, impl=impl)
            return str(jax.random.key_impl(like)), jax.typeof(like)

    def keyed(original: Any, *, old: bool) -> Callable[..., Any]:
        def make(seed: Any, *, impl: Any = None) -> Any:
            if not _holds_draws(seed) or type(seed) is Winner:
                return original(resolve_winners(seed), impl=impl)
            name, like = kind_of_key(original, impl, _CONFIG.jax_default_prng_impl)
            parts = seed.ravel().view(np.ndarray).tolist() if type(seed) is DrawArray else [seed]
            key = book.drawn(name, parts)
            array = np.empty((), dtype=object)
            array[()] = key
            value = Moved(array)
            value = runner._random_unwrap(value) if old else value
            return trace.wrap(value, like)

        return make

    def folding(original: Any) -> Callable[..., Any]:
        def fold_in(key: Any, data: Any) -> Any:
            if not isinstance(data, Draw | MixedInteger):
                return original(key, resolve_winners(data))
            like, value = jax.typeof(key), trace.lower(key)
            old = not jnp.issubdtype(like.dtype, jax.dtypes.prng_key)
            if old:
                value = runner.wrapped(value)
            array = np.empty((), dtype=object)
            array[()] = book.fold_in(value.elements[()], data)
            folded = Moved(array)
            return trace.wrap(runner._random_unwrap(folded) if old else folded, like)

        return fold_in

    kept: dict[Any, Any] = {}

    def making(original: Any) -> Callable[..., Any]:
        def make(x: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
            if _holds_draws(x):
                return trace.of_draws(x, dtype)
            alike = type(x) is np.ndarray and x.dtype != object and x.nbytes <= _MAX_KEPT_BYTES
            if args or kwargs or not alike or top_trace(()) is not trace:
                return original(x, dtype, *args, **kwargs)
            # JAX's arrays cannot be changed: those of the same numbers may be one.
            wide = _CONFIG.jax_enable_x64
            content = original, wide, dtype, x.dtype, x.shape, x.tobytes()
            if content not in kept:
                if len(kept) > _MAX_KEPT:
                    kept.clear()
                kept[content] = original(x.copy(), dtype)
            return kept[content]

        return make

    swap(jax.random, "key", keyed(jax.random.key, old=False))
    swap(jax.random, "PRNGKey", keyed(jax.random.PRNGKey, old=True))
    swap(jax.random, "fold_in", folding(jax.random.fold_in))
    for name in ("asarray", "array"):
        swap(jax.numpy, name, making(getattr(jax.numpy, name)))
    twins: dict[int, tuple[Any, Any]] = {}

    def given_arrays(function: Any) -> Any:
        """Return a compiled function that takes draws of numpy's and Python's too."""
        # Not in the closure, where it would be replaced too if the twin is a method of a class.
        place = id(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if any(map(_holds_draws, (*args, *kwargs.values()))):
                args, kwargs = jax.tree.map(
                    lambda x: trace.of_draws(x) if _holds_draws(x) else x, (args, kwargs)
                )
            return twins[place][0](*args, **kwargs)

        return call

    def twin_of(value: Any) -> Any:
        if type(value) is _COMPILED:
            if id(value) not in twins:
                twins[id(value)] = (value, given_arrays(value))
            return twins[id(value)][1]
        if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
            return None
        if not _may_be_keys(value):
            return None
        if id(value) not in twins:
            twins[id(value)] = (value, trace.stage_outside(value))
        return twins[id(value)][1]

    with ExitStack() as stack:
        if lift == "single":
            # What names no type is of 64 bits then, as rows are before JAX rounds them.
            stack.enter_context(jax.enable_x64(True))
        stack.enter_context(current_trace(trace))
        yield twin_of


def _may_be_keys(value: Any) -> bool:
    """Whether an array may be keys: an old-style one is put back where the code replaced it."""
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return True
    return value.dtype == np.uint32 and value.shape[-1:] in ((2,), (4,))
