"""What the README says, done: its samples, its files, its Python, its options."""

import json
import re

import pytest
from cli.readme import README, SAMPLE, printed, without_timings

TEXT = README.read_text(encoding="utf-8")
SAMPLES = SAMPLE.findall(TEXT)


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_every_sample_names_its_command():
    assert len(SAMPLES) == len(blocks("text")) == 2


@pytest.mark.parametrize(("command", "sample"), SAMPLES, ids=[c for c, _ in SAMPLES])
def test_a_sample_is_what_is_printed(command, sample):
    """To write them anew: python tests/cli/readme.py."""
    assert without_timings(sample) == without_timings(printed(command))


def test_only_timings_may_differ():
    row = "token    PASS exact 2.27 enum 2.2738±0.0082 3.273 74.4% 1.82x  7.6"
    assert without_timings(row) == without_timings(row.replace("7.6", "12.9"))
    assert without_timings(row) != without_timings(row.replace("1.82x", "1.83x"))
    assert without_timings(row) != without_timings(row.replace("2.27 ", "2.28 "))


def test_the_users_own_pair(command, tmp_path):
    (text,) = blocks("json")
    (tmp_path / "mine.json").write_text(text)
    command.compare("--models", "compact,mine.json", "--json", "-")
    assert [row["model"] for row in json.loads(command.out)["results"]] == ["compact", "mine"]


def test_the_settings(command, tmp_path):
    (tmp_path / "mine.json").write_text(*blocks("json"))
    (tmp_path / "pyproject.toml").write_text(*blocks("toml"))
    command("compare", "--blocks", "1000", "--verifiers", "token", "--json", "-")
    document = json.loads(command.out)
    assert document["gamma"] == 4
    assert [model["name"] for model in document["models"]] == ["compact", "mine"]


def test_the_python_example(monkeypatch, capsys):
    (code,) = (block for block in blocks("python") if "simverify.compare" in block)
    exec(code, {})  # the README's own
    verdict, fraction = capsys.readouterr().out.split()
    assert verdict == "PASS"
    assert re.fullmatch(r"\d+/\d+", fraction)


def test_every_option_it_names_exists(command):
    helps = ""
    for name in ("compare", "audit"):
        command(name, "--help")
        helps += command.out
    named = set(re.findall(r"`(--[a-z-]+)", TEXT))
    assert {"--cost-ratio", "--alpha", "--json"} <= named
    assert {option for option in named if option not in helps} == set()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`simverify ([a-z]+)", TEXT))))
def test_every_command_it_names_exists(command, name):
    assert command(name, "--help") == 0
