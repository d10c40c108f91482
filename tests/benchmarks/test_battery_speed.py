"""The battery's benchmark runs, and nothing is rejected in it; how fast it is stays untested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "battery_speed.py"


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    path = tmp_path_factory.mktemp("benchmarks") / "battery.json"
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--json", str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "battery, s" in run.stdout
    return json.loads(path.read_text())


def test_every_case_is_measured(document):
    assert [case["name"] for case in document["cases"]] == [
        "counted, token",
        "counted, block",
        "streamed, V = 64",
        "streamed, V = 5000",
        "streamed, V = 151936",
    ]
    for case in document["cases"]:
        assert case["tokens"] >= 100
        assert case["battery_seconds"] > 0
        assert case["cpu_seconds"] > 0
        assert case["tests"] >= 10
        assert case["rejected"] == []


def test_goals_and_machine_stand_beside_the_figures(document):
    goals = {case["name"]: case["goal_seconds"] for case in document["cases"]}
    assert goals["counted, token"] == goals["counted, block"] == 10
    assert goals["streamed, V = 151936"] == 20
    assert document["memory_goal_mib"] == 500
    assert document["machine"]["cores"] >= 1
    assert len(document["machine"]["load"]) == 3
