"""Generators that code made before it is called, and those among them that yield the same numbers.

Two generators of one seed, a copy, or one that is a few hundred draws ahead: the exact tier takes
their draws for the same, so that the law of the code says what comes of it.
"""

import ast
import copy
import random
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.symbolic.compiled import COMPILED_GENERATOR, CompiledGenerator, loaded_mlx
from simverify.symbolic.hidden_state import BoundNames, attributes_of, reachable_state
from simverify.symbolic.provenance import is_users_module
from simverify.symbolic.streams import SHARED_STARTS, SharedStart

HORIZON = 4_096
"""Draws within which one generator may be ahead of another."""

_AGREEMENT = 4
"""So many uniforms of 53 bits agree by chance with probability 2^-212."""

_MAX_OBJECTS, _MAX_ITEMS = 5_000, 64
"""Objects that are searched, and items of one container."""


_TORCH_SEED = 67280421310721
"""torch's seed of the default generator that nobody has seeded: its user will, or should."""


@dataclass(frozen=True)
class HeldGenerator:
    """A generator that code holds: the ``holder`` of its state, or a key; its name and its line."""

    holder: Any
    name: str
    line: str


@contextmanager
def noted_equal_streams(code: Any) -> Iterator[None]:
    """Let the exact tier know which generators of ``code`` yield the same numbers, as of now."""
    token = SHARED_STARTS.set(shared_starts(code))
    try:
        yield
    finally:
        SHARED_STARTS.reset(token)


def shared_starts(code: Any) -> Mapping[int, SharedStart]:
    """Return where those stand that yield what another one yields, by identity of the holder."""
    drawn: list[tuple[HeldGenerator, Any]] = []
    for held in held_generators(code):
        uniforms = None
        with suppress(Exception):  # a generator of an unknown kind
            uniforms = upcoming_uniforms(held.holder)
        if uniforms is not None:
            drawn.append((held, uniforms))
    starts: dict[int, SharedStart] = {}
    for i, (held, uniforms) in enumerate(drawn):
        if id(held.holder) in starts:
            continue
        ahead = [(other, _lag(uniforms, later)) for other, later in drawn[i + 1 :]]
        group = [(held, 0), *((other, lag) for other, lag in ahead if lag is not None)]
        if len(group) > 1:
            first = min(lag for _, lag in group)
            for other, lag in group:
                name = f"{other.name} ({other.line})" if other.line else other.name
                upcoming = float(next(x for h, x in drawn if h is other)[0])
                place = ("held", i), lag - first
                state = _state_of(other.holder)
                starts[id(other.holder)] = SharedStart(*place, name, other.holder, upcoming, state)
    return starts


def put_back_equal_streams() -> None:
    """Put generators of equal streams where the audit met them, as far apart as in real use."""
    for start in (SHARED_STARTS.get() or {}).values():
        _set_state(start.holder, start.state)


class HeldStates:
    """The states of the generators that code holds, to put them back."""

    def __init__(self, code: Any) -> None:
        holders = [held.holder for held in held_generators(code)]
        self._states = [(holder, _state_of(holder)) for holder in holders]

    def put_back(self) -> None:
        """Let all go on from where they stood."""
        for holder, state in self._states:
            _set_state(holder, state)


def _state_of(holder: Any) -> Any:
    if isinstance(holder, random.Random):
        return holder.getstate()
    if isinstance(holder, np.random.BitGenerator | CompiledGenerator):
        return copy.deepcopy(holder.state)
    return holder.get_state()


def _set_state(holder: Any, state: Any) -> None:
    if isinstance(holder, random.Random):
        holder.setstate(state)
    elif isinstance(holder, np.random.BitGenerator | CompiledGenerator):
        holder.state = state
    else:
        holder.set_state(state)


def drawn_equal_streams() -> str:
    """Which of the generators that are known to yield the same numbers have drawn since, in words.

    Empty if there are no two such.
    """
    groups: dict[Any, list[SharedStart]] = {}
    for start in (SHARED_STARTS.get() or {}).values():
        if float(upcoming_uniforms(start.holder)[0]) != start.upcoming:
            groups.setdefault(start.key, []).append(start)
    for group in groups.values():
        if len(group) > 1:
            one, other = sorted(group, key=lambda start: start.position)[:2]
            ahead = other.position - one.position
            later = f", the second {ahead:,} draws ahead" if ahead else ""
            return f"{one.name} and {other.name} yield the same numbers{later}"
    return ""


def upcoming_uniforms(holder: Any) -> Any:
    """Return what uniforms in [0, 1) a generator will yield, and leave it where it is."""
    if isinstance(holder, np.random.BitGenerator):
        return np.random.Generator(copy.deepcopy(holder)).random(HORIZON)
    if isinstance(holder, random.Random):
        twin = random.Random()
        twin.setstate(holder.getstate())
        return np.array([twin.random() for _ in range(HORIZON)])
    if isinstance(holder, CompiledGenerator):
        return holder.uniforms(HORIZON)
    torch = sys.modules["torch"]
    twin = torch.Generator()
    twin.set_state(holder.get_state())
    return torch.rand(HORIZON, generator=twin, dtype=torch.float64).numpy()


def _lag(one: Any, other: Any) -> int | None:
    """Return how many draws ``other`` is ahead of ``one``, negative if behind; None if neither."""
    for sign, early, late in ((1, one, other), (-1, other, one)):
        head = late[:_AGREEMENT]
        for at in np.flatnonzero(early[: HORIZON - _AGREEMENT] == head[0]).tolist():
            if (early[at : at + _AGREEMENT] == head).all():
                return sign * int(at)
    return None


def equal_keys(code: Any) -> str:
    """Say which two keys of JAX or MLX that ``code``'s functions hold are equal; "" if none are."""
    if "jax" not in sys.modules and loaded_mlx() is None:
        return ""
    first: dict[tuple[str, bytes], HeldGenerator] = {}
    for held in _search(code).keys.values():
        if (key := _key_data(held.holder)) is None:
            continue
        if key in first:
            one, other = (f"{x.name} ({x.line})" if x.line else x.name for x in (first[key], held))
            return f"{one} and {other} were the same {key[0]} key when the audit began"
        first[key] = held
    return ""


def held_generators(code: Any) -> list[HeldGenerator]:
    """Return the generators that the functions of ``code`` reach by name, and the global ones."""
    return list(_search(code).found.values())


def _search(code: Any) -> "_Search":
    search = _Search({}, {}, set())
    search.look(np.random.mtrand._rand, "numpy.random", "", "")
    search.look(random._inst, "random", "", "")
    if COMPILED_GENERATOR.in_use:
        search.look(COMPILED_GENERATOR, "numba's np.random", "", "")
    torch = sys.modules.get("torch")
    if torch is not None and torch.default_generator.initial_seed() != _TORCH_SEED:
        search.look(torch.default_generator, "torch.default_generator", "", "")
    for root in reachable_state(code):
        if isinstance(root, BoundNames):
            file = root.space.get("__file__") or ""
            if root.owner is not None:
                file = getattr(sys.modules.get(root.owner.__module__), "__file__", None) or ""
            for name, value in zip(root.names, root.values(), strict=True):
                search.look(value, name, name, file)
        elif isinstance(root, types.FunctionType):
            file = root.__code__.co_filename
            for name, cell in zip(root.__code__.co_freevars, root.__closure__ or (), strict=True):
                with suppress(ValueError):  # a variable without a value
                    search.look(cell.cell_contents, name, name, file)
            for value in (*(root.__defaults__ or ()), *(root.__kwdefaults__ or {}).values()):
                search.look(value, f"a default of {root.__name__}", root.__name__, file)
        else:
            search.look(root, "self", "", "")
    return search


@dataclass
class _Search:
    found: dict[int, HeldGenerator]
    keys: dict[int, HeldGenerator]
    seen: set[int]

    def look(self, value: Any, name: str, last: str, file: str) -> None:
        """Look into a value; ``last`` is the name that the code binds it to, in ``file``."""
        if isinstance(value, types.BuiltinMethodType | types.MethodType):
            value = value.__self__  # random.Random(7).random
        if id(value) in self.seen or len(self.seen) > _MAX_OBJECTS:
            return
        self.seen.add(id(value))
        holder = _state_holder(value)
        if holder is not None:
            if id(holder) not in self.found:
                self.found[id(holder)] = HeldGenerator(holder, name, _binding_line(file, last))
        elif _key_data(value) is not None:
            self.keys[id(value)] = HeldGenerator(value, name, _binding_line(file, last))
        elif isinstance(value, dict):
            for key, item in list(value.items())[:_MAX_ITEMS]:
                self.look(item, f"{name}[{key!r}]", last, file)
        elif isinstance(value, list | tuple):
            for i, item in enumerate(value[:_MAX_ITEMS]):
                self.look(item, f"{name}[{i}]", last, file)
        elif is_users_module(type(value).__module__) and not isinstance(value, type):
            attributes = attributes_of(value)
            if isinstance(attributes, dict) and not isinstance(value, types.FunctionType):
                where = getattr(sys.modules.get(type(value).__module__), "__file__", None) or file
                for key, item in list(attributes.items())[:_MAX_ITEMS]:
                    self.look(item, f"{name}.{key}", key, where)


def _state_holder(value: Any) -> Any:
    """Return what holds the state of a generator, which two may share; None for anything else."""
    if isinstance(value, np.random.Generator):
        return value.bit_generator
    if isinstance(value, np.random.RandomState):
        return value._bit_generator
    if isinstance(value, np.random.BitGenerator | CompiledGenerator):
        return value
    if isinstance(value, random.Random):
        return None if isinstance(value, random.SystemRandom) else value
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Generator) and value.device.type == "cpu":
        return value
    return None


def _key_data(value: Any) -> tuple[str, bytes] | None:
    """Return whose key a value is, of JAX or MLX, and its words; None for anything else."""
    jax, mlx = sys.modules.get("jax"), loaded_mlx()
    if mlx is not None and type(value).__module__ == "mlx.core" and isinstance(value, mlx.array):
        drawn = hasattr(value, "elements")  # a stand-in, which says that it is an array
        is_key = not drawn and value.dtype == mlx.uint32 and value.shape == (2,)
        return ("MLX", np.array(value).tobytes()) if is_key else None
    with suppress(Exception):  # a tracer, or an array whose buffer was deleted
        if jax is not None and isinstance(value, jax.Array):
            if jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
                return "JAX", np.asarray(jax.random.key_data(value)).tobytes()
            if value.dtype == np.uint32 and value.shape == (2,):
                return "JAX", np.asarray(value).tobytes()
    return None


def _binding_line(file: str, name: str) -> str:
    """Return ``file:line`` where a name, or an attribute, is bound last; "" if it is not known."""
    try:
        with open(file, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return ""
    lines = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and name == (node.id if isinstance(node, ast.Name) else node.attr)
    ]
    return f"{file}:{max(lines)}" if lines else ""
