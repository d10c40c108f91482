"""The package starts light; results are frozen and say when they reject."""

import ast
import dataclasses
import importlib
import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import pytest

from simverify import stats
from simverify.stats import TestResult


def test_import_loads_nothing_heavy():
    code = (
        "import sys, simverify.stats; "
        "heavy = {'numpy', 'scipy', 'statsmodels', 'numba', 'torch'} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("what", "without"),
    [
        ("simverify.comparing.comparison, simverify.sweeping.tasks", "scipy.stats"),
        ("simverify.auditing.run", "scipy.special"),
    ],
)
@pytest.mark.thorough
def test_a_run_does_without_the_laws_of_scipy(what, without):
    """Their import takes up to half a second, of every command and of every worker of a sweep."""
    code = f"import sys, {what}; sys.exit('{without}' in sys.modules or 'scipy' not in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_name_loads():
    assert dir(stats) == sorted(stats.__all__)
    for name in stats.__all__:
        assert getattr(stats, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = stats.nothing


def test_type_checkers_see_the_same_names():
    """They take every public name that a module defines itself."""
    tree = ast.parse(Path(stats.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert {line.module for line in block.body} == {f"simverify.stats.{x}" for x in stats._HOME}
    for home, names in stats._HOME.items():
        module = importlib.import_module(f"simverify.stats.{home}")
        for name in names.split():
            assert getattr(getattr(module, name), "__module__", module.__name__) == module.__name__


def result(log_pvalue, alpha):
    return TestResult(
        name="x",
        statistic=1.0,
        log_pvalue=log_pvalue,
        alpha=alpha,
        n=1,
        df=None,
        method="none",
        min_detectable=math.inf,
        deviation="none",
    )


def test_rejection_is_decided_on_the_log_scale():
    assert result(math.log(0.009), 0.01).rejected
    assert not result(math.log(0.01), 0.01).rejected
    assert result(-5000.0, 1e-300).rejected
    assert result(-5000.0, 1e-300).pvalue == 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        result(-1.0, 0.5).alpha = 0.1


def test_no_module_hides_a_public_name():
    """Importing a module of the package sets its name on the package."""
    assert not [
        name for name in stats.__all__ if importlib.util.find_spec(f"{stats.__name__}.{name}")
    ]
