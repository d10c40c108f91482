"""Kernels written once as plain functions on numpy's arrays and scalars, and launched as that.

A plan is made for the types and constants of a launch, as Triton compiles for them. What has no
plan, and what is followed by the exact tier, runs operator by operator.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from simverify.engines.tiles import operators
from simverify.engines.tiles.blocks import Block
from simverify.engines.tiles.kernels import Kernel
from simverify.engines.tiles.memory import Pointer
from simverify.engines.tiles.translation import helpers
from simverify.engines.tiles.translation.helpers import Wraps
from simverify.engines.tiles.translation.statements import Statements
from simverify.engines.tiles.translation.values import (
    Known,
    Place,
    Scalar,
    Tensor,
    Untranslatable,
    Value,
)
from simverify.engines.tiles.translation.writer import Writer
from simverify.engines.tiles.types import float16, float32
from simverify.errors import SimverifyError
from simverify.symbolic.addressed import followed

NAMES: dict[str, Any] = {
    **{name: getattr(helpers, name) for name in (
        "beside", "closed", "cut", "ending", "first_of", "gathered", "loaded", "opened", "philox",
        "picked", "put", "put_at", "put_where", "running", "straight", "stretched", "taken",
        "total", "unit", "until", "Wraps",
    )},
    **{name: getattr(np, name) for name in (
        "add", "arange", "broadcast_to", "ceil", "exp", "exp2", "expand_dims", "expm1", "floor",
        "fmax", "fmin", "full", "log", "log1p", "log2", "sqrt", "where",
    )},
    "toward_zero": operators.toward_zero, "remainder": operators.remainder,
}  # fmt: skip
"""Names that written kernels use."""

_GAVE_UP = (Untranslatable, SimverifyError, TypeError, ValueError, AttributeError, LookupError,
            ArithmeticError, SyntaxError, RecursionError)  # fmt: skip
"""What a kernel that is not translated raises: it then runs, and is refused, as before."""

MOST = 256
"""Plans that are kept of one kernel."""


class Plan:
    """One kernel for some types and constants: ``program`` runs it; None if it has none."""

    def __init__(self, kernel: Kernel, given: dict[str, Any]) -> None:
        self.read: list[Any] = []
        self.program: Callable[..., None] | None = None
        self.undoes = False
        try:
            self._write(kernel, given)
        except _GAVE_UP:
            self.program = None
        once = {(id(space), name): (space, name, x) for space, name, x in self.read}
        self.read = [*once.values()]  # which every launch looks through

    def _write(self, kernel: Kernel, given: dict[str, Any]) -> None:
        w = Writer()
        names = [f"{letter}{axis}" for letter in "pg" for axis in range(3)] + ["_undo"]
        values: dict[str, Value] = {}
        for place, (name, x) in enumerate(given.items()):
            if isinstance(x, Pointer):
                tensor = Tensor(name, f"E{place}", f"N{place}", x.memory.dtype)
                values[name] = Place(tensor)
                names += [tensor.code, tensor.size]
            elif isinstance(x, Block):
                values[name] = Scalar(f"A{place}", x.dtype)
                names.append(f"A{place}")
            else:
                values[name] = Known(x)
        made = Statements(w, kernel, values, self.read)
        w.line = made.node.lineno
        made.run(made.node.body)
        w.line = made.node.lineno
        code = w.code(f"def {kernel.__name__}({', '.join(names)}):", made.file)
        space = {**NAMES, **w.constants, "__name__": kernel.fn.__module__}
        exec(code, space)
        self.program, self.undoes = space[kernel.__name__], w.undoes

    def holds(self) -> bool:
        """Whether what it read outside the kernel is still the same."""
        return all(space.get(name) is value for space, name, value in self.read)


class Plans:
    """The plans of one kernel, whose definition in its file is ``node``."""

    def __init__(self, node: ast.FunctionDef) -> None:
        self.node = node
        self.kept: dict[Any, Plan] = {}

    def run(
        self, kernel: Kernel, values: dict[str, Any], sides: tuple[int, ...]
    ) -> Iterator[tuple[int, ...]]:
        """Run programs of a launch, and yield those that are left to be run one by one."""
        plan = self._plan(kernel, values)
        if plan is None or plan.program is None:
            yield from product(*map(range, sides))
            return
        given: list[Any] = []
        for x in values.values():
            if type(x) is Pointer:
                elements = x.memory.elements
                given += (elements, len(elements))
            elif type(x) is Block:
                given.append(x.data)
        undo: list[Any] | None = [] if plan.undoes else None
        rest = 3 - len(sides)
        grid = [np.int32(n) for n in (*sides, *(1,) * rest)]
        numbers = [[np.int32(i) for i in range(n)] for n in (*sides, *(1,) * rest)]
        for ids in product(*numbers):
            try:
                plan.program(*ids, *grid, undo, *given)
            except Wraps:
                for elements, place, held in reversed(undo or ()):
                    elements[place] = held
                yield tuple(map(int, ids))[: len(sides)]
            if undo:
                undo.clear()

    def _plan(self, kernel: Kernel, values: dict[str, Any]) -> Plan | None:
        if followed() is not None or _lifted() or watched(kernel.fn.__code__):
            return None
        try:
            key = tuple(map(_sort, values.values()))
            plan = self.kept.get(key)
        except TypeError:
            return None  # a constant that is no key
        if plan is None or not plan.holds():
            if len(self.kept) >= MOST:
                self.kept.clear()
            plan = self.kept[key] = Plan(kernel, values)
        return plan


def _sort(x: Any) -> Any:
    """Return what a plan depends on of an argument."""
    kind = type(x)
    if kind is Pointer:
        if x.index is not None or x.base:
            raise TypeError("a pointer into the middle")
        return x.memory.dtype
    if kind is Block:
        return (x.dtype,)
    # 0.0 is not -0.0, and 1 is not True.
    return kind, x, str(x) if kind is float else ""


def _lifted() -> bool:
    """Whether an audit lets coarser types compute in another one."""
    return float32.numpy_name != "float32" or float16.numpy_name != "float16"


def watched(code: Any) -> bool:
    """Whether something looks which lines of this code run: a debugger, or an audit."""
    if sys.gettrace() is not None:
        return True
    monitoring: Any = getattr(sys, "monitoring", None)  # of Python 3.12 and later
    return monitoring is not None and any(
        monitoring.get_tool(tool) is not None and monitoring.get_local_events(tool, code)
        for tool in range(6)
    )


def plan_kernels(module: Any, nodes: dict[str, Any]) -> None:
    """Give the kernels of a module their sources and plans; ``nodes`` by the functions' names."""
    for name, kernel in vars(module).items():
        node = nodes.get(name)
        if isinstance(kernel, Kernel) and node is not None and kernel.plans is None:
            first = min([node.lineno, *(x.lineno for x in node.decorator_list)])
            if kernel.fn.__code__.co_firstlineno == first:
                kernel.plans = Plans(node)
