"""The sweep over draft lengths, temperatures and drafts runs, and its figures hang together."""

import json
import subprocess
import sys

import pytest
from docs.examples import ROOT

pytest.importorskip("torch")
pytest.importorskip("transformers")

FOLDER = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "out.json"
    done = subprocess.run(
        [sys.executable, FOLDER / "real_models.py", "--quick", "--json", path],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return done.stdout, json.loads(path.read_text())


def sound(cell):
    """Whether a cell's figures can all be of one run."""
    curves = cell["accepted"]
    above = all(b >= t - 1e-12 for b, t in zip(curves["block"], curves["token"], strict=True))
    gain = sum(curves["block"]) - sum(curves["token"])
    means = [cell["gain"], *cell["efficiency"].values()]
    return (
        above
        and abs(cell["gain"]["mean"] - gain) < 1e-9
        and all(found["low"] <= found["mean"] <= found["high"] for found in means)
        and all(1.0 <= found["mean"] <= cell["gamma"] + 1 for found in means[1:])
        and min(cell["seconds"].values()) > 0.0
    )


@pytest.mark.slow
def test_it_runs(quick):
    printed, document = quick
    assert document["quick"]
    assert len(document["cells"]) == 1
    assert len(printed.splitlines()) == 3
    assert all(sound(cell) for cell in document["cells"])


def test_kept_figures_are_whole_and_what_the_page_says():
    document = json.loads((FOLDER / "results" / "real_models.json").read_text())
    cells = {(c["draft"], c["temperature"], c["gamma"]): c for c in document["cells"]}
    assert len(cells) == len(document["cells"]) == 36
    assert not document["quick"]
    assert all(sound(cell) for cell in cells.values())
    page = (FOLDER / "README.md").read_text()
    for (draft, temperature, gamma), cell in cells.items():
        if temperature == 1.0:
            each = [f"{cell['efficiency'][r]['mean']:.2f}" for r in ("token", "block", "greedy")]
            row = " | ".join([draft, str(gamma), *each, f"{cell['gain']['mean']:+.3f}"])
            assert f"| {row} " in page


def test_what_does_not_hang_together_is_seen():
    cell = json.loads((FOLDER / "results" / "real_models.json").read_text())["cells"][0]
    assert sound(cell)
    assert not sound(cell | {"gain": cell["gain"] | {"mean": cell["gain"]["mean"] + 0.1}})
    swapped = cell["accepted"] | {"token": cell["accepted"]["block"],
                                  "block": cell["accepted"]["token"]}  # fmt: skip
    assert not sound(cell | {"accepted": swapped})
