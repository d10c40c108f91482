"""Answers that are kept: gone on with, judged again, whole whatever ends the run."""

import itertools
import json
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import PROMPTS, Reply, serving
from support.small_disks import no_file_beyond
from support.waiting import PATIENCE, wait_for

from simverify.cli import run as command_line
from simverify.errors import UsageError
from simverify.models.transformer import load_pair
from simverify.served import Endpoint, client, collect_answers, read_requests


@pytest.fixture(scope="module")
def pair():
    return load_pair("tiny-llama", "tiny-llama")


class Counting:
    """Answers with ids that no other request gets; from ``busy`` on it has no time."""

    def __init__(self, busy=None):
        self.busy, self.bodies, self._lock = busy, [], threading.Lock()

    def __call__(self, body):
        with self._lock:
            number = len(self.bodies)
            if number == self.busy:
                return Reply(b"busy", 429)
            self.bodies.append(body)
        return {"token_ids": [5 + number, 6], "finish_reason": "stop", "stop_reason": None}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client, "RETRY_WAITS", (0.01,))
    monkeypatch.setattr("simverify.served.client.DEFAULT_CONCURRENCY", 1)


def asked(pair, complete, keep, tokens=100, *, samples=4, say=None, **serve):
    with serving(complete, **serve) as address:
        return collect_answers(
            Endpoint(address, max_tokens=4), PROMPTS[:2], pair, tokens, samples, keep=keep,
            progress=say,
        )  # fmt: skip


def test_what_was_answered_is_there_when_the_server_gives_up(pair, tmp_path):
    keep = tmp_path / "kept.jsonl"
    with pytest.raises(UsageError, match=r"429: busy; 5 answers are kept in .*: the same command"):
        asked(pair, Counting(busy=5), keep)
    first = read_requests(keep, pair)
    assert [r.tokens for r in first] == [(5 + i, 6, 0) for i in range(5)]
    before, later = keep.read_bytes(), Counting()
    found = asked(pair, later, keep)
    assert len(later.bodies) == 3  # 4 samples of 2 prompts, less 5
    assert keep.read_bytes().startswith(before)
    assert read_requests(keep, pair) == found.requests
    assert found.requests[:5] == first
    prompts = [tuple(pair.encode(PROMPTS[i % 2])) for i in range(8)]
    assert [r.prompt for r in found.requests] == prompts


def test_enough_answers_are_asked_no_more(pair, tmp_path):
    keep = tmp_path / "kept.jsonl"
    asked(pair, Counting(), keep, tokens=9)
    assert len(keep.read_text().splitlines()) == 3
    again = Counting()
    assert len(asked(pair, again, keep, tokens=9).requests) == 3
    assert again.bodies == []


def test_an_answer_that_cannot_be_judged_is_not_asked_for_again(pair, tmp_path):
    keep, cut = tmp_path / "kept.jsonl", {"token_ids": [5], "finish_reason": "abort"}
    with pytest.raises(UsageError, match='answer 0 ended by "abort"'):
        asked(pair, lambda _: cut, keep)
    with pytest.raises(UsageError, match='line 1 ended by "abort"'):
        asked(pair, Counting(), keep)


def changed(keep, **change):
    lines = [json.loads(line) for line in keep.read_text().splitlines()]
    lines[1] |= change
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda k: k.read_text() + "notes", "not whole, and --keep did not write it: delete it"),
        (lambda k: k.read_text() + "{\n", "line 4 is no JSON"),
        (lambda k: changed(k, asked=None), "line 2 does not say what was asked"),
        (lambda k: changed(k, prompt="x"), "line 2 answers another prompt"),
        (lambda k: changed(k, tokens=[5000]), r"line 2: tokens\[0\] is 5000"),
        (lambda k: k.read_text().replace('"temperature": 1.0', '"temperature": 0.5', 1),
         r"line 1 was asked with temperature 0\.5, now it is 1\.0"),
        (lambda k: k.read_text().replace('"served"', '"other"', 1), 'with model "other", now'),
    ],
)  # fmt: skip
def test_a_file_of_other_answers_is_left_alone(pair, tmp_path, change, says):
    keep, server = tmp_path / "kept.jsonl", Counting()
    asked(pair, server, keep, tokens=9)
    keep.write_text(change(keep))
    before = keep.read_bytes()
    with pytest.raises(UsageError, match=says):
        asked(pair, server, keep)
    assert keep.read_bytes() == before
    assert len(server.bodies) == 3


@pytest.mark.parametrize("half", [3, 30, -1])
def test_a_half_written_last_line_is_told_and_asked_for_again(pair, tmp_path, half):
    keep, said, server = tmp_path / "kept.jsonl", [], Counting()
    asked(pair, server, keep, tokens=9)
    lines = keep.read_bytes().splitlines(keepends=True)
    keep.write_bytes(b"".join(lines[:2]) + lines[2][:half])
    found = asked(pair, server, keep, tokens=9, say=said.append)
    assert said[0] == f"keep: the last line of {keep} was half written: dropped, asked again"
    assert [r.tokens[0] for r in found.requests] == [5, 6, 8]
    assert keep.read_bytes().splitlines(keepends=True)[:2] == lines[:2]
    assert read_requests(keep, pair) == found.requests
    assert not any("half written" in line for line in said[1:])


def test_a_full_disk_leaves_whole_lines(pair, tmp_path):
    keep = tmp_path / "kept.jsonl"
    with (
        no_file_beyond(700),
        pytest.raises(UsageError, match=r"cannot be written: .*; [23] answers are kept"),
    ):
        asked(pair, Counting(), keep)
    assert keep.read_bytes().endswith(b"}\n")
    assert len(read_requests(keep, pair)) in (2, 3)


def options(tmp_path, address, *more):
    (tmp_path / "p.txt").write_text("def f(\n\nclass A:")
    return ["audit", "--endpoint", address, "--target", "tiny-llama", "--threads", "1",
            "--prompts", str(tmp_path / "p.txt"), "--tokens", "30", "--json", "-",
            "--seed", "3", "--quiet", *more]  # fmt: skip


def test_the_command_that_reproduces_judges_the_very_same_tokens(tmp_path, capfd):
    with serving(Counting()) as address:
        command_line(options(tmp_path, address, "--keep", str(tmp_path / "k.jsonl")))
        first = json.loads(capfd.readouterr().out)
        command_line(options(tmp_path, address))
        anew = json.loads(capfd.readouterr().out)
    command = shlex.split(first["reproduce"])
    assert command[:4] == ["simverify", "audit", "--outputs", str(tmp_path / "k.jsonl")]
    command_line([*command[1:], "--json", "-", "--quiet"])
    again = json.loads(capfd.readouterr().out)
    same = ("sha256", "tests", "planned", "tokens", "ball", "seed", "alpha", "verdict", "findings")
    assert {name: again[name] for name in same} == {name: first[name] for name in same}
    assert not any("--keep" in note for note in first["notes"])
    assert any("will answer otherwise next time: --keep FILE" in note for note in anew["notes"])
    assert anew["sha256"] != first["sha256"]


def answers_in(*files):
    """First tokens of all answers: what waits beside may be among those that are kept by now."""
    found = set()
    for file in files:
        found |= set(re.findall(r'"tokens": \[(\d+),', file.read_text() if file.exists() else ""))
    return found


@pytest.mark.parametrize(
    ("number", "how"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM")]
)
@pytest.mark.thorough
def test_who_is_ended_waits_for_no_answer_and_keeps_what_came(tmp_path, number, how):
    slow, answered, release = threading.Event(), Counting(), threading.Event()
    asked = itertools.count()  # Requests come at once: how many were answered is read too early.

    def complete(body):
        if next(asked) < 9:
            return answered(body)
        slow.set()
        release.wait(PATIENCE)
        return answered(body)

    keep, beside = tmp_path / "k.jsonl", tmp_path / "k.jsonl.ahead"
    with (
        serving(complete) as address,
        subprocess.Popen(
            [sys.executable, "-m", "simverify", *options(tmp_path, address, "--keep", str(keep))],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process,
    ):  # fmt: skip
        try:
            assert slow.wait(PATIENCE)
            # What was answered is on its way there, or waits beside for one that was asked before.
            wait_for(lambda: len(answers_in(keep, beside)) == 9)
            began = time.monotonic()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            took = time.monotonic() - began
        finally:
            release.set()
            process.kill()
    assert (process.returncode, out) == (130, "")
    assert took < 20
    assert err == (
        f"simverify: {how}; answers are kept in {keep}: the same command goes on from there\n"
    )
    lines = [json.loads(line) for line in keep.read_text().splitlines()]
    assert lines
    assert len(answers_in(keep, beside)) == 9  # the others were still under way
    assert len({tuple(line["tokens"]) for line in lines}) == len(lines)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--outputs", "o", "--target", "t", "--keep", "k"], "--keep is for --endpoint"),
        (["token", "--keep", "k"], "it is for two engines (--against) or tokens already"),
        (["--endpoint", "http://a", "--target", "t", "--prompts", "p", "--keep", "k",
          "--json", "./k"], "--keep and --json are both k"),
        (["--endpoint", "http://a", "--target", "t", "--prompts", "p", "--keep", "/"],
         "/ is a folder"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_with_keep(given, says, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert command_line(["audit", *given]) == 2
    assert says in capfd.readouterr().err
