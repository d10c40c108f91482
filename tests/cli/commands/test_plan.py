"""``simverify plan``: both ways, its document, its width, its settings and every mistake."""

import json
import math

import jsonschema
import pytest

from simverify import stats
from simverify.results.reading import decode_document, document_text, shipped_schema

QUICK = ("--vocab", "3", "--gamma", "2", "--threads", "1", "--quiet")


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    monkeypatch.setattr("simverify.comparing.planning.PILOT_BLOCKS", 1 << 10)
    monkeypatch.setattr("simverify.comparing.planning.TIMED_SECONDS", 1e-3)
    monkeypatch.setattr("simverify.comparing.planning.compiled_before", lambda: True)


def document(command, *arguments):
    assert command("plan", *QUICK, *arguments, "--json", "-") == 0
    loaded = json.loads(command.out)
    jsonschema.Draft202012Validator(json.loads(shipped_schema())).validate(loaded)
    assert document_text(decode_document(command.out.encode())) == command.out
    assert loaded["command"] == "plan"
    return loaded


def table(rows, *fields):
    return [tuple(row[field] for field in fields) for row in rows]


def test_from_a_deviation_to_samples_and_time(command):
    loaded = document(command, "--deviation", "0.02", "--alpha", "1e-4", "--power", "0.8")
    want = stats.plan_table(
        deviation=0.02, alpha=1e-4, power=0.8, vocab_size=3, gamma=2, contexts=7
    )
    assert loaded["asked"] == "deviation"
    assert loaded["contexts"] == 7  # the start, and three tokens before each later slot
    assert table(loaded["rows"], "test", "samples") == [(r.test, r.samples) for r in want.rows]
    rate = loaded["meta"]["timings"][0]["blocks_per_second"]
    for row, seconds in zip(loaded["rows"], loaded["meta"]["row_seconds"], strict=True):
        per_block = loaded["tokens_per_block"] if row["unit"] == "tokens" else 1
        assert seconds == pytest.approx(row["samples"] / per_block / rate)


def test_tokens_per_block_are_those_of_the_rule(command):
    """Block verification emits E[tau] + 1 tokens a block, which is known exactly here."""
    from simverify.comparing.curves import acceptance_curves
    from simverify.models import markov
    from simverify.verifiers import VERIFIERS

    rules = {"block": VERIFIERS["block"]}
    due = acceptance_curves(markov(3), rules, 2, seed=0, threads=1)["block"].expected + 1
    assert document(command)["tokens_per_block"] == pytest.approx(due, abs=0.2)


def test_from_samples_to_a_deviation_and_back(command):
    found = document(command, "--samples", "1000000")
    assert (found["asked"], found["samples"], found["deviation"]) == ("samples", 10**6, None)
    blocks = math.floor(10**6 / found["tokens_per_block"])
    assert set(table(found["rows"], "unit", "samples")) == {("tokens", 1e6), ("blocks", blocks)}
    at = {row["test"]: row["deviation"] for row in found["rows"]}
    for name in ("named fault, planned end", "transitions G2", "PIT-KS, q/p order"):
        back = document(command, "--deviation", str(at[name]))
        again = {row["test"]: row["samples"] for row in back["rows"]}
        assert again[name] == pytest.approx(1e6, rel=1e-3)


def test_a_budget_of_time_is_spent_at_the_speed_that_is_stated(command):
    found = document(command, "--seconds", "2")
    rate = found["meta"]["timings"][0]["blocks_per_second"]
    assert found["samples"] == pytest.approx(2 * rate * found["tokens_per_block"], rel=1e-3)
    assert found["meta"]["row_seconds"] == pytest.approx([2.0] * len(found["rows"]), rel=1e-3)


def test_more_samples_find_less(command):
    few, many = (
        table(document(command, "--samples", str(n))["rows"], "deviation")
        for n in (10**5, 4 * 10**5)
    )
    assert all(small < large for (small,), (large,) in zip(many, few, strict=True))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--deviation", "1e-5", "--alpha", "1e-300", "--power", "0.9999"),
        ("--deviation", "0.999999"),
        ("--samples", str(10**15), "--alpha", "1e-300"),
        ("--seconds", "1e-9"),
    ],
)
def test_at_the_ends_of_every_range(command, arguments):
    rows = document(command, *arguments)["rows"]
    assert len(rows) == 10
    assert all(x is None or x >= 0 for row in rows for x in (row["samples"], row["deviation"]))


def test_a_large_vocabulary_is_timed_on_a_smaller_one(command, monkeypatch):
    monkeypatch.setattr("simverify.comparing.planning.MAX_TIMED_VOCAB", 5)
    assert command("plan", "--vocab", "7", "--gamma", "2", "--quiet", "--json", "-") == 0
    loaded = json.loads(command.out)
    assert loaded["meta"]["timings"][0]["model"] == "markov-5"
    assert loaded["contexts"] == 15


def test_too_few_samples_promise_nothing(command):
    rows = document(command, "--samples", "1")["rows"]
    assert {row["deviation"] for row in rows if "certificate" not in row["test"]} == {None}


@pytest.mark.parametrize("arguments", [(), ("--seconds", "5"), ("--samples", "1")])
def test_the_terminal(command, arguments):
    assert command("plan", *QUICK, *arguments) == 0
    lines = command.out.splitlines()
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)
    assert "PIT-KS, q/p order" in command.out
    text = " ".join(command.out.split())
    assert "blocks a second" in text
    assert "block on markov-3, 1 thread," in text


def test_settings_and_their_precedence(command, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(
        "[tool.simverify.plan]\ngamma = 3\nvocab = 5\ndeviation = 0.1\n"
    )
    monkeypatch.setenv("SIMVERIFY_PLAN_VOCAB", "4")
    assert command("plan", "--deviation", "0.2", "--quiet", "--json", "-") == 0
    loaded = json.loads(command.out)
    got = loaded["gamma"], loaded["vocab_size"], loaded["deviation"]
    assert got == (3, 4, 0.2)  # the file, the environment, the command line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--vocab", "1"), "vocab is 1: expected 2 to 10000000"),
        (("--vocab", "8.5"), "'8.5' is not a whole number"),
        (("--gamma", "0"), "gamma is 0: expected 1 to 64"),
        (("--alpha", "0"), "alpha is 0.0: expected 1e-300 or more, below 1"),
        (("--alpha", "nan"), "alpha is nan"),
        (("--power", "1"), "power is 1.0: expected 0.01 to 0.9999"),
        (("--deviation", "0"), "deviation is 0.0: expected 1e-05 or more, below 1"),
        (("--deviation", "9e-6"), "deviation is 9e-06: expected 1e-05 or more, below 1"),
        (("--deviation", "nan"), "deviation is nan"),
        (("--seconds", "0"), "seconds is 0.0: expected above 0"),
        (("--seconds", "inf"), "seconds is inf"),
        (("--samples", "0"), "samples is 0: expected 1 to"),
        (("--samples", "1e6"), "'1e6' is not a whole number"),
        (("--threads", "0"), "threads is 0"),
        (("--seconds", "1", "--samples", "9"), "seconds and samples are given: expected one"),
        (("--deviation", ".1", "--samples", "9"), "deviation and samples are given"),
        (("--json", ""), '--json is empty: name a file, or "-" for standard output'),
        (("--detect", ".1"), "--detect"),
    ],
)
def test_a_mistake(command, arguments, message):
    assert command("plan", *arguments) == 2
    assert message in command.complaint()


def test_help_has_examples(command):
    assert command("plan", "--help") == 0
    assert "simverify plan --seconds 60" in command.out


def test_an_audit_cannot_be_read_from_a_plan(command):
    assert command("plan", *QUICK, "--json", "plan.json") == 0
    assert command("replay", "plan.json#0") == 2
    assert "plan.json holds a plan, which has no path to replay" in command.complaint()
