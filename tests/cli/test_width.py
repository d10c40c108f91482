"""Nothing above 80 columns, no blanks at the end of a line, and no name cut short."""

from pathlib import Path

import pytest
from support.pages.report_runs import example

from simverify import folders
from simverify.cli.common import Outputs, document_command, output_console
from simverify.errors import UsageError
from simverify.history import record
from simverify.options.surveys import BisectOptions

# What commands share, called by itself: what is refused before a run, what is lost after one.


def test_a_folder_for_reports_that_cannot_be_made_is_refused_before_the_run(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file"):
        Outputs(report=tmp_path / "file" / "reports").check()
    Outputs(report=tmp_path / "reports").check()
    assert (tmp_path / "reports").is_dir()


@pytest.mark.parametrize("where", [{"json": "run.json"}, {"report": Path("reports")}])
def test_a_name_that_no_file_can_hold_is_refused_before_the_run(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    @document_command(BisectOptions, arguments={"spec": ""})
    def make(_options, _outputs):
        pytest.fail("it was run")

    with pytest.raises(UsageError, match="is not UTF-8"):
        make("\udcff", **where)


def test_a_store_that_takes_no_run_takes_no_verdict(monkeypatch, tmp_path, capsys):
    def full(*_):
        raise UsageError("the disk is full")

    monkeypatch.setattr(folders, "store_path", lambda: tmp_path / "runs.db")
    monkeypatch.setattr(record, "add_run", full)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    Outputs().write(example("transformers"))
    out, err = capsys.readouterr()
    assert out.startswith("PASS")
    assert err == "simverify: not recorded: the disk is full\n"


# An option under its old name works for a release, and the new one is said once.


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


LONG = "a_pair_whose_name_is_longer_than_any_table_is_wide_" * 2


def neat(text):
    lines = text.splitlines()
    assert lines
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if line != line.rstrip()] == []
    return True


def test_what_is_not_neat_is_seen():
    for text in ("x" * 81, "blank \n", ""):
        with pytest.raises(AssertionError):
            neat(text)


def test_a_pipe_has_80_columns_whatever_the_terminal_had(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert output_console().width == 80


LISTS = ("verifiers", "models", "faults", "engines", "doctor")
COMMANDS = (
    "compare",
    "audit",
    "plan",
    "replay",
    "table",
    "sweep",
    "bisect",
    "triage",
    "watch",
    *LISTS,
)


@pytest.mark.parametrize("name", ["", *COMMANDS, "schema"])
def test_help(command, name):
    assert command(*name.split(), "--help") == 0
    assert neat(command.out)


@pytest.mark.parametrize("name", LISTS)
def test_lists(command, name):
    assert command(name) == 0
    assert neat(command.out)
    assert "…" not in command.out


def test_the_schema(command):
    """JSON lines may be long; they have no blanks at the end."""
    assert command("schema") == 0
    assert not any(line.endswith(" ") for line in command.out.splitlines())


def test_a_comparison(command, pair):
    command.compare(
        "--models", f"toy,compact,{pair(f'{LONG}.json', name=LONG)}", "--calls", "3",
        "--verifiers", "token,block,greedy,match,temperature-0",
    )  # fmt: skip
    assert neat(command.out)
    assert neat(command.err)


RULES = {
    "right": "list(draft_tokens) + [int(rng.choice(len(target_probs[0]), p=target_probs[-1]))]",
    "raises": f"1 / 0, '{LONG}'",
    "reads": f"open('{LONG}')",
}


@pytest.mark.parametrize("name", RULES)
def test_an_audit(command, tmp_path, name):
    (tmp_path / f"{LONG}.py").write_text(
        f"def verify(target_probs, draft_probs, draft_tokens, rng):\n    return {RULES[name]}\n"
    )
    assert command("audit", f"{LONG}.py:verify", "--gamma", "1", "--vocab", "2") == 1
    # The command to copy has the name in one piece.
    assert neat(command.out.partition("To reproduce:")[0])
    assert neat(command.err)


@pytest.mark.parametrize("name", ["token", "double-chance"])
def test_an_audit_and_its_replay(command, name):
    code = command("audit", name, "--gamma", "2", "--vocab", "3", "--json", "run.json")
    assert neat(command.out)
    assert neat(command.err)
    if code:
        assert command("replay", "run.json#0") == 0
        assert neat(command.out)
