"""A command with a document, added from outside in three places: its mode, product and struct."""

import json
from dataclasses import dataclass

import pytest

from simverify.cli import app
from simverify.cli.app import Command, register_command
from simverify.cli.common import document_command
from simverify.options.modes import keywords
from simverify.options.option import BUDGET, SUBJECT, Options, Range, option
from simverify.reports.view import Fact, Report
from simverify.results import Judged, Meta, Verdict, registry
from simverify.results.common import Positive, check_verdict
from simverify.results.reading import read_document
from simverify.results.registry import Kind, register_kind


@dataclass(frozen=True)
class CoinOptions(Options):
    """The mode."""

    coin: str | None = option("What is tossed.", SUBJECT)
    tosses: int = option("How often.", BUDGET, Range(low=1), default=3)


class CoinRun(Judged, frozen=True, tag_field="command", tag="coin"):
    """The struct."""

    coin: str
    tosses: Positive
    heads: int
    verdict: Verdict
    meta: Meta

    @property
    def headline(self):
        return f"{self.coin}, {self.tosses} times"


@keywords(CoinOptions)
def coin(options):
    """The product."""
    options.say("tossing")
    meta = Meta(version="1", started="2026-01-31T00:00:00+00:00", seconds=0.0, machine="m",
                python="3", threads=1, timings=())  # fmt: skip
    verdict = "FAIL" if options.coin == "bent" else "PASS"
    return CoinRun(
        schema_version=1, coin=options.coin, tosses=options.tosses,
        heads=options.tosses if verdict == "FAIL" else 1, verdict=verdict, meta=meta,
    )  # fmt: skip


def report(run):
    facts = (Fact("heads", str(run.heads)),)
    return Report(
        verdict=run.verdict, command="coin", title=run.coin, ruling="", facts=facts, sections=(),
        cases=(), version="1", started="", machine="m", seed=0,
    )  # fmt: skip


def verdicts(run):
    expected = "FAIL" if run.heads == run.tosses else "PASS"
    yield from check_verdict("verdict", run.verdict, expected, "by heads")


@pytest.fixture(autouse=True)
def added(monkeypatch):
    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))
    register_kind(Kind(CoinRun, "tosses of a coin", report, verdicts=verdicts))
    toss = document_command(CoinOptions, arguments={"coin": ""})(lambda options, _: coin(options))
    register_command("coin", Command(toss, "Toss a coin.", ("simverify coin penny",)))
    yield
    del app.COMMANDS["coin"]
    del app.app["coin"]


def test_it_runs_writes_reads_records_and_shows(command, tmp_path, monkeypatch):
    monkeypatch.setenv("SIMVERIFY_RUNS", str(tmp_path / "runs.db"))
    assert command("coin", "bent", "--tosses", "4", "--json", "run.json", "--report", "r") == 1
    assert "bent" in command.out
    assert "heads" in command.out
    assert command.err == "tossing\n"
    run = read_document(tmp_path / "run.json")
    assert (type(run), run.tosses) == (CoinRun, 4)
    assert run.as_text().rstrip() == command.out.rstrip()
    assert command("report", "run.json") == 0
    assert "heads" in command.out
    assert "bent" in (tmp_path / "r" / "report.html").read_text()
    assert command("runs", "--command", "coin") == 0
    assert "bent, 4 times" in command.out


def test_its_options_come_from_the_mode(command, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[tool.simverify.coin]\ntosses = 5\n")
    assert command("coin", "penny", "--json", "-", "--quiet") == 0
    assert json.loads(command.out)["tosses"] == 5
    assert command("coin", "penny", "--tosses", "0") == 2
    assert command.complaint() == "tosses is 0: expected 1 or more"
    assert command("coin", "--help") == 0
    assert "What is tossed." in command.out
    assert "simverify coin penny" in command.out
    assert coin("penny").passed


def test_its_ranges_and_its_verdict_are_checked(tmp_path, command):
    assert command("coin", "penny", "--json", "run.json") == 0
    plain = json.loads((tmp_path / "run.json").read_text())
    for change, said in (
        ({"tosses": 0}, "tosses is 0: expected 1 or more"),
        ({"verdict": "FAIL"}, "verdict is FAIL: expected PASS, by heads"),
    ):
        (tmp_path / "run.json").write_text(json.dumps(plain | change))
        assert command("report", "run.json") == 2
        assert said in command.complaint()


def test_a_tag_stands_for_one_kind():
    with pytest.raises(ValueError, match="CoinRun: expected a tag of its own"):
        register_kind(Kind(CoinRun, "tosses", report))


def test_a_command_has_a_name_of_its_own():
    with pytest.raises(ValueError, match="coin is a command already"):
        register_command("coin", app.COMMANDS["coin"])
