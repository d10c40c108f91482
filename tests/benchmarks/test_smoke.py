"""The benchmarks run, and their references are right; how fast anything is stays untested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("benchmarks") / "speed.json"
    run = subprocess.run(
        [sys.executable, str(BENCHMARKS / "compare_speed.py"), "--quick", "--json", str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "ratio on one core" in run.stdout
    return json.loads(path.read_text())


def is_spread(values):
    return 0 < values["min"] <= values["median"] <= values["max"]


def test_every_reference_is_checked_against_its_own_law_and_the_other(document):
    assert {check["reference"] for check in document["checks"]} == {
        "numpy token", "numpy block", "torch token", "torch block",
    }  # fmt: skip
    for check in document["checks"]:
        low, high = check["interval"]
        assert low <= check["exact"] <= high
        assert not low <= check["excluded"] <= high
        # Sun et al. 2025, gamma = 8 on the toy.
        due = [12610 / 6561, 20384 / 6561]
        assert sorted([check["exact"], check["excluded"]]) == pytest.approx(due)


def test_every_case_has_a_rate(document):
    names = [case["name"] for case in document["speeds"]]
    assert len(set(names)) == len(names)
    for rule in ("token", "block", "greedy", "match"):
        for label in ("counted", "bare"):
            assert f"markov-64 {rule} {label}, 1 thread" in names
            assert f"markov-64 {rule} {label}, 2 threads" in names
    assert {"numpy token", "numpy block", "torch token B = 256"} <= set(names)
    assert all(is_spread(case) and case["blocks"] > 0 for case in document["speeds"])


def test_each_goal_has_a_ratio(document):
    goals = [(pair["reference"].partition(" B ")[0], pair["goal"]) for pair in document["ratios"]]
    assert goals == [
        ("numpy token", 500),
        ("numpy block", 600),
        ("torch token", 120),
        ("torch block", 120),
    ]
    assert all(is_spread(pair) for pair in document["ratios"])


def test_bounds_and_steps(document):
    assert [bounds["rule"] for bounds in document["bounds"]] == ["block", "greedy"]
    assert all(bounds["lower"] <= bounds["upper"] for bounds in document["bounds"])
    assert [step["vocab_size"] for step in document["steps"]] == [4, 8, 16, 64, 1024]
    assert all(is_spread(step["gain"]) for step in document["steps"])
