"""The measurement of growth: what grows too fast is seen, and every command of it runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from simverify.cli.app import app

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def growth(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import growth

    return growth


@pytest.fixture
def axis_of(growth):
    def made(*values, **law):
        return growth.Axis(
            "made up", values, lambda x, _: [f"{x}"], why="", **({"time": 1, "memory": 1} | law)
        )

    return made


def points(costs):
    return [{"value": 4.0**i, "cpu_seconds": cost} for i, cost in enumerate(costs)]


@pytest.fixture
def power(growth):
    from growing.axis import power

    return lambda costs: power(points(costs), "cpu_seconds", 0.5)


def test_the_power_is_that_of_the_last_step_without_the_start(power):
    assert power([2.0 + 4.0**i for i in range(6)]) == pytest.approx(1, abs=0.01)
    assert power([2.0 + 16.0**i for i in range(6)]) == pytest.approx(2, abs=0.01)


def test_what_costs_next_to_nothing_is_not_judged(power):
    assert power([2.0, 2.0, 2.4]) is None
    assert power([2.0, 2.1, 2.4]) is None
    assert power([3.0, 2.0, 1.0]) is None


def test_what_was_cheap_up_to_the_last_step_is_judged(power):
    assert power([2.0, 2.0, 22.0]) > 2


def test_growth_is_judged_over_a_factor_of_four(growth):
    from growing.axis import power

    doubled = [
        {"value": float(x), "cpu_seconds": cost}
        for x, cost in ((1, 3.0), (2, 4.0), (4, 6.0), (8, 8.0), (16, 18.0))
    ]
    # From 4 to 16; by the last two values alone, one of which was measured short, it would be 1.4.
    assert power(doubled, "cpu_seconds", 0.5) == pytest.approx(1)


@pytest.mark.parametrize(
    ("squared", "named"),
    [("cpu_seconds", "time"), ("mebibytes", "memory"), ("largest_mebibytes", "largest")],
)
def test_a_planted_square_is_named(growth, axis_of, monkeypatch, squared, named):
    def costs(command):
        size = float(command[0])
        found = {"cpu_seconds": 2 + size, "mebibytes": 90 + 50 * size, "seconds": 1.0,
                 "largest_mebibytes": 80 + 50 * size}  # fmt: skip
        return found | {squared: 100 + 50 * size**2}

    monkeypatch.setattr(growth, "cost", costs)
    measured = growth.axis_measured(axis_of(1, 4, 16, 64), runs=2)
    assert measured["too_fast"] == [named]
    assert [point["value"] for point in measured["points"]] == [1, 4, 16, 64]


def test_what_grows_as_it_may_is_not_named(growth, axis_of, monkeypatch):
    def costs(command):
        size = float(command[0])
        return {"cpu_seconds": 2 + size, "mebibytes": 90 + 50 * size, "seconds": 1.0,
                "largest_mebibytes": 300.0}  # fmt: skip

    monkeypatch.setattr(growth, "cost", costs)
    assert growth.axis_measured(axis_of(1, 4, 16, 64, largest=0), runs=1)["too_fast"] == []
    assert growth.axis_measured(axis_of(1, 4, 16, 64, memory=0), runs=1)["too_fast"] == ["memory"]


def test_of_two_runs_the_cheaper_counts_where_a_power_needs_it(growth, axis_of, monkeypatch):
    asked = []

    def costs(command):
        asked.append(float(command[0]))
        dear = asked.count(asked[-1]) == 1
        return {"cpu_seconds": 5.0 + dear, "mebibytes": 9.0, "largest_mebibytes": 9.0 - dear}

    monkeypatch.setattr(growth, "cost", costs)
    measured = growth.axis_measured(axis_of(1, 4, 8, 16, 64), runs=2)
    assert asked == [1, 1, 4, 4, 8, 16, 16, 64, 64]
    assert [x["cpu_seconds"] for x in measured["points"]] == [5, 5, 6, 5, 5]


@pytest.mark.parametrize(("noisy", "runs", "named"), [(2, 3, []), (5, 5, ["time"])])
def test_what_other_work_added_is_taken_off_before_an_axis_is_named(
    growth, axis_of, monkeypatch, noisy, runs, named
):
    """The largest value is dear in its first runs; only one that stays so is its growth."""
    asked = []

    def costs(command):
        asked.append(float(command[0]))
        dear = 40.0 if asked[-1] == 64 and asked.count(64) <= noisy else 0.0
        return {"cpu_seconds": 2 + asked[-1] + dear, "mebibytes": 9.0, "largest_mebibytes": 9.0}

    monkeypatch.setattr(growth, "cost", costs)
    measured = growth.axis_measured(axis_of(1, 4, 16, 64), runs=2)
    assert measured["too_fast"] == named
    assert asked.count(64) == runs
    assert measured["points"][-1]["cpu_seconds"] == 66 + (40 if named else 0)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is read there")
def test_memory_is_that_of_all_processes_together(growth):
    from growing.cost import measured

    child = "import time; x = b'1' * (60 << 20); time.sleep(1)"
    code = (
        "import subprocess, sys\n"
        f"all_of_them = [subprocess.Popen([sys.executable, '-c', {child!r}]) for _ in range(2)]\n"
        "[one.wait() for one in all_of_them]\n"
    )
    found = measured([sys.executable, "-c", code])
    assert 60 < found["largest_mebibytes"] < 100
    assert found["mebibytes"] > 120


def test_a_command_that_fails_ends_it_and_says_why(growth):
    with pytest.raises(SystemExit, match="expected 1 to 64"):
        growth.cost(["compare", "--gamma", "0"])


def test_every_command_is_one(growth, tmp_path):
    """Every axis asks for what the command line has, at its ends; traces are written small."""
    names = set()
    for quick in (True, False):
        for axis in growth.axes(quick):
            names.add(axis.name)
            assert list(axis.values) == sorted(set(axis.values))
            dear = "recorded" in axis.name and not quick
            for value in () if dear else (axis.values[0], axis.values[-1]):
                words = axis.command(value, tmp_path)
                app.parse_args(words, exit_on_error=False, print_error=False)
    kinds = {name.partition(":")[0] for name in names}
    assert kinds == {"compare", "sweep", "audit, exact", "audit, sampled", "audit, recorded rows",
                     "audit, real models"}  # fmt: skip
    for word in ("blocks", "vocabulary", "gamma", "drafts"):
        assert {name.partition(",")[0].partition(":")[0] for name in names if word in name} == {
            "compare", "audit",
        }  # fmt: skip


def run(tmp_path, *words):
    done = subprocess.run(
        [sys.executable, str(FOLDER / "growth.py"), "--quick", "--out", str(tmp_path), *words],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "growth.svg").read_text().count("<svg") == 1
    return json.loads((tmp_path / "growth.json").read_text())["axes"]


@pytest.mark.thorough
def test_an_axis_runs(tmp_path):
    (axis,) = run(tmp_path, "--only", "compare: drafts")
    assert [point["value"] for point in axis["points"]] == [1, 2]
    assert all(point["mebibytes"] > 50 for point in axis["points"])


@pytest.mark.slow
def test_every_axis_runs(tmp_path, growth):
    assert [x["name"] for x in run(tmp_path)] == [axis.name for axis in growth.axes(quick=True)]
