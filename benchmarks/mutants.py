"""Changes small things in code that decides, and says which changes no test notices.

    python benchmarks/mutants.py simverify/auditing/verdict.py tests/auditing/test_verdict.py
    python benchmarks/mutants.py            # all of TARGETS

A mutant is one change in one function: a comparison, an ``and``, a number, a verdict. The tests run
first as they are; then each mutant gets a forked process, in which the function's code is replaced
wherever it is known by name already, so that nothing is imported again and a mutant costs what its
tests cost. What survives is a decision that no test aims at: write the test, or say in
docs/architecture.md why the change makes no difference.
"""

import argparse
import ast
import contextlib
import copy
import importlib
import os
import signal
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

TARGETS = {
    "simverify/auditing/verdict.py": ["tests/auditing/test_verdict.py"],
    "simverify/auditing/exact/judging/examiner.py": [
        "tests/auditing/exact/judging/test_examiner.py"
    ],
    "simverify/auditing/exact/judging/precision.py": [
        "tests/auditing/exact/judging/test_precision.py"
    ],
    "simverify/auditing/exact/judging/law.py": [
        "tests/auditing/exact/generations/test_enumerate_faults.py"
    ],
    "simverify/battery/shares.py": ["tests/battery/test_shares.py"],
    "simverify/results/common.py": ["tests/results/test_overall.py"],
    "simverify/cli/__init__.py": ["tests/cli/test_exit_codes.py"],
    **{
        f"simverify/verifiers/{name}.py": [
            f"tests/verifiers/test_{name}.py",
            "tests/verifiers/test_edges.py",
            "tests/simulators/exact/test_tree.py",
        ]
        for name in ("token", "block", "match", "greedy", "temperature_zero")
    },
}
"""What decides, and the tests that aim at it."""

LIMIT_S = 120
"""A mutant that has not ended its tests by then loops, and is noticed."""

_OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
_NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}
_WORDS = {
    "PASS": "FAIL", "FAIL": "INCONCLUSIVE", "INCONCLUSIVE": "PASS", "violation": "warning",
    "warning": "violation",
}  # fmt: skip


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of ``node``."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _OTHER:
            yield ast.Compare(node.left, [_OTHER[type(op)]()], node.comparators)
            yield from (ast.Constant(value) for value in (True, False))
        case ast.BoolOp():
            yield ast.BoolOp(_OTHER[type(node.op)](), node.values)
            yield from (ast.BoolOp(node.op, [*rest, rest[0]]) for rest in _without_one(node.values))
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp(op=op) if type(op) in _OTHER:
            yield ast.BinOp(node.left, _OTHER[type(op)](), node.right)
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)
        case ast.Name(id=name) if name in _NAMES:
            yield ast.Name(_NAMES[name], node.ctx)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str() as value) if value in _WORDS:
            yield ast.Constant(_WORDS[value])


def _without_one(values: list[ast.expr]) -> Iterator[list[ast.expr]]:
    for i in range(len(values)):
        yield values[:i] + values[i + 1 :]


def mutants(source: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield each change inside a function of ``source``: in words, and the changed module."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    seen: set[int] = set()
    for function in functions:
        for parent in [node for part in function.body for node in ast.walk(part)]:
            if id(parent) in seen:
                continue
            seen.add(id(parent))
            for field, index, node in _children(parent):
                for new in changes(node):
                    ast.copy_location(new, node)
                    _put(parent, field, index, new)
                    changed = ast.fix_missing_locations(copy.deepcopy(tree))
                    _put(parent, field, index, node)
                    words = f"{getattr(node, 'lineno', 0)}: {_text(node)} -> {_text(new)}"
                    yield words, changed


def _children(parent: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    for field, value in ast.iter_fields(parent):
        if field in ("annotation", "returns", "format_spec"):
            continue
        if isinstance(value, ast.AST):
            yield field, None, value
        elif isinstance(value, list):
            yield from ((field, i, x) for i, x in enumerate(value) if isinstance(x, ast.AST))


def _put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _text(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))[:70]


def codes(code: types.CodeType) -> dict[str, types.CodeType]:
    """Code of each function of a module or class, by its qualified name."""
    found = {}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found[constant.co_qualname] = constant
            found |= codes(constant)
    return found


def replaced(module: types.ModuleType, changed: ast.Module, file: str) -> None:
    """Give every function of ``module`` its code in the changed source."""
    new = codes(compile(changed, file, "exec"))
    for name, function in _functions(module, module.__name__):
        if name in new and function.__code__.co_freevars == new[name].co_freevars:
            function.__code__ = new[name]


def _functions(owner: object, home: str) -> Iterator[tuple[str, types.FunctionType]]:
    for value in list(vars(owner).values()):
        inner = getattr(value, "fget", None) or getattr(value, "__func__", value)
        inner = getattr(inner, "__wrapped__", inner)
        if isinstance(inner, types.FunctionType) and inner.__module__ == home:
            yield inner.__qualname__, inner
        elif isinstance(value, type) and value.__module__ == home:
            yield from _functions(value, home)


def run(tests: list[str]) -> int:
    """Run tests here, silently; pytest's exit status."""
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))


def survives(module: types.ModuleType, changed: ast.Module, file: str, tests: list[str]) -> bool:
    """Whether the tests pass with one change, in a process of their own."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT_S)
        try:
            replaced(module, changed, file)
            _forget_tests()
            status = run(tests)
        except BaseException:
            status = 1
        os._exit(min(status, 100))
    return os.waitpid(child, 0)[1] == 0


def _forget_tests() -> None:
    """Let test files be read again: some compute what they compare when they are read."""
    for name, known in list(sys.modules.items()):
        if Path(str(getattr(known, "__file__", None))).name.startswith("test_"):
            del sys.modules[name]


def examine(file: str, tests: list[str]) -> tuple[int, list[str]]:
    """Return how many mutants a file has, and those that survive, in words."""
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module = importlib.import_module(name)
    if run(tests) != 0:
        raise SystemExit(f"{' '.join(tests)}: they fail, or are not there, without any change")
    every = list(mutants((ROOT / file).read_text(encoding="utf-8")))
    return len(every), [words for words, changed in every if survives(module, changed, file, tests)]


def main() -> None:
    """Try all mutants of the files named, or of all that decide."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="?", help="a source file, from the root of the repository")
    parser.add_argument("tests", nargs="*", help="what aims at it; by default as TARGETS has it")
    given = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "tests"))
    targets = {given.file: given.tests or TARGETS[given.file]} if given.file else TARGETS
    for file, tests in targets.items():
        count, left = examine(file, tests)
        print(f"{file}: {count - len(left)} of {count} noticed", flush=True)
        for words in left:
            print(f"  {file}:{words}", flush=True)


if __name__ == "__main__":
    main()
