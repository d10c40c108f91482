"""Functions out of one source file, without the package that it lies in.

An engine's verifier is a few functions in a file whose imports pull in kernels, servers and
drivers. Here the functions are executed by themselves, from the file where it lies: with what
they use of it, with the imports that any machine has, and with what an adapter puts in the place
of the rest.
"""

import ast
import builtins
import dis
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from simverify.engines.loading.definitions import (
    bound,
    forked,
    imports_all,
    inside,
    statements,
    strip,
    used,
)
from simverify.errors import SimverifyError
from simverify.symbolic.whose import put_on_trial

IMPORTED = frozenset({"numpy", "scipy", "torch", "transformers"}) | sys.stdlib_module_names
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

    Parameters
    ----------
    path
        The source file. Its lines count as code under audit from now on.
    names
        Functions, classes and constants at the top of the file; ``Class.method`` is taken out
        of its class and bound to the name ``method``.
    without
        Decorators that are left out, as they are written there, without arguments:
        ``torch.compile``.
    tab
        Columns of a tab, for a file that mixes tabs and spaces, which Python does not read.
    given
        What stands in the place of names that the file imports or defines.

    Raises ``SimverifyError`` with one line if a name is not in the file, if the file uses a name
    that neither it, nor the common imports, nor ``given`` has, or if it does not run.
    """
    tree = _tree(path, tab)
    strip(tree, frozenset(without))
    pieces = [*_Pieces(path, tree, set(given)).of(names)]
    future = ast.parse("from __future__ import annotations").body
    module = ModuleType(_module_name(path))
    vars(module).update(given, __file__=str(path))
    # Dataclasses look their module up.
    sys.modules[module.__name__] = module
    put_on_trial(path)
    code = compile(ast.Module([*future, *pieces], []), str(path), "exec")
    try:
        exec(code, vars(module))
    except Exception as error:
        del sys.modules[module.__name__]
        raise SimverifyError(
            f"{path}: {', '.join(names)} cannot be loaded by themselves: "
            f"{type(error).__name__}: {error}"
        ) from error
    if imports_all(tree) and (names_left := _globals(code) - set(vars(module))):
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
    found = inside(_tree(path, tab), name)
    if not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
        raise SimverifyError(f"{path} has no function {name}")
    own = found.args
    return tuple(
        argument.arg
        for argument in (*own.posonlyargs, *own.args, own.vararg, *own.kwonlyargs, own.kwarg)
        if argument is not None
    )


def _tree(path: Path, tab: int | None) -> ast.Module:
    source = path.read_text(encoding="utf-8")
    try:
        return ast.parse(source if tab is None else source.expandtabs(tab), filename=str(path))
    except SyntaxError as error:
        raise SimverifyError(f"{path} is no Python of this version: {error}") from error


class _Pieces:
    """The definitions and imports at the top of a file, by the names that they bind."""

    def __init__(self, path: Path, tree: ast.Module, given: set[str]) -> None:
        self._path, self._tree, self._given = path, tree, given
        self._definitions: dict[str, list[ast.stmt]] = {}
        self._imports: dict[str, ast.stmt] = {}
        self._wanted: list[ast.stmt] = []
        self._forked = set(forked(tree.body))
        for node in statements(tree.body):
            for name in bound(node):
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
                method = inside(self._tree, name)
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
        for name in sorted(used(node) - self._given):
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
        if place.partition(".")[0] not in IMPORTED:
            raise SimverifyError(
                f"{self._path} uses {name} from {place}, which this adapter knows nothing of: "
                "it was written for another version"
            )
        one = ast.copy_location(one, node)
        if ast.dump(one) not in map(ast.dump, self._wanted):
            self._wanted.append(one)


def _globals(code: CodeType) -> set[str]:
    """Return the global names that functions of the code read, builtins aside."""
    read = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    inner = (_globals(part) for part in code.co_consts if isinstance(part, CodeType))
    return read.union(*inner) - set(vars(builtins))


def _module_name(path: Path) -> str:
    stem = "_".join(part for part in path.with_suffix("").parts[-3:] if part.isidentifier())
    name, more = f"simverify_loaded.{stem}", 2
    while name in sys.modules:
        name, more = f"simverify_loaded.{stem}_{more}", more + 1
    return name
