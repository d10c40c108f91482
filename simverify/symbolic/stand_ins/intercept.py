"""Puts the symbolic twins where the code under audit looks for randomness.

For the duration of a ``with`` block: ``numpy.random``, ``random``, the scalar functions of
``math`` (which would turn a draw into a float), generators made or kept by the code, and
every name in the code's own modules that was bound to one of these at import.
"""

import ctypes
import os
import random
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from simverify.symbolic.addressed import following
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.generators.numpy.module import Numpy
from simverify.symbolic.generators.numpy.rng import SymbolicGenerator
from simverify.symbolic.generators.python_rng import (
    patched_functions,
    patched_methods,
    patched_secrets,
)
from simverify.symbolic.generators.states import forget_pickled
from simverify.symbolic.stand_ins.arrays import array_twins
from simverify.symbolic.stand_ins.bindings import replace_names
from simverify.symbolic.stand_ins.floats import Float, Int, numpy_twins, swap_functions
from simverify.symbolic.stand_ins.lift import Lift, lift_strings, lifted_names, lifted_value
from simverify.symbolic.stand_ins.names import Twin, type_twin

_LEGACY: Any = np.random.mtrand._rand
_MERSENNE: Any = np.random.MT19937
_PYTHON_STATE: Any = random.Random.__mro__[1].getstate  # type: ignore[attr-defined]
_torch_default: Any = None
"""torch's own default generator: its name in torch is ours while code is intercepted."""


@contextmanager
def intercepted(
    source: Source,
    code: Any,
    *,
    shadow_float: bool,
    shadow_int: bool = False,
    shadow_arrays: bool = False,
    lift: Lift | None = None,
    plain: bool = False,
) -> Iterator[type[SymbolicGenerator]]:
    """Yield the Generator class to hand to the code; everything is put back on leaving.

    ``shadow_float`` and ``shadow_int`` replace the names ``float`` and ``int`` in the code's
    modules, ``shadow_arrays`` what makes arrays of draws, ``lift`` coarser types (:mod:`.lift`).
    ``plain``: ``source`` hands out numbers, which come in the libraries' own types, and what works
    on draws is left alone.
    """
    global _torch_default
    numpy = Numpy(source, plain=plain)
    swaps: dict[int, tuple[Any, Any]] = {}

    def swap(owner: Any, name: str, new: Any) -> None:
        old = getattr(owner, name)
        swaps[id(old)] = (old, new)
        patches.append((owner, name, new))

    patches: list[tuple[Any, str, Any]] = []
    others: list[Callable[[Any], Any]] = []
    for owner, name, new in numpy.names():
        swap(owner, name, new)
    if "scipy.stats" in sys.modules:
        # Its distributions took the global generator when they were made.
        for value in vars(sys.modules["scipy.stats"]).values():
            if getattr(value, "__dict__", {}).get("_random_state") is _LEGACY:
                patches.append((value, "_random_state", numpy.legacy))
    for name, function in patched_functions(source).items():
        swap(random, name, function)
    for name, function in patched_secrets(source).items():
        swap(secrets, name, function)
    for name in ("urandom", "getrandom", "fork", "forkpty"):
        # What a forked process draws is no draw of this one, which would take it for certain.
        if hasattr(os, name):
            swap(os, name, _refused(source, f"os.{name}"))
    if not plain:
        swap_functions(swap, patches)

    def replace(module: ModuleType, twins: dict[str, Any]) -> None:
        """Let the code see other names in a module, and nobody else."""
        for name, twin in twins.items():
            old = getattr(module, name)
            swaps[id(old)] = (old, twin)
        swaps[id(module)] = (module, Twin(module, twins))

    twins: dict[str, Any] = numpy_twins() if shadow_float else {}
    if shadow_arrays or shadow_float:
        twins = array_twins() | twins
    lifted = lifted_names(np, twins.get("float64", np.float64), lift) if lift else {}
    of_draws = {name: twin for name, twin in twins.items() if name not in lifted}
    twins |= lifted
    if twins:
        replace(np, twins)
    patches += [(owner, name, new) for owner, name, new in patched_methods(source)]

    def kept(value: Any) -> Any:
        """Return what stands for a value found in the code's modules; None to leave it."""
        known = swaps.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        if lift and (double := lifted_value(value, lift)) is not None:
            return double
        if (twin := numpy.kept(value)) is not None:
            return twin
        return next((new for other in others if (new := other(value)) is not None), None)

    with ExitStack() as stack:
        stack.callback(source.on_begin.clear)
        stack.callback(forget_pickled)
        stack.enter_context(following(source))
        if "torch" in sys.modules:
            # Never imported for code that has not imported it itself.
            from simverify.symbolic.generators.torch.intercept import torch_intercepted
            from simverify.symbolic.generators.torch.state import DEFAULT

            _torch_default = DEFAULT
            others.append(stack.enter_context(torch_intercepted(source, swap, lift, plain=plain)))
            if lift:
                torch = sys.modules["torch"]
                replace(torch, lifted_names(torch, torch.float64, lift))
        replace_names(code, kept, stack, like=(frozenset(swaps), lift))
        if of_draws:
            source.builtins.replace_in(swaps[id(np)][1], of_draws, stack)
        builtins: dict[str, Any] = {}
        if shadow_float:
            kinds = [Float, *twins.values(), *[Int] * shadow_int]
            of_types = {x.makes: x for x in kinds if hasattr(x, "makes")}
            builtins |= {"float": Float, "type": type_twin(of_types)}
        if shadow_int:
            builtins["int"] = Int
        if builtins:
            source.builtins.replace(code, builtins, stack)
        if lift:
            lift_strings(code, lift, stack)
        _patch(patches, stack)
        yield numpy.generator


def real_states() -> tuple[object, ...]:
    """Return the states of the process's own generators, which must not move."""
    bits = _LEGACY._bit_generator
    if type(bits) is _MERSENNE:
        # Read where it lies, 624 words and the place in them: this is asked for around every
        # block, and numpy's own copy takes forty times as long.
        legacy: object = ctypes.string_at(bits.ctypes.state_address, 4 * 625)
    else:
        legacy = repr(bits.state)
    torch = sys.modules.get("torch")
    third = None if torch is None else _torch_state(torch)
    return legacy, _PYTHON_STATE(random._inst), third


@contextmanager
def global_states_kept() -> Iterator[None]:
    """Put the process's own generators back: a run of the user's code moves or seeds them."""
    module: Any = np.random  # its stubs do not export these two
    bits, python = module.get_bit_generator(), random.getstate()
    legacy = bits.state
    try:
        yield
    finally:
        bits.state = legacy
        module.set_bit_generator(bits)
        random.setstate(python)


def _torch_state(torch: Any) -> bytes:
    with torch._C.DisableTorchFunction():  # its calls are ours, too
        state = (_torch_default or torch.default_generator).get_state()
        return bytes(state.numpy().tobytes())


def _patch(patches: list[tuple[Any, str, Any]], stack: ExitStack) -> None:
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


def _refused(source: Source, call: str) -> Callable[..., Any]:
    return lambda *args: source.refuse(call)
