"""The tools that measure the house itself: files that a command crosses, mutants that survive."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MUTMUT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]


def test_a_small_command_crosses_few_files():
    done = subprocess.run(
        [sys.executable, "benchmarks/files_crossed.py", "--list", "faults"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    first, *files = done.stdout.splitlines()
    assert first == f"{len(files)} files: simverify faults"
    assert "  simverify/cli/commands/info.py" in files
    assert not any("symbolic" in file for file in files)


@pytest.mark.parametrize("key", ["only_mutate", "pytest_add_cli_args_test_selection"])
def test_what_mutmut_is_told_of_is_there(key):
    """A file that moved would be left out without a word."""
    files = [name.partition("::")[0] for name in MUTMUT[key]]
    assert [name for name in files if not list(ROOT.glob(name))] == []
