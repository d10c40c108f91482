"""An option under its old name works for a release, and the new one is said once."""

import pytest


def said(command):
    return [line for line in command.err.splitlines() if "is now called" in line]


def test_on_the_command_line(command):
    assert command("audit", "token", "--company", "greedy", "--gamma", "1", "--vocab", "3") == 2
    assert said(command) == ["simverify: --company is now called --batch-mix"]
    assert "leave --batch-mix out" in command.err


@pytest.mark.parametrize("key", ["company", "batch-mix"])
def test_in_a_file(command, tmp_path, key):
    (tmp_path / "pyproject.toml").write_text(f"[tool.simverify.audit]\n{key} = 'greedy'\n")
    assert command("audit", "token", "--gamma", "1", "--vocab", "3") == 2
    assert len(said(command)) == (key == "company")
    assert "leave --batch-mix out" in command.err


def test_in_the_environment(command, monkeypatch):
    monkeypatch.setenv("SIMVERIFY_AUDIT_BALL", "2")
    assert command("audit", "--outputs", "o", "--target", "t") == 2
    assert said(command) == ["simverify: --ball is now called --row-tolerance"]
    assert "row tolerance is 2.0" in command.err


def test_help_shows_new_names_alone(command):
    assert command("audit", "--help") == 0
    assert "--batch-mix" in command.out
    assert "--company" not in command.out
    assert "--ball" not in command.out
