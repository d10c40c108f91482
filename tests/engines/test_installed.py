"""The small engines of the package index, installed as they are and audited: what they deserve.

Run with ``-m engines``: about 100 s of processor time, a minute on two cores, installation
included. The others of the index take longer: a step is a decoding loop, on every path.
"""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.engines

RELEASES = {
    "dspark-mlx": "0.1.0",
    "economize": "0.3.2",
    "flashspec": "0.3.1",
    "mini-infer": "0.2.5",
    "rotalabs-accel": "1.1.1",
    "sequential-speculative-decoding": "0.1.1",
    "tightwad": "0.5.4",
}

# The verdict, and what a reader is told of a failure. Each that fails is the control of those
# that pass: they are loaded and called in the same ways.
DESERVED = {
    "dspark-mlx": ("PASS", ""),
    "economize-chain": ("PASS", ""),
    "flashspec": ("PASS", ""),
    "mini-infer": ("PASS", ""),
    # max(p - q, 0) with q at the drafted token alone.
    "rotalabs": ("FAIL", "one-hot-residual"),
    # Positional arguments in another order than the parameters: its bonus token raises.
    "rotalabs-core": ("FAIL", "topk(): argument 'k'"),
    "seqspec-standard": ("PASS", ""),
    # The most likely token in the place of a sample, after a rejection and at the end.
    "tightwad": ("FAIL", "differs from the target's"),
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with all of them."""
    folder = tmp_path_factory.mktemp("installed")
    wanted = [f"{name}=={version}" for name, version in RELEASES.items()]
    options = ["--no-deps", "--no-compile", "--quiet", "--disable-pip-version-check"]
    made = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", folder, *wanted],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if made.returncode:
        last = (made.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        pytest.skip(f"the engines cannot be installed, no package index in reach? {last}")
    return folder


def audited(name, folder, *options):
    """The result document of an audit by the command line, as a user with the package has it."""
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    run = subprocess.run(
        [sys.executable, "-m", "simverify", "audit", name, "--json", "-", *options],
        capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip
    assert run.returncode in (0, 1), run.stderr
    return json.loads(run.stdout), run.stdout + run.stderr


@pytest.mark.parametrize("name", DESERVED)
def test_an_installed_engine_has_the_verdict_that_it_deserves(installed, name):
    verdict, said = DESERVED[name]
    found, text = audited(name, installed, "--gamma", "1", "--vocab", "3")
    assert (found["verdict"], found["tier"]) == (verdict, "exact")
    assert said in text
    assert found["paths"] > 100 or verdict == "FAIL"


def test_another_release_is_refused_in_one_line(installed, tmp_path):
    place = tmp_path / "flashspec"
    place.symlink_to(installed / "flashspec")
    old = tmp_path / "flashspec-0.1.0.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: flashspec\nVersion: 0.1.0\n")
    run = subprocess.run(
        [sys.executable, "-m", "simverify", "audit", "flashspec"],
        capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert run.returncode == 2
    assert "flashspec 0.1.0 is installed, its adapter is for >=0.3.1,<0.4" in run.stderr
