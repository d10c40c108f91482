"""Programs that break the protocol: one clear line each, in time, and nothing is left behind."""

import itertools
import os
import re
import select
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
from support.levels import at_night
from support.waiting import wait_for

import simverify
from simverify.engines import bridge
from simverify.engines.bridge import CallRequest, ProgramEnded, ProgramProcess
from simverify.errors import SimverifyError, UsageError

HARNESS = Path(__file__).parent / "harness.py"
SMALL = {"gamma": 1, "vocab": 2}
HASTY = {**SMALL, "seconds": 2.0}
"""A call may take half of the seconds: for programs that are waited for in vain."""


@pytest.fixture
def program():
    """Return the command line of a way to behave; afterwards none of its processes is left."""
    mark, others = f"mark-{uuid.uuid4().hex}", children()
    yield lambda way: f"{sys.executable} -S -E {HARNESS} '{way}' {mark}"
    wait_for(lambda: left(mark) == [])  # who is killed has a moment to go
    # Children that other tests of this process left are none of ours.
    assert [pid for pid, state in children().items() if state == "Z" and pid not in others] == []


def left(mark):
    """Command lines of the processes that have the mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        found += [line] * (mark.encode() in line)
    return found


def children():
    """The state of each child of this process, by its number."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found[int(folder.name)] = state
    return found


AT_LOADING = {
    "no hello": "said no hello: did not answer within 1 s",
    "garbage hello": r"began with 'ready!' \(not JSON: .*\): expected one line such as",
    "hello of version 2": "speaks version 2 of the protocol: expected 1",
    "hello without bits": "object missing required field `bits`",
    "hello with too many bits": "has coins of 53 bits in float32: expected 1 to 24",
    "hello in bfloat16": "computes in 'bfloat16': expected float64 or float32",
    "hello with more": "object contains unknown field `vocab`",
    "hello in latin-1": "not UTF-8|not JSON",
    "ends before hello": "said no hello: ended itself with exit code 5; its last words on standard "
    "error: 'no such model'",
}


@pytest.mark.parametrize("way", AT_LOADING)
@pytest.mark.thorough
def test_a_program_that_says_no_hello_is_no_verdict(program, monkeypatch, way):
    if "did not answer" in AT_LOADING[way]:
        monkeypatch.setattr(bridge, "HELLO_SECONDS", 1.0)
    with pytest.raises(SimverifyError, match=AT_LOADING[way]) as raised:
        simverify.audit(command=program(way), **SMALL)
    assert raised.value.exit_code == 4
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("./no-such-harness", "cannot be started: ./no-such-harness: no such file"),
        ("/", "cannot be started: /: permission denied"),
        (str(HARNESS), "cannot be started: .*: permission denied"),
        ("", "--command is empty"),
        ("'./harness", "no closing quotation"),
    ],
)
def test_what_cannot_be_started_is_a_usage_error(command, said):
    with pytest.raises(UsageError, match=said) as raised:
        simverify.audit(command=command, **SMALL)
    assert raised.value.exit_code == 2


IN_A_CALL = {
    "garbage": r"answer: answered 'Segmentation fault \(core dumped\)' \(not JSON",
    "nothing on the line": "answer: answered nothing",
    "NaN": "answer: answered '.*NaN.*' .not JSON",
    "floats": "answer: answered .* .*expected `int`",
    "text": "answer: answered .* .*expected `int`",
    "a list": "answer: answered .* .*expected `object`",
    "no coins": "object missing required field `coins`",
    "negative coins": "answer: says that it read -1 coins",
    "another call": "answer: answered call 1, expected call 0",
    "not UTF-8": "answer: answered '.*' .not",
    "two lines": "answer: wrote '.*' unasked|answer: answered call 0, expected call 1",
    "a log line": "answer: answered 'accepted ",
    "half a line": "hangs: did not answer within 1 s but for the beginning of a line",
    "half a line and out": "ends: ended itself with exit code 3, in the middle of a line",
    "a huge line": "answer: (answered 'xxx|wrote 1,048,576 bytes without an end of line)",
    "no end of line": "answer: wrote 1,048,576 bytes without an end of line",
    "hangs": "hangs: did not answer within 1 s: does it read line by line, and flush",
    "spins": "hangs: did not answer within 1 s",
    "reads nothing": "hangs: did not answer within 1 s",
    "reads all first": "hangs: did not answer within 1 s",
    "never flushes": "hangs: did not answer within 1 s: does it read line by line, and flush",
    "exits": "ends: ended itself with exit code 101; its last words on standard error: "
    "\"panicked at 'index out of bounds'\"",
    "segfaults": r"crashes: was ended by the signal SIGSEGV \(a segmentation fault\)",
    "segfaults on one input": r"crashes: was ended by the signal SIGSEGV",
    "closes its output": "ends: closed its standard output and did not end",
    "leaves a child": "ends: ended itself with exit code 0, and what it started keeps its standard "
    "output open",
    "fills standard error": "hangs: did not answer within 1 s",
    # Which call shows it first is drawn by the program.
    "draws itself": r"own-randomness: (returned \[.*\], and \[.*\] when it was asked the same again"
    r"|two calls with the same coins gave different tokens)",
    "keeps something": "own-randomness: .*or keeps something between calls",
    "says too few coins": "coins: says that it read 0 coins, and later ones change its tokens",
    "deep": "answer: answered",
}


# Each of these waits for the clock, or is said by the same line of code as another.
AT_NIGHT = (
    "spins", "reads nothing", "reads all first", "never flushes", "fills standard error",
    "text", "a list", "not UTF-8", "deep",
)  # fmt: skip


@pytest.mark.parametrize("way", at_night(IN_A_CALL, but=IN_A_CALL.keys() - set(AT_NIGHT)))
@pytest.mark.thorough
def test_a_call_that_breaks_is_a_finding_with_what_was_asked(program, way):
    began, in_vain = time.monotonic(), re.search("did not answer|keeps its", IN_A_CALL[way])
    run = simverify.audit(command=program(way), **(HASTY if in_vain else SMALL))
    assert time.monotonic() - began < 60
    assert run.verdict == "FAIL"
    (finding,) = run.findings
    assert finding.kind == "contract"
    assert re.search(IN_A_CALL[way], finding.text), finding.text
    assert "\n" not in finding.text
    if "asked the same again" in finding.text or way != "draws itself":
        assert run.bridge.line.startswith('{"call":0,"gamma":1,"vocab":')
    assert run.counterexample is None
    if way == "segfaults on one input":
        assert '"draft_tokens":[1]' in run.bridge.line


BAD_TOKENS = {
    "too many tokens": "too-many: returned 3, gamma . 1 = 2",
    "no tokens": "empty: returned no tokens",
    "ids beyond V": r"out-of-range: returned token \d, vocabulary 0\.\.\d",
    "a huge id": "out-of-range: returned token 10{30}, vocabulary",
    "negative ids": "out-of-range: returned token -1",
    "no prefix": "not-a-prefix: returned",
}


@pytest.mark.parametrize("way", BAD_TOKENS)
@pytest.mark.thorough
def test_answers_that_are_no_tokens_are_findings_as_of_python(program, way):
    run = simverify.audit(command=program(way), **SMALL, max_paths=900)
    assert run.verdict == "FAIL"
    assert any(re.search(BAD_TOKENS[way], found.text) for found in run.findings), run.findings


def test_a_program_that_needs_more_coins_is_told_how_many(program):
    with pytest.raises(UsageError, match="needs 5 coins where it was given 2: name --coins 5"):
        simverify.audit(command=program("needs more coins"), **SMALL)


@pytest.mark.parametrize("way", ["fine", "last coin", "in float32"])
@pytest.mark.thorough(by_day=1)
def test_a_right_program_passes(program, unsearched, way):
    """The control: what fails above does not fail because it is a program."""
    run = simverify.audit(command=program(way), gamma=2, vocab=2, max_paths=4000)
    assert run.verdict == "PASS", run
    assert run.tier == "exact"
    assert run.tolerance == (1e-6 if way == "in float32" else 1e-9)


@pytest.mark.thorough
def test_what_it_writes_on_standard_error_is_a_note(program, unsearched):
    run = simverify.audit(command=program("floods standard error"), gamma=1, vocab=2, max_paths=900)
    assert run.verdict == "PASS"
    assert any("slow path taken" in note for note in run.notes)


def test_what_fills_standard_error_does_not_fill_our_memory(program):
    started = ProgramProcess(program("fills standard error"))
    assert started.receive(10)
    rows = np.full((2, 2), 0.5)
    started.send(CallRequest(rows, rows[:1], np.array([0]), np.array([0.5, 0.5])).line(0))
    with pytest.raises(ProgramEnded, match="did not answer within 1 s"):
        started.receive(1.0)
    started.stop()
    assert 1000 < len(started.heard) <= 1 << 16
    assert len(started.complaint) < 1000


@pytest.mark.thorough
def test_a_residual_from_the_wrong_row_fails(program):
    run = simverify.audit(command=program("wrong row"), gamma=1, vocab=2, max_paths=4000)
    assert run.verdict == "FAIL"
    assert run.counterexample is not None


def test_a_line_that_has_come_is_taken_though_its_time_is_over():
    """This process may have waited for a processor, as the program may."""
    started = ProgramProcess("echo hello")
    assert select.select([started._out], [], [], 60.0)[0]
    assert started.receive(0.0) == b"hello"
    started.stop()


@pytest.mark.parametrize("waits", [True, False])
def test_time_in_which_a_program_gets_no_processor_is_not_counted(monkeypatch, waits):
    seen = itertools.chain([0.0], itertools.repeat(60.0 if waits else 0.0))
    monkeypatch.setattr(bridge, "run_queue_seconds", lambda *_: next(seen))
    started = ProgramProcess("sh -c 'sleep 0.3; echo hello; exec sleep 60'")
    try:
        if waits:
            assert started.receive(0.01) == b"hello"
        else:
            with pytest.raises(ProgramEnded, match=r"did not answer within 0\.01 s"):
                started.receive(0.01)
    finally:
        started.stop()
