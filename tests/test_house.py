"""The house keeps its shape: no circle of modules or of folders, no name that says only grammar.

Which room may import which other is checked by import-linter on the built package (.ci/run,
``[tool.importlinter]`` in pyproject.toml); what is here needs no build.
"""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = {
    "simverify": "simverify",
    "simverify.reports": "reports",
    "simverify.simulators": "simulators",
    "simverify.stats": "stats",
}

GRAMMAR = {
    "asked",
    "asking",
    "begun",
    "due",
    "fared",
    "found",
    "freely",
    "here",
    "hinted",
    "kept",
    "lasting",
    "made",
    "misfits",
    "moved",
    "orphans",
    "others",
    "own",
    "parts",
    "partings",
    "pieces",
    "places",
    "put_back",
    "remembered",
    "rests",
    "rights",
    "said",
    "seeing",
    "stated",
    "stuff",
    "taken",
    "tell",
    "telling",
    "things",
    "told",
    "tried",
    "walked",
    "ways",
    "where",
    "whose",
    "worth",
}
"""Names of modules and packages that say how a thing came about, and not what it is."""


def modules():
    """Return each module of the package, by its dotted name, with its file."""
    files = {}
    for package, folder in ROOMS.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            files[name] = path
    return files


def imports(text, known):
    """Return the modules among ``known`` that a file imports anywhere, for types only as well."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            # `from package import module` is of the module; of anything else, of the package.
            names |= (inside & known) or {node.module}
    return names & known


def circle(graph):
    """Return modules or folders that import each other in a ring; None if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def folders(graph, files):
    """Return the folders that each folder imports; an ``__init__`` only passes names on."""
    by_folder = {}
    for name, others in graph.items():
        if files[name].name == "__init__.py":
            continue
        imported = {files[x].parent for x in others if files[x].name != "__init__.py"}
        by_folder.setdefault(files[name].parent, set()).update(imported - {files[name].parent})
    return by_folder


@pytest.fixture(scope="module")
def graph():
    files = modules()
    return {name: imports(path.read_text(), files.keys()) for name, path in files.items()}


def test_no_module_imports_itself_by_way_of_others(graph):
    """A circle has no bottom: none of its files can be understood, or tested, before the rest."""
    assert len(graph) > 200
    assert circle(graph) is None


def test_no_folder_imports_itself_by_way_of_others(graph):
    by_folder = folders(graph, modules())
    assert len(by_folder) > 20
    assert circle(by_folder) is None


def test_a_circle_is_seen_even_one_for_types_only():
    known = {"a", "a.b", "a.c"}
    graph = {
        "a.b": imports("from a import c", known),
        "a.c": imports("if TYPE_CHECKING:\n    from a.b import Thing", known),
    }
    assert set(circle(graph)) == {"a.b", "a.c"}
    assert circle(graph | {"a.c": set()}) is None


def test_a_circle_of_folders_is_seen():
    files = {"a.one": Path("a/one.py"), "a.two": Path("a/two.py"), "b.one": Path("b/one.py")}
    graph = {"a.one": {"b.one"}, "b.one": {"a.two"}, "a.two": set()}
    assert circle(graph) is None
    assert set(circle(folders(graph, files))) == {Path("a"), Path("b")}
    assert circle(folders(graph | {"b.one": set()}, files)) is None


def grammar(files):
    """Return the files whose name, or whose folder's name, says only grammar."""
    return [str(path) for path in files if {path.stem, path.parent.name} & GRAMMAR]


def test_names_of_modules_say_their_subject():
    assert grammar(modules().values()) == []
    assert grammar([Path("auditing/told.py"), Path("auditing/run.py")]) == ["auditing/told.py"]
    assert grammar([Path("auditing/worth/law.py")]) == ["auditing/worth/law.py"]
