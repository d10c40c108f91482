"""Names in the user's modules: rebound to symbolic twins, searched for kernels.

A test session loads hundreds of modules, and code runs thousands of times. So what was found in a
module is cached for as long as every name in it is bound as it was.
"""

__simverify_role__ = "stand-in"


import dis
import functools
import inspect
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from simverify.symbolic.provenance import (
    CannotEnumerate,
    UntrackedRandomness,
    have_same_bindings,
    is_user_function,
    unwrap,
    user_namespaces,
)

Replacement = Callable[[Any], Any]


def rebind_names(code: Any, replacement: Replacement, stack: ExitStack, like: Hashable) -> None:
    """Rebind, until ``stack`` closes, every name for which ``replacement`` gives a value.

    Looked at: globals, classes, defaults and closures of the modules that belong to
    ``code`` (its own, its package's, and whatever is loaded from outside the library
    folders), and the attributes of ``code`` itself if it is an object. ``like``: equal for
    replacements that give a value for the same objects.
    """
    spaces = user_namespaces(code)
    # Equal for all code of a session, wherever it stands in the order.
    key = (tuple(sorted(map(id, spaces))), like)
    together = _JOINT_BINDINGS_CACHE.pop(key, None)
    if together is None or not together.hold():
        together = _JointBindings([_known_bindings(space, replacement, like) for space in spaces])
    while len(_JOINT_BINDINGS_CACHE) >= _MAX_CACHED:
        del _JOINT_BINDINGS_CACHE[next(iter(_JOINT_BINDINGS_CACHE))]
    _JOINT_BINDINGS_CACHE[key] = together
    together.rebind(replacement, stack)
    look = _BindingSearch(replacement)
    look.inside(code, None)
    look.bindings.rebind(replacement, stack)


def _known_bindings(space: dict[str, Any], replacement: Replacement, like: Hashable) -> "_Bindings":
    """Return what a look through one module finds, or found."""
    key = (id(space), like)
    known = _BINDINGS_CACHE.get(key)
    if known is None or not known.hold():
        look = _BindingSearch(replacement)
        look.at_module(space)
        known = _BINDINGS_CACHE[key] = look.bindings
    return known


@dataclass(frozen=True, eq=False)
class _Holder:
    """What binds names: a module's dictionary, a class, a function's defaults, a closure's cell."""

    owner: dict[Any, Any] | type | FunctionType | CellType

    def read(self) -> Mapping[Any, Any]:
        owner = self.owner
        if isinstance(owner, dict):
            return owner
        if isinstance(owner, type):
            return vars(owner)
        if isinstance(owner, FunctionType):
            return dict(enumerate(owner.__defaults__ or ()))
        try:
            return {"": owner.cell_contents}
        except ValueError:  # a variable without a value
            return {}

    def put(self, name: Any, value: Any) -> None:
        owner = self.owner
        if isinstance(owner, dict):
            owner[name] = value
        elif isinstance(owner, type):
            setattr(owner, name, value)
        elif isinstance(owner, FunctionType):
            values = list(owner.__defaults__ or ())
            values[name] = value
            owner.__defaults__ = tuple(values)
        else:
            owner.cell_contents = value


@dataclass
class _Bindings:
    """Every binding that a look saw, and those of them that have to change."""

    all: list[tuple[_Holder, Mapping[Any, Any]]] = field(default_factory=list)
    places: list[tuple[_Holder, Any]] = field(default_factory=list)

    def hold(self) -> bool:
        return all(have_same_bindings(holder.read(), before) for holder, before in self.all)

    def rebind(self, replacement: Replacement, stack: ExitStack) -> None:
        """Put the new values in place until ``stack`` closes."""
        for holder, name in self.places:
            old = holder.read()[name]
            new = replacement(old)
            if new is not None:
                holder.put(name, new)
                stack.callback(holder.put, name, old)


class _JointBindings(_Bindings):
    """The bindings of thousands of modules, compared before each instance in a few C loops."""

    def __init__(self, parts: list[_Bindings]) -> None:
        every = [binding for part in parts for binding in part.all]
        super().__init__([], [place for part in parts for place in part.places])
        self._mappings: list[Mapping[Any, Any]] = []
        self._functions: list[FunctionType] = []
        self._cells: list[CellType] = []
        names: list[Mapping[Any, Any]] = []
        defaults: list[Mapping[int, Any]] = []
        self._contents: list[Any] = []
        for holder, before in every:
            if isinstance(holder.owner, FunctionType):
                self._functions.append(holder.owner)
                defaults.append(before)
            elif not isinstance(holder.owner, CellType):
                self._mappings.append(holder.read())  # the mapping itself: it changes with it
                names.append(before)
            elif before:
                self._cells.append(holder.owner)
                self._contents.append(before[""])
            else:
                self.all.append((holder, before))  # a variable without a value
        self._sizes = [*map(len, names), *map(len, defaults)]
        self._keys = list(chain.from_iterable(names))
        self._values = list(chain.from_iterable(map(_get_values, names)))
        self._defaults = list(chain.from_iterable(map(_get_values, defaults)))

    def hold(self) -> bool:
        try:
            defaults = list(map(_get_defaults, self._functions))
            return (
                [*map(len, self._mappings), *map(len, defaults)] == self._sizes
                and _all_identical(chain.from_iterable(self._mappings), self._keys)
                and _all_identical(
                    chain.from_iterable(map(_get_values, self._mappings)), self._values
                )
                and _all_identical(map(_get_contents, self._cells), self._contents)
                and _all_identical(chain.from_iterable(defaults), self._defaults)
                and super().hold()
            )
        except (TypeError, ValueError):  # no defaults any more, no value any more
            return False


def _all_identical(now: Iterable[Any], before: list[Any]) -> bool:
    return all(map(operator.is_, now, before))


_get_values = operator.methodcaller("values")
_get_defaults = operator.attrgetter("__defaults__")
_get_contents = operator.attrgetter("cell_contents")

_BINDINGS_CACHE: dict[tuple[int, Hashable], _Bindings] = {}
"""By module and kind of replacement. What is bound is kept alive, so no address is used again."""

_JOINT_BINDINGS_CACHE: dict[tuple[tuple[int, ...], Hashable], _JointBindings] = {}
"""The same of all modules that belong to some code, the ones used last."""

_MAX_CACHED = 8


class _BindingSearch:
    """A look through one module or one object."""

    def __init__(self, replacement: Replacement) -> None:
        self.bindings = _Bindings()
        self._replacement = replacement
        self._seen: dict[int, Any] = {}

    def at_module(self, namespace: dict[str, Any]) -> None:
        for value in self._left(namespace):
            self.inside(value, namespace.get("__name__"))

    def inside(self, value: Any, module: str | None) -> None:
        """Look into a value; if ``module`` is named, not into what another one defines."""
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self.inside(part, None)
        elif inspect.ismethod(value):
            self.inside(value.__func__, None)
            self.inside(value.__self__, None)
        elif isinstance(value, FunctionType):
            if module is None or value.__module__ == module:
                self._function(value)
        elif inspect.isclass(value):
            if (module is None or value.__module__ == module) and value.__module__ != "builtins":
                for item in self._left(value):
                    if isinstance(item, FunctionType):
                        self._function(item)
        elif module is not None or isinstance(value, ModuleType):
            return
        elif isinstance(getattr(value, "__dict__", None), dict):
            self._left(vars(value))
            self.inside(type(value), None)

    def _function(self, function: FunctionType) -> None:
        if function.__defaults__:
            self._left(function)
        if function.__kwdefaults__:
            self._left(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            for value in self._left(cell):
                self.inside(value, None)

    def _left(self, owner: Any) -> list[Any]:
        """Note what an owner binds and what has to change; return the values that stay."""
        holder = _Holder(owner)
        items = dict(holder.read())
        self.bindings.all.append((holder, items))
        left = []
        for name, value in items.items():
            if self._replacement(value) is None:
                left.append(value)
            else:
                self.bindings.places.append((holder, name))
        return left


# Calls of compiled kernels, whose draws cannot be followed.
#
# Numba and TorchScript draw from generators of their own, without a Python call that could be
# intercepted. Only their effect is seen, repeated runs that differ; so the kernels are looked for
# in the bytecode of the functions that the code can reach.


_TORCHSCRIPT_TYPES = (
    "ScriptFunction",
    "ScriptModule",
    "RecursiveScriptModule",
    "TopLevelTracedModule",
)


def compiled_kernel_error(code: Any, error: CannotEnumerate) -> CannotEnumerate:
    """Say which compiled kernel may have drawn what was not tracked."""
    kernel, where = next(compiled_calls(code), (None, ""))
    if kernel is None or not isinstance(error, UntrackedRandomness):
        return error
    call = f"{error.call}. Compiled code cannot be followed: {kernel}"
    return CannotEnumerate(call, where, error.findings)


def compiled_calls(code: Any) -> Iterator[tuple[str, str]]:
    """Yield ("numba's kernel()", "file:line") for each compiled function that is named."""
    root = unwrap(code)
    waiting = [root] if isinstance(root, FunctionType) else _methods_of(root)
    seen: set[FunctionType] = set()
    while waiting:
        function = waiting.pop(0)
        if function in seen or not is_user_function(function, root):
            continue
        seen.add(function)
        for value, line in _named_values(function):
            if (kernel := _kernel_name(value)) is not None:
                yield kernel, f"{function.__code__.co_filename}:{line}"
            elif isinstance(value, FunctionType):
                waiting.append(value)
            elif inspect.isclass(value):
                waiting += _methods_of(value)


def _kernel_name(value: Any) -> str | None:
    kind = type(value)
    python = getattr(value, "py_func", None) if kind.__module__.startswith("numba.") else None
    # The others of a CPU's are followed by their source.
    followed = kind.__name__ == "CPUDispatcher" and not value.targetoptions.get("parallel")
    if isinstance(python, FunctionType) and not followed:
        return f"numba's {python.__name__}()"
    if kind.__module__.startswith("torch") and kind.__name__ in _TORCHSCRIPT_TYPES:
        return f"TorchScript's {getattr(value, 'name', kind.__name__)}()"
    return None


def _methods_of(owner: Any) -> list[FunctionType]:
    kind = owner if inspect.isclass(owner) else type(owner)
    return [x for x in vars(kind).values() if isinstance(x, FunctionType)]


def _named_values(function: FunctionType) -> Iterator[tuple[Any, int]]:
    """Yield the values of the global and closed-over names in a function, with their lines."""
    known = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            known[name] = cell.cell_contents
        except ValueError:
            known.pop(name, None)
    for code in nested_code(function.__code__):
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


def nested_code(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and of what is defined inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested_code(constant)
