"""What every kernel must and must not say, and that an edited kernel is never run as before."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import caching

import simverify
from simverify import stats
from simverify.models import get_model
from simverify.simulators import kernels
from simverify.simulators.kernel_cache import UniqueNames
from simverify.simulators.kernels.philox import fill_tile
from simverify.simulators.kernels.trees import generate_trees
from simverify.simulators.run import model_tables, simulate

FOLDER = Path(kernels.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
REQUIRED = {"cache": True, "nogil": True, "error_model": "numpy"}
FORBIDDEN = {"fastmath", "parallel"}
COMPILERS = {"jit", "njit", "vectorize", "guvectorize", "stencil", "prange"}


def faults(source):
    """Breaches of style.md rule 5 in one file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "random":
            found.append("random state")
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [getattr(node, "module", None), *(alias.name for alias in node.names)]
            if any(name and name.split(".")[-1] == "random" for name in names):
                found.append("random state")
            found += [f"imports {alias.name}" for alias in node.names
                      if alias.name in COMPILERS - {"njit"}]  # fmt: skip
        if isinstance(node, ast.keyword) and node.arg in FORBIDDEN:
            found.append(node.arg)
        if isinstance(node, ast.Constant) and node.value in FORBIDDEN:
            found.append(str(node.value))
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                called = isinstance(decorator, ast.Call)
                name = ast.unparse(decorator.func if called else decorator)
                if name.split(".")[-1] in COMPILERS:
                    options = keywords(decorator) if called else {}
                    missing = {k for k, v in REQUIRED.items() if options.get(k) != v}
                    found += [f"{node.name} lacks {option}" for option in sorted(missing)]
    return found


def keywords(call):
    return {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rules_of_kernels(path):
    assert faults(path.read_text()) == []


@pytest.mark.thorough
def test_importing_the_kernels_imports_every_file_of_them():
    """What is decorated later, outside of it, would be cached where an edit is missed."""
    code = "import sys; from simverify.simulators import kernels; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    parts = (path.relative_to(FOLDER).with_suffix("").parts for path in FILES)
    names = {".".join((kernels.__name__, *part)).removesuffix(".__init__") for part in parts}
    assert names <= set(done.stdout.split())


def test_a_compiled_loop_is_found(tmp_path, monkeypatch):
    simulate(model_tables(get_model("toy")), "token", 1, 1, seed=0, threads=1)
    assert kernels.compiled_before()
    monkeypatch.setenv("SIMVERIFY_CACHE_DIR", str(tmp_path))
    assert not kernels.compiled_before()


RIGHT = '@njit(cache=True, nogil=True, error_model="numpy")\ndef f(x):\n    return x\n'


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (RIGHT.replace("cache=True, ", ""), "f lacks cache"),
        (RIGHT.replace("nogil=True, ", ""), "f lacks nogil"),
        (RIGHT.replace('"numpy"', '"python"'), "f lacks error_model"),
        (RIGHT.replace("nogil=True", "nogil=False"), "f lacks nogil"),
        (RIGHT.replace("nogil", "fastmath=True, nogil"), "fastmath"),
        (RIGHT.replace("nogil", "parallel=True, nogil"), "parallel"),
        ("@njit\ndef f(x):\n    return x\n", "f lacks cache"),
        ("@numba.njit()\ndef f(x):\n    return x\n", "f lacks cache"),
        ('OPTIONS = {"fastmath": True}\n', "fastmath"),
        (RIGHT + "y = np.random.rand()\n", "random state"),
        (RIGHT + "import random\n", "random state"),
        (RIGHT + "from numpy.random import default_rng\n", "random state"),
        (RIGHT + "from numba import prange\n", "imports prange"),
    ],
)
def test_breaches_are_seen(source, fault):
    assert faults(RIGHT) == []
    assert fault in faults(source)


FOREIGN = "from numba import njit\n\n\n@njit(cache=True)\ndef f(x):\n    return x + 1\n"
SCRIPT = """
import json
import foreign_before
import numpy as np
from numba import config
before = config.CACHE_DIR
from simverify.simulators import kernels
import foreign_after
sums = np.zeros((2, 4, 4))
accumulate = kernels.rao_blackwell.accumulate
zero, one = np.zeros(1, np.uint64), np.ones(1, np.int64)
seen = (zero, np.uint64(0), np.arange(2), zero.astype(np.uint8), one)
rows = ((seen,), np.full((1, 256), 1 / 256), np.zeros(2**16, np.int64))
contexts, ones = np.zeros(100, np.uint64), np.ones(100)
accumulate(rows, contexts, 0 * ones, ones, np.uint64(1), 0, sums[0], sums[1])
foreign = [foreign_before.f, foreign_after.f]
print(json.dumps({
    "from": kernels.__file__,
    "sums": sums.tolist(),
    "hits": sum(accumulate.stats.cache_hits.values()),
    "restored": config.CACHE_DIR == before,
    "kernels": accumulate.stats.cache_path,
    "foreign": [f.stats.cache_path for f in foreign if f(1) == 2],
}))
"""


class Tree:
    """A copy of the package as it is installed, whose sources a test may edit."""

    def __init__(self, folder):
        self.folder = folder
        home = folder / "simverify"
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(simverify.__file__).parent, home, ignore=skip)
        for name, path in (("simulators", FOLDER.parent), ("stats", Path(stats.__file__).parent)):
            shutil.copytree(path, home / name, ignore=skip, dirs_exist_ok=True)
        for name in ("foreign_before", "foreign_after"):
            (folder / f"{name}.py").write_text(FOREIGN)

    def edit(self, name, old, new):
        path = self.folder / "simverify" / "simulators" / "kernels" / name
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    def run(self, **variables):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
        environment = kept | {
            "PYTHONPATH": str(self.folder),
            "SIMVERIFY_CACHE_DIR": str(self.folder / "ours"),
            **variables,
        }
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment,
            cwd=self.folder, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["from"].startswith(str(self.folder)), "the copy was not the one imported"
        return result


HELPER = ("philox.py", "            out[2 * c, t] = even\n", "            out[2 * c, t] = odd\n")


@pytest.mark.thorough
def test_an_edited_helper_is_seen_and_other_caches_stay(tmp_path):
    """``accumulate`` calls ``fill_tile``, which stands in another file; see style.md, rule 6."""
    tree = Tree(tmp_path)
    first = tree.run()
    assert first["hits"] == 0
    # In another folder, as another environment or clone has it: what is compiled is shared.
    ours = str(tmp_path / "ours")
    elsewhere = Tree(tmp_path / "elsewhere")
    again = elsewhere.run(NUMBA_CACHE_DIR=str(tmp_path / "theirs"), SIMVERIFY_CACHE_DIR=ours)
    assert (again["hits"], again["sums"]) == (1, first["sums"])
    tree.edit(*HELPER)
    edited = tree.run()
    assert edited["hits"] == 0
    assert edited["sums"] != first["sums"]
    for result, theirs in ((first, "__pycache__"), (again, "theirs"), (edited, "__pycache__")):
        assert result["restored"]
        assert result["kernels"].startswith(str(tmp_path / "ours"))
        assert len(result["foreign"]) == 2
        assert all(path.startswith(str(tmp_path / theirs)) for path in result["foreign"])


@pytest.mark.thorough
def test_without_the_hash_an_edit_is_missed(tmp_path):
    """Negative control: numba alone runs the old helper, so the test above can fail."""
    tree = Tree(tmp_path)
    tree.edit("__init__.py", "return digest.hexdigest()[:16]", 'return "fixed"')
    first = tree.run()
    tree.edit(*HELPER)
    edited = tree.run()
    assert edited["hits"] == 1
    assert edited["sums"] == first["sums"]


def two_at_once(files, folder):
    """Two processes save two signatures: one between the other's index and its code."""
    first, second = (files(str(folder), "kernel", "") for _ in range(2))
    before = second._load_index()
    second._load_index = lambda: before
    save_code = first._save_data

    def interrupted(name, code):
        second.save("float", "code for float")
        save_code(name, code)

    first._save_data = interrupted
    first.save("int", "code for int")
    after = files(str(folder), "kernel", "")
    return after.load("int"), after.load("float")


def test_no_signature_is_given_the_code_of_another(tmp_path):
    code = two_at_once(UniqueNames, tmp_path)
    assert code == (None, "code for float")
    assert all(k._cache._cache_file.__class__ is UniqueNames for k in (fill_tile, generate_trees))


def test_numba_alone_gives_a_signature_the_code_of_another(tmp_path):
    """Negative control of the test above."""
    assert two_at_once(caching.IndexDataCacheFile, tmp_path) == (None, "code for int")
