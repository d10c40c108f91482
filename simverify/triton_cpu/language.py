"""``triton`` and ``triton.language`` on numpy: memory, kernels, reductions, random numbers."""

import functools
import inspect
import itertools
import math
import sys
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from simverify.symbolic.arrays import DrawArray, is_symbolic, make_draw_array
from simverify.symbolic.forms import IDENTITY_FORM, Form, Machine
from simverify.symbolic.outcomes import active_source, draw_at_address
from simverify.symbolic.provenance import names
from simverify.symbolic.scalar import Draw, uniform_on_grid
from simverify.triton_cpu.blocks import (
    DTYPE_BY_NUMPY_NAME,
    DTYPES,
    FLOAT_RANK,
    INTEGER_TYPES,
    ArithmeticLanes,
    Block,
    ConstantLanes,
    Dtype,
    LazyLanes,
    OutOfBounds,
    as_block,
    concatenate,
    elementwise,
    float32,
    int1,
    int32,
    int64,
    is_number,
    kernel_line,
    promote_operands,
    refuse_kernel,
    scalar_block,
    uint32,
    uint64,
)

# The memory of a tensor, and pointers into it.
#
# A pointer that a kernel makes stays inside the tensor that it was given, or the access is an
# error: on a GPU it would read whatever lies there.


TENSOR_ARGUMENT_COST = 6
"""A tensor that a kernel is launched with counts as so many calls of torch, for what is done."""


class TensorMemory:
    """The elements of a torch tensor from its first to its last, as the strides lay them out."""

    def __init__(self, tensor: Any, name: str) -> None:
        source = active_source()
        quiet: AbstractContextManager[Any] = nullcontext()
        if source is not None:
            source.torch_calls += TENSOR_ARGUMENT_COST
            # Every launch asks every tensor, and torch would tell of each time.
            quiet = _torch_module()._C.DisableTorchFunction()
        with quiet:
            dtype, shape, strides = tensor.dtype, tensor.shape, tensor.stride()
        kind = _TYPE_BY_TORCH_DTYPE.get(dtype)
        self.name, self.dtype = name, _triton_type(dtype, name) if kind is None else kind
        self.tensor = tensor
        self.known: Any = None
        size = 1
        for side, step in zip(shape, strides, strict=True):
            size += (side - 1) * step
        self.size = 0 if 0 in shape else size

    @property
    def elements(self) -> Any:
        """The elements, which are written to the tensor too; objects where draws are among them."""
        if self.known is None:
            source = active_source()
            if source is not None and source.tensors is not None:
                self.known = source.tensors.memory(self.tensor, self.size)
            if self.known is None:
                self.known = _numpy_view(self.tensor, self.size)
        return self.known

    def beside(self, place: Any) -> NoReturn:
        """Raise: an access outside the tensor."""
        raise OutOfBounds(
            f"{self.name}[{int(place)}] of {self.size} elements is loaded or stored without a "
            f"mask ({kernel_line()})"
        )


_TYPE_BY_TORCH_DTYPE: dict[Any, Dtype] = {}
"""Types by those of torch, as they were found before."""


def _triton_type(dtype: Any, name: str) -> Dtype:
    kind = str(dtype).removeprefix("torch.")
    if kind not in DTYPE_BY_NUMPY_NAME:
        refuse_kernel(f"argument {name} of type {kind}: known are {', '.join(DTYPE_BY_NUMPY_NAME)}")
    return _TYPE_BY_TORCH_DTYPE.setdefault(dtype, DTYPE_BY_NUMPY_NAME[kind])


def _torch_module() -> Any:
    return sys.modules["torch"]


def _numpy_view(tensor: Any, size: int) -> Any:
    if active_source() is None and tensor.is_contiguous():
        plain = tensor.detach() if tensor.requires_grad else tensor
        return plain.numpy().reshape(-1)
    with _torch_module()._C.DisableTorchFunction():
        plain = tensor.detach()
        return plain.as_strided((size,), (1,), plain.storage_offset()).numpy()


class ElementType:
    """What a pointer points to: ``ptr.dtype.element_ty``."""

    def __init__(self, kind: Dtype) -> None:
        self.element_ty = kind

    def is_ptr(self) -> bool:
        return True


class Pointer:
    """A place in a memory, or a block of places: ``base``, and a block ``index`` on it."""

    __slots__ = ("base", "index", "memory")
    is_pointer = True

    def __init__(self, memory: TensorMemory, base: int = 0, index: Block | None = None) -> None:
        self.memory, self.base, self.index = memory, base, index

    @property
    def dtype(self) -> ElementType:
        return ElementType(self.memory.dtype)

    def __add__(self, other: Any) -> "Pointer":
        if type(other) is Block:
            if type(other.data) in INTEGER_TYPES:
                return Pointer(self.memory, self.base + int(other.data), self.index)
        elif isinstance(other, int):
            return Pointer(self.memory, self.base + other, self.index)
        if type(other) is not Block or other.dtype.rank == FLOAT_RANK:
            refuse_kernel("a pointer and what is no whole number")
        if other.rest is None and not isinstance(other.data, np.ndarray):
            return Pointer(self.memory, self.base + int(other.data), self.index)
        wide = other.to(int64)
        index: Block = wide if self.index is None else self.index + wide
        return Pointer(self.memory, self.base, index)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Pointer":
        return self.__add__(-other)

    def to(self, dtype: Any, *, bitcast: bool = False) -> NoReturn:
        refuse_kernel("a pointer read as another type")


# Loads and stores: lanes of a block that a mask lets in, and what fills the others.
#
# Lanes that a mask leaves out and for which no ``other`` is given hold anything at all on a GPU;
# here NaN, or the smallest integer, so that a kernel which uses them is seen to.


def load(pointer: Any, mask: Any = None, other: Any = None, **hints: Any) -> Block:
    """Return what lies where ``mask`` holds, and ``other`` elsewhere; hints change no result.

    A padding is refused.
    """
    if hints:
        _check_hints(hints)
    if type(pointer) is not Pointer:
        refuse_kernel(f"a load from a {type(pointer).__name__}, which is no pointer")
    memory = pointer.memory
    kind = memory.dtype
    if pointer.index is None and (mask is None or _is_single_place(pointer, mask)):
        if mask is not None and not bool(mask):
            return _fill_value(other, kind)
        if not 0 <= pointer.base < memory.size:
            memory.beside(pointer.base)
        elements = memory.elements if memory.known is None else memory.known
        return Block(elements[pointer.base], kind)
    if type(mask) is Block and (row := _contiguous_row(pointer, mask)) is not None:
        return _fill_lanes(row, _fill_value(other, kind), kind, mask.count)
    places, allowed, count = _masked_lanes(pointer, mask)
    filling = _fill_value(other, kind)
    head = _load_lanes(memory, places, allowed, filling)
    return Block(head, kind) if count is None else _fill_lanes(head, filling, kind, count)


def store(pointer: Any, value: Any, mask: Any = None, **hints: Any) -> None:
    """Write ``value`` to the places where ``mask`` holds."""
    if hints:
        _check_hints(hints)
    if type(pointer) is not Pointer:
        refuse_kernel(f"a store to a {type(pointer).__name__}, which is no pointer")
    memory, kind = pointer.memory, pointer.memory.dtype
    block = as_block(value)
    block = block if block.dtype is kind else block.to(kind)
    if block.is_scalar and _is_single_place(pointer, mask):
        if mask is not None and not bool(mask):
            return
        if not 0 <= pointer.base < memory.size:
            memory.beside(pointer.base)
        _write_elements(memory, pointer.base, block.data)
        return
    if pointer.index is None:
        refuse_kernel("a block stored at one place")
    places, allowed, count = _masked_lanes(pointer, mask)
    values = block.whole() if count is None else block.first(len(places))
    if isinstance(values, np.ndarray) and values.shape != places.shape:
        values = np.broadcast_to(values, places.shape)
    if allowed is not None:
        places = places[allowed]
        values = values[allowed] if isinstance(values, np.ndarray) else values
    _check_inside(memory, places)
    _write_elements(memory, places, values)


def _is_single_place(pointer: Pointer, mask: Any) -> bool:
    """Whether one place is meant, and not a block of them."""
    return pointer.index is None and (type(mask) is not Block or mask.is_scalar)


def _check_hints(hints: dict[str, Any]) -> None:
    unknown = set(hints) - {"cache_modifier", "eviction_policy", "volatile"}
    if any(hints[name] not in (None, "", ()) for name in unknown):
        refuse_kernel(f"a load or store with {', '.join(sorted(unknown))}")


def _contiguous_row(pointer: Pointer, gate: Block) -> Any:
    """Return what lies side by side in the lanes that the mask lets in; None: it does not."""
    index, ends = pointer.index, gate.rest
    if (
        index is None
        or type(index.rest) is not ArithmeticLanes
        or type(ends) is not ConstantLanes
        or len(index.data)
    ):
        return None
    count = len(gate.data)
    if index.rest.step != 1 or ends.value or index.count != gate.count or not gate.data.all():
        return None
    first, elements = pointer.base + index.rest.start, pointer.memory.elements
    if not 0 <= first <= first + count <= len(elements) or elements.dtype == object:
        return None
    return elements[first : first + count].copy()


def _masked_lanes(pointer: Pointer, mask: Any) -> tuple[Any, Any, int | None]:
    """Return places, which of them are kept (None: all), and the lanes of a row whose mask ends."""
    index = pointer.index
    gate = None if mask is None else as_block(mask).to(int1)
    if index is None:
        assert gate is not None
        return np.broadcast_to(pointer.base, gate.shape), gate.whole(), None
    ends = gate is not None and isinstance(gate.rest, ConstantLanes) and not gate.rest.value
    row = index.rest is not None or (not index.is_scalar and index.data.ndim == 1)
    if gate is not None and ends and row:
        known = len(gate.data)
        return pointer.base + index.first(known), gate.data, gate.count
    places = pointer.base + index.whole()
    if gate is None:
        return places, None, None
    allowed = gate.whole()
    if type(places) is np.ndarray is type(allowed) and places.shape == allowed.shape:
        return places, allowed, None
    shape = np.broadcast_shapes(np.shape(places), np.shape(allowed))
    return np.broadcast_to(places, shape), np.broadcast_to(allowed, shape), None


def _load_lanes(memory: TensorMemory, places: Any, allowed: Any, filling: Block) -> Any:
    if allowed is None or allowed.all():
        _check_inside(memory, places)
        return _gather(memory.elements, places)
    _check_inside(memory, places[allowed])
    others = filling.data if filling.is_scalar else filling.first(len(allowed))
    if not allowed.any():
        return np.array(np.broadcast_to(others, allowed.shape))
    return np.where(allowed, _gather(memory.elements, np.where(allowed, places, 0)), others)


def _gather(elements: Any, places: Any) -> Any:
    picked = elements[places]
    return (
        picked if picked.dtype != object else make_draw_array(picked.ravel().tolist(), picked.shape)
    )


def _fill_lanes(head: Any, filling: Block, kind: Dtype, count: int) -> Block:
    """Return a row of ``count`` lanes whose first are ``head``, and the others those of another."""
    if filling.is_scalar:
        return Block(head, kind, ConstantLanes(filling.data), count)
    return Block(concatenate(head, filling.data[len(head) :]), kind, filling.rest, count)


def _check_inside(memory: TensorMemory, places: Any) -> None:
    if places.size and (places.min() < 0 or places.max() >= memory.size):
        outside = places[(places < 0) | (places >= memory.size)]
        memory.beside(outside.ravel()[0])


def _write_elements(memory: TensorMemory, places: Any, values: Any) -> None:
    elements = memory.elements
    draws = not is_number(values) and is_symbolic(values)
    if draws and elements.dtype != object:
        source = active_source()
        assert source is not None
        elements = memory.known = source.tensors.memory(memory.tensor, memory.size, make=True)
    elements[places] = values.view(np.ndarray) if isinstance(values, np.ndarray) else values


def _fill_value(other: Any, kind: Dtype) -> Block:
    """Return what stands where nothing is loaded, in the memory's type."""
    if other is not None:
        if type(other) is float or type(other) is int:
            return _number_block(other, type(other).__name__, kind, kind.numpy_name)
        return as_block(other).to(kind)
    worst = np.nan if kind.is_floating() else 0 if kind is int1 else np.iinfo(kind.kind).min
    return Block(kind.kind(worst), kind)


@functools.lru_cache(maxsize=4096)
def _number_block(value: Any, sort: str, kind: Dtype, name: str) -> Block:
    return as_block(value).to(kind)


# Kernels: what ``triton.jit`` makes of a function, and how it is launched on tensors.
#
# Programs run one after the other, in the order of the grid. Kernels whose programs race for one
# place are not for this: what they give depends on an order that a GPU does not promise.


LAUNCH_OPTIONS = names(
    "num_warps num_stages num_ctas maxnreg warmup stream debug enable_fp_fusion launch_pdl "
    "launch_cooperative_grid multibuffer"
)
"""How a launch is made, which changes no result."""


@dataclass
class RunningProgram:
    """The program that runs now; none where ``grid`` is empty."""

    ids: tuple[int, ...] = ()
    grid: tuple[int, ...] = ()


CURRENT_PROGRAM = RunningProgram()


class TritonKernel:
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
        if not CURRENT_PROGRAM.grid:
            refuse_kernel(f"{self.__name__} called without a grid")
        return self.fn(*args, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return functools.partial(self.run, grid=grid)

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> None:
        """Launch: run the function for each program of the grid."""
        if CURRENT_PROGRAM.grid:
            refuse_kernel(f"{self.__name__} launched inside a kernel")
        given = self._bound(args, kwargs)
        sides = grid(given) if callable(grid) else grid
        sides = tuple(int(n) for n in (sides if isinstance(sides, tuple | list) else (sides,)))
        values = {name: self._argument(name, value) for name, value in given.items()}
        CURRENT_PROGRAM.grid = sides + (1,) * (3 - len(sides))
        try:
            with np.errstate(all="ignore"):
                for ids in itertools.product(*map(range, sides)):
                    CURRENT_PROGRAM.ids = ids + (0,) * (3 - len(ids))
                    self.fn(**values)
        finally:
            CURRENT_PROGRAM.ids = CURRENT_PROGRAM.grid = ()

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.arg_names):
            refuse_kernel(
                f"{self.__name__} launched with {len(args)} arguments of {len(self.arg_names)}"
            )
        given = {**self.defaults, **dict(zip(self.arg_names, args, strict=False))}
        for name, value in kwargs.items():
            if name in self.arg_names:
                given[name] = value
            elif name not in LAUNCH_OPTIONS:
                refuse_kernel(f"{self.__name__} launched with {name}, which it does not take")
        for derive in self._derived:
            given |= derive(given)
        if missing := [name for name in self.arg_names if name not in given]:
            refuse_kernel(f"{self.__name__} launched without {', '.join(missing)}")
        return given

    def _argument(self, name: str, value: Any) -> Any:
        if value is None or name in self._constants:
            return value
        if type(value) is int or type(value) is float or type(value) is bool:
            return scalar_block(value)
        if hasattr(value, "untyped_storage"):
            return Pointer(TensorMemory(value, name))
        if isinstance(value, str | Dtype | Pointer | Block):
            return value
        if isinstance(value, np.generic):
            return scalar_block(value.item())
        if isinstance(value, int | float | bool):
            return scalar_block(value)  # where an audit has put another `int` here, none is of it
        return refuse_kernel(f"{self.__name__} launched with {name}, a {type(value).__name__}")


def jit(function: Any = None, **options: Any) -> Any:
    """Return a kernel, or what makes one; ``options`` are the compiler's and change no result."""
    if function is None:
        return functools.partial(jit, **options)
    return TritonKernel(function)


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Any:
    """Return what adds arguments that are computed from the others."""
    return lambda kernel: _derived_kernel(
        kernel, lambda given: {name: value(given) for name, value in values.items()}
    )


class Config:
    """One configuration of a kernel; ``kwargs`` are arguments, the rest is the compiler's."""

    def __init__(self, kwargs: Mapping[str, Any], **options: Any) -> None:
        self.kwargs = dict(kwargs)
        if options.get("pre_hook") is not None:
            refuse_kernel("triton.Config with a pre_hook")


def autotune(configs: list[Config], key: Any = (), **options: Any) -> Any:
    """Return what takes the first configuration: they are meant to differ in speed alone."""
    hooks = ("pre_hook", "post_hook", "prune_configs_by", "reset_to_zero", "restore_value")
    if unsupported := [name for name in hooks if options.get(name)]:
        refuse_kernel(f"triton.autotune with {', '.join(unsupported)}")
    first = configs[0].kwargs
    return lambda kernel: _derived_kernel(kernel, lambda given: first)


def _derived_kernel(
    kernel: Any, derive: Callable[[dict[str, Any]], dict[str, Any]]
) -> TritonKernel:
    # The decorator next to the function is asked last, as in Triton.
    return TritonKernel(kernel.fn, (derive, *kernel._derived))


def program_id(axis: Any) -> Block:
    return _grid_value(CURRENT_PROGRAM.ids, axis)


def num_programs(axis: Any) -> Block:
    return _grid_value(CURRENT_PROGRAM.grid, axis)


def _grid_value(numbers: tuple[int, ...], axis: Any) -> Block:
    if not numbers:
        refuse_kernel("tl.program_id or tl.num_programs outside a kernel")
    return Block(int32.kind(numbers[int(axis)]), int32)


def kernel_range(*bounds: Any, **hints: Any) -> Any:
    """Return ``range`` for a kernel: its counter is a scalar of a kernel's; elsewhere Python's."""
    if not CURRENT_PROGRAM.grid:
        return range(*map(int, bounds))
    wide = [x.dtype for x in bounds if isinstance(x, Block) and x.dtype.bits > int32.bits]
    kind = wide[0] if wide else int32
    number = kind.kind
    return (Block(number(i), kind) for i in range(*map(int, bounds)))


# Sums, extremes and running sums of blocks: Triton's, with its ties.


def sum_elements(
    block: Any, axis: Any = None, *, keep_dims: bool = False, dtype: Any = None
) -> Block:
    """Return the sum along an axis, or of all: ``tl.sum``. Short integers are added as int32."""
    given = as_block(block)
    kind = dtype or accumulator_type(given.dtype)
    given = given.to(kind)
    if given.is_scalar:
        return given
    row = given.data
    if given.rest is not None and not (_is_constant(given.rest, 0) and type(row) is DrawArray):
        row = given.whole()  # zeros too: they decide in which order numpy adds
    return _reduce(np.add, row, kind, axis, keep_dims)


def accumulator_type(kind: Dtype) -> Dtype:
    """Return the type in which numbers of a type are added."""
    if kind.is_floating() or kind.bits >= int32.bits:
        return kind
    return int32 if kind.signed or kind is int1 else uint32


def _reduce(ufunc: Any, row: Any, kind: Dtype, axis: Any, keep_dims: bool) -> Block:
    where = None if axis is None else _axis(axis, row.ndim)
    # In the block's own type: numpy would add short integers in long ones.
    plain = {} if type(row) is DrawArray else {"dtype": kind.kind}
    data = ufunc.reduce(row, axis=where, keepdims=keep_dims, **plain)
    return Block(data, kind)


def _is_constant(rest: Any, number: Any) -> bool:
    return isinstance(rest, ConstantLanes) and is_number(rest.value) and bool(rest.value == number)


def _axis(axis: Any, dims: int) -> int:
    place = int(axis)
    if not -dims <= place < dims:
        refuse_kernel(f"axis {place} of a block of {dims} dimensions")
    return place


class _Extremum:
    """``tl.max`` or ``tl.min``, and the place of it."""

    def __init__(self, name: str, worst: float) -> None:
        self._ufunc = np.fmax if name == "max" else np.fmin
        self._place = f"arg{name}"
        self._worst = worst

    def value(
        self,
        block: Any,
        axis: Any = None,
        return_indices: Any = False,
        return_indices_tie_break_left: Any = True,
        keep_dims: bool = False,
    ) -> Any:
        """Return the extreme along an axis; with ``return_indices`` also its first place."""
        given = _widen(as_block(block))
        if return_indices:
            if axis is None:
                refuse_kernel("indices of an extreme without an axis")
            row = self._row(given)
            place = self.place(given, axis, bool(return_indices_tie_break_left), keep_dims)
            if row.ndim == 1 and not keep_dims:
                return Block(row[int(place.data)], given.dtype), place
            where = _axis(axis, row.ndim)
            index = place.data if keep_dims else np.expand_dims(place.data, where)
            extremes = np.take_along_axis(row, np.asarray(index, dtype=np.intp), axis=where)
            return Block(extremes if keep_dims else extremes.squeeze(where), given.dtype), place
        if given.is_scalar:
            return given
        return _reduce(self._ufunc, self._row(given), given.dtype, axis, keep_dims)

    def place(
        self, block: Any, axis: Any, tie_break_left: Any = True, keep_dims: bool = False
    ) -> Block:
        """Return the place of the extreme along an axis, of equal ones the first; int32."""
        given = _widen(as_block(block))
        row = self._row(given) if tie_break_left else np.asanyarray(given.whole())
        where = _axis(axis, row.ndim)
        index = getattr(row, self._place)(axis=where)
        if isinstance(index, np.ndarray) and not index.ndim:
            index = index.view(np.ndarray)[()]  # the winner of a race, which is not read yet
        if not tie_break_left and _has_ties(row, index, where):
            refuse_kernel("which of equal elements comes out, where the kernel leaves it open")
        if isinstance(index, np.ndarray) and type(index) is not DrawArray:
            index = index.astype(np.int32)
        elif is_number(index) and type(index) is not np.int32:
            index = np.int32(int(index))
        return Block(np.expand_dims(index, where) if keep_dims else index, int32)

    def _row(self, given: Block) -> Any:
        """Return elements among which the extreme of all, and its first place, are found."""
        if given.rest is None:
            if given.is_scalar:
                refuse_kernel("the place of an extreme of a scalar")
            return given.data
        if not isinstance(given.rest, ConstantLanes) or not is_number(given.rest.value):
            return given.whole()
        if len(given.data) and _is_constant(given.rest, self._worst):
            return given.data
        return concatenate(given.data, given.rest.between(len(given.data), len(given.data) + 1))


def _widen(block: Block) -> Block:
    # As Triton: 16-bit floats are compared as float32, short integers as int32.
    if block.dtype.is_floating():
        return block.to(float32) if block.dtype.bits < float32.bits else block
    return block.to(int32) if block.dtype.bits < int32.bits else block


def _has_ties(row: Any, places: Any, where: int) -> bool:
    if type(row) is DrawArray:
        return False
    best = np.take_along_axis(row, np.expand_dims(np.asarray(places), where), axis=where)
    return bool(np.any(np.sum(row == best, axis=where) > 1))


MAXIMUM = _Extremum("max", -np.inf)
MINIMUM = _Extremum("min", np.inf)


def cumulative_sum(block: Any, axis: Any = 0, *, reverse: bool = False, dtype: Any = None) -> Block:
    given = as_block(block)
    given = given.to(dtype or accumulator_type(given.dtype))
    if bool(reverse):
        row = given.whole()
        if np.ndim(row) != 1:
            refuse_kernel("reversed running sums of more than one dimension")
        return Block(np.flip(np.add.accumulate(np.flip(row))), given.dtype)
    if given.rest is not None and _is_constant(given.rest, 0) and len(given.data):
        sums = np.add.accumulate(given.data)
        return Block(sums, given.dtype, ConstantLanes(sums[-1]), given.count)
    row = given.whole()
    return Block(np.add.accumulate(row, axis=_axis(axis, row.ndim)), given.dtype)


# Counter-based random numbers: Triton's Philox, and draws that stand for such numbers.
#
# Where code just runs, ``tl.rand(seed, offset)`` is what Triton gives, to the last bit. In the
# exact tier it is a draw: one for each address (seed, offset), so a kernel that comes to an address
# again gets the same draw again, as it would on a GPU. Kernels that hash by themselves are given
# :func:`addressed`.


_ROUND_A, _ROUND_B = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_A, _KEY_B = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW_WORD_MASK, _WORD_BITS = np.uint64(0xFFFFFFFF), np.uint64(32)
_MAX_EAGER_RANDOM_LANES = 256
"""Lanes of a row that is written out at once; of a longer one few lanes are asked for."""

UNIFORM_SCALE = 4.6566127342e-10
"""What Triton multiplies 31 bits by: a little less than 2^-31, so that no product is 1."""


def philox(
    seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: int = 10
) -> tuple[Block, Block, Block, Block]:
    w0, w1, w2, w3 = _philox_blocks(seed, (c0, c1, c2, c3), int(n_rounds), 4)
    return w0, w1, w2, w3


def _philox_blocks(seed: Any, values: tuple[Any, ...], rounds: int, count: int) -> list[Block]:
    """Return the first ``count`` words: each is a block of its own, of which few are asked for."""
    if active_source() is not None:
        refuse_kernel("tl.philox in the exact tier, which follows tl.rand and tl.randint")
    key = as_block(seed).to(int64).to(uint64)
    counters = [as_block(c) for c in values]
    if any(c.dtype.is_floating() or c.dtype.bits != uint32.bits for c in counters):
        refuse_kernel("tl.philox of counters that are not of 32 bits")
    words = [c.to(uint32, bitcast=True) for c in counters]
    sides = {x.count for x in (key, *words) if x.rest is not None}
    if not sides or max(sides) <= _MAX_EAGER_RANDOM_LANES:
        # The four words come out of one cipher, which is not run again for each of them.
        made = philox_words(*(x.whole() for x in (key, *words)), rounds=rounds)
        return [Block(word, uint32) for word in made[:count]]
    return [
        elementwise(lambda *x, i=i: philox_words(*x, rounds=rounds)[i], uint32, key, *words)
        for i in range(count)
    ]


def philox_words(key: Any, c0: Any, c1: Any, c2: Any, c3: Any, *, rounds: int) -> tuple[Any, ...]:
    """Return the four words of Philox 4x32 of arrays or scalars of numpy's."""
    # Words of 32 bits in 64: their products fit.
    c0, c1, c2, c3 = (c.astype(np.uint64) for c in (c0, c1, c2, c3))
    k0, k1 = key & _LOW_WORD_MASK, key >> _WORD_BITS
    for _ in range(rounds):
        b, a = c2 * _ROUND_B, c0 * _ROUND_A
        c0, c1 = (b >> _WORD_BITS) ^ c1 ^ k0, b & _LOW_WORD_MASK
        c2, c3 = (a >> _WORD_BITS) ^ c3 ^ k1, a & _LOW_WORD_MASK
        k0, k1 = (k0 + _KEY_A) & _LOW_WORD_MASK, (k1 + _KEY_B) & _LOW_WORD_MASK
    return tuple(c.astype(np.uint32) for c in (c0, c1, c2, c3))


_ONE_WORD_TWICE = "tl.rand and tl.randint at one seed and offset, which give one word twice"


@dataclass(frozen=True)
class DrawFamily:
    """Numbers that are addressed alike: ``count`` equally likely ones, the i-th ``number(i)``.

    They rise with i. ``form``: what the number is of a uniform. ``shares_words``: numbers of
    another family are made of the same words, so that one of each is no two draws.
    """

    name: str
    count: int
    number: Callable[[int], Any]
    form: Form = IDENTITY_FORM
    shares_words: bool = False

    def draw(self, address: tuple[Hashable, ...]) -> Any:
        """Return the draw at an address on the path that is followed."""
        source = active_source()
        assert source is not None
        if self.shares_words and source.addressed.setdefault(address, self.name) != self.name:
            refuse_kernel(_ONE_WORD_TWICE)
        machine = Machine(None, self.number, self.number(self.count * 4 // 7), 0.0)
        draw = lambda: uniform_on_grid(source.uniform(), machine, self.count, self.form)  # noqa: E731
        return draw_at_address(source, (self.name, *address), draw)


UNIFORM_FAMILY = DrawFamily(
    "tl.rand",
    2**31,
    lambda k: float32.kind(float32.kind(k) * float32.kind(UNIFORM_SCALE)),
    shares_words=True,
)
INTEGER_FAMILY = DrawFamily(
    "tl.randint",
    2**32,
    lambda k: np.int32(k - 2**31),
    IDENTITY_FORM.affine(2.0**32, -(2.0**31)),
    True,
)
HASHED_FAMILY = DrawFamily(
    "hash", 2**32, lambda k: float32.kind(min((k + 0.5) * 2.0**-32, 1 - 2.0**-24))
)
"""Uniforms of 32 bits, rounded to float32, in (0, 1): what rounds to 1 is the number below it."""


def _draw_address(x: Any) -> Hashable:
    return (id(x.atom), x.form) if isinstance(x, Draw) else int(x)


def draw_block(family: DrawFamily, kind: Dtype, *parts: Any) -> Block:
    """Return the draws at the addresses that ``parts``, scalars and blocks, spell together."""

    def at(*columns: Any) -> Any:
        arrays = [np.asanyarray(x) if not isinstance(x, Draw) else x[None] for x in columns]
        shape = np.broadcast_shapes(*(np.shape(x) for x in arrays))
        spread = [np.broadcast_to(x, shape).ravel().tolist() for x in arrays]
        made = [family.draw(tuple(map(_draw_address, row))) for row in zip(*spread, strict=True)]
        return make_draw_array(made, shape)

    blocks = [as_block(x) for x in parts]
    if all(x.is_scalar for x in blocks):
        return Block(family.draw(tuple(_draw_address(x.data) for x in blocks)), kind)
    rows = [x for x in blocks if x.rest is not None]
    if not rows:
        return Block(at(*(x.data for x in blocks)), kind)
    # Of a row none is drawn until something asks for it.
    count = rows[0].count

    def made(first: int, end: int) -> Any:
        return at(*(x.data if x.is_scalar else x.first(end)[first:end] for x in blocks))

    return Block(np.zeros(0, kind.kind), kind, LazyLanes(made), count)


def _philox_counters(seed: Any, offset: Any) -> tuple[Block, Block]:
    """Return a seed and offsets as the words that Philox takes: -1 of 32 bits is 2^32 - 1."""
    place = as_block(offset)
    wide: Dtype = uint64 if place.dtype.bits > uint32.bits else uint32
    if is_symbolic(place.data):
        wide = place.dtype
    return as_block(seed), place.to(wide)


def _random_function(
    family: DrawFamily, kind: Dtype, convert: Callable[[Block], Block], count: int
) -> Callable[..., Any]:
    """Return what gives ``count`` blocks of random numbers for each offset, or one block."""

    def draw(seed: Any, offset: Any, n_rounds: int = 10) -> Any:
        if active_source() is not None:
            address = _philox_counters(seed, offset)
            blocks = [draw_block(family, kind, *address, word) for word in range(count)]
        else:
            blocks = [convert(word) for word in _random_words(seed, offset, n_rounds, count)]
        return tuple(blocks) if count > 1 else blocks[0]

    return draw


def _word_as_integer(word: Block) -> Block:
    return word.to(int32, bitcast=True)


def _word_as_uniform(word: Block) -> Block:
    return elementwise(word_to_uniform, float32, word)


randint4x = _random_function(INTEGER_FAMILY, int32, _word_as_integer, 4)
randint = _random_function(INTEGER_FAMILY, int32, _word_as_integer, 1)
"""Random int32: ``tl.randint4x`` and ``tl.randint``."""

rand4x = _random_function(UNIFORM_FAMILY, float32, _word_as_uniform, 4)
rand = _random_function(UNIFORM_FAMILY, float32, _word_as_uniform, 1)
"""Uniforms, float32 in [0, 1): ``tl.rand4x`` and ``tl.rand``."""


def _random_words(seed: Any, offset: Any, n_rounds: int, count: int) -> list[Block]:
    place = as_block(offset)
    low = place.to(uint32)
    zero: Block = low * 0
    high = (place >> 32).to(uint32) if place.dtype.bits > uint32.bits else zero
    return _philox_blocks(seed, (low, high, zero, zero), int(n_rounds), count)


def word_to_uniform(word: Any) -> Any:
    """Return a uniform of each word, float32 in [0, 1)."""
    bits = word.view(np.int32)
    return float32.kind(UNIFORM_SCALE) * np.where(bits < 0, ~bits, bits).astype(float32.kind)


def addressed(
    function: Callable[..., Any], family: DrawFamily = HASHED_FAMILY
) -> Callable[..., Any]:
    """Return a kernel's own counter-based generator, whose numbers are draws in the exact tier.

    ``function(seed, ...)`` returns uniforms for its arguments, which are their address; a number
    that it draws twice for one address is one draw. Elsewhere it is run itself.
    """
    name = getattr(function, "__name__", "hash")
    variant = DrawFamily(name, family.count, family.number, family.form)

    def counted(*parts: Any) -> Any:
        return function(*parts) if active_source() is None else draw_block(variant, float32, *parts)

    return counted


def followed_as(function: Callable[..., Any], stand_in: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a kernel's, as a series, that the exact tier follows as ``stand_in``."""

    def choose(*parts: Any) -> Any:
        return (function if active_source() is None else stand_in)(*parts)

    return choose


MAX_EAGER_LANES = 32
"""So many lanes are written out: what the others are of longer rows would take longer to say."""


class NamespaceModule:
    """Names that stand for a module; one that is not there is refused, with the line it is on."""

    def __init__(self, name: str, names: dict[str, Any]) -> None:
        self.__name__ = name
        vars(self).update(names)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse_kernel(f"{self.__name__}.{name}, which is not known here")


def arange(start: Any, end: Any) -> Block:
    first, count = int(start), int(end) - int(start)
    if count <= 0 or count & (count - 1):
        refuse_kernel(f"tl.arange of {count} elements: Triton takes powers of two")
    if count <= MAX_EAGER_LANES:
        return Block(np.arange(first, first + count, dtype=int32.kind), int32)
    return Block(np.zeros(0, int32.kind), int32, ArithmeticLanes(first, 1, int32.kind), count)


def full(shape: Any, value: Any, dtype: Dtype) -> Block:
    return broadcast_to(as_block(value).to(dtype), shape)


def zeros(shape: Any, dtype: Dtype) -> Block:
    return full(shape, scalar_block(0, int32), dtype)


def broadcast_to(block: Any, *shape: Any) -> Block:
    given, sides = as_block(block), _sides(shape)
    if given.shape == sides:
        return given
    if given.is_scalar and len(sides) == 1:
        return Block(np.zeros(0, given.dtype.kind), given.dtype, ConstantLanes(given.data), *sides)
    return Block(np.broadcast_to(np.asanyarray(given.whole()), sides), given.dtype)


def where(condition: Any, x: Any, y: Any) -> Block:
    """Return elements of ``x`` where the condition holds, and of ``y`` elsewhere."""
    gate = as_block(condition).to(int1)
    # A number of Python's is a block of its own type first: 0.1 is one of float32.
    one, other, kind = promote_operands(as_block(x), as_block(y))
    if gate.is_scalar and one.is_scalar and other.is_scalar:
        return one if bool(gate.data) else other
    if isinstance(gate.rest, ConstantLanes) and is_number(gate.rest.value):
        known = len(gate.data)
        chosen = one if gate.rest.value else other
        if all(z.is_scalar or z.shape == gate.shape for z in (one, other)):
            head = np.zeros(0, kind.kind)
            if known:
                head = _select(gate.data, one.first(known), other.first(known))
            if chosen.is_scalar:
                return Block(head, kind, ConstantLanes(chosen.data), gate.count)
            if chosen.rest is not None and len(chosen.data) <= known:
                return Block(head, kind, chosen.rest, gate.count)
    return elementwise(_select, kind, gate, one, other)


def _select(gate: Any, x: Any, y: Any) -> Any:
    if not isinstance(gate, np.ndarray) and not any(isinstance(z, np.ndarray) for z in (x, y)):
        return x if gate else y
    return np.where(gate, x, y)


def _binary_function(ufunc: Any) -> Callable[..., Block]:
    def apply(x: Any, y: Any, propagate_nan: Any = None) -> Block:
        one, other, kind = promote_operands(as_block(x), as_block(y))
        return elementwise(ufunc, kind, one, other)

    return apply


def _unary_function(ufunc: Any) -> Callable[..., Block]:
    def apply(x: Any) -> Block:
        given = as_block(x)
        if not given.dtype.is_floating() or given.dtype.bits < float32.bits:
            refuse_kernel(f"{ufunc.__name__} of a block {given.dtype}: Triton takes fp32 and fp64")
        return elementwise(ufunc, given.dtype, given)

    return apply


def _abs(x: Any) -> Block:
    given = as_block(x)
    return elementwise(abs, given.dtype, given)


def _sigmoid(x: Any) -> Block:
    given = as_block(x)
    return elementwise(lambda z: 1 / (1 + np.exp(-z)), given.dtype, given)


def _sides(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Return a shape that was given as several arguments, or as one."""
    one = len(shape) == 1 and isinstance(shape[0], tuple | list)
    return tuple(int(n) for n in (shape[0] if one else shape))


def _reshape(block: Any, *shape: Any, **hints: Any) -> Block:
    return Block(np.reshape(as_block(block).whole(), _sides(shape)), block.dtype)


def _cdiv(x: Any, y: Any) -> Any:
    if isinstance(x, Block) or isinstance(y, Block):
        return (x + (y - 1)) // y
    return -(-x // y)


def _assert(condition: Any, message: Any = "", **hints: Any) -> None:
    held = condition.whole() if isinstance(condition, Block) else condition
    if not np.all(held):
        raise AssertionError(message)


_FUNCTIONS: dict[str, Any] = {
    **{x.__name__: x for x in (load, store, program_id, num_programs, philox, arange)},
    **{x.__name__: x for x in (full, zeros, broadcast_to, where)},
    "rand": rand,
    "rand4x": rand4x,
    "randint": randint,
    "randint4x": randint4x,
    "minimum": _binary_function(np.fmin),
    "maximum": _binary_function(np.fmax),
    **{x: _unary_function(getattr(np, x)) for x in names("exp log exp2 log2 sqrt floor ceil")},
    "abs": _abs,
    "sigmoid": _sigmoid,
    "cdiv": _cdiv,
    "cast": lambda x, dtype, *, bitcast=False: as_block(x).to(dtype, bitcast=bitcast),
    "sum": sum_elements,
    "cumsum": cumulative_sum,
    "max": MAXIMUM.value,
    "min": MINIMUM.value,
    "argmax": MAXIMUM.place,
    "argmin": MINIMUM.place,
    "reshape": _reshape,
    "view": _reshape,
    "expand_dims": lambda block, axis: Block(
        np.expand_dims(as_block(block).whole(), int(axis)), block.dtype
    ),
    "ravel": lambda x: _reshape(x, -1),
    "zeros_like": lambda x: zeros(x.shape, x.dtype),
    "full_like": lambda x, value: full(x.shape, value, x.dtype),
    # A program runs alone, one operation after the other.
    "debug_barrier": lambda: None,
    **dict.fromkeys(("static_assert", "device_assert"), _assert),
    **dict.fromkeys(("static_print", "device_print"), lambda *values, **named: None),
    **dict.fromkeys(("multiple_of", "max_contiguous"), lambda x, *hints: x),
    "assume": lambda condition: None,
    # A constant is its value.
    "constexpr": lambda value: value,
    "static_range": range,
    "range": kernel_range,
    "dtype": Dtype,
    "tensor": Block,
    **DTYPES,
}

LIBDEVICE = NamespaceModule(
    "libdevice",
    {
        **{x: _unary_function(getattr(np, x)) for x in names("log1p expm1 exp log sqrt")},
        **{f"fast_{x}f": _unary_function(getattr(np, x)) for x in ("exp", "log")},
        "isnan": lambda x: x != x,
        "abs": _abs,
    },
)
"""Functions of ``libdevice``: those that CUDA calls fast are computed in full."""

_FUNCTIONS["math"] = LIBDEVICE
tl = NamespaceModule("tl", _FUNCTIONS)
triton = NamespaceModule(
    "triton",
    {
        **{x.__name__: x for x in (jit, autotune, heuristics, Config)},
        "cdiv": _cdiv,
        "next_power_of_2": lambda number: 1 << (int(number) - 1).bit_length(),
        "language": tl,
    },
)

for _name in names("sum max min argmax argmin cumsum exp log abs"):
    setattr(Block, _name, _FUNCTIONS[_name])
__all__ = ["LIBDEVICE", "float32", "math", "tl", "triton"]
