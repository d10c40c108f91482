"""The plugin's marks and options: what they select, and what is said of wrong ones."""

import re

import pytest
from support.pytest_runs import run_pytest

SELECTED = """
import pytest

@pytest.mark.distribution
def test_marked(): pass

@pytest.mark.distribution(alpha=1e-3, detect=0.05, max_paths=9, max_samples=9, seconds=2, seed=1)
def test_settings(): pass

def test_plain(): pass
"""

BAD_MARKS = {
    "test_unknown.py": ("alhpa=1e-3", "did you mean 'alpha'?"),
    "test_text.py": ("seed='one'", "seed: got 'one', expected a whole number"),
    "test_bool.py": ("seconds=True", "seconds: got True, expected a number"),
    "test_place.py": ("1e-3", "got 0.001: it takes keyword arguments only"),
}


@pytest.mark.parametrize("declared", ["", 'markers = ["distribution: our own words"]'])
@pytest.mark.thorough
def test_marker_selects(tmp_path, declared):
    (tmp_path / "test_selected.py").write_text(SELECTED)
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.pytest.ini_options]\naddopts = ["--strict-markers"]\n{declared}\n'
    )
    run = run_pytest(tmp_path, "-m", "distribution", "-v")
    assert run.code == 0, run.text
    assert "2 passed, 1 deselected" in run.text
    assert "simverify:" not in run.text


def test_wrong_marks_are_errors_of_their_module(tmp_path):
    for name, (arguments, _) in BAD_MARKS.items():
        (tmp_path / name).write_text(
            f"import pytest\n@pytest.mark.distribution({arguments})\nclass TestIt:\n"
            "    def test_it(self): pass\n"
        )
    (tmp_path / "test_selected.py").write_text(SELECTED)
    run = run_pytest(tmp_path, "--continue-on-collection-errors")
    assert run.code == 1
    assert "3 passed, 4 errors" in run.text
    for name, (_, words) in BAD_MARKS.items():
        assert f"ERROR collecting {name}" in run.text
        assert words in run.text
    assert "Traceback" not in run.text


def test_collecting_loads_nothing_heavy(tmp_path):
    (tmp_path / "test_selected.py").write_text(SELECTED)
    (tmp_path / "conftest.py").write_text(
        "import sys\n"
        "def pytest_unconfigure(config):\n"
        "    print('LOADED', sorted({m.partition('.')[0] for m in sys.modules}))\n"
    )
    run = run_pytest(tmp_path, "--co", "-q")
    loaded = re.search(r"^LOADED (.*)$", run.text, re.M)[1]
    assert "'simverify'" in loaded
    for heavy in ("numpy", "scipy", "numba", "torch", "statsmodels", "rich", "msgspec"):
        assert f"'{heavy}'" not in loaded


def test_a_wrong_setting_ends_the_run(tmp_path):
    (tmp_path / "test_selected.py").write_text(SELECTED)
    run = run_pytest(tmp_path, "--simverify-seed=1.5")
    assert run.code == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: --simverify-seed: got '1.5', expected a whole number" in run.text
