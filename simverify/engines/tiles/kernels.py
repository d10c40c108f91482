"""Kernels: what ``triton.jit`` makes of a function, and how it is launched on tensors.

Programs run one after the other, in the order of the grid. Kernels whose programs race for one
place are not for this: what they give depends on an order that a GPU does not promise.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.engines.tiles.blocks import Block, constant
from simverify.engines.tiles.memory import Memory, Pointer
from simverify.engines.tiles.refusals import refuse
from simverify.engines.tiles.types import Dtype, int32

LAUNCH_OPTIONS = frozenset({
    "num_warps", "num_stages", "num_ctas", "maxnreg", "warmup", "stream", "debug",
    "enable_fp_fusion", "launch_pdl", "launch_cooperative_grid", "multibuffer",
})  # fmt: skip
"""How a launch is made, which changes no result."""


@dataclass
class Program:
    """The program that runs now; none where ``grid`` is empty."""

    ids: tuple[int, ...] = ()
    grid: tuple[int, ...] = ()


PROGRAM = Program()


class Kernel:
    """A function of blocks and pointers; ``kernel[grid](...)`` runs it for every program."""

    __name__: str

    def __init__(
        self,
        function: Callable[..., Any],
        derived: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (),
    ) -> None:
        functools.update_wrapper(self, function)
        self.fn = function
        self._derived = derived
        parameters = inspect.signature(function).parameters.values()
        self.arg_names = [p.name for p in parameters]
        self.defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        self._constants = {p.name for p in parameters if str(p.annotation).endswith("constexpr")}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it inside another kernel. Refuses a call from outside, which Triton refuses too."""
        if not PROGRAM.grid:
            refuse(f"{self.__name__} called without a grid")
        return self.fn(*args, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return functools.partial(self.run, grid=grid)

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> None:
        """Launch: run the function for each program of the grid."""
        if PROGRAM.grid:
            refuse(f"{self.__name__} launched inside a kernel")
        given = self._bound(args, kwargs)
        sides = grid(given) if callable(grid) else grid
        sides = tuple(int(n) for n in (sides if isinstance(sides, tuple | list) else (sides,)))
        values = {name: self._argument(name, value) for name, value in given.items()}
        PROGRAM.grid = sides + (1,) * (3 - len(sides))
        try:
            with np.errstate(all="ignore"):
                for ids in itertools.product(*map(range, sides)):
                    PROGRAM.ids = ids + (0,) * (3 - len(ids))
                    self.fn(**values)
        finally:
            PROGRAM.ids = PROGRAM.grid = ()

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.arg_names):
            refuse(f"{self.__name__} launched with {len(args)} arguments of {len(self.arg_names)}")
        given = {**self.defaults, **dict(zip(self.arg_names, args, strict=False))}
        for name, value in kwargs.items():
            if name in self.arg_names:
                given[name] = value
            elif name not in LAUNCH_OPTIONS:
                refuse(f"{self.__name__} launched with {name}, which it does not take")
        for derive in self._derived:
            given |= derive(given)
        if missing := [name for name in self.arg_names if name not in given]:
            refuse(f"{self.__name__} launched without {', '.join(missing)}")
        return given

    def _argument(self, name: str, value: Any) -> Any:
        if value is None or name in self._constants:
            return value
        if type(value) is int or type(value) is float or type(value) is bool:
            return constant(value)
        if hasattr(value, "untyped_storage"):
            return Pointer(Memory(value, name))
        if isinstance(value, str | Dtype | Pointer | Block):
            return value
        if isinstance(value, np.generic):
            return constant(value.item())
        if isinstance(value, int | float | bool):
            return constant(value)  # where an audit has put another `int` here, none is of it
        return refuse(f"{self.__name__} launched with {name}, a {type(value).__name__}")


def jit(function: Any = None, **options: Any) -> Any:
    """Return a kernel, or what makes one; ``options`` are the compiler's and change no result."""
    if function is None:
        return functools.partial(jit, **options)
    return Kernel(function)


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Any:
    """Return what adds arguments that are computed from the others."""

    def derive(given: dict[str, Any]) -> dict[str, Any]:
        return {name: value(given) for name, value in values.items()}

    return lambda kernel: _with(kernel, derive)


class Config:
    """One configuration of a kernel; ``kwargs`` are arguments, the rest is the compiler's."""

    def __init__(self, kwargs: Mapping[str, Any], **options: Any) -> None:
        self.kwargs = dict(kwargs)
        if options.get("pre_hook") is not None:
            refuse("triton.Config with a pre_hook")


def autotune(configs: list[Config], key: Any = (), **options: Any) -> Any:
    """Return what takes the first configuration: they are meant to differ in speed alone."""
    hooks = ("pre_hook", "post_hook", "prune_configs_by", "reset_to_zero", "restore_value")
    if found := [name for name in hooks if options.get(name)]:
        refuse(f"triton.autotune with {', '.join(found)}")
    first = configs[0].kwargs
    return lambda kernel: _with(kernel, lambda given: first)


def _with(kernel: Any, derive: Callable[[dict[str, Any]], dict[str, Any]]) -> Kernel:
    # The decorator next to the function is asked last, as in Triton.
    return Kernel(kernel.fn, (derive, *kernel._derived))


def program_id(axis: Any) -> Block:
    """Return the number of the program along an axis: ``tl.program_id``."""
    return _along(PROGRAM.ids, axis)


def num_programs(axis: Any) -> Block:
    """Return how many programs there are along an axis: ``tl.num_programs``."""
    return _along(PROGRAM.grid, axis)


def _along(numbers: tuple[int, ...], axis: Any) -> Block:
    if not numbers:
        refuse("tl.program_id or tl.num_programs outside a kernel")
    return Block(int32.kind(numbers[int(axis)]), int32)


def loop(*bounds: Any, **hints: Any) -> Any:
    """Return ``range`` for a kernel: its counter is a scalar of a kernel's; elsewhere Python's."""
    if not PROGRAM.grid:
        return range(*map(int, bounds))
    wide = [x.dtype for x in bounds if isinstance(x, Block) and x.dtype.bits > int32.bits]
    kind = wide[0] if wide else int32
    return _counted(range(*map(int, bounds)), kind)


def _counted(numbers: range, kind: Dtype) -> Iterator[Block]:
    number = kind.kind
    for i in numbers:
        yield Block(number(i), kind)
