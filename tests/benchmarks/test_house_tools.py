"""The tools that measure the house itself: files that a command crosses, mutants that survive."""

import importlib
import subprocess
import sys
from pathlib import Path

from support.pages.scripts import load

ROOT = Path(__file__).parents[2]
tools = load(ROOT / "benchmarks" / "mutants.py")

SOURCE = '''
def accepts(u, limit):
    """Whether a draw is accepted."""
    return u < limit and not u == 0
'''


def test_a_small_command_crosses_few_files():
    done = subprocess.run(
        [sys.executable, "benchmarks/files_crossed.py", "--list", "faults"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    first, *files = done.stdout.splitlines()
    assert first == f"{len(files)} files: simverify faults"
    assert "  simverify/cli/commands/info.py" in files
    assert not any("symbolic" in file for file in files)


def test_every_decision_of_a_function_is_changed():
    changed = [words.partition(": ")[2] for words, _ in tools.mutants(SOURCE)]
    for due in (
        "u < limit -> u <= limit",
        "u < limit -> True",
        "not u == 0 -> u == 0",
        "u == 0 -> u != 0",
        "0 -> 1",
        "u < limit and (not u == 0) -> u < limit or not u == 0",
        "u < limit and (not u == 0) -> u < limit and u < limit",
    ):
        assert due in changed


def test_a_change_takes_the_place_of_the_function_everywhere(tmp_path, monkeypatch):
    file = tmp_path / "under_mutation.py"
    file.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("under_mutation")
    accepts = module.accepts  # as a test that imported it by name holds it
    change = dict(tools.mutants(SOURCE))["4: u < limit -> u <= limit"]
    assert not accepts(0.5, 0.5)
    tools.replaced(module, change, str(file))
    assert accepts(0.5, 0.5)


TRIED = """
import importlib, sys
sys.path[:0] = [{benchmarks!r}, {folder!r}]
import mutants
module = importlib.import_module("also_mutated")
change = dict(mutants.mutants({source!r}))["4: u < limit -> u <= limit"]
for name in ("test_looks", "test_looks_elsewhere"):
    tests = ["-c", "/dev/null", "--rootdir", {folder!r}, {folder!r} + f"/{{name}}.py"]
    print(name, mutants.survives(module, change, "also_mutated.py", tests))
"""


def test_a_mutant_survives_where_no_test_looks(tmp_path):
    (tmp_path / "also_mutated.py").write_text(SOURCE)
    for name, limit in (("test_looks", 0.5), ("test_looks_elsewhere", 0.4)):
        (tmp_path / f"{name}.py").write_text(
            "from also_mutated import accepts\n\n\n"
            f"def test_it():\n    assert not accepts(0.5, {limit})\n"
        )
    script = TRIED.format(benchmarks=str(ROOT / "benchmarks"), folder=str(tmp_path), source=SOURCE)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["test_looks", "False", "test_looks_elsewhere", "True"]
