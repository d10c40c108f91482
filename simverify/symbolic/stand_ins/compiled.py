"""Finds the calls of compiled kernels, whose draws nothing here can follow.

Numba and TorchScript draw from generators of their own, without a Python call that could be
intercepted. What is seen is only that repeated runs differ, so the kernels are looked for in
the bytecode of the functions that the code can reach.
"""

import dis
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from simverify.symbolic.errors import CannotEnumerate, Untracked
from simverify.symbolic.whose import is_users, unwrapped

_SCRIPTED = ("ScriptFunction", "ScriptModule", "RecursiveScriptModule", "TopLevelTracedModule")


def naming_kernels(code: Any, error: CannotEnumerate) -> CannotEnumerate:
    """Say which compiled kernel may have drawn what was not tracked."""
    kernel, where = next(compiled_calls(code), (None, ""))
    if kernel is None or not isinstance(error, Untracked):
        return error
    call = f"{error.call}. Compiled code cannot be followed: {kernel}"
    return CannotEnumerate(call, where, error.findings)


def compiled_calls(code: Any) -> Iterator[tuple[str, str]]:
    """Yield ("numba's kernel()", "file:line") for each compiled function that is named."""
    own = unwrapped(code)
    waiting = [own] if isinstance(own, FunctionType) else _methods(own)
    seen: set[FunctionType] = set()
    while waiting:
        function = waiting.pop(0)
        if function in seen or not is_users(function, own):
            continue
        seen.add(function)
        for value, line in _named(function):
            if (kernel := _kernel(value)) is not None:
                yield kernel, f"{function.__code__.co_filename}:{line}"
            elif isinstance(value, FunctionType):
                waiting.append(value)
            elif inspect.isclass(value):
                waiting += _methods(value)


def _kernel(value: Any) -> str | None:
    kind = type(value)
    python = getattr(value, "py_func", None) if kind.__module__.startswith("numba.") else None
    if isinstance(python, FunctionType):
        return f"numba's {python.__name__}()"
    if kind.__module__.startswith("torch") and kind.__name__ in _SCRIPTED:
        return f"TorchScript's {getattr(value, 'name', kind.__name__)}()"
    return None


def _methods(owner: Any) -> list[FunctionType]:
    kind = owner if inspect.isclass(owner) else type(owner)
    return [x for x in vars(kind).values() if isinstance(x, FunctionType)]


def _named(function: FunctionType) -> Iterator[tuple[Any, int]]:
    """Yield the values of the global and closed-over names in a function, with their lines."""
    known = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            known[name] = cell.cell_contents
        except ValueError:
            known.pop(name, None)
    for code in _nested(function.__code__):
        line, owner = code.co_firstlineno, None
        for step in dis.get_instructions(code):
            line = (step.positions and step.positions.lineno) or line
            if step.opname.startswith(("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME")):
                owner = known.get(step.argval)
                yield owner, line
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(owner, ModuleType):
                owner = vars(owner).get(step.argval)
                yield owner, line
            else:
                owner = None


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
