"""Functions taken out of one source file, without the package around it.

An engine's verifier is a few functions in a file whose imports pull in kernels, servers and
drivers. Here the functions are executed by themselves, from the file where it lies: with what
they use of it, with the imports that any machine has, and with what an adapter puts in the place
of the rest.
"""

import ast
import builtins
import dis
import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from simverify.errors import SimverifyError
from simverify.symbolic.provenance import mark_as_user_code

# einops, as far as decoding loops use it: axes of length 1, added and removed.


UNIT_AXIS = "1"


def rearrange(tensor: Any, pattern: str) -> Any:
    """Return the tensor with axes of length 1 put in and taken out, as in ``b 1 d -> b d``.

    Raises ``ValueError`` on a pattern that does more than that, and on a longer axis.
    """
    before, after = (side.split() for side in pattern.split("->"))
    if [axis for axis in before if axis != UNIT_AXIS] != [a for a in after if a != UNIT_AXIS]:
        raise ValueError(f"{pattern!r} does more than put in and take out axes of length 1")
    # Behind an ellipsis axes count from the end, so that the last ones go first.
    for place in reversed([i for i, axis in enumerate(before) if axis == UNIT_AXIS]):
        axis = _axis_index(before, place)
        if tensor.shape[axis] != 1:
            raise ValueError(f"{pattern!r} of {tuple(tensor.shape)}: axis {axis} is longer than 1")
        tensor = tensor.squeeze(axis)
    for place in [i for i, axis in enumerate(after) if axis == UNIT_AXIS]:
        tensor = tensor.unsqueeze(_axis_index(after, place))
    return tensor


def _axis_index(axes: list[str], place: int) -> int:
    return place - len(axes) if "..." in axes[:place] else place


# The top level of a source file: which names it defines, and which those use.


def top_level_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements at the top of a file, those under ``if`` and ``try`` too.

    What runs only if the file is the program is left out.
    """
    for node in body:
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.If | ast.Try):
            yield from top_level_statements([*node.body, *node.orelse])
        else:
            yield node


def branch_defined_names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that branches of an ``if`` or ``try`` define differently.

    What a ``try`` imports is not among them: it is there, or the adapter has to give it.
    """
    for node in body:
        if isinstance(node, ast.If):
            first, others = [*top_level_statements(node.body)], node.orelse
        elif isinstance(node, ast.Try):
            imports = (ast.Import, ast.ImportFrom)
            first = [s for s in top_level_statements(node.body) if not isinstance(s, imports)]
            others = [s for handler in node.handlers for s in handler.body]
        else:
            continue
        known = {name for statement in first for name in bound_names(statement)}
        yield from (n for s in top_level_statements(others) for n in bound_names(s) if n in known)
        yield from branch_defined_names([*node.body, *others])


def bound_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top of a file binds."""
    if isinstance(node, _DEFINITIONS):
        yield node.name
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            named = (n for n in ast.walk(target) if isinstance(n, ast.Name))
            # `a.b = c` sets a part of a, which it reads.
            yield from (n.id for n in named if isinstance(n.ctx, ast.Store))
    elif isinstance(node, ast.AnnAssign | ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]


def used_names(node: ast.AST) -> set[str]:
    """Return the names that a definition reads; those in annotations are not evaluated."""
    if isinstance(node, ast.arg):
        return set()
    if isinstance(node, ast.Name):
        return {node.id} - set(vars(builtins))
    skipped = {"returns", "annotation"}
    names: set[str] = set()
    for field, value in ast.iter_fields(node):
        if field not in skipped:
            children = value if isinstance(value, list) else [value]
            names |= set().union(*(used_names(c) for c in children if isinstance(c, ast.AST)))
    return names


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def has_star_import(tree: ast.Module) -> bool:
    """Whether a file takes all names of some module, whichever they are."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return any(alias.name == "*" for node in imports for alias in node.names)


def find_definition(tree: ast.Module, name: str) -> ast.stmt | None:
    """Return the definition of that dotted name; None if there is none."""
    body: Sequence[ast.stmt] = tree.body
    definition: ast.stmt | None = None
    for part in name.split("."):
        definition = None
        for node in top_level_statements(body):
            if isinstance(node, _DEFINITIONS) and node.name == part:
                definition = node
        if definition is None:
            return None
        body = definition.body if isinstance(definition, ast.ClassDef) else ()
    return definition


def strip_decorators(tree: ast.Module, without: frozenset[str]) -> None:
    """Take the named decorators off all functions of a file: what they use is not followed."""
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS):
            node.decorator_list = [
                made
                for made in node.decorator_list
                if ast.unparse(made.func if isinstance(made, ast.Call) else made) not in without
            ]


# Stubs of modules: one that has every attribute, or another module but for some names.


class StubModule(ModuleType):
    """A module whose every attribute is a class that takes any arguments."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__spec__ = ModuleSpec(name, None)
        self.__file__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__init__": lambda self, *values, **named: None})
        setattr(self, name, made)
        return made


@contextmanager
def stub_modules(*names: str) -> Iterator[None]:
    """Put a stub in the place of each named module that is not loaded yet, inside the block.

    ``a.b.c`` stands for its parents too. What is loaded in the block keeps what it took of them.
    """
    parts = {
        ".".join(name.split(".")[: i + 1]) for name in names for i in range(name.count(".") + 1)
    }
    ours = {name: StubModule(name) for name in sorted(parts) if name not in sys.modules}
    sys.modules.update(ours)
    try:
        yield
    finally:
        for name, stub in ours.items():
            if sys.modules.get(name) is stub:
                del sys.modules[name]


class PatchedModule:
    """A module, which is imported when it is asked for a name, but for the names that are given."""

    def __init__(self, module: str, **names: Any) -> None:
        self._module = module
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        """Return what the module has at this time: an audit may have put something in its place."""
        module = sys.modules.get(self._module)
        return getattr(module or importlib.import_module(self._module), name)


torch: Any = PatchedModule("torch")
"""Torch for adapters, imported at its first use: to list engines takes none."""

jax: Any = PatchedModule("jax")
"""JAX for adapters, in the same way."""


def jax_key(rng: Any) -> Any:
    """Return a key of JAX's whose words are drawn from numpy's generator."""
    return jax.random.wrap_key_data(jax.numpy.asarray(rng.integers(2**32, size=2, dtype="uint32")))


def torch_without_pinning() -> PatchedModule:
    """Return torch whose new tensors are not pinned in memory, which asks for an accelerator."""

    def make(name: str) -> Any:
        def made(*given: Any, pin_memory: bool = False, **options: Any) -> Any:
            return getattr(torch, name)(*given, **options)

        return made

    return PatchedModule(
        "torch", **{n: make(n) for n in ("tensor", "arange", "ones", "zeros", "full")}
    )


def torch_without_seeding() -> PatchedModule:
    """Return torch whose generators are the global one: nobody seeds it."""
    return PatchedModule(
        "torch",
        Generator=lambda device=None: SimpleNamespace(manual_seed=lambda seed: None),
        rand=lambda size, generator=None, device=None: torch.rand(size),
    )


# ``mlx.core`` on numpy's arrays, as far as decoding loops use it: mlx needs an Apple machine.


NO_OPERATION: Callable[..., None] = lambda *_, **__: None  # noqa: E731


def _logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


mx: Any = PatchedModule(
    "numpy",
    logsumexp=_logsumexp,
    stream=nullcontext,
    # Arrays are computed at once, and no memory is kept.
    **dict.fromkeys(("eval", "async_eval", "clear_cache"), NO_OPERATION),
)


# Packages and files imported whole from where they lie: code that cannot be taken apart.


def import_package(folder: Path, on_trial: Sequence[str]) -> ModuleType:
    """Import a package from its folder, put some of its files under audit, and quiet its advice.

    ``on_trial``: files whose lines are the code under audit, relative to the folder; what else it
    has is a library. Raises ``SimverifyError`` if a package of that name was imported from
    elsewhere before: Python keeps the first.
    """
    module = sys.modules.get(folder.name)
    if module is None:
        sys.path.insert(0, str(folder.parent))
        try:
            module = importlib.import_module(folder.name)
        finally:
            sys.path.remove(str(folder.parent))
    place = Path(str(module.__file__)).parent
    if place.resolve() != folder.resolve():
        raise SimverifyError(
            f"{folder.name} of {place} is imported already, and {folder} is asked for: "
            "audit it in a process of its own"
        )
    # Advice to whoever writes the call, which is ours, and once more in every process.
    logging.getLogger(folder.name).setLevel(logging.ERROR)
    for file in on_trial:
        mark_as_user_code(place / file)
    return module


def load_file(path: Path, name: str) -> Any:
    """Import one file as module ``name``, without the package it lies in."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SimverifyError(f"{path} is not a Python file: name the engine's source")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


IMPORTABLE_PACKAGES = (
    frozenset({"jax", "numpy", "scipy", "torch", "transformers"}) | sys.stdlib_module_names
)
"""Packages that a piece may import for itself, where its file does."""


def load_pieces(
    path: Path,
    names: Sequence[str],
    *,
    without: Sequence[str] = (),
    tab: int | None = None,
    **given: Any,
) -> ModuleType:
    """Return a module that holds the named definitions of a file and what they use of it.

    ``names``: functions, classes and constants at the top of the file, whose lines count as code
    under audit from now on; ``Class.method`` is taken out of its class and bound to the name
    ``method``. ``without``: decorators that are left out, as they are written there, without
    arguments: ``torch.compile``. ``tab``: columns of a tab, for a file that mixes tabs and spaces,
    which Python does not read. ``given``: what stands in the place of names that the file imports
    or defines.

    Raises ``SimverifyError`` with one line if a name is not in the file, if the file uses a name
    that neither it, nor the common imports, nor ``given`` has, or if it does not run.
    """
    tree = _parse_file(path, tab)
    strip_decorators(tree, frozenset(without))
    pieces = [*_SourceDefinitions(path, tree, set(given)).of(names)]
    future = ast.parse("from __future__ import annotations").body
    module = ModuleType(_module_name(path))
    vars(module).update(given, __file__=str(path))
    # Dataclasses look their module up.
    sys.modules[module.__name__] = module
    mark_as_user_code(path)
    code = compile(ast.Module([*future, *pieces], []), str(path), "exec")
    try:
        exec(code, vars(module))
    except Exception as error:
        del sys.modules[module.__name__]
        raise SimverifyError(
            f"{path}: {', '.join(names)} cannot be loaded by themselves: "
            f"{type(error).__name__}: {error}"
        ) from error
    if has_star_import(tree) and (names_left := _global_names(code) - set(vars(module))):
        raise SimverifyError(
            f"{path} uses {', '.join(sorted(names_left))}, which may come from one of its imports "
            "of everything, and this adapter knows nothing of that"
        )
    return module


def load_function(path: Path, name: str, **options: Any) -> Any:
    """Return one function, class or method of a file, loaded as :func:`load_pieces` does it."""
    return getattr(load_pieces(path, [name], **options), name.rpartition(".")[2])


def load_names(path: Path, names: Sequence[str], **options: Any) -> dict[str, Any]:
    """Return definitions of a file by their names, as what another file takes from it is given.

    ``options`` are :func:`load_pieces`'.
    """
    module = load_pieces(path, names, **options)
    return {name: getattr(module, name) for name in names}


def function_parameters(path: Path, name: str, *, tab: int | None = None) -> tuple[str, ...]:
    """Return the names of a function's parameters, read from its source.

    ``name`` may be ``Class.method``, ``tab`` is :func:`load_pieces`'. Raises ``SimverifyError`` if
    the file has no such function.
    """
    definition = find_definition(_parse_file(path, tab), name)
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
        raise SimverifyError(f"{path} has no function {name}")
    a = definition.args
    named = (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg)
    return tuple(argument.arg for argument in named if argument is not None)


def _parse_file(path: Path, tab: int | None) -> ast.Module:
    source = path.read_text(encoding="utf-8")
    try:
        return ast.parse(source if tab is None else source.expandtabs(tab), filename=str(path))
    except SyntaxError as error:
        raise SimverifyError(f"{path} is no Python of this version: {error}") from error


class _SourceDefinitions:
    """The definitions and imports at the top of a file, by the names that they bind."""

    def __init__(self, path: Path, tree: ast.Module, given: set[str]) -> None:
        self._path, self._tree, self._given = path, tree, given
        self._definitions: dict[str, list[ast.stmt]] = {}
        self._imports: dict[str, ast.stmt] = {}
        self._wanted: list[ast.stmt] = []
        self._forked = set(branch_defined_names(tree.body))
        for node in top_level_statements(tree.body):
            for name in bound_names(node):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    # `import a.b` after `import a` adds a part of a that no piece asked for yet.
                    if not (isinstance(node, ast.Import) and name in self._imports):
                        self._imports[name] = node
                else:
                    self._definitions.setdefault(name, []).append(node)

    def of(self, names: Sequence[str]) -> Iterator[ast.stmt]:
        """Yield the statements that define the names and all that they use, in the file's order."""
        methods: list[ast.stmt] = []
        for name in names:
            if "." in name:
                method = find_definition(self._tree, name)
                if method is None:
                    raise SimverifyError(f"{self._path} has no {name}")
                methods.append(method)
                self._follow(method)
            elif name not in self._definitions:
                raise SimverifyError(f"{self._path} has no {name}")
            else:
                self._want(name)
        yield from sorted(self._wanted, key=lambda node: node.lineno)
        yield from methods

    def _want(self, name: str) -> None:
        for node in self._definitions[name]:
            if node not in self._wanted:
                self._wanted.append(node)
                self._follow(node)

    def _follow(self, node: ast.stmt) -> None:
        for name in sorted(used_names(node) - self._given):
            if name in self._forked:
                raise SimverifyError(
                    f"{self._path} defines {name} in several branches, and which is taken depends "
                    "on the machine: this adapter does not say which"
                )
            if name in self._definitions:
                self._want(name)
            elif name in self._imports:
                self._import(name)

    def _import(self, name: str) -> None:
        node = self._imports[name]
        if isinstance(node, ast.Import):
            (alias,) = (a for a in node.names if name in (a.asname, a.name.partition(".")[0]))
            place, one = alias.name, ast.Import([alias])
        else:
            assert isinstance(node, ast.ImportFrom)
            (alias,) = (a for a in node.names if name in (a.asname, a.name))
            place = "." * node.level + (node.module or "")
            one = ast.ImportFrom(node.module, [alias], node.level)  # type: ignore[assignment]
        if place.partition(".")[0] not in IMPORTABLE_PACKAGES:
            raise SimverifyError(
                f"{self._path} uses {name} from {place}, which this adapter knows nothing of: "
                "it was written for another version"
            )
        one = ast.copy_location(one, node)
        if ast.dump(one) not in map(ast.dump, self._wanted):
            self._wanted.append(one)


def _global_names(code: CodeType) -> set[str]:
    """Return the global names that functions of the code read, builtins aside."""
    read = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    inner = (_global_names(part) for part in code.co_consts if isinstance(part, CodeType))
    return read.union(*inner) - set(vars(builtins))


def _module_name(path: Path) -> str:
    stem = "_".join(part for part in path.with_suffix("").parts[-3:] if part.isidentifier())
    name, more = f"simverify_loaded.{stem}", 2
    while name in sys.modules:
        name, more = f"simverify_loaded.{stem}_{more}", more + 1
    return name


# Samplers that replace compiled ones, which the exact tier cannot follow.


GREEDY_SETTINGS = SimpleNamespace()
SAMPLING_SETTINGS = SimpleNamespace(greedy_clone=lambda: GREEDY_SETTINGS)
"""Settings of :class:`CoinSampler`: tokens of the whole row at temperature 1, and the likeliest."""


class CoinSampler:
    """ExLlamaV2's sampler, which its C++ has: it is handed a coin, and inverts the row's sums."""

    @staticmethod
    def sample(logits: Any, settings: Any, ids: Any, u: float, *_: Any, **__: Any) -> Any:
        """Return a token (1, 1) of logits (1, 1, V), no top tokens, 1, and no end."""
        probs = logits.reshape(-1).exp().numpy()
        token = (
            probs.argmax()
            if settings is GREEDY_SETTINGS
            else np.cumsum(probs).searchsorted(u, "right")
        )
        return torch.tensor([[int(token)]]), None, None, 1.0, False


def sample_logits(logs: Any) -> Any:
    """Return a token of each row (L, V) of logarithms, numpy's as MLX's samplers have it."""
    return torch.multinomial(torch.from_numpy(np.exp(logs)), 1)[:, 0].numpy()
