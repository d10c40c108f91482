"""``simverify baseline`` and ``simverify runs``, as one types them."""

import json
import os
from fractions import Fraction

import msgspec
import pytest
from msgspec.structs import replace
from support.baseline_runs import drawn

from simverify.engines import ENGINES
from simverify.engines.base import Engine
from simverify.engines.extract import load_file


@pytest.fixture
def kept(command, tmp_path):
    drawn(200_000, seed=1).save("old.json")
    assert command("baseline", "save", "main", "old.json") == 0
    return command


def test_exit_codes(kept):
    assert kept("baseline", "check", "main", "old.json") == 0
    assert kept.out.startswith("PASS main: no worse\n")
    drawn(200_000, 0.95, 2).save("worse.json")
    assert kept("baseline", "check", "main", "worse.json") == 1
    assert kept.out.startswith("FAIL main: worse\nWORSE: ")
    drawn(1_000, seed=2).save("short.json")
    assert kept("baseline", "check", "main", "short.json") == 3
    assert "blocks of " in kept.out
    assert kept("baseline", "check", "main", "short.json", "--alpha", "nan") == 2
    assert "alpha is nan" in kept.complaint()
    replace(drawn(1_000), eos=2).save("other.json")
    assert kept("baseline", "check", "main", "other.json") == 2
    assert "eos was none and is 2" in kept.complaint()


def test_the_summary_of_a_job(kept, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "page"))
    kept("baseline", "check", "main", "old.json")
    assert (tmp_path / "page").read_text().startswith("## PASS: baseline main, no worse\n")


@pytest.mark.parametrize("name", ["../x", "a/b", "a b", ".", "..", "", "x" * 101, "-x", "a\n", "é"])
def test_names_that_could_be_elsewhere(kept, name, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    assert kept("baseline", "save", name, "old.json") == 2
    assert kept.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_files_that_are_none(kept, tmp_path):
    assert kept("baseline", "check", "other", "old.json") == 2
    assert "there are main" in kept.complaint()
    document = json.loads((tmp_path / "old.json").read_text())
    for field, value in (("schema_version", 0), ("alpha", float("nan")), ("extra", 1)):
        (tmp_path / "bad.json").write_text(json.dumps(document | {field: value}))
        for words in (("save", "main"), ("check", "main")):
            assert kept("baseline", *words, "bad.json") == 2
            assert "bad.json is not a result document" in kept.complaint()
    (tmp_path / ".simverify" / "baselines" / "main.json").write_text("{")
    assert kept("baseline", "check", "main", "old.json") == 2
    assert "main.json is not a result document" in kept.complaint()


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 3000])
def test_paths_that_no_system_takes(kept, name):
    for words in (
        ("baseline", "save", "main", "old.json", "--folder", name),
        ("baseline", "check", "main", "old.json", "--folder", name),
        ("baseline", "check", "main", name),
        ("runs", "--store", name),
        ("compare", "--gamma", "1", "--models", name),
        ("report", name),
        ("sweep", "--status", name),
    ):
        assert kept(*words) == 2, words
        assert kept.err.count("\n") == 1, words


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(kept, tmp_path):
    folder = tmp_path / "fixed"
    folder.mkdir(mode=0o500)
    assert kept("baseline", "save", "main", "old.json", "--folder", folder) == 2
    assert "cannot be written" in kept.complaint()
    assert kept("runs", "init", "--store", folder / "runs.db") == 2
    assert "cannot be used" in kept.complaint()


def test_a_file_where_a_folder_should_be(kept, tmp_path):
    assert kept("baseline", "save", "main", "old.json", "--folder", "old.json") == 2
    assert kept.err.count("\n") == 1
    assert kept("runs", "init", "--store", tmp_path / "old.json" / "runs.db") == 2
    assert kept.err.count("\n") == 1


def test_runs_are_recorded_where_a_store_is(command, tmp_path, monkeypatch):
    assert command.compare("--quiet") in (0, 3)
    assert not (tmp_path / ".simverify").exists()
    assert command("runs", "init") == 0
    code = command.compare("--quiet", "--json", "run.json")
    table = command.out
    assert command("runs", "show", "1") == 0
    assert table in command.out
    assert command("runs", "add", "run.json") == 0
    assert command("runs", "diff", "1", "2") == 0
    assert "equal" in command.out
    monkeypatch.setenv("SIMVERIFY_RUNS", "")
    assert command.compare("--quiet") == code
    monkeypatch.delenv("SIMVERIFY_RUNS")
    assert command("runs", "--limit", "9") == 0
    assert command.out.count("compare\n") == 2


def test_a_store_that_the_variable_names_is_made_for_a_run_file_too(command, tmp_path, monkeypatch):
    assert command.compare("--quiet", "--json", "run.json") in (0, 3)
    assert command("runs", "add", "run.json") == 2
    assert "there is no run store .simverify/runs.db: make one" in command.complaint()
    assert command("runs", "add", "run.json", "--store", "other.db") == 2
    monkeypatch.setenv("SIMVERIFY_RUNS", "named.db")
    assert command("runs", "add", "run.json") == 0
    assert (tmp_path / "named.db").is_file()


def test_a_store_that_cannot_be_used_stops_a_run_before_it_starts(command, tmp_path, monkeypatch):
    (tmp_path / "text").write_text("no store" * 100)
    monkeypatch.setenv("SIMVERIFY_RUNS", "text")
    assert command.compare() == 2
    assert "the run store text cannot be used" in command.complaint()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show",), "expected the number of a run"), (("show", "x"), "expected the number"),
        (("diff", "1"), "expected the numbers of two"), (("list", "1"), "expected no more words"),
        (("add",), "expected run files"), (("show", "-1"), ""), (("--limit", "0"), "limit is 0"),
        (("--since", "yesterday"), "expected a day"), (("show", "9"), "has no run 9"),
    ],
)  # fmt: skip
def test_words_that_do_not_fit(command, words, said):
    command("runs", "init")
    assert command("runs", *words) == 2
    assert said in command.complaint()


# What ``replay`` shows of a run that has no counterexample.


RULE = """
import numpy as np

def verify(p, q, x, rng):
    own = np.random.default_rng(int.from_bytes(rng.bytes(8), "little"))
    for i, y in enumerate(x):
        if own.random() >= p[i][y] / q[i][y]:
            return [*x[:i], int(own.choice(len(p[i]), p=p[i]))]
    return [*x, int(own.choice(len(p[-1]), p=p[-1]))]
"""


def test_a_failing_trial_is_shown_and_is_the_only_one(command, tmp_path):
    (tmp_path / "mine.py").write_text(RULE)
    sizes = ("--gamma", "2", "--vocab", "4", "--detect", "0.05")
    assert command("audit", "mine.py:verify", *sizes, "--json", "run.json") == 1
    assert "simverify replay 'run.json#0'" in command.out
    assert command("replay", "run.json#0") == 0
    assert ", gamma=2: trial " in command.out
    assert "draw: bytes(8) = " in command.out
    assert "branch: own.random() >= p[i][y] / q[i][y] is " in command.out
    assert command.out.splitlines()[-1].startswith("emits [")
    assert command("replay", "run.json#1") == 2
    assert "run.json has one failing trial, number 0: got 1" in command.complaint()


BROKEN = """
def verify(p, q, x, rng):
    for i, y in enumerate(x):
        if rng.random() >= p[i][y] / q[i][y]:
            raise ValueError("no residual")
    return [*x, int(rng.choice(len(p[-1]), p=p[-1]))]
"""


def test_a_call_that_breaks_its_contract_is_shown_with_its_rows_and_draft(command, tmp_path):
    (tmp_path / "mine.py").write_text(BROKEN)
    sizes = ("--gamma", "1", "--vocab", "2")
    assert command("audit", "mine.py:verify", *sizes, "--json", "run.json") == 1
    assert "simverify replay 'run.json#0'" in command.out
    found = msgspec.json.decode((tmp_path / "run.json").read_bytes())
    assert found["counterexample"] is None
    (token,) = found["breach"]["draft_tokens"]
    p, q = (
        [float(Fraction(x)) for x in found["breach"]["instance"][side][""]]
        for side in ("target_probs", "draft_probs")
    )
    assert p[token] < q[token]
    assert f"It broke its contract at V = 2, gamma = 1, draft tokens {token}:" in command.out
    assert command("replay", "run.json#0") == 0
    assert f"draft tokens {token}" in command.out
    assert "raised ValueError: no residual" in command.out
    assert f"probability {1 - p[token] / q[token]:.6g}, 1 draws" in command.out
    assert command("replay", "run.json#1") == 2
    assert "has 1 paths that break the contract, numbered from 0: got 1" in command.complaint()


def test_an_engines_checkout_is_found_again(command, tmp_path, monkeypatch):
    name = "simverify-test-engine"
    (tmp_path / "checkout" / name).mkdir(parents=True)
    (tmp_path / "checkout" / name / "sampler.py").write_text(RULE.replace("own =", "own = rng #"))
    engine = Engine(
        name=name, package=name, source="sampler.py", function="verify", contract="verify",
        tier="exact", tolerance=1e-9, loader=lambda path: load_file(path, "its_sampler").verify,
    )  # fmt: skip
    monkeypatch.setitem(ENGINES, name, engine)
    sizes = ("--gamma", "1", "--vocab", "3", "--engine-path", "checkout")
    assert command("audit", name, *sizes, "--json", "run.json") == 1
    assert command("replay", "run.json#0") == 0
    assert "emits" in command.out
    # Without a file to replay from, the audit itself is what repeats it.
    assert command("audit", name, *sizes) == 1
    assert "--engine-path checkout" in command.out


def test_a_run_that_found_nothing_has_nothing_to_replay(command):
    sizes = ("--gamma", "1", "--vocab", "2", "--json", "run.json")
    assert command("audit", "token", *sizes) == 0
    assert command("replay", "run.json#0") == 2
    assert "no counterexample and no failing trial to replay" in command.complaint()
