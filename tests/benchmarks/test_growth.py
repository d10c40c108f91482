"""The measurement of growth: what grows too fast is seen, and every command of it runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def growth(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import growth

    return growth


def points(costs):
    return [{"value": 4.0**i, "cpu_seconds": cost} for i, cost in enumerate(costs)]


def test_the_power_is_that_of_the_last_step_without_the_start(growth):
    linear = points([2.0 + 4.0**i for i in range(6)])
    square = points([2.0 + 16.0**i for i in range(6)])
    assert growth.power(linear, "cpu_seconds", 0.5) == pytest.approx(1, abs=0.01)
    assert growth.power(square, "cpu_seconds", 0.5) == pytest.approx(2, abs=0.01)


def test_what_costs_next_to_nothing_is_not_judged(growth):
    assert growth.power(points([2.0, 2.0, 2.4]), "cpu_seconds", 0.5) is None
    assert growth.power(points([2.0, 2.1, 2.4]), "cpu_seconds", 0.5) is None
    assert growth.power(points([3.0, 2.0, 1.0]), "cpu_seconds", 0.5) is None


def test_what_was_cheap_up_to_the_last_step_is_judged(growth):
    assert growth.power(points([2.0, 2.0, 22.0]), "cpu_seconds", 0.5) > 2


def test_what_grows_faster_than_it_may_is_named(growth, monkeypatch):
    def costs(command):
        size = float(command[0])
        return {"cpu_seconds": 2 + size**2, "seconds": 1.0, "mebibytes": 100 + 50 * size}

    monkeypatch.setattr(growth, "cost", costs)
    axis = growth.Axis("made up", (1, 4, 16, 64), lambda x, _: [f"{x}"], time=1, memory=1)
    measured = growth.axis_measured(axis)
    assert measured["too_fast"] == ["time"]
    assert [point["value"] for point in measured["points"]] == [1, 4, 16, 64]


def test_a_command_that_fails_ends_it_and_says_why(growth):
    with pytest.raises(SystemExit, match="expected 1 to 64"):
        growth.cost(["compare", "--gamma", "0"])


@pytest.mark.slow
def test_every_axis_runs(tmp_path):
    done = subprocess.run(
        [sys.executable, str(FOLDER / "growth.py"), "--quick", "--out", str(tmp_path)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "growth.json").read_text())
    assert len(document["axes"]) >= 10
    assert (tmp_path / "growth.svg").read_text().count("<svg") == 1
