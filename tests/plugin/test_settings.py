"""The plugin's settings: which one wins, and what is said of a wrong one."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.pytest_runs import run_pytest

from simverify.errors import UsageError
from simverify.plugin.settings import option_flag, run_settings, settings_for_tests

# The plugin's marks and options: what they select, and what is said of wrong ones.


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
    assert "ERROR: option --simverify-seed: got '1.5', expected a whole number" in run.text


def config(root, **options):
    """Stand in for pytest's configuration: a root and the options given."""
    given = {option_flag(name): text for name, text in options.items()}
    return SimpleNamespace(rootpath=root, getoption=given.get)


def marked(*keywords, positional=()):
    """Stand in for a test with markers, nearest first."""
    marks = [SimpleNamespace(args=positional, kwargs=kwargs) for kwargs in keywords]
    return SimpleNamespace(iter_markers=lambda name: marks if name == "distribution" else [])


def test_the_nearest_setting_wins(tmp_path, monkeypatch):
    monkeypatch.delenv("SIMVERIFY_PYTEST_SEED", raising=False)
    assert run_settings(config(tmp_path)) == {}
    (tmp_path / "pyproject.toml").write_text(
        "[tool.simverify.pytest]\nseed = 1\nalpha = 1e-3\nmax-paths = 7\ninconclusive = 'warn'\n"
    )
    file = {"seed": 1, "alpha": 1e-3, "max_paths": 7, "inconclusive": "warn"}
    assert run_settings(config(tmp_path)) == file
    monkeypatch.setenv("SIMVERIFY_PYTEST_SEED", "2")
    monkeypatch.setenv("SIMVERIFY_PYTEST_ALPHA", "1e-4")
    assert run_settings(config(tmp_path)) == {**file, "seed": 2, "alpha": 1e-4}
    run = run_settings(config(tmp_path, seed="3"))
    assert run == {**file, "seed": 3, "alpha": 1e-4}
    assert run | settings_for_tests(marked({"seed": 4}, {"seed": 5, "detect": 0.1})) == {
        **file,
        "seed": 4,
        "alpha": 1e-4,
        "detect": 0.1,
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("max-path = 7", "did you mean 'max-paths'?"),
        ("max_paths = 7", "did you mean 'max-paths'?"),
        ("seed = 1.5", "seed: got 1.5, expected a whole number"),
        ("seed = true", "seed: got True, expected a whole number"),
        ("alpha = '1e-3'", "alpha: got '1e-3', expected a number"),
        ("inconclusive = 'pass'", "got 'pass', expected 'fail' or 'warn'"),
    ],
)
def test_wrong_keys_are_named(tmp_path, line, words):
    (tmp_path / "pyproject.toml").write_text(f"[tool.simverify.pytest]\n{line}\n")
    with pytest.raises(pytest.UsageError, match=re.escape(words)):
        run_settings(config(tmp_path))


@pytest.mark.parametrize("text", ["[tool.simverify]\npytest = 3\n", "tool = ["])
def test_a_broken_file_is_named(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(pytest.UsageError, match=r"pyproject\.toml"):
        run_settings(config(tmp_path))


def test_a_wrong_variable_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMVERIFY_PYTEST_SEEDS", "3")
    with pytest.raises(pytest.UsageError, match="did you mean 'SIMVERIFY_PYTEST_SEED'"):
        run_settings(config(tmp_path))


def test_marks_take_no_inconclusive():
    with pytest.raises(UsageError, match="inconclusive"):
        settings_for_tests(marked({"inconclusive": "warn"}))


def test_the_marker_of_this_project_has_one_meaning(pytestconfig):
    lines = [m for m in pytestconfig.getini("markers") if m.startswith("distribution")]
    assert any("with audit settings" in line for line in lines)
    assert Path(pytestconfig.rootpath / "pyproject.toml").is_file()
