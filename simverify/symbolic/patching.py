"""The interception of randomness: symbolic twins where the code under audit looks for generators.

For the duration of a ``with`` block: ``numpy.random``, ``random``, the scalar functions of
``math`` (which would turn a draw into a float), generators made or kept by the code, and
every name in the code's own modules that was bound to one of these at import.
"""

__simverify_role__ = "stand-in"


import array
import ctypes
import os
import random
import secrets
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from simverify.symbolic.bindings import rebind_names
from simverify.symbolic.builtins_patched import (
    ArrayTypeTwin,
    FloatTwin,
    IntTwin,
    MemoryviewTwin,
    ModuleTwin,
    array_twins,
    container_twins,
    make_type_twin,
    numpy_twins,
    patch_float_functions,
)
from simverify.symbolic.compiled import (
    following_runner,
    keep_mlx_state,
    loaded_mlx,
    source_patches,
)
from simverify.symbolic.numpy_random import NumpyTwins, SymbolicGenerator
from simverify.symbolic.outcomes import activate_source
from simverify.symbolic.outside_arrays import OutsideArrays
from simverify.symbolic.promotion import (
    TENSOR_TYPES,
    Float64Promotion,
    NumpyPromotion,
    promote_held,
    promoted_names,
    promoted_struct,
)
from simverify.symbolic.python_random import function_patches, method_patches, secrets_patches
from simverify.symbolic.sampler import clear_pickled
from simverify.symbolic.source import RandomSource, refusing_call

_LEGACY_STATE: Any = np.random.mtrand._rand
_REAL_MT19937: Any = np.random.MT19937
_get_python_state: Any = random.Random.__mro__[1].getstate  # type: ignore[attr-defined]
_torch_default: Any = None
"""torch's own default generator: its name in torch is ours while code is intercepted."""


@contextmanager
def intercept_randomness(
    source: RandomSource,
    code: Any,
    *,
    shadow_float: bool,
    shadow_int: bool = False,
    shadow_arrays: bool = False,
    shadow_kept: bool = False,
    lift: Float64Promotion | None = None,
    plain: bool = False,
) -> Iterator[type[SymbolicGenerator]]:
    """Yield the Generator class to hand to the code; everything is put back on leaving.

    ``shadow_float`` and ``shadow_int`` replace the names ``float`` and ``int`` in the code's
    modules, ``shadow_arrays`` what makes arrays of draws, ``shadow_kept`` the arrays that the code
    keeps and what makes others that may take draws, ``lift`` coarser types. ``plain``:
    ``source`` hands out numbers, which come in the libraries' own types, and what works on draws
    is left alone.
    """
    global _torch_default
    numpy = NumpyTwins(source, plain=plain)
    swaps: dict[int, tuple[Any, Any]] = {}

    def swap(owner: Any, name: str, new: Any) -> None:
        old = getattr(owner, name)
        swaps[id(old)] = (old, new)
        patches.append((owner, name, new))

    def patch(owner: Any, name: str, new: Any) -> None:
        patches.append((owner, name, new))

    patches: list[tuple[Any, str, Any]] = []
    others: list[Callable[[Any], Any]] = []
    for owner, name, new in numpy.names():
        swap(owner, name, new)
    if "scipy.stats" in sys.modules:
        # Its distributions took the global generator when they were made.
        for value in vars(sys.modules["scipy.stats"]).values():
            if getattr(value, "__dict__", {}).get("_random_state") is _LEGACY_STATE:
                patches.append((value, "_random_state", numpy.legacy))
    for name, function in function_patches(source).items():
        swap(random, name, function)
    for name, function in secrets_patches(source).items():
        swap(secrets, name, function)
    for name in ("urandom", "getrandom", "fork", "forkpty"):
        # What a forked process draws is no draw of this one, which would take it for certain.
        if hasattr(os, name):
            words = f"os.{name} (another process may draw there: draw in the one that is called)"
            swap(os, name, refusing_call(source, words))
    if not plain:
        patch_float_functions(swap, patches)

    def replace(module: ModuleType, twins: dict[str, Any]) -> None:
        """Replace names in a module for the code alone."""
        for name, twin in twins.items():
            old = getattr(module, name)
            swaps[id(old)] = (old, twin)
        before = swaps[id(module)][1] if id(module) in swaps else module
        swaps[id(module)] = (module, ModuleTwin(before, twins))

    twins: dict[str, Any] = numpy_twins() if shadow_float else {}
    if shadow_arrays or shadow_float:
        twins = array_twins() | twins
    if shadow_kept:
        twins |= container_twins(twins)
        swap(array, "array", ArrayTypeTwin)
    promotion = NumpyPromotion(lift, twins.get("float64", np.float64)) if lift else None
    of_draws = twins
    if lift and promotion:
        lifted = promoted_names(np, promotion.double, lift)
        of_draws = {x: promotion.function(twin) for x, twin in twins.items() if x not in lifted}
        replace(np, promotion.names() | lifted)
        replace(struct, promoted_struct(struct, lift))
    if of_draws:
        replace(np, of_draws)
    patches += method_patches(source)
    patches += source_patches(
        following_runner(numpy.legacy, numpy.compiled, source.python_streams),
        source.compiled,
        source.refuse,
    )

    def twin_of(value: Any) -> Any:
        """Return what stands for a value found in the code's modules; None to leave it."""
        known = swaps.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        if (twin := numpy.twin_of(value)) is not None:
            return twin
        return next((new for other in others if (new := other(value)) is not None), None)

    with ExitStack() as stack:
        stack.callback(source.on_begin.clear)
        stack.callback(clear_pickled)
        stack.enter_context(activate_source(source))
        if "torch" in sys.modules:
            # Never imported for code that has not imported it itself.
            from simverify.symbolic.torch_generator import DEFAULT_GENERATOR, intercept_torch

            _torch_default = DEFAULT_GENERATOR
            others.append(stack.enter_context(intercept_torch(source, swap, lift, plain=plain)))
            if lift:
                torch = sys.modules["torch"]
                names = promoted_names(torch, torch.float64, lift)
                replace(torch, names | dict.fromkeys(TENSOR_TYPES[lift], torch.DoubleTensor))
        if "jax" in sys.modules:
            from simverify.symbolic.jax_trace import intercept_jax

            others.append(stack.enter_context(intercept_jax(source, swap, lift, plain=plain)))
        if loaded_mlx() is not None:
            from simverify.symbolic.mlx_random import intercept_mlx

            others.append(stack.enter_context(intercept_mlx(source, swap, patch, lift)))
        rebind_names(code, twin_of, stack, like=(frozenset(swaps), lift))
        if of_draws:
            source.builtins.replace_in(swaps[id(np)][1], of_draws, stack)
        builtins: dict[str, Any] = {}
        if shadow_float:
            kinds = [FloatTwin, *twins.values(), *[IntTwin] * shadow_int]
            of_types = {x.makes: x for x in kinds if hasattr(x, "makes")}
            builtins |= {"float": FloatTwin, "type": make_type_twin(of_types)}
        if shadow_int:
            builtins["int"] = IntTwin
        if shadow_kept:
            builtins["memoryview"] = MemoryviewTwin
        if builtins:
            source.builtins.replace(code, builtins, stack)
        if promotion:
            promote_held(code, promotion.lift, promotion.held, stack)
            promotion.patch_methods(stack)
        if shadow_kept:
            source.builtins.replace_kept(OutsideArrays(code), stack)
        _patch_attributes(patches, stack)
        yield numpy.generator


def real_generator_states() -> tuple[object, ...]:
    """Return the states of the process's own generators, which must not move."""
    bits = _LEGACY_STATE._bit_generator
    if type(bits) is _REAL_MT19937:
        # Read where it lies, 624 words and the place in them: this is asked for around every
        # block, and numpy's own copy takes forty times as long.
        legacy: object = ctypes.string_at(bits.ctypes.state_address, 4 * 625)
    else:
        legacy = repr(bits.state)
    if (torch := sys.modules.get("torch")) is None:
        return legacy, _get_python_state(random._inst), None
    with torch._C.DisableTorchFunction():  # its calls are ours, too
        state = (_torch_default or torch.default_generator).get_state().numpy().tobytes()
    return legacy, _get_python_state(random._inst), state


@contextmanager
def preserve_global_states() -> Iterator[None]:
    """Put the process's own generators back: a run of the user's code moves or seeds them."""
    module: Any = np.random  # its stubs do not export these two
    bits, python = module.get_bit_generator(), random.getstate()
    legacy = bits.state
    try:
        with keep_mlx_state():
            yield
    finally:
        bits.state = legacy
        module.set_bit_generator(bits)
        random.setstate(python)


def _patch_attributes(patches: list[tuple[Any, str, Any]], stack: ExitStack) -> None:
    """Set the attributes until ``stack`` closes; by one callback, as there are two hundred."""
    missing = object()
    before: list[tuple[Any, str, Any]] = []

    def undo() -> None:
        for owner, name, old in reversed(before):
            if old is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, old)

    stack.callback(undo)
    for owner, name, new in patches:
        before.append((owner, name, vars(owner).get(name, missing)))
        setattr(owner, name, new)
