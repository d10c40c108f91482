"""``simverify sweep`` on the command line: its table, its exit codes, its one-line complaints."""

import json

import pytest

from simverify.results.reading import read_document

GRID = """\
models = ["toy", "markov-4"]
verifiers = "block"
gamma = [1, 2]
blocks = 300
shard = 100
"""


@pytest.fixture
def sweep(command, tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)

    def run(*words, spec="grid.toml"):
        return command("sweep", spec, "--out", "out", "--executor", "threads", *words)

    return run


def test_a_sweep_its_status_and_its_report(command, sweep, tmp_path):
    assert sweep("--report", "reports") == 3  # three hundred blocks tell nothing
    assert "INCONCLUSIVE: 4 without verdict" in command.out
    assert "alpha 1e-06 for all cells together, 2.5e-07 each; 300 blocks a cell" in command.out
    assert "E[tau]" in command.out
    assert max(map(len, command.out.splitlines())) <= 80
    run = read_document(tmp_path / "out" / "sweep.json")
    assert (tmp_path / "reports" / "run.json").read_bytes() == (
        tmp_path / "out" / "sweep.json"
    ).read_bytes()
    assert (
        "block on markov-4, T 1, distance 0.4, gamma 2, seed 0"
        in (tmp_path / "reports" / "junit.xml").read_text()
    )
    assert command("report", "out/sweep.json", "--html", "page.html") == 0
    assert "of best" in (tmp_path / "page.html").read_text()
    assert command("sweep", "--status", "out") == 0
    assert command.out.splitlines() == [
        "shards: 12 of 12 done",
        "cells: 4 of 4 judged",
        "document: out/sweep.json",
        "no run is in the folder",
    ]
    assert run.reproduce.startswith("simverify sweep --models toy,markov-4 --verifiers block")


def test_options_take_the_place_of_keys(command, sweep, tmp_path):
    assert sweep("--gamma", "1", "--models", "toy", "--seeds", "3,4", "--quiet") == 3
    assert command.err == ""
    found = json.loads((tmp_path / "out" / "sweep.json").read_bytes())
    assert [cell["seed"] for cell in found["cells"]] == [3, 4]
    assert "meta" not in found
    assert sweep("--gamma", "2") == 2
    assert "holds another sweep: its models is toy, here toy, markov-4" in command.complaint()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--status", "nothing"), "nothing holds no sweep"),
        (("--models", "toy"), "--out is missing"),
        (("--models", "toy", "--out", "x"), "gamma is missing"),
        (("none.toml", "--out", "x"), "none.toml cannot be read"),
        (("--gamma", "2", "--out", "x", "--models", "tyo"), "did you mean 'toy'"),
        (("--gamma", "2", "--out", "x", "--models", "none.json"), "none.json"),
    ],
)
def test_complaints(command, words, complaint):
    assert command("sweep", "--executor", "threads", *words) == 2
    assert complaint in command.err.splitlines()[-1]


def test_a_failing_cell_is_exit_code_1(command, sweep, monkeypatch):
    """A kernel that emits another law: the sweep says which cell, and what it found."""
    from simverify.comparing.sampled import ModelKernel

    real = ModelKernel._simulate

    def wrong(self, trials, first_trial, calls, positions):
        counts = real(self, trials, first_trial, calls, positions)
        counts.transitions[:] = counts.transitions[..., ::-1].copy()
        return counts

    monkeypatch.setattr(ModelKernel, "_simulate", wrong)
    assert sweep("--blocks", "20000", "--shard", "5000") == 1
    assert "FAIL: 4 failed" in command.out
    assert "block on toy, gamma 1, seed 0: " in command.out
    assert max(map(len, command.out.splitlines())) <= 80


def test_ctrl_c_keeps_what_is_finished(command, sweep, monkeypatch):
    from simverify.sweeping.run import _SweepRunner

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_SweepRunner, "_take", interrupt)
    assert sweep("--quiet") == 130
    assert command.err == (
        "simverify: interrupted; every finished shard is kept, and the same command goes on from "
        "there\n"
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--audits", "nofile.py:verify"), "no file nofile.py"),
        (("--audits", "tokem"), "unknown verifier, engine or fault 'tokem': did you mean 'token'?"),
        (("--audits", "rule.py"), "rule.py: name the function too, as rule.py:verify"),
        (("--audits", ":verify"), "':verify': expected module:attribute or path/file.py:attribute"),
        (("--models", "toy", "--temperature", "2"), "temperature is for markov-V: name one"),
        (("--audits", "token", "--gamma", "2", "--models", ""), "models is '': expected names"),
    ],
)
def test_what_cannot_be_swept_is_said_before_a_folder_is_made(command, tmp_path, words, why):
    assert command("sweep", "--out", "out", *words) == 2
    assert why in command.err
    assert len(command.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_status_takes_nothing_else(command, sweep, tmp_path):
    assert sweep("--quiet") == 3
    for words in (("grid.toml",), ("--out", "out"), ("--gamma", "2"), ("--workers", "2")):
        assert command("sweep", "--status", "out", *words) == 2
        assert "--status only says what is done: leave all else out" in command.err
    assert command("sweep", "--status", "grid.toml") == 2
    assert "grid.toml is a file: name the folder that --out named" in command.err
