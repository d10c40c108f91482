"""Compiled functions of numba and MLX, followed by their Python source, and held against it.

numba keeps the source of what it compiles, and compiled code cannot be followed. So while code is
followed, a call of a compiled function runs its source. numba draws from a generator of its own,
which ``np.random.seed`` in a compiled function seeds, and in all other code does not; the draws
after a seed are those of numpy's legacy generator, but for those of its gamma functions. What a
function does otherwise compiled than as source (integers that wrap, memory beyond an array, names
that are frozen) would not be followed: so both are run on the same seeds first. So is what
``mx.compile`` makes, which keeps what the function did when it was traced.
"""

__simverify_role__ = "stand-in"


import gc
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, cast

import numpy as np

from simverify.symbolic.arrays import first_draw, map_elements, sample_of
from simverify.symbolic.provenance import CompiledFunction, is_library, is_machinery

RunSource = Callable[[Callable[..., Any], Any, dict[str, Any]], Any]

_REAL_SEED = np.random.seed
_REAL_GET_STATE, _REAL_SET_STATE = np.random.get_state, np.random.set_state
_forked_with_mlx = False


def _note_fork() -> None:
    global _forked_with_mlx
    _forked_with_mlx = "mlx.core" in sys.modules


os.register_at_fork(after_in_child=_note_fork)


def loaded_mlx() -> Any:
    """Return ``mlx.core``; None if it is not loaded, or was before a fork, where it hangs."""
    return None if _forked_with_mlx else sys.modules.get("mlx.core")


def stale_arrays_exist() -> bool:
    """Whether code keeps an array of MLX's from calls that were followed."""
    stand_ins = sys.modules.get("simverify.symbolic.mlx_arrays")
    return stand_ins is not None and any(type(x) is stand_ins.DrawnArray for x in gc.get_objects())


_SEED_BITS = 2**32
"""numba takes the last 32 bits of a seed, where numpy refuses longer ones."""


def source_patches(
    run: RunSource | None,
    called: set[CompiledFunction],
    refuse: Callable[[str], Any] | None = None,
) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Return what makes calls of compiled functions ``run`` their source: (class, name, method).

    ``called`` collects them; without ``run`` they run as they are. ``refuse`` is told of those that
    were compiled from other values than their names have now.
    """
    patches: list[tuple[Any, str, Callable[..., Any]]] = []
    if (registry := sys.modules.get("numba.core.registry")) is not None:
        compiled = registry.CPUDispatcher.__call__

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            home = self.py_func.__module__ or ""
            # A library's are no part of the code, and what they do is known; what numba wrote
            # itself, for a jitclass, has no source but a call of itself.
            written = self.py_func.__code__.co_filename.startswith("<")
            stays = is_machinery(home) or is_library(home) or written
            if stays or self.targetoptions.get("parallel") or _casts(self, args):
                # In parallel, each thread draws from a generator of its own.
                return compiled(self, *args, **kwargs)
            function = CompiledFunction.of(self.py_func)
            called.add(function)
            if run is None:
                result = compiled(self, *args, **kwargs)
                _look_for_stale_names(self)
                return result
            if refuse is not None and id(self) in _STALE:
                refuse(f"{function.name} by its source: a name in it has changed since it compiled")
            return run(self.py_func, args, kwargs)

        patches.append((registry.CPUDispatcher, "__call__", call))
    if (mlx := loaded_mlx()) is not None:
        patches.append((mlx._gc_func, "__call__", _transformed_call(mlx, run, called)))
    if (ufuncs := sys.modules.get("numba.np.ufunc.dufunc")) is not None:
        elementwise = ufuncs.DUFunc.__call__

        def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
            python = self._dispatcher.py_func
            called.add(CompiledFunction.of(python))
            if run is None or first_draw(args) is None or kwargs:
                return elementwise(self, *args, **kwargs)
            return map_elements(lambda *row: run(python, row, {}), list(args))

        patches.append((ufuncs.DUFunc, "__call__", apply))
    return patches


_COMPILED_AGAIN: dict[int, tuple[Any, int]] = {}
"""Functions that were compiled again, by id, and for how many signatures."""

_STALE: set[int] = set()
"""Ids of those that numba compiles to something else now, as their names have changed."""

_CONSTANTS = re.compile(
    r"(?:double|float) (-?\d\S*?e[+-]\d+|0x\w+)|, (-?\d\.\d+e[+-]\d+|0x\w+)"
    r"|i64 (-?\d{1,9})\b|^@\S*const\.array\S* = (.*)$",
    re.MULTILINE,
)
"""Numbers and arrays in compiled code. Names and labels differ between two compilations."""


def _look_for_stale_names(dispatcher: Any) -> None:
    """Compare a function with what numba compiles it to now, once for each signature.

    While code is followed, stand-ins are among its names, and it does not compile.
    """
    key, count = id(dispatcher), len(dispatcher.signatures)
    if _COMPILED_AGAIN.get(key, (None, 0))[1] == count:
        return
    _COMPILED_AGAIN[key] = dispatcher, count
    if _compiles_otherwise(dispatcher):
        _STALE.add(key)


def _compiles_otherwise(dispatcher: Any) -> bool:
    python = dispatcher.py_func
    if any(python.__globals__.get(name) is dispatcher for name in python.__code__.co_names):
        return False  # compiled again, it would call the first one
    again = type(dispatcher)(python, dispatcher.locals, dispatcher.targetoptions)
    for signature in dispatcher.signatures:
        try:
            again.compile(signature)
            texts = [x.inspect_llvm(signature) for x in (dispatcher, again)]
        except Exception:
            return False  # only calls show whether they do the same
        if not all("define" in text for text in texts):
            return False  # numba keeps no text of what it loads from its cache
        one, other = (Counter(_CONSTANTS.findall(text)) for text in texts)
        if one != other:
            return True
    return False


def _casts(dispatcher: Any, args: Sequence[Any]) -> bool:
    """Whether a function compiled for stated types alone takes digits from a float."""
    if dispatcher._can_compile:
        return False
    types = import_module("numba.core.types")

    def cuts(kind: Any, x: Any) -> bool:
        number = sample_of(x)
        if not isinstance(number, float | np.floating):
            return False
        long_enough = getattr(kind, "bitwidth", 64) >= 8 * np.asarray(number).itemsize
        return not (isinstance(kind, types.Float) and long_enough)

    return all(any(map(cuts, signature, args)) for signature in dispatcher.signatures)


def _transformed_call(
    mlx: Any, run: RunSource | None, called: set[CompiledFunction]
) -> Callable[..., Any]:
    """Return what stands for calls of functions that MLX compiles, vmaps or differentiates."""
    from simverify.symbolic.mlx_random import innermost, real_vmap_by_rows, transformed

    original = mlx._gc_func.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        how, python, options = transformed(self)
        if how == "grad":
            return original(self, *args, **kwargs)
        called.add(CompiledFunction.of(innermost(python), f"mx.{how}"))
        if run is None:
            return original(self, *args, **kwargs)
        if how == "vmap":
            python = real_vmap_by_rows(python, *options)
        return python(*args, **kwargs)

    return call


def following_runner(state: Any, own: Any, streams: Any) -> RunSource:
    """Return what runs source where ``own`` draws stand for numba's and ``state``'s for numpy's.

    ``streams``: of Python's ``random``, which tell those of compiled code apart.
    """
    inside = False

    def run(python: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        nonlocal inside
        if inside:
            return python(*args, **kwargs)
        inside = streams.compiled = True
        state.swap_with(own)
        try:
            return python(*args, **kwargs)
        finally:
            state.swap_with(own)
            inside = streams.compiled = False

    return run


def _python_state(seed: int) -> Any:
    """Return the state of Python's ``random`` that numba's has after a seed."""
    _, words, place, *_ = np.random.RandomState(seed).get_state()
    return (3, (*map(int, words), int(place)), None)


class _PlainRunner:
    """Runs source on numbers, with states of numpy's generator and Python's that are numba's."""

    def __init__(self, seed: int) -> None:
        self._inside = False
        self._states: Any = np.random.RandomState(seed).get_state(), _python_state(seed)

    def __call__(self, python: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        if self._inside:
            return python(*args, **kwargs)
        module = cast("Any", random)
        outside, seed = (_REAL_GET_STATE(), random.getstate()), random.seed
        self._inside = True
        self._put(self._states)
        module.seed = lambda x=None: random.setstate(_python_state(int(x) % _SEED_BITS))
        try:
            return python(*args, **kwargs)
        finally:
            module.seed = seed
            self._states = _REAL_GET_STATE(), random.getstate()
            self._put(outside)
            self._inside = False

    def _put(self, states: Any) -> None:
        _REAL_SET_STATE(states[0])
        random.setstate(states[1])


@contextmanager
def noting_calls(called: set[CompiledFunction]) -> Iterator[None]:
    """Let ``called`` collect the compiled functions that are called."""
    with _patched(source_patches(None, called)):
        yield


@contextmanager
def _patched(patches: list[tuple[Any, str, Any]]) -> Iterator[None]:
    before = [vars(owner).get(name) for owner, name, _ in patches]
    for owner, name, new in patches:
        setattr(owner, name, new)
    try:
        yield
    finally:
        for (owner, name, _), old in zip(patches, before, strict=True):
            if old is None:
                delattr(owner, name)
            else:
                setattr(owner, name, old)


@contextmanager
def same_draws(seed: int, as_source: set[CompiledFunction] | None = None) -> Iterator[None]:
    """Seed all unseeded generators with ``seed``.

    ``as_source``: if given, compiled functions run as Python and are added to this set.
    """
    module = cast("Any", np.random)
    states = _REAL_GET_STATE(), random.getstate()
    with ExitStack() as stack:
        if "numba.core.registry" in sys.modules:
            stack.enter_context(_numba_seeded(seed))
        if loaded_mlx() is not None:
            stack.enter_context(_mlx_seeded(seed))
        if as_source is not None:
            stack.enter_context(_patched(source_patches(_PlainRunner(seed), as_source)))
        _REAL_SEED(seed)
        random.seed(seed)
        module.seed = lambda x=None: _REAL_SEED(seed_of(x))
        try:
            yield
        finally:
            module.seed = _REAL_SEED
            _REAL_SET_STATE(states[0])
            random.setstate(states[1])


@contextmanager
def _numba_seeded(seed: int) -> Iterator[None]:
    helper = import_module("numba._helperlib")
    places = helper.rnd_get_np_state_ptr(), helper.rnd_get_py_state_ptr()
    states = [helper.rnd_get_state(place) for place in places]
    for place in places:
        helper.rnd_seed(place, seed)
    try:
        yield
    finally:
        for place, state in zip(places, states, strict=True):
            helper.rnd_set_state(place, state)


@contextmanager
def _mlx_seeded(seed: int) -> Iterator[None]:
    with keep_mlx_state():
        loaded_mlx().random.seed(seed)
        yield


@contextmanager
def keep_mlx_state() -> Iterator[None]:
    """Put back the key that MLX's random functions split, where MLX is loaded."""
    if loaded_mlx() is None:
        yield
        return
    from simverify.symbolic.mlx_random import REAL_SEED, REAL_STATE

    try:
        high, low = REAL_STATE[0].tolist()
    except RuntimeError:
        # A function that was compiled with the state on one side has left it without a value.
        high, low = 0, 0
    try:
        yield
    finally:
        REAL_SEED(high << 32 | low)


def seed_of(x: Any) -> Any:
    """Return the seed that numba takes an integer for."""
    return x if x is None else int(x) % _SEED_BITS


class CompiledGenerator:
    """The generator that compiled code draws from by ``np.random``, in the thread that asks."""

    @property
    def in_use(self) -> bool:
        """Whether numba is loaded, and may have drawn from it."""
        return "numba.core.registry" in sys.modules

    @property
    def state(self) -> Any:
        """The place in a block of words, and the block, as numba gives and takes them."""
        helper = import_module("numba._helperlib")
        return helper.rnd_get_state(helper.rnd_get_np_state_ptr())

    @state.setter
    def state(self, value: Any) -> None:
        helper = import_module("numba._helperlib")
        helper.rnd_set_state(helper.rnd_get_np_state_ptr(), value)

    def uniforms(self, n: int) -> Any:
        """Return the next ``n`` uniforms in [0, 1), float64 (n,), and leave it where it is."""
        position, words = self.state
        bits = np.random.MT19937()
        bits.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": position}}
        return np.random.Generator(bits).random(n)


COMPILED_GENERATOR = CompiledGenerator()
