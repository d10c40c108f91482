"""Nothing above 80 columns, no blanks at the end of a line, and no name cut short."""

import pytest

from simverify.cli.common import output_console

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
