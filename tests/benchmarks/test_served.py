"""The simulations of served engines run: right ones are left alone, wrong ones are found."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.pages.scripts import load

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.distribution
def test_bets_end_a_wrong_run_and_no_right_one():
    script = load(BENCHMARKS / "early_stop.py")
    logits = 2.5 * np.random.default_rng(1).normal(size=(script.CONTEXTS, script.V))
    p = script.softmax(logits)
    assert script.stopped(p, p, 1280, ALPHA, 0) is None
    assert script.stopped(p, script.softmax(logits / 1.5), 1280, ALPHA, 0) < 1280


@pytest.mark.distribution
def test_two_engines_are_told_apart_only_where_they_differ(monkeypatch, capsys):
    script = load(BENCHMARKS / "against_alarms.py")
    monkeypatch.setattr(
        sys, "argv", ["against_alarms.py", "--runs", "1", "--alpha", str(ALPHA), "--detect", ".1"]
    )
    script.main()
    said = capsys.readouterr().out
    assert "same: TV 0.000; of 1 runs 0 FAIL" in said
    assert "one token's rate, +.04: TV 0.040; of 1 runs 1 FAIL" in said


@pytest.mark.distribution
def test_a_watch_tells_a_change_and_nothing_else():
    script = load(BENCHMARKS / "canary.py")
    settings = script.WatchSettings(alpha=ALPHA, detect=0.3)
    assert script.life(0, settings, 0.0, 1000, 1000) is None
    assert 500 < script.life(0, settings, 0.3, 500, 2000) < 2000


@pytest.mark.distribution
@pytest.mark.slow
def test_a_cell_is_told_by_what_its_engine_does(monkeypatch, capsys):
    pytest.importorskip("transformers")
    script = load(BENCHMARKS / "matrix_cells.py")
    monkeypatch.setattr(sys, "argv", ["matrix_cells.py", "--cells", "top-k", "--tokens", "256"])
    script.main()
    said = capsys.readouterr().out
    assert "top-k, right: honoured" in said
    assert "right: 1 honoured" in said
    assert "wrong: 3" in said


def test_what_a_running_server_is_asked_are_commands(tmp_path):
    script = load(BENCHMARKS / "served_runs.py")
    own = argparse.Namespace(
        url="http://h:1", against=None, target="tiny-llama", draft="tiny-llama",
        prompts=script.PROMPTS, dtype="float32", extra_body='{"a": 1}', order="vllm", tokens=64,
        detect=0.3,
    )  # fmt: skip
    for run in script.ALL:
        words = script.command_of(run, own, tmp_path)
        assert words[0] in ("audit", "triage", "watch", "matrix")
        assert "http://h:1" in words
        assert words[words.index("--extra-body") + 1] == '{"a": 1}'
        assert ("--detect" in words) == (words[0] in ("audit", "watch"))
        assert ("--draft" in words) == (run != "against")
    own.detect = own.draft = None
    for run in script.ALL:
        words = script.command_of(run, own, tmp_path)
        assert "--detect" not in words, "each command has a default of its own"
        assert "--draft" not in words
    talks = (tmp_path / "talks.jsonl").read_text().splitlines()
    assert len(talks) == 48
    assert script.tokens_of({"cells": [{"tokens": 3}, {"tokens": 4}]}) == 7
    assert script.tokens_of({"tokens": [3, 4]}) == 7
