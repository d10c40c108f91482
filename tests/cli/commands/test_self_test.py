"""The document of ``audit --self-test``; its trials: tests/auditing/test_coins.py."""

import json

import jsonschema
import pytest

from simverify.auditing import run
from simverify.results import Tried
from simverify.results.reading import shipped_schema


def tried(name, kind, caught, tier="exact"):
    tv = 0.1 if caught and tier == "exact" else None
    return Tried(name=name, kind=kind, caught=caught, tier=tier, effort=1000, tv=tv)


GOOD = (tried("fault", "fault", True), tried("control", "control", False, "sampled"))
MISSED = (*GOOD, tried("missed", "fault", False, "probe"))
ALARM = (*GOOD, tried("alarm", "control", True))


@pytest.fixture
def outcome(monkeypatch):
    def set_to(entries):
        def try_all(_settings, *, progress):
            progress("trying")
            return iter(entries)

        monkeypatch.setattr(run, "audit_catalogue", try_all)

    return set_to


@pytest.mark.parametrize(
    ("entries", "code", "verdict", "unexpected"),
    [(GOOD, 0, "PASS", []), (MISSED, 1, "FAIL", ["missed"]), (ALARM, 1, "FAIL", ["alarm"])],
)
def test_the_document(command, outcome, tmp_path, entries, code, verdict, unexpected):
    outcome(entries)
    assert command("audit", "--self-test", "--seed", "3", "--json", "run.json") == code
    document = json.loads((tmp_path / "run.json").read_text())
    jsonschema.validate(document, json.loads(shipped_schema()))
    assert (document["command"], document["seed"]) == ("self-test", 3)
    assert (document["verdict"], document["unexpected"]) == (verdict, unexpected)
    assert [entry["name"] for entry in document["results"]] == [entry.name for entry in entries]
    assert command.err == "trying\n"
    assert " ".join(command.out.split()).endswith(
        f"FAIL: Do not trust audits on this machine. What came out wrong: {unexpected[0]}."
        if unexpected
        else "it caught every catalogued fault and passed every control."
    )


def test_json_to_standard_output_is_all_there_is(command, outcome):
    outcome(GOOD)
    assert command("audit", "--self-test", "--quiet", "--json", "-") == 0
    assert json.loads(command.out)["verdict"] == "PASS"
    assert command.err == ""


def test_the_table_says_what_happened(command, outcome):
    outcome((*MISSED, *ALARM[2:]))
    command("audit", "--self-test", "--quiet")
    words = [line.split() for line in command.out.splitlines()]
    assert ["fault", "fault", "caught", "exact", "1,000", "paths", "0.1"] in words
    assert ["control", "control", "passed", "sampled", "1,000", "calls"] in words
    assert ["missed", "fault", "missed", "probe", "1,000", "probes"] in words
    assert ["alarm", "control", "FALSE", "ALARM", "exact", "1,000", "paths", "0.1"] in words


def test_what_it_does_not_take(command, outcome):
    outcome(GOOD)
    assert command("audit", "token", "--self-test") == 2
    assert "SPEC is not for the catalogue: it is for code on small instances" in command.complaint()
    assert command("audit", "--self-test", "--json", "none/run.json") == 2
    assert "none/run.json cannot be written" in command.complaint()


@pytest.mark.parametrize(
    "option",
    [
        ["--contract", "verify"],
        ["--batch", "8"],
        ["--eos", "1"],
        ["--engine-path", "."],
        ["--tolerance", "0.1"],
        ["--strict-probes"],
    ],
)
def test_options_of_a_single_audit_are_refused(command, outcome, option):
    outcome(GOOD)
    assert command("audit", "--self-test", *option) == 2
    assert f"{option[0]} is not for the catalogue" in command.complaint()


def test_it_is_no_audit_to_replay(command, outcome):
    outcome(GOOD)
    command("audit", "--self-test", "--quiet", "--json", "run.json")
    assert command("replay", "run.json#0") == 2
    assert "run.json holds a self-test, which has no path" in command.complaint()
