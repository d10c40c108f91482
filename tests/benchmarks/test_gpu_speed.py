"""The GPU's benchmark: a line and exit code 2 without one; its figures by hand."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPT = BENCHMARKS / "gpu_speed.py"


def start(*arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.thorough
def test_without_a_gpu_it_says_so_in_a_line(tmp_path):
    run = start("--json", str(tmp_path / "speed.json"))
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr == (
        "gpu_speed.py: torch sees no GPU, and there is nothing else to time: run it where one is\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_every_case_has_its_figures(tmp_path):
    path = tmp_path / "speed.json"
    run = start("--quick", "--json", str(path))
    assert run.returncode == 0, run.stderr
    cases = json.loads(path.read_text())["cases"]
    assert len(cases) == 8
    assert all(case["times_torch"]["min"] > 0 for case in cases)
    assert all(case["same_tau"] > 0.7 for case in cases)


def test_shares_and_ratios(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script = importlib.import_module("gpu_speed")
    times = {"fused": [1.0, 2.0, 4.0], "torch": [10.0, 30.0, 40.0], "copy": [1.0, 1.0, 4.0]}
    found = script.figures(times, row_bytes=3_000_000_000, copied=2_000_000_000)
    # A copy moves 4 GB in these times, the kernels 3 GB in theirs.
    assert found["copy_gigabytes_per_second"] == {"median": 4.0, "min": 1.0, "max": 4.0}
    assert found["share_of_copy"] == {"median": 0.75, "min": 0.375, "max": 0.75}
    assert found["times_torch"] == {"median": 10.0, "min": 10.0, "max": 15.0}
    assert found["fused_microseconds"] == {"median": 2e6, "min": 1e6, "max": 4e6}
