"""The package starts light, and ships what it says."""

import subprocess
import sys
from importlib.resources import files

import pytest

import simverify

HEAVY = {
    "numba", "torch", "triton", "scipy", "statsmodels", "dask", "distributed",
    "simverify.simulators.kernels",
}  # fmt: skip


def imported(code):
    """Names of the modules that a fresh interpreter has after ``code``."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split("\n"))


RUN = "from simverify.cli import run; assert run([{}]) == {}"


@pytest.mark.parametrize(
    "code",
    [
        "import simverify",
        "import simverify; simverify.UsageError; dir(simverify)",
        RUN.format("'--help'", 0),
        RUN.format("'--version'", 0),
        RUN.format("'compare', '--help'", 0),
        RUN.format("'audit', '--help'", 0),
        RUN.format("'compare', '--gamma', 'x'", 2),
        RUN.format("'compere'", 2),
    ],
)
@pytest.mark.thorough
def test_a_light_start(code):
    assert not HEAVY & imported(code)


def test_what_is_heavy_is_seen_when_it_is_imported():
    assert "numba" in imported("import simverify; simverify.plan")


def test_every_public_name_loads():
    assert dir(simverify) == sorted(simverify.__all__)
    for name in simverify.__all__:
        assert getattr(simverify, name) is not None


@pytest.mark.thorough
def test_no_module_hides_a_function_of_its_name():
    """A submodule, once imported from anywhere, is an attribute of its package."""
    code = (
        "import importlib, importlib.resources as r, simverify\n"
        "for name in simverify.__all__:\n"
        "    here = r.files('simverify')\n"
        "    if here.joinpath(name + '.py').is_file() or here.joinpath(name).is_dir():\n"
        "        importlib.import_module('simverify.' + name)\n"
        "    assert callable(getattr(simverify, name)) or name == 'VERIFIERS'"
    )
    assert "simverify.api.compare" in imported(code)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'compere'"):
        _ = simverify.compere


def test_types_and_schema_ship():
    assert files("simverify").joinpath("py.typed").is_file()
    assert files("simverify.results").joinpath("schema.json").is_file()


@pytest.mark.parametrize("folder", ["simulators", "stats", "reports"])
def test_the_folders_are_no_packages_of_their_own(folder, tmp_path):
    """They would hide a user's own modules of these names."""
    code = f"import importlib.util as u; print(u.find_spec({folder!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip() == "None"


@pytest.mark.parametrize(
    ("words", "loads"),
    [
        (["audit", "match", "--gamma", "1", "--vocab", "2", "--quiet"], False),
        (["compare", "--models", "toy", "--gamma", "2", "--blocks", "100000"], True),
    ],
    ids=["audit", "compare"],
)
def test_only_what_simulates_loads_numba(words, loads, tmp_path):
    """It and ``scipy.stats`` take as long to load as a small audit of code takes to run."""
    code = (
        f"import sys; from simverify.cli import run; run({words}); "
        "print('numba' in sys.modules, 'scipy.stats' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == f"{loads} False"
