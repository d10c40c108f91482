"""What stands at the top of a source file: which names it defines, and which those use."""

import ast
import builtins
from collections.abc import Iterator, Sequence


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements at the top of a file, those under ``if`` and ``try`` too.

    What runs only if the file is the program is left out.
    """
    for node in body:
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.If | ast.Try):
            yield from statements([*node.body, *node.orelse])
        else:
            yield node


def forked(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that branches of an ``if`` or ``try`` define differently.

    What a ``try`` imports is not among them: it is there, or the adapter has to give it.
    """
    for node in body:
        if isinstance(node, ast.If):
            first, others = [*statements(node.body)], node.orelse
        elif isinstance(node, ast.Try):
            imports = (ast.Import, ast.ImportFrom)
            first = [s for s in statements(node.body) if not isinstance(s, imports)]
            others = [s for handler in node.handlers for s in handler.body]
        else:
            continue
        known = {name for statement in first for name in bound(statement)}
        yield from (n for s in statements(others) for n in bound(s) if n in known)
        yield from forked([*node.body, *others])


def bound(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top of a file binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
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


def used(node: ast.AST) -> set[str]:
    """Return the names that a definition reads; those in annotations are not evaluated."""
    if isinstance(node, ast.arg):
        return set()
    if isinstance(node, ast.Name):
        return {node.id} - set(vars(builtins))
    skipped = {"returns", "annotation"}
    found: set[str] = set()
    for field, value in ast.iter_fields(node):
        if field not in skipped:
            children = value if isinstance(value, list) else [value]
            found |= set().union(*(used(c) for c in children if isinstance(c, ast.AST)))
    return found


def imports_all(tree: ast.Module) -> bool:
    """Whether a file takes all names of some module, whichever they are."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return any(alias.name == "*" for node in imports for alias in node.names)


def inside(tree: ast.Module, name: str) -> ast.stmt | None:
    """Return the definition of that dotted name; None if there is none."""
    body: Sequence[ast.stmt] = tree.body
    found: ast.stmt | None = None
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        matching = [
            node for node in statements(body) if isinstance(node, kinds) and node.name == part
        ]
        if not matching:
            return None
        found = matching[-1]
        body = found.body if isinstance(found, ast.ClassDef) else ()
    return found


def strip(tree: ast.Module, without: frozenset[str]) -> None:
    """Take the named decorators off all functions of a file: what they use is not followed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.decorator_list = [
                made
                for made in node.decorator_list
                if ast.unparse(made.func if isinstance(made, ast.Call) else made) not in without
            ]
