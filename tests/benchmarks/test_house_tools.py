"""The tools that measure the house itself: files that a command crosses, mutants that survive."""

import importlib
import subprocess
import sys
from pathlib import Path

from support.scripts import load

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


def test_a_mutant_survives_where_no_test_looks(tmp_path, monkeypatch):
    file = tmp_path / "also_mutated.py"
    file.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("also_mutated")
    change = dict(tools.mutants(SOURCE))["4: u < limit -> u <= limit"]
    for limit, survives in ((0.4, True), (0.5, False)):
        tests = tmp_path / f"test_limit_{limit * 10:.0f}.py"
        tests.write_text(f"""
from also_mutated import accepts

def test_it():
    assert not accepts(0.5, {limit})
""")
        options = ["-c", "/dev/null", "--rootdir", str(tmp_path), str(tests)]
        assert tools.survives(module, change, str(file), options) == survives
