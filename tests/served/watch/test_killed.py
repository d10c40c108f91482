"""A whole watch that is killed again and again loses no token and no alarm."""

import itertools
import json
import os
import random
import select
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    emitted,
    write_lines,
)

from simverify.errors import UsageError  # noqa: E402
from simverify.faults import FAULTS  # noqa: E402
from simverify.served import watch as watch_killed  # noqa: E402
from simverify.served.monitor import (  # noqa: E402
    WatchSettings,
    WatchState,
)
from simverify.served.watch import (  # noqa: E402
    Watch,
    WatchSubject,
    state_key,
)
from simverify.verifiers import VERIFIERS  # noqa: E402

pytestmark = pytest.mark.thorough

SETTINGS = WatchSettings(alpha=1e-4, detect=0.3)
KILLS = 8


@pytest.fixture(scope="module")
def lines(pair):
    """A log whose engine changes on the way."""
    right = emitted(pair, VERIFIERS["token"], 320, lanes=16, length=20)
    return right + emitted(pair, FAULTS["typical-acceptance"].rule, 960, lanes=16, length=20)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Write the state every few lines, so that kills come between."""
    monkeypatch.setattr(watch_killed, "LINES_PER_SAVE", 3)


def watch(log, folder, pair, said, *, sleep=time.sleep, **how):
    what = WatchSubject(str(log), log, folder, "simverify watch", every=0.001, **how)
    with WatchState(folder, state_key(pair, SETTINGS, str(log), False), SETTINGS, False) as state:
        return Watch(what, pair, SETTINGS, state, proxy=False, say=said.append, sleep=sleep).run()


def killed(log, folder, pair, seconds):
    """Watch in a process of its own, which is killed so many seconds after it wrote something.

    Or after it found nothing to write, however long either took.
    """
    state = folder / "state.json"
    before = state.stat().st_mtime_ns if state.exists() else 0
    idle, tell = os.pipe()
    child = os.fork()
    if child == 0:

        def rest(seconds):
            os.write(tell, b".")
            time.sleep(seconds)

        try:
            watch(log, folder, pair, [], stay=True, sleep=rest)
        finally:
            os._exit(3)  # a watch that stays never returns
    os.close(tell)
    ends = time.monotonic() + 60.0
    with open(idle, "rb", buffering=0) as rests:
        while not (state.exists() and state.stat().st_mtime_ns > before):
            assert time.monotonic() < ends
            if select.select([rests], [], [], 0.005)[0]:
                break
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.distribution
def test_a_watch_that_is_killed_at_any_time_counts_every_token_once(tmp_path, pair, lines):
    whole = watch(write_lines(tmp_path / "whole.jsonl", lines), tmp_path / "one", pair, [],
                  once=True, stay=True)  # fmt: skip
    assert whole.verdict == "FAIL"
    log, rng = tmp_path / "log.jsonl", random.Random(2)
    text = "".join(json.dumps(own) + "\n" for own in lines)
    cuts = sorted(rng.sample(range(len(text)), KILLS - 1))  # in the middle of lines
    seen = []
    for begin, end in itertools.pairwise([0, *cuts, len(text)]):
        with log.open("a") as file:
            file.write(text[begin:end])
        if len(seen) == KILLS // 2 and log.read_text().endswith("\n"):
            log.rename(tmp_path / "log.jsonl.1")
        killed(log, tmp_path / "many", pair, 0.2 * rng.random())
        state = tmp_path / "many" / "state.json"
        seen.append(json.loads(state.read_text())["place"]["lines"] if state.exists() else 0)
    assert seen == sorted(seen)
    assert len(set(seen)) > 2  # kills did come between
    found = watch(log, tmp_path / "many", pair, [], once=True, stay=True)
    assert (found.tokens, found.requests, found.unread) == (whole.tokens, len(lines), 0)
    assert found.log_evalue == pytest.approx(whole.log_evalue, rel=1e-3)
    assert (found.alarm_at, found.highest_at) == (whole.alarm_at, whole.highest_at)


@pytest.mark.distribution
def test_an_alarm_outlives_the_watch_that_raised_it(tmp_path, pair, lines):
    log, state = write_lines(tmp_path / "log.jsonl", lines), tmp_path / "s" / "state.json"
    for _ in range(40):
        killed(log, tmp_path / "s", pair, 0.5)
        if state.exists() and json.loads(state.read_text())["canary"]["alarm"]:
            break
    log.unlink()  # nothing is left to be judged
    said = []
    again = watch(log, tmp_path / "s", pair, said)  # ends at once, as there is an alarm
    assert (again.verdict, again.alarm_at > 0) == ("FAIL", True)
    assert any(line.startswith("ALARM at token") for line in said)


@pytest.mark.slow
def test_the_command_that_is_killed_goes_on(tmp_path, lines):
    log, folder = tmp_path / "log.jsonl", tmp_path / "state"
    command = [sys.executable, "-m", "simverify", "watch", "--outputs", str(log), "--target",
               "tiny-llama", "--state", str(folder), "--threads", "1", "--alpha", "1e-4",
               "--detect", ".3", "--every", ".1"]  # fmt: skip
    write_lines(log, lines[:20])
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not (folder / "state.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        first.kill()
    assert first.wait() == -signal.SIGKILL
    write_lines(log, lines)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "tokens are counted in" in done.stderr
    assert "ALARM at token" in done.stderr
    assert done.stdout.startswith("FAIL")
    with pytest.raises(UsageError, match="is of a watch with"):
        WatchState(folder, {}, SETTINGS, False)
