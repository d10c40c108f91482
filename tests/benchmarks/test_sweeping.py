"""What sweeps cost: the script runs, and says what it is there to say; never how fast."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def said(*words):
    done = subprocess.run(
        [sys.executable, str(FOLDER / "sweeping.py"), "--quick", *words],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_plans_are_timed():
    text = said("--part", "plan")
    assert "plan, few cells: 10 cells, 1,000 shards" in text
    assert "plan, many cells: 1,000 cells, 1,000 shards" in text


@pytest.mark.thorough
def test_shards_are_timed_with_the_coordinator_beside_them():
    text = said("--part", "shards")
    for kind in ("short", "whole"):
        (line,) = (x for x in text.splitlines() if f"overhead a {kind} shard, toy, threads" in x)
        assert "the coordinator's processor: " in line


@pytest.mark.slow
def test_everything_runs():
    assert "where bare shards gain" in said()
