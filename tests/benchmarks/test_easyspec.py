"""The study of layers in groups runs, and its page says what is kept of it."""

import json
import subprocess
import sys

import pytest
from docs.examples import ROOT

pytest.importorskip("torch")
pytest.importorskip("transformers")

FOLDER = ROOT / "benchmarks"


@pytest.mark.slow
def test_it_runs(tmp_path):
    path = tmp_path / "out.json"
    subprocess.run(
        [sys.executable, FOLDER / "easyspec.py", "--quick", "--json", path],
        capture_output=True, timeout=300, check=True,
    )  # fmt: skip
    document = json.loads(path.read_text())
    (entry,) = document["losses"]
    assert [own["calibration"] for own in entry["acceptance"]] == [None, True, False]
    assert [one["threads"] for one in document["passes"]] == [1, 2]


def test_kept_figures_are_what_the_page_says():
    document = json.loads((FOLDER / "results" / "easyspec.json").read_text())
    page = (FOLDER / "README.md").read_text()
    for entry in document["losses"]:
        lost = [
            f"{loss['mean']:+.1%} ({loss['ci_low']:+.1%} to {loss['ci_high']:+.1%})"
            for own in entry["acceptance"]
            if (loss := own["loss"])
        ]
        assert f"| {entry['layer_parallel']} | {' | '.join(lost)} |" in page
    for one in document["passes"]:
        times = f"{one['exact_pass'] * 1e3:.1f} | {one['fuzzy_pass'] * 1e3:.1f}"
        assert f"| {one['threads']} | {one['layer_parallel']} | {times} |" in page
