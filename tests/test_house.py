"""The house keeps its shape: no circles of imports, no file or folder that outgrows a head.

Which room may import which other is checked by import-linter on the built package (.ci/run,
``[tool.importlinter]`` in pyproject.toml); what is here needs no build.
"""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = {"simverify": "simverify", "simverify.reports": "reports",
         "simverify.simulators": "simulators", "simverify.stats": "stats"}  # fmt: skip

LONGEST = 300
"""Lines of a file: what is longer is two ideas, and is no longer read as a whole."""

MOST = 14
"""Files and folders in a folder, ``__init__`` aside: a reader looks for a thing in each of them."""


def modules():
    """Each module of the package, by its dotted name, with its file."""
    found = {}
    for package, folder in ROOMS.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            found[name] = path
    return found


def imports(text, known):
    """Modules among ``known`` that a file imports anywhere in it, for types only as well."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            # `from package import module` is of the module; of anything else, of the package.
            found |= (inside & known) or {node.module}
    return found & known


def circle(graph):
    """Modules that import each other in a ring; None if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


@pytest.mark.thorough
def test_no_module_imports_itself_by_way_of_others():
    """A circle has no bottom: none of its files can be understood, or tested, before the rest."""
    found = modules()
    graph = {name: imports(path.read_text(), found.keys()) for name, path in found.items()}
    assert len(graph) > 300
    assert circle(graph) is None


def test_a_circle_is_seen_even_one_for_types_only():
    known = {"a", "a.b", "a.c"}
    graph = {
        "a.b": imports("from a import c", known),
        "a.c": imports("if TYPE_CHECKING:\n    from a.b import Thing", known),
    }
    assert set(circle(graph)) == {"a.b", "a.c"}
    assert circle(graph | {"a.c": set()}) is None


def sources():
    return [path for folder in ROOMS.values() for path in (ROOT / folder).rglob("*.py")]


def too_long(paths):
    return [str(path) for path in paths if len(path.read_text().splitlines()) > LONGEST]


def test_no_source_file_is_too_long():
    assert too_long(sources()) == []


def test_a_file_that_is_too_long_is_seen(tmp_path):
    file = tmp_path / "long.py"
    file.write_text("x = 1\n" * LONGEST)
    assert too_long([file]) == []
    file.write_text("x = 1\n" * (LONGEST + 1))
    assert too_long([file]) == [str(file)]


def entries(folder):
    """Files and folders of code that a reader sees in a folder."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if path.name not in ("__init__.py", "__pycache__")
        and (path.suffix == ".py" or (path.is_dir() and any(path.rglob("*.py"))))
    )


# The first folder is the list of rooms.
ROOMS_WITHIN = sorted({path.parent for path in sources()} - {ROOT / "simverify"})


@pytest.mark.parametrize("folder", ROOMS_WITHIN, ids=str)
def test_no_folder_holds_too_much(folder):
    assert len(entries(folder)) <= MOST, entries(folder)


def test_a_folder_that_holds_too_much_is_seen(tmp_path):
    for i in range(MOST):
        (tmp_path / f"part{i}.py").touch()
    (tmp_path / "__init__.py").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    assert len(entries(tmp_path)) == MOST
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "one.py").touch()
    assert len(entries(tmp_path)) == MOST + 1
