"""The plugin's settings: which one wins, and what is said of a wrong one."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from simverify.errors import UsageError
from simverify.plugin.settings import flag, settings_of_run, settings_of_test


def config(root, **options):
    """Stand in for pytest's configuration: a root and the options given."""
    given = {flag(name): text for name, text in options.items()}
    return SimpleNamespace(rootpath=root, getoption=given.get)


def marked(*keywords, positional=()):
    """Stand in for a test with markers, nearest first."""
    marks = [SimpleNamespace(args=positional, kwargs=kwargs) for kwargs in keywords]
    return SimpleNamespace(iter_markers=lambda name: marks if name == "distribution" else [])


def test_the_nearest_setting_wins(tmp_path, monkeypatch):
    monkeypatch.delenv("SIMVERIFY_PYTEST_SEED", raising=False)
    assert settings_of_run(config(tmp_path)) == {}
    (tmp_path / "pyproject.toml").write_text(
        "[tool.simverify.pytest]\nseed = 1\nalpha = 1e-3\nmax-paths = 7\ninconclusive = 'warn'\n"
    )
    file = {"seed": 1, "alpha": 1e-3, "max_paths": 7, "inconclusive": "warn"}
    assert settings_of_run(config(tmp_path)) == file
    monkeypatch.setenv("SIMVERIFY_PYTEST_SEED", "2")
    monkeypatch.setenv("SIMVERIFY_PYTEST_ALPHA", "1e-4")
    assert settings_of_run(config(tmp_path)) == {**file, "seed": 2, "alpha": 1e-4}
    run = settings_of_run(config(tmp_path, seed="3"))
    assert run == {**file, "seed": 3, "alpha": 1e-4}
    assert run | settings_of_test(marked({"seed": 4}, {"seed": 5, "detect": 0.1})) == {
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
        settings_of_run(config(tmp_path))


@pytest.mark.parametrize("text", ["[tool.simverify]\npytest = 3\n", "tool = ["])
def test_a_broken_file_is_named(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(pytest.UsageError, match=r"pyproject\.toml"):
        settings_of_run(config(tmp_path))


def test_a_wrong_variable_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMVERIFY_PYTEST_SEEDS", "3")
    with pytest.raises(pytest.UsageError, match="did you mean 'SIMVERIFY_PYTEST_SEED'"):
        settings_of_run(config(tmp_path))


def test_marks_take_no_inconclusive():
    with pytest.raises(UsageError, match="inconclusive"):
        settings_of_test(marked({"inconclusive": "warn"}))


def test_the_marker_of_this_project_has_one_meaning(pytestconfig):
    lines = [m for m in pytestconfig.getini("markers") if m.startswith("distribution")]
    assert any("settings of its audits" in line for line in lines)
    assert Path(pytestconfig.rootpath / "pyproject.toml").is_file()
