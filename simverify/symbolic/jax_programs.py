"""JAX's programs, run on draws: the rules of its primitives, and the order in which they run.

Values are plain numpy arrays as long as they are known, arrays of draws, and arrays of what can
only be moved: keys, the words of old-style keys, and random bits. What is known is computed once
for all paths that made the same choices so far.
"""

# ruff: noqa: D102, D103 - rules are documented in the library that they stand for

__simverify_role__ = "stand-in"


import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from simverify.symbolic.arrays import (
    DrawArray,
    Winner,
    array_of_objects,
    make_draw_array,
    resolve_winners,
)
from simverify.symbolic.forms import Form, Machine, to_bfloat16
from simverify.symbolic.jax_keys import BFLOAT16, JaxKeyBook, one_plus_type, unit_grid
from simverify.symbolic.keys import Key, KeyWord, Word
from simverify.symbolic.promotion import Float64Promotion
from simverify.symbolic.provenance import current_user_line, is_user_file, names
from simverify.symbolic.scalar import ARRAY_HOOKS, Draw
from simverify.symbolic.source import RandomSource

Value = Any
"""A plain array, a ``DrawArray``, :class:`Moved` or :class:`Bits`."""


class Moved:
    """An array of keys, or of the words of old-style ones: it can only be moved."""

    __slots__ = ("elements",)

    def __init__(self, elements: Any) -> None:
        self.elements = elements

    def like(self, elements: Any) -> "Moved":
        return Moved(elements)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements.shape  # type: ignore[no-any-return]


class Bits(Moved):
    """Words of random bits, and what has been done to all of them so far."""

    __slots__ = ("dtype", "steps")

    def __init__(self, elements: Any, dtype: np.dtype[Any], steps: tuple[Any, ...] = ()) -> None:
        super().__init__(elements)
        self.dtype, self.steps = dtype, steps

    def like(self, elements: Any) -> "Bits":
        return Bits(elements, self.dtype, self.steps)


def is_known(value: Value) -> bool:
    return type(value) is np.ndarray


def objects(shape: Sequence[int], elements: "list[Any]") -> Any:
    return array_of_objects(elements).reshape(tuple(shape))


def _as_objects(x: Value) -> Any:
    return x.view(np.ndarray) if type(x) is DrawArray else objects(x.shape, list(x.ravel()))


def settle_shape(value: Any) -> Value:
    """Return what a function of numpy's gives as an array, plain where nothing in it is a draw."""
    if isinstance(value, Draw):
        return ARRAY_HOOKS.holding(value)
    if type(value) is Winner:
        array = np.empty((), dtype=object).view(DrawArray)
        np.ndarray.__setitem__(array, (), value)
        return array
    if isinstance(value, np.ndarray) and (type(value) is np.ndarray or type(value) is DrawArray):
        return value
    return np.asarray(value)


# Programs: a JAX program as a list of steps, the called ones put in place.


class Step:
    """One primitive, the slots of what it takes and gives, and the line that it is from."""

    __slots__ = ("cache", "ins", "is_map", "kinds", "line", "name", "outs", "params", "primitive")

    def __init__(
        self, primitive: Any, params: dict[str, Any], ins: list[int], outs: list[int], line: str
    ) -> None:
        self.primitive, self.params = primitive, params
        self.name: str = primitive.name
        self.ins, self.outs, self.line = ins, outs, line
        self.is_map = self.name in ELEMENTWISE and self.name not in _COMPARISONS
        self.kinds: list[Any] = []
        self.cache: dict[Any, Any] = {}


class _Computed(NamedTuple):
    """What an operation makes of a draw, whichever it is."""

    form: Form
    machine: Machine


class _Node:
    """What is known after the same choices: the values up to step ``end``.

    ``chains``: those that start there, by the forms and machines of the draws that they take.
    """

    __slots__ = ("chains", "children", "end", "values")

    def __init__(self) -> None:
        self.values: list[tuple[int, Any]] = []
        self.end = -1
        self.children: dict[Any, _Node] = {}
        self.chains: dict[Any, _Chain] = {}

    def chain_of(self, draws: "list[Draw]") -> "_Chain | None":
        """Return the chain that such draws start; None if there are too many others."""
        likeness = tuple([id(y) for x in draws for y in (x.form, x.machine)])
        chain = self.chains.get(likeness)
        if chain is None and len(self.chains) < _MAX_CHAINS:
            chain = self.chains[likeness] = _Chain(draws)
        return chain


class _Chain:
    """Steps that each map the draws that the step before made, one by one.

    ``made``: what has become of each after the last one, step ``end - 1``, in slot ``out``;
    ``values``: what else is known by then; ``node``: what comes next.
    """

    __slots__ = ("end", "like", "made", "node", "out", "start", "values")

    def __init__(self, draws: "list[Draw]") -> None:
        # Kept alive, so that no other form gets the same id.
        self.start = [(x.form, x.machine) for x in draws]
        self.made: list[Any] = []
        self.values: list[tuple[int, Any]] = []
        self.out = self.end = -1
        self.like: Any = None
        self.node: _Node | None = None

    def grow(self, draws: "list[Draw]", step: Step, value: Value, before: _Node) -> bool:
        """Take in one more step, if it has mapped the draws one by one."""
        if type(value) is not DrawArray or value.size != len(draws):
            return False
        made: list[Any] = []
        for x, draw in zip(value.view(np.ndarray).ravel().tolist(), draws, strict=True):
            of_draw = isinstance(x, Draw) and x.atom is draw.atom
            if isinstance(x, Draw | Winner) and not of_draw:
                return False
            made.append(_Computed(x.form, x.machine) if of_draw else x)
        if self.made:
            self.values += before.values
        self.made = made
        self.out, self.like = step.outs[0], (value.shape, value.dtype)
        return True

    def replay(self, draws: "list[Draw]", env: "list[Any]") -> None:
        """Put in place what becomes of draws like those that the steps were done with."""
        made = [
            Draw.kind(x.atom, *y) if type(y) is _Computed else y
            for x, y in zip(draws, self.made, strict=True)
        ]
        shape, kind = self.like
        array = objects(shape, made).view(DrawArray)
        array._real = kind
        env[self.out] = array
        for slot, value in self.values:
            env[slot] = value


_MAX_NODES = 20_000
_MAX_CHAINS = 8
"""Chains kept at one node. Where more kinds of draws come there, their forms never repeat."""
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "shard_map": "jaxpr",
}
"""Primitives that call a program, and which parameter has it."""

_ON_ONE_DEVICE = names("axis_index pvary psum psum_invariant pmax pmin")
"""Primitives of ``jax.shard_map`` that give back what they are given, or 0, on a single device."""

_LIFTED: dict[Float64Promotion, tuple[Any, ...]] = {
    "half": (np.float16, jnp.bfloat16),
    "single": (np.float16, jnp.bfloat16, np.float32),
}

_MAX_EVEN_INTEGERS = 2**16
"""So many integers JAX makes of 64 bits, each as likely but for one part in 2**48."""

_SILENT = ("debug_callback", "debug_print")
_RANDOM = names("random_seed random_wrap random_unwrap random_split random_fold_in random_bits")
_LOOPS = names("while scan cond")


class Program:
    """A JAX program; ``constants`` are its own, by slot."""

    def __init__(self, closed: Any, runner: "Runner", line: str = "") -> None:
        self.closed = closed
        self.steps: list[Step] = []
        self.constants: list[tuple[int, Any]] = []
        self._slots = 0
        self._roots: dict[Any, _Node] = {}
        self._nodes = 0
        jaxpr, self._runner = closed.jaxpr, runner
        where: dict[Any, int] = {}
        self.ins = [self._slot(where, x) for x in jaxpr.invars]
        for variable, value in zip(jaxpr.constvars, closed.consts, strict=True):
            self.constants.append((self._slot(where, variable), value))
        self._add(jaxpr, where, line)
        self.outs = [self._place(where, x) for x in jaxpr.outvars]
        self.known_constants = [(s, runner.lower(v)) for s, v in self.constants]
        readers = Counter([*self.outs, *(slot for step in self.steps for slot in step.ins)])
        self._read_once = {slot for slot, count in readers.items() if count == 1}

    def _slot(self, where: dict[Any, int], variable: Any) -> int:
        where[variable] = self._slots
        self._slots += 1
        return self._slots - 1

    def _place(self, where: dict[Any, int], x: Any) -> int:
        if isinstance(x, core.Literal):
            self.constants.append((self._slots, x.val))
            self._slots += 1
            return self._slots - 1
        return where[x]

    def _add(self, jaxpr: Any, where: dict[Any, int], line: str) -> None:
        users = _is_users(jaxpr)
        for eqn in jaxpr.eqns:
            place = (_line_of(eqn) if users else "") or line
            name = eqn.primitive.name
            if name in _SILENT:
                continue
            ins = [self._place(where, x) for x in eqn.invars]
            if (
                name in _CALLS
                and not is_randint(name, eqn.params)
                and not _is_on_several_devices(eqn)
            ):
                called = eqn.params[_CALLS[name]]
                inner: dict[Any, int] = {}
                if hasattr(called, "consts"):
                    for variable, value in zip(called.jaxpr.constvars, called.consts, strict=True):
                        self.constants.append((self._slot(inner, variable), value))
                    called = called.jaxpr
                inner.update(zip(called.invars, ins, strict=True))
                self._add(called, inner, place)
                outs = [self._place(inner, x) for x in called.outvars]
                where.update(zip(eqn.outvars, outs, strict=True))
                continue
            outs = [self._slot(where, x) for x in eqn.outvars]
            step = Step(eqn.primitive, eqn.params, ins, outs, place)
            step.kinds = [self._runner.kind(getattr(x.aval, "dtype", None)) for x in eqn.outvars]
            self.steps.append(step)

    def run(self, args: Sequence[Value], line: str) -> "list[Value]":
        runner = self._runner
        env: list[Any] = [None] * self._slots
        for slot, value in self.known_constants:
            env[slot] = value
        for slot, value in zip(self.ins, args, strict=True):
            env[slot] = value
        if runner.on_numbers:
            for step in self.steps:
                self._do(step, env, line)
            return [env[slot] for slot in self.outs]
        key = tuple((x.dtype, x.tobytes()) if is_known(x) else None for x in args)
        node, at, steps = self._next(self._roots, key), 0, self.steps
        chain: _Chain | None = None
        draws: list[Draw] = []
        state: Any = None
        while True:
            if node.end < 0:
                node.end, node.values = self._known_steps(env, at, line)
            else:
                for slot, value in node.values:
                    env[slot] = value
            at = node.end
            if at == len(steps):
                return [env[slot] for slot in self.outs]
            step, here = steps[at], node
            mapped = _mapped_slot(step, env) if step.is_map else None
            if chain is not None and (mapped != chain.out or mapped not in self._read_once):
                chain = None
            if chain is None and mapped is not None and (draws := _fresh_draws(env[mapped])):
                chain, state = here.chain_of(draws), runner.state()
                if chain is not None and chain.node is not None:
                    chain.replay(draws, env)
                    at, node = chain.end, chain.node
                    continue
            outs = self._do(step, env, line)
            at += 1
            node = self._next(
                here.children, tuple([x.tobytes() if is_known(x) else None for x in outs])
            )
            if chain is not None:
                if runner.state() == state and chain.grow(draws, step, outs[0], here):
                    chain.end, chain.node = at, node
                else:
                    chain = None

    def _next(self, nodes: dict[Any, _Node], key: Any) -> _Node:
        node = nodes.get(key)
        if node is None:
            if self._nodes > _MAX_NODES:
                self._roots.clear()
                self._nodes = 0
                return _Node()
            self._nodes += 1
            node = nodes[key] = _Node()
        return node

    def _known_steps(
        self, env: "list[Any]", at: int, line: str
    ) -> tuple[int, list[tuple[int, Any]]]:
        """Run the steps from ``at`` on whose values are known; return where they end."""
        values: list[tuple[int, Any]] = []
        for i in range(at, len(self.steps)):
            step = self.steps[i]
            if step.name in _RANDOM or step.name in _LOOPS or step.name == "jit":
                return i, values
            for slot in step.ins:
                if type(env[slot]) is not np.ndarray:
                    return i, values
            self._do(step, env, line)
            values += [(slot, env[slot]) for slot in step.outs]
        return len(self.steps), values

    def _do(self, step: Step, env: "list[Any]", line: str) -> "list[Value]":
        outs = self._runner.apply(step, [env[slot] for slot in step.ins], step.line or line)
        for slot, value in zip(step.outs, outs, strict=True):
            env[slot] = value
        return outs


def _mapped_slot(step: Step, env: "list[Any]") -> int | None:
    """Return the slot of the draws that a step maps one by one; None if it is not only one's."""
    drawn = None
    for slot in step.ins:
        kind = type(env[slot])
        if kind is DrawArray and drawn is None:
            drawn = slot
        elif kind is not np.ndarray:
            return None
    return drawn


def _is_fresh(x: Any) -> bool:
    """Whether an element is a draw of which nothing is known yet."""
    if not isinstance(x, Draw):
        return False
    atom = x.atom
    return atom.low == 0.0 and atom.high == 1.0 and atom.owner is None


def _fresh_draws(array: DrawArray) -> "list[Draw]":
    """Return the draws of an array, or nothing if something is known of one."""
    flat = array.view(np.ndarray).ravel().tolist()
    return flat if all(map(_is_fresh, flat)) else []


def _file_of(jaxpr: Any) -> str:
    """Return the source file of the function that a program is traced from."""
    source = getattr(getattr(jaxpr, "debug_info", None), "func_src_info", "") or ""
    return str(source.rpartition(" at ")[2].rpartition(":")[0])


def _is_users(jaxpr: Any) -> bool:
    """Whether a program is traced from code under audit, by the file of its function."""
    file = _file_of(jaxpr)
    return bool(file) and is_user_file(file)


_RANDOM_FILE = jax.random.randint.__code__.co_filename


def is_randint(name: str, params: dict[str, Any]) -> bool:
    """Whether a call is that of JAX's own function of random integers."""
    if name not in ("jit", "pjit") or params.get("name") != "_randint":
        return False
    return _file_of(params["jaxpr"].jaxpr) == _RANDOM_FILE


def _is_on_several_devices(eqn: Any) -> bool:
    """Whether an equation runs its program on several devices."""
    return eqn.primitive.name == "shard_map" and bool(eqn.params["mesh"].size != 1)


def _line_of(eqn: Any) -> str:
    traceback = eqn.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        if is_user_file(frame.file_name):
            return f"{frame.file_name}:{frame.line_num}"
    return ""


# Rules of primitives. Those of one kind are functions of numpy, of known values and draws alike.


def _elementwise() -> dict[str, Callable[..., Any]]:
    same = names("add exp expm1 log log1p sqrt square sign floor ceil tan tanh sin cos")
    other = {
        "is_finite": np.isfinite,
        "not": np.invert,
        "sub": np.subtract,
        "mul": np.multiply,
        "neg": np.negative,
        "abs": np.absolute,
        "max": np.maximum,
        "min": np.minimum,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "add_any": np.add,
        "eq": np.equal,
        "eq_to": np.equal,
        "ne": np.not_equal,
        "lt_to": np.less,
        "le_to": np.less_equal,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "pow": np.power,
        "shift_left": np.left_shift,
    }
    return {name: getattr(np, name) for name in same} | other


ELEMENTWISE = _elementwise()
_COMPARISONS = names("lt le gt ge eq ne lt_to le_to eq_to")


def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any, **_: Any) -> Any:
    steps = strides or (1,) * len(start_indices)
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _broadcast_in_dim(x: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    wide = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
        wide[int(axis)] = size
    return np.broadcast_to(x.reshape(wide), shape)


def _split(x: Any, *, sizes: Any, axis: int) -> Any:
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def _reshape(x: Any, *, new_sizes: Any, dimensions: Any = None, **_: Any) -> Any:
    return (x if dimensions is None else np.transpose(x, dimensions)).reshape(new_sizes)


def _select_n(which: Any, *cases: Any) -> Any:
    if which.dtype == np.bool_:
        return np.where(which, cases[1], cases[0])
    result = cases[0]
    for i, case in enumerate(cases):
        result = np.where(which == i, case, result)
    return result


MOVES: dict[str, Callable[..., Any]] = {
    "reshape": _reshape,
    "squeeze": lambda x, *, dimensions: np.squeeze(x, tuple(dimensions)),
    "expand_dims": lambda x, *, dimensions: np.expand_dims(x, tuple(dimensions)),
    "broadcast_in_dim": _broadcast_in_dim,
    "transpose": lambda x, *, permutation: np.transpose(x, permutation),
    "slice": _slice,
    "rev": lambda x, *, dimensions: np.flip(x, dimensions),
    "copy": lambda x: x,
    "name": lambda x, **_: x,
    "sharding_constraint": lambda x, **_: x,
    "device_put": lambda *xs, **_: list(xs),
    "random_clone": lambda x: x,
    "stop_gradient": lambda x: x,
    "optimization_barrier": lambda *xs: list(xs),
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "split": _split,
    "stack": lambda *xs, axis: np.stack(xs, axis),
    "unstack": lambda x, *, axis: [np.take(x, i, axis) for i in range(x.shape[axis])],
    "tile": lambda x, *, reps: np.tile(x, reps),
}
"""What moves all that it is given, whatever it is."""

INDEXED = {
    "gather": ((0,), (1,)),
    "dynamic_slice": ((0,), None),
    "dynamic_update_slice": ((0, 1), None),
    "scatter": ((0, 2), (1,)),
    "pad": ((0, 1), None),
}
"""Which operands are moved, and which say where to (None: the others)."""

REDUCTIONS = {
    "reduce_sum": np.add,
    "reduce_max": np.maximum,
    "reduce_min": np.minimum,
    "reduce_prod": np.multiply,
    "reduce_and": np.bitwise_and,
    "reduce_or": np.bitwise_or,
}
COMBINING = {"scatter-add": np.add, "scatter-sub": np.subtract, "scatter-mul": np.multiply}
RUNNING = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}


class Runner:
    """Runs primitives of JAX on the draws of a path.

    ``plain``: draws are numbers, and JAX itself computes all that is computed.
    """

    def __init__(self, source: RandomSource, lift: Float64Promotion | None, *, plain: bool) -> None:
        self.source = source
        self.book = JaxKeyBook(source, self._current_line)
        self.plain = plain
        self._lifted = tuple(map(np.dtype, _LIFTED[lift])) if lift else ()
        self._line = ""
        self._programs: dict[int, Program] = {}

    @property
    def on_numbers(self) -> bool:
        return self.source.plan is not None

    def state(self) -> tuple[Any, ...]:
        """Return what changes whenever a step decides something of a draw, or makes one."""
        source = self.source
        return source.path.position, source.slack, len(source.draws), len(source.dtypes)

    def _current_line(self) -> str:
        return self._line or current_user_line()

    def refuse(self, call: str) -> Any:
        where = f" ({self._line})" if self._line else ""
        self.source.refuse(f"{call}{where}")

    def kind(self, dtype: Any) -> Any:
        """Return the type to compute in; None of what is no type of numbers."""
        if not isinstance(dtype, np.dtype):
            return None
        return np.dtype(np.float64) if dtype in self._lifted else dtype

    # -- values --

    def lower(self, x: Any) -> Value:
        """Return a value of JAX's as what is computed with here."""
        if type(x) is DrawArray:
            return x
        dtype = getattr(x, "dtype", None)
        if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key):
            return self._constant_keys(x)
        return self._plain_array(np.asarray(x, dtype=dtype))

    def _plain_array(self, x: Any) -> Any:
        if x.dtype in self._lifted:
            # Where JAX keeps uniforms from 0, the smallest number is that of the type.
            if x.dtype == np.float16 and x.size == 1 and x == _TINY_HALF:
                return np.full_like(x, np.finfo(np.float64).tiny, np.float64)
            return x.astype(np.float64)
        if x.dtype in (np.float16, np.float32) or x.dtype.name == "bfloat16":
            self.source.meet(x.dtype)
        return x

    def _constant_keys(self, x: Any) -> Moved:
        with jax.core.eval_context():
            data = np.asarray(jax.random.key_data(x))
        name = str(jax.random.key_impl(x))
        return self._keys_of_data(name, data)

    def _keys_of_data(self, impl: str, data: Any) -> Moved:
        rows = data.reshape(-1, data.shape[-1]).tolist()
        made = []
        for row in rows:
            key = Key(impl, -1)
            key.data = tuple(row)
            made.append(key)
        return Moved(objects(data.shape[:-1], made))

    def force(self, x: Value) -> Value:
        """Return bits as the numbers that they are."""
        if type(x) is not Bits:
            if type(x) is Moved:
                self.refuse("arithmetic with a JAX key")
            return x
        flat: list[Word] = x.elements.ravel().tolist()
        if (dtype := one_plus_type(x.steps)) is not None:
            kind = self.kind(dtype)
            one = widened(np.ones((), kind))[()]
            sums = np.add(widened(self._uniforms(flat, x.shape, dtype)), one)
            return self._typed(settle_shape(sums), kind)
        value = self._array([word.integer() for word in flat], x.shape)
        for name, number in x.steps:
            if name == "shift":
                value = settle_shape(np.right_shift(value, number))
            elif name == "or":
                value = settle_shape(np.bitwise_or(value, number))
            elif number.kind == "f" or number == BFLOAT16:
                self.refuse("random bits as a number of floats")
            else:
                value = settle_shape(value.astype(number))
        return value

    def _uniforms(self, words: list[Word], shape: Any, dtype: np.dtype[Any]) -> Value:
        kind = self.kind(dtype)
        self.source.meet(kind)
        elements = [word.uniform(dtype, *unit_grid(kind)) for word in words]
        return self._of_elements(objects(shape, elements), kind)

    def _array(self, elements: "list[Any]", shape: Any) -> Value:
        if not elements:
            return np.zeros(shape)
        if not shape:
            return settle_shape(elements[0])
        return settle_shape(make_draw_array(elements, shape))

    def known(self, x: Value, name: str) -> Any:
        """Return the numbers in a value: winners of races in it are read."""
        if type(x) is np.ndarray:
            return x
        return np.asarray(ARRAY_HOOKS.known(self.force(x), name))

    # -- primitives --

    def run(self, closed: Any, args: Sequence[Value], line: str = "") -> "list[Value]":
        program = self._programs.get(id(closed))
        if program is None or program.closed is not closed:
            program = self._programs[id(closed)] = Program(closed, self)
        return program.run(args, line)

    def apply(self, step: Step, args: "list[Value]", line: str) -> "list[Value]":
        before, self._line = self._line, line
        try:
            return self._apply(step, args, line)
        finally:
            self._line = before

    def _apply(self, step: Step, args: "list[Value]", line: str) -> "list[Value]":
        name, params = step.name, step.params
        if name == "jit":
            return [self._randint(*args, closed=params["jaxpr"])]
        if name in _RANDOM:
            return [getattr(self, f"_{name}")(*args, **params)]
        if name in _LOOPS:
            return getattr(self, f"_{name}")(*args, line=line, **params)  # type: ignore[no-any-return]
        if name == "shard_map":
            self.refuse("jax.shard_map on several devices")
        if name in _ON_ONE_DEVICE:
            return self._on_one_device(step, args)
        known = all(type(x) is np.ndarray for x in args)
        if known and self.plain:
            return self._really(step, args)
        if name in MOVES:
            return self._move(MOVES[name], args, params)
        if name == "select_n":
            which = self.known(args[0], "jnp.where")
            return self._move(functools.partial(_select_n, which), args[1:], {})
        if known:
            result = self._computed(step, args)
            return self._really(step, args) if result is None else result
        if name in INDEXED:
            return self._indexed(step, args)
        if name in COMBINING:
            return [self._combined(step, *map(self.force, args))]
        if type(args[0]) is Bits and (result := self._on_bits(name, args, params)) is not None:
            return [result]
        args = [self.force(x) for x in args]
        if all(map(is_known, args)):
            # Bits of a replay are numbers.
            result = self._computed(step, args)
            return self._really(step, args) if result is None else result
        result = self._on_draws(step, list(map(widened, args)))
        if result is None:
            self.refuse(f"jax.lax.{name} of draws")
        return [
            x if kind is None else self._typed(settle_shape(x), kind)
            for x, kind in zip(result or [], step.kinds, strict=True)
        ]

    def _typed(self, x: Value, kind: np.dtype[Any]) -> Value:
        if kind == BFLOAT16 and not is_known(x):
            flat = x.view(np.ndarray).ravel().tolist()
            return self._of_elements(objects(x.shape, list(map(_rounded, flat))), kind)
        return x if x.dtype == kind else x.astype(kind)

    def _really(self, step: Step, args: "list[Value]") -> "list[Value]":
        """Let JAX compute what is known."""
        if step.name.endswith("callback"):
            self.refuse(f"jax.{step.name}")
        with jax.core.eval_context():
            result = step.primitive.bind(*args, **step.params)
        several = step.primitive.multiple_results
        arrays = [np.asarray(x) for x in (result if several else [result])]
        if any(x.dtype in self._lifted for x in arrays):
            self.refuse(f"jax.lax.{step.name} computed in float64")
        return arrays

    def _computed(self, step: Step, args: "list[Value]") -> "list[Value] | None":
        """Compute what is known as numpy does where that is quick and the same."""
        name = step.name
        with np.errstate(all="ignore"):
            if (function := ELEMENTWISE.get(name)) is not None:
                if name == "pow":
                    return None
                return [np.asarray(function(*args))]
            if name == "div" and args[0].dtype.kind == "f":
                return [np.asarray(np.divide(*args))]
            if name in REDUCTIONS and args[0].size:
                axes = tuple(step.params["axes"])
                made = REDUCTIONS[name].reduce(args[0], axis=axes)
                return [np.asarray(made).astype(args[0].dtype, copy=False)]
            if name == "convert_element_type" and step.kinds and step.kinds[0] is not None:
                kind, x = step.kinds[0], args[0]
                if x.dtype.kind in "biu" or kind.kind in "fb":
                    return [x.astype(kind)]
            if name == "iota" and step.kinds:
                shape, axis = step.params["shape"], step.params["dimension"]
                wide = [1] * len(shape)
                wide[axis] = shape[axis]
                rising = np.arange(shape[axis], dtype=step.kinds[0]).reshape(wide)
                return [np.array(np.broadcast_to(rising, shape))]
            if name in ("argmax", "argmin") and not np.isnan(args[0]).any() and step.kinds:
                (axis,) = step.params["axes"]
                return [np.asarray(getattr(np, name)(args[0], axis=axis)).astype(step.kinds[0])]
            if name == "dynamic_slice":
                starts, sizes = args[1:], step.params["slice_sizes"]
                cuts = [
                    slice(s := min(max(int(at), 0), have - size), s + size)
                    for at, size, have in zip(starts, sizes, args[0].shape, strict=True)
                ]
                return [args[0][tuple(cuts)]]
        return None

    def _move(
        self, function: Callable[..., Any], args: "list[Value]", params: dict[str, Any]
    ) -> "list[Value]":
        if all(type(x) is np.ndarray for x in args):
            result = function(*args, **params)
            parts = result if isinstance(result, list) else [result]
            return [np.ascontiguousarray(x).reshape(np.shape(x)) for x in parts]
        plain, wrap = self._as_elements(args)
        result = function(*plain, **params)
        return [wrap(x) for x in (result if isinstance(result, list) else [result])]

    def _as_elements(self, args: "list[Value]") -> tuple[list[Any], Callable[[Any], Value]]:
        """Return arrays of objects, and what makes values of them again."""
        moved = [x for x in args if isinstance(x, Moved)]
        first = moved[0] if moved else None
        if first is not None:
            alike = all(type(x) is type(first) for x in args)
            if alike and isinstance(first, Bits):
                alike = all((x.steps, x.dtype) == (first.steps, first.dtype) for x in args)
            if alike:
                return [x.elements for x in args], first.like
            args = [self.force(x) for x in args]
        plain = list(map(_as_objects, args))
        kind = args[0].dtype
        return plain, lambda x: self._of_elements(x, kind)

    def _of_elements(self, x: Any, kind: np.dtype[Any]) -> Value:
        flat = np.asarray(x, dtype=object).ravel().tolist()
        if not flat:
            return np.zeros(np.shape(x), kind)
        if not any(isinstance(y, Draw | Winner) for y in flat):
            return np.array(flat, dtype=kind).reshape(np.shape(x))
        made = objects(np.shape(x), flat).view(DrawArray)
        made._real = kind
        return made

    def _indexed(self, step: Step, args: "list[Value]") -> "list[Value]":
        """Move elements as JAX itself moves their numbers."""
        moved, saying = INDEXED[step.name]
        others = (i for i in range(len(args)) if i not in moved)
        where = {i: self.known(args[i], "an index") for i in saying or others}
        plain, wrap = self._as_elements([args[i] for i in moved])
        key = tuple((x.shape, x.tobytes()) for x in where.values())
        order = step.cache.get(key)
        if order is None:
            if step.params.get("fill_value") is not None:
                self.refuse(f"jax.lax.{step.name} with a value to fill in")
            numbers, count = dict(where), 0
            for i, x in zip(moved, plain, strict=True):
                numbers[i] = np.arange(count, count + x.size, dtype=np.int32).reshape(x.shape)
                count += x.size
            with jax.core.eval_context():
                order = np.asarray(
                    step.primitive.bind(*(numbers[i] for i in range(len(args))), **step.params)
                )
            step.cache[key] = order
        flat = np.concatenate([x.ravel() for x in plain])
        taken = flat[np.maximum(order, 0)]
        if (order < 0).any() or not flat.size:
            if isinstance(args[0], Moved):
                self.refuse("a JAX key out of bounds")
            kind = args[0].dtype
            missing = kind.type(np.nan) if kind.kind == "f" else np.iinfo(kind).min
            taken = np.where(order < 0, missing, taken)
        return [wrap(taken)]

    def _combined(self, step: Step, x: Value, where: Value, other: Value) -> Value:
        """Add draws at some places, or multiply, where no place comes twice."""
        where = self.known(where, "an index")
        numbers = np.arange(1, other.size + 1, dtype=np.int32).reshape(other.shape)
        blank = np.zeros(x.shape, np.int32)
        place = {k: v for k, v in step.params.items() if not k.startswith("update_")}
        with jax.core.eval_context():
            scatter = core.primitives.scatter_p
            add = core.primitives.scatter_add_p
            unused = {"update_jaxpr": None, "update_consts": ()}
            counts = np.asarray(add.bind(blank, where, np.ones_like(numbers), **place, **unused))
            order = np.asarray(scatter.bind(blank, where, numbers, **place, **unused))
        if (counts > 1).any():
            self.refuse("draws added twice at one place of an array")
        plain, wrap = self._as_elements([x, other])
        function = COMBINING[step.name]
        flat, added = (y.ravel().tolist() for y in plain)
        made = [
            function(y, added[i - 1]) if i else y
            for y, i in zip(flat, order.ravel().tolist(), strict=True)
        ]
        return wrap(objects(x.shape, made))

    def _on_bits(self, name: str, args: "list[Value]", params: dict[str, Any]) -> Value | None:
        """Note what is done to all words of an array; None where that is something else."""
        bits, number = args[0], None
        if len(args) > 1 and is_known(args[1]) and args[1].size == 1:
            number = args[1].item()
        step: Any = None
        if name == "shift_right_logical" and number is not None:
            step = ("shift", int(number))
        elif name == "or" and number is not None:
            step = ("or", int(number))
        elif name in ("bitcast_convert_type", "convert_element_type"):
            new = np.dtype(params["new_dtype"])
            if name == "bitcast_convert_type" and new.itemsize == bits.dtype.itemsize:
                step = ("cast", new)
            elif new.kind == "u" and new.itemsize > bits.dtype.itemsize:
                step = ("widen", new)
        elif name == "sub" and number == 1.0 and (dtype := one_plus_type(bits.steps)) is not None:
            return self._uniforms(bits.elements.ravel().tolist(), bits.shape, dtype)
        if step is None:
            return None
        dtype = step[1] if step[0] in ("cast", "widen") else bits.dtype
        return Bits(bits.elements, dtype, (*bits.steps, step))

    # -- rules for draws --

    def _on_draws(self, step: Step, args: "list[Value]") -> "list[Any] | None":
        name, params = step.name, step.params
        if any(_only_winners(x) for x in args):
            late = self._later(step, args)
            if late is not None:
                return [late]
        if name in ELEMENTWISE:
            return [self._ufunc(name, args)]
        if name == "div":
            if args[0].dtype.kind != "f":
                return None
            return [np.divide(*args)]
        if name == "integer_pow":
            return [np.power(args[0], args[0].dtype.type(params["y"]))]
        if name == "rsqrt":
            return [np.divide(args[0].dtype.type(1), np.sqrt(args[0]))]
        if name == "logistic":
            one = args[0].dtype.type(1)
            return [np.divide(one, np.add(one, np.exp(np.negative(args[0]))))]
        if name == "clamp":
            low, x, high = args
            return [np.minimum(np.maximum(x, low), high)]
        if name == "rem":
            return [self._rem(*args)]
        if name == "shift_right_logical":
            return [np.right_shift(*args)]
        if name == "convert_element_type":
            kind = step.kinds[0] if step.kinds else self.kind(np.dtype(params["new_dtype"]))
            return None if kind is None else [self._typed(args[0], kind)]
        if name == "round" and int(params["rounding_method"]) == 1:
            return [np.rint(args[0])]
        if name in REDUCTIONS:
            axes = tuple(params["axes"])
            return [self._reduced(REDUCTIONS[name], args[0], axes)]
        if name in RUNNING:
            return [self._running(RUNNING[name], args[0], params["axis"], params["reverse"])]
        if name in ("argmax", "argmin"):
            (axis,) = params["axes"]
            return [getattr(np, name)(args[0], axis=axis)]
        if name == "sort":
            return self._sort(args, **params)
        if name == "top_k":
            return self._top_k(*args, **params)
        return None

    def _ufunc(self, name: str, args: "list[Value]") -> Any:
        if name in ("mul", "add"):
            # Exact in the machine: no rounding is to be counted.
            for x, other in (args, args[::-1]):
                if (
                    is_known(other)
                    and type(x) is DrawArray
                    and np.size(other)
                    and (np.all(other == (1 if name == "mul" else 0)))
                ):
                    shape = np.broadcast_shapes(x.shape, other.shape)
                    if shape == x.shape:
                        return x
        if name == "add":
            for x, other in (args, args[::-1]):
                if type(x) is DrawArray and is_known(other) and _is_float16_floor(x, other):
                    flat = x.view(np.ndarray).ravel().tolist()
                    made = [_add_tiny(y) if isinstance(y, Draw) else y + _TINY_HALF for y in flat]
                    return self._of_elements(objects(x.shape, made), x.dtype)
        return ELEMENTWISE[name](*args)

    def _later(self, step: Step, args: "list[Value]") -> Value | None:
        """Return integers that are computed when they are read, of winners that are not yet.

        None of them may be negative, as no winner is.
        """
        name = step.name
        if not all((is_known(x) or _only_winners(x)) and _not_negative(x) for x in args):
            return None
        if name == "lt" and is_known(args[1]) and not args[1].any():
            return np.zeros(np.broadcast_shapes(args[0].shape, args[1].shape), np.bool_)
        if name == "convert_element_type":
            kind = step.kinds[0] if step.kinds else None
            if kind is None or kind.kind not in "iu":
                return None
            return self._of_elements(args[0].view(np.ndarray), kind)
        if name not in ("add", "mul", "max", "min") or args[0].dtype.kind not in "iu":
            return None
        function, source = ELEMENTWISE[name], self.source
        plain = list(map(_as_objects, args))
        one, two = np.broadcast_arrays(*plain)

        def later(x: Any, y: Any) -> Any:
            if not isinstance(x, Winner) and not isinstance(y, Winner):
                return function(x, y)
            site = (x if type(x) is Winner else y)._site

            def decide() -> int:
                return int(function(int(resolve_winners(x)), int(resolve_winners(y))))

            return Winner(source, decide, site)

        flat = list(map(later, one.ravel().tolist(), two.ravel().tolist()))
        return self._of_elements(objects(one.shape, flat), args[0].dtype)

    def _rem(self, x: Value, y: Value) -> Any:
        if x.dtype.kind == "u" or (is_known(y) and not (y < 0).any() and _not_negative(x)):
            return np.remainder(x, y)
        return self.refuse("jax.lax.rem of draws that may be negative")

    def _reduced(self, ufunc: Any, x: Value, axes: tuple[int, ...]) -> Any:
        if not axes:
            return x
        kept = [i for i in range(x.ndim) if i not in axes]
        lanes = np.transpose(x.view(np.ndarray), (*kept, *axes))
        shape = lanes.shape[: len(kept)]
        rows = lanes.reshape(*shape, -1)
        made = []
        for at in np.ndindex(*shape):
            row = self._of_elements(rows[at], x.dtype)
            made.append(ufunc.reduce(row) if is_known(row) else ufunc.reduce(row, axis=0))
        return self._of_elements(objects(shape, made), x.dtype) if shape else made[0]

    def _running(self, ufunc: Any, x: Value, axis: int, reverse: bool) -> Any:
        lanes = np.moveaxis(x.view(np.ndarray), axis, -1)
        result = np.empty(lanes.shape, dtype=object)
        for at in np.ndindex(*lanes.shape[:-1]):
            row = lanes[at][::-1] if reverse else lanes[at]
            sums: list[Any] = []
            for y in row.tolist():
                total = ufunc(sums[-1], y) if sums else y
                sums.append(total)
            result[at] = array_of_objects(sums[::-1] if reverse else sums)
        return self._of_elements(np.moveaxis(result, -1, axis), x.dtype)

    def _sort(
        self, args: "list[Value]", *, dimension: int, num_keys: int, is_stable: bool
    ) -> "list[Any]":
        if num_keys != 1:
            self.refuse("jax.lax.sort by several keys that are draws")
        plain = list(map(_as_objects, args))
        lanes = [np.moveaxis(x, dimension, -1) for x in plain]
        results = [np.empty(x.shape, dtype=object) for x in lanes]
        keys_known = is_known(args[0])
        for at in np.ndindex(*lanes[0].shape[:-1]):
            row = lanes[0][at].tolist()
            order = (
                np.argsort(np.array(row, args[0].dtype), kind="stable").tolist()
                if keys_known
                else _stable_order(row)
            )
            for x, result in zip(lanes, results, strict=True):
                result[at] = array_of_objects([x[at][i] for i in order])
        return [
            self._of_elements(np.moveaxis(x, -1, dimension), arg.dtype)
            for x, arg in zip(results, args, strict=True)
        ]

    def _top_k(self, x: Value, *, k: int, axis: int = -1, **_: Any) -> "list[Any]":
        lanes = np.moveaxis(x.view(np.ndarray), axis, -1)
        shape = (*lanes.shape[:-1], k)
        values, places = np.empty(shape, dtype=object), np.empty(shape, dtype=np.int32)
        for at in np.ndindex(*shape[:-1]):
            row = lanes[at].tolist()
            order = _stable_order(row, falling=True)[:k]
            values[at], places[at] = array_of_objects([row[i] for i in order]), order
        return [
            self._of_elements(np.moveaxis(values, -1, axis), x.dtype),
            np.moveaxis(places, -1, axis),
        ]

    # -- keys and bits --

    def _random_seed(self, seeds: Value, *, impl: Any) -> Value:
        name = str(impl) if isinstance(impl, str) else impl.name
        if not is_known(seeds):
            flat = self.force(seeds).view(np.ndarray).ravel().tolist()
            return Moved(objects(seeds.shape, [self.book.drawn(name, x) for x in flat]))
        with jax.core.eval_context():
            rows = [
                np.asarray(jax.random.key_data(jax.random.key(int(x), impl=name))).tolist()
                for x in seeds.ravel()
            ]
        keys = [
            self.book.constant(name, tuple(row), f"a JAX key is made of the constant {int(seed)}")
            for row, seed in zip(rows, seeds.ravel(), strict=True)
        ]
        return Moved(objects(seeds.shape, keys))

    def wrapped(self, words: Value) -> Value:
        """Return old-style keys, of JAX's default kind, as keys."""
        with jax.core.eval_context():
            default: Any = jax.random.key(0).dtype
            impl = default._impl
        return self._random_wrap(words, impl=impl)

    def _random_wrap(self, words: Value, *, impl: Any) -> Value:
        size, name = impl.key_shape[0], impl.name
        if is_known(words):
            return self._keys_of_data(name, words)
        if type(words) is Bits or type(words) is DrawArray:
            rows = self.force(words)
            rows = rows.reshape(-1, size)
            keys = [self.book.drawn(name, x.view(np.ndarray).tolist()) for x in rows]
            return Moved(objects(words.shape[:-1], keys))
        keys = []
        for row in words.elements.reshape(-1, size):
            first = row[0]
            whole = all(
                isinstance(x, KeyWord) and x.key is first.key and x.index == i
                for i, x in enumerate(row)
            )
            if not whole or first.key.impl != name:
                self.refuse("a JAX key put together from words of others")
            keys.append(first.key)
        return Moved(objects(words.shape[:-1], keys))

    def _random_unwrap(self, keys: Value) -> Value:
        size = (
            {"threefry2x32": 2}.get(keys.elements.ravel()[0].impl, 4) if keys.elements.size else 2
        )
        words = [KeyWord(key, i) for key in keys.elements.ravel() for i in range(size)]
        return Moved(objects((*keys.shape, size), words))

    def _random_split(self, keys: Value, *, shape: Any) -> Value:
        made = [child for key in keys.elements.ravel() for child in self.book.split(key, shape)]
        return Moved(objects((*keys.shape, *shape), made))

    def _random_fold_in(self, keys: Value, numbers: Value) -> Value:
        numbers = self.force(numbers)
        if type(numbers) is DrawArray and _only_winners(numbers):
            numbers = self.known(numbers, "jax.random.fold_in")
        if type(numbers) is DrawArray:
            numbers = numbers.view(np.ndarray)
        keys, numbers = np.broadcast_arrays(keys.elements, numbers)
        made = [
            self.book.fold_in(key, number)
            for key, number in zip(keys.ravel(), numbers.ravel().tolist(), strict=True)
        ]
        return Moved(objects(keys.shape, made))

    def _randint(self, keys: Value, low: Value, high: Value, *, closed: Any) -> Value:
        """Return random integers, each made of two words: of the halves of a split key."""
        (out,) = closed.out_avals
        (shape, kind), whole = (out.shape, out.dtype), self.known
        low, high = whole(low, "jax.random.randint"), whole(high, "jax.random.randint")
        alike = not keys.shape and low.size == high.size == 1 and kind.itemsize == 4
        count = int(high.reshape(())) - int(low.reshape(())) if alike else 0
        if not 0 < count <= _MAX_EVEN_INTEGERS:
            return self.run(closed, [keys, low, high], self._line)[0]
        upper, lower = self.book.split(keys.elements[()], (2,))
        size = math.prod(shape)
        words, others = (self.book.bits([key], 32, size) for key in (lower, upper))
        drawn = self._array(list(map(Word.below, words, others, [count] * size)), shape)
        first = kind.type(low.reshape(()))
        return settle_shape(np.add(settle_shape(drawn.astype(kind)), first))

    def _random_bits(self, keys: Value, *, bit_width: int, shape: Any) -> Value:
        flat = keys.elements.ravel().tolist()
        if flat and flat[0].impl == "rbg" and keys.elements.ndim > 1:
            self.refuse("bits of a batch of batches of rbg keys")
        words = self.book.bits(flat, bit_width, math.prod(shape))
        dtype = np.dtype(f"uint{bit_width}")
        return Bits(objects((*keys.shape, *shape), words), dtype)

    def _on_one_device(self, step: Step, args: "list[Value]") -> "list[Value]":
        """Return what a primitive gives inside ``jax.shard_map``, which runs on one device here."""
        if step.name == "axis_index":
            return [np.zeros((), np.int32)]
        if not all(isinstance(axis, str) for axis in step.params["axes"]):
            self.refuse(
                f"jax.lax.{step.name} over positional axes (only named mesh axes are followed)"
            )
        return args

    # -- loops and branches --

    def _cond(self, index: Value, *args: Value, branches: Any, line: str, **_: Any) -> Any:
        taken = int(self.known(index, "jax.lax.cond")[()])
        return self.run(branches[min(max(taken, 0), len(branches) - 1)], args, line)

    def _while(
        self,
        *args: Value,
        cond_nconsts: int,
        cond_jaxpr: Any,
        body_nconsts: int,
        body_jaxpr: Any,
        line: str,
    ) -> Any:
        of_test = args[:cond_nconsts]
        of_body = args[cond_nconsts : cond_nconsts + body_nconsts]
        state = list(args[cond_nconsts + body_nconsts :])
        while bool(self.known(self.run(cond_jaxpr, (*of_test, *state), line)[0], "a loop")[()]):
            state = self.run(body_jaxpr, (*of_body, *state), line)
        return state

    def _scan(
        self,
        *args: Value,
        jaxpr: Any,
        length: int,
        reverse: bool,
        num_consts: int,
        num_carry: int,
        line: str,
        **_: Any,
    ) -> Any:
        constants, state = args[:num_consts], list(args[num_consts : num_consts + num_carry])
        rows = args[num_consts + num_carry :]
        made: list[list[Value]] = []
        for i in reversed(range(length)) if reverse else range(length):
            given = [
                self._move(lambda x, i=i: x[i : i + 1].reshape(x.shape[1:]), [x], {})[0]
                for x in rows
            ]
            outs = self.run(jaxpr, (*constants, *state, *given), line)
            state = outs[:num_carry]
            made.append(outs[num_carry:])
        if reverse:
            made.reverse()
        if not length:
            shapes = jaxpr.out_avals[num_carry:]
            return [*state, *(np.zeros(x.shape, self.kind(x.dtype)) for x in shapes)]
        stacked = [
            self._move(lambda *xs: np.stack(xs), list(column), {})[0]
            for column in zip(*made, strict=True)
        ]
        return [*state, *stacked]


def widened(x: Value) -> Value:
    """Return numbers of bfloat16 as float32, in which JAX computes with them."""
    return x.astype(np.float32) if x.dtype == BFLOAT16 else x


_TINY_HALF = np.finfo(np.float16).tiny


def _is_float16_floor(x: DrawArray, other: Any) -> bool:
    """Whether a number is the tiny one that keeps JAX's uniforms of float16 from 0."""
    return x.dtype == np.float16 and other.dtype == np.float16 and bool(np.all(other == _TINY_HALF))


def _add_tiny(draw: Draw) -> Any:
    return draw.map(lambda: draw.form, lambda x: x + _TINY_HALF)


def _rounded(x: Any) -> Any:
    """Return an element in bfloat16."""
    return x.cast(BFLOAT16) if isinstance(x, Draw) else to_bfloat16(x)


def _not_negative(x: Value) -> bool:
    flat = x.ravel().view(np.ndarray).tolist()
    return all(type(y) is Winner or (y.range()[0] if isinstance(y, Draw) else y) >= 0 for y in flat)


def _only_winners(x: Value) -> bool:
    """Whether a value has winners that nobody has read, and no draws."""
    if type(x) is not DrawArray:
        return False
    flat = x.view(np.ndarray).ravel().tolist()
    return not any(isinstance(y, Draw) for y in flat if type(y) is not Winner)


def _stable_order(row: "list[Any]", *, falling: bool = False) -> list[int]:
    """Return the order of draws and numbers, equal ones as they stand."""

    def compare(i: int, j: int) -> int:
        x, y = row[i], row[j]
        less, more = (y, x) if falling else (x, y)
        return -1 if less < more else 1 if more < less else 0

    return sorted(range(len(row)), key=functools.cmp_to_key(compare))
