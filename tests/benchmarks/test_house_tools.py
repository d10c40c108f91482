"""The tools that measure the house itself: files that a command crosses, mutants that survive."""

import json
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


def test_two_builds_are_timed_in_pairs(tmp_path):
    """Here one build against itself."""
    builds = [str(Path(sys.executable).parent)] * 2
    figures = tmp_path / "figures.json"
    command = [sys.executable, "benchmarks/against_build.py", *builds, "--pairs", "2"]
    subprocess.run(
        [*command, "--only", "import", "--json", figures], cwd=ROOT, timeout=300, check=True
    )
    (row,) = json.loads(figures.read_text()).values()
    assert row["least"] <= row["wall"] <= row["most"]
    assert min(row["old"], row["new"], row["processor"]) > 0


def test_a_folder_without_a_build_is_refused(tmp_path):
    command = [sys.executable, "benchmarks/against_build.py", tmp_path, tmp_path]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 2
    assert f"{tmp_path} has no simverify: name the bin folder" in done.stderr


def test_a_command_that_fails_is_not_timed(tmp_path):
    (tmp_path / "simverify").touch()
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 5\n")
    python.chmod(0o755)
    builds = [Path(sys.executable).parent, tmp_path]
    command = [sys.executable, "benchmarks/against_build.py", *builds, "--only", "import"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1
    assert f"{python} -c import simverify ends with 5: expected 0" in done.stderr
