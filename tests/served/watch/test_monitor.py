"""A state on disk: whole or not at all, of one life, for one process."""

import json
import os
import random
import shutil
import signal
import time
from dataclasses import asdict

import numpy as np
import pytest

from simverify.errors import UsageError
from simverify.served.monitor import (
    PIT_BETS,
    FilePosition,
    LogTail,
    MonitorEvidence,
    WatchSettings,
    WatchState,
)

SETTINGS = WatchSettings()
KEY = {"source": "log.jsonl", "target": "tiny-llama", "top_p": None}


def opened(folder, **changes):
    return WatchState(folder, KEY | changes, SETTINGS, False)


def grown(tokens):
    canary = MonitorEvidence(SETTINGS, False)
    u = np.random.default_rng(1).random(tokens)
    canary.lasting.add(np.concatenate([PIT_BETS.log_factors(u)] * 2))
    canary.requests = 3
    return canary


def test_what_was_kept_is_there_again_to_the_bit(tmp_path):
    with opened(tmp_path / "s") as state:
        assert state.canary is None
        state.canary, state.unread = grown(500), 2
        state.place.offset, state.place.lines = 77, 5
        state.save()
    with opened(tmp_path / "s") as again:
        assert again.canary.as_dict() == state.canary.as_dict()
        assert np.array_equal(again.canary.lasting.log_wealth, state.canary.lasting.log_wealth)
        assert (again.place, again.unread) == (state.place, 2)


def test_two_processes_do_not_watch_in_one_folder(tmp_path):
    with opened(tmp_path), pytest.raises(UsageError, match="another process watches"):
        opened(tmp_path)


def test_a_state_of_another_watch_is_refused(tmp_path):
    with opened(tmp_path) as state:
        state.save()
    with pytest.raises(UsageError, match=r"with top_p null, now it is 0\.9: name another folder"):
        opened(tmp_path, top_p=0.9)


@pytest.mark.parametrize(
    "change",
    [
        lambda v: "",
        lambda v: json.dumps(v)[:-30],
        lambda v: json.dumps([v]),
        lambda v: json.dumps(v | {"version": 1}),
        lambda v: json.dumps(v | {"place": {"offset": -1}}),
        lambda v: json.dumps(v | {"place": v["place"] | {"offset": 1.5}}),
        lambda v: json.dumps(v | {"unread": None}),
        lambda v: json.dumps(v | {"canary": {}}),
        lambda v: json.dumps(v | {"canary": v["canary"] | {"log_wealth": [0.0]}}),
        lambda v: json.dumps(v | {"canary": v["canary"] | {"tokens": -5}}),
        lambda v: json.dumps(v | {"canary": v["canary"] | {"moved": {"shift": 0.0}}}),
        lambda v: json.dumps(v | {"canary": v["canary"] | {"log_wealth": ["x"] * 124}}),
    ],
)
def test_a_damaged_state_is_one_line(tmp_path, change):
    with opened(tmp_path) as state:
        state.canary = grown(10)
        state.save()
    file = tmp_path / "state.json"
    file.write_text(change(json.loads(file.read_text())))
    with pytest.raises(UsageError, match="is damaged") as error:
        opened(tmp_path)
    assert "\n" not in str(error.value)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used"):
        opened(tmp_path / "file" / "s")


def save_for_ever(folder, told):
    """Save again and again, and say so each time."""
    with opened(folder) as state:
        state.canary = state.canary or grown(10)
        while True:
            state.place.lines += 1
            state.canary.requests += 1
            state.save()
            os.write(told, b".")


def test_a_process_that_is_killed_while_it_writes_leaves_a_whole_state(tmp_path):
    """Killed some time after it has written twice, however long that took."""
    rng, lives = random.Random(1), 12
    for _ in range(lives):
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                save_for_ever(tmp_path, tell)
            finally:
                os._exit(3)
        os.close(tell)
        with open(told, "rb", buffering=0) as saved:
            assert saved.read(1) + saved.read(1) == b".."
            time.sleep(0.03 * rng.random())
            os.kill(child, signal.SIGKILL)
            assert os.waitpid(child, 0)[1] == signal.SIGKILL
        with opened(tmp_path) as state:
            # Evidence and place were written together.
            assert state.canary.requests - 3 == state.place.lines
    assert state.place.lines >= 2 * lives


# A log that grows, is rotated, cut, replaced or moved: each line once; what is lost is said.


class Reader:
    def __init__(self, path, place=None, *, keeps_open=False):
        self.said, self.open = [], keeps_open
        self.tail = LogTail(path, place or FilePosition(), self.said.append)

    def __call__(self, most=1000):
        try:
            return [json.loads(line) for line in self.tail.lines(most) if line.strip()]
        finally:
            if not self.open:
                self.tail.close()

    def again(self, path):
        """What another process goes on with."""
        self.tail.close()
        return Reader(path, FilePosition(**asdict(self.tail.place)))


@pytest.fixture
def keeping():
    """Makes a reader that keeps its file open, as a watch does."""
    made = []

    def make(path):
        made.append(Reader(path, keeps_open=True))
        return made[-1]

    yield make
    for reader in made:
        reader.tail.close()


def add(path, *values, end="\n"):
    with path.open("a") as file:
        file.write("\n".join(map(json.dumps, values)) + end)


def test_lines_come_once_and_half_ones_when_they_are_whole(tmp_path):
    log = tmp_path / "log.jsonl"
    read = Reader(log)
    assert read() == []
    assert "waiting for it" in read.said[0]
    add(log, 1, 2)
    assert read(1) == [1]
    add(log, 33, end="")
    assert read() == [2]
    add(log, "", end="")  # the line goes on
    assert read() == []
    assert len(read.said) == 2
    assert "is there" in read.said[1]
    with log.open("w") as file:
        file.write("1\n2\n330\n")
    assert read() == [330]
    assert (read.tail.place.lines, read.tail.place.restarts) == (3, 0)


def test_another_process_goes_on(tmp_path):
    log = tmp_path / "log.jsonl"
    add(log, 1, 2, 3)
    read = Reader(log)
    assert read(2) == [1, 2]
    read = read.again(log)
    assert read() == [3]
    add(log, 4)
    assert read.again(log)() == [4]


def test_a_rotated_log_is_read_to_its_end(tmp_path, keeping):
    log = tmp_path / "log.jsonl"
    add(log, 1, 2)
    read = keeping(log)
    assert read(1) == [1]
    os.rename(log, tmp_path / "log.jsonl.1")
    add(tmp_path / "log.jsonl.1", 3)
    assert read() == [2, 3]
    add(log, 4)
    assert read() == [4]
    assert read.tail.place.restarts == 1
    assert "was rotated" in read.said[0]


def test_a_log_that_was_rotated_while_nobody_watched(tmp_path):
    log = tmp_path / "log.jsonl"
    add(log, 1, 2)
    read = Reader(log)
    assert read(1) == [1]
    os.rename(log, tmp_path / "log.jsonl.1")
    add(log, 3)
    read = read.again(log)
    assert read() == [2, 3]
    assert read.tail.place.restarts == 1


def test_a_log_that_was_cut_is_read_from_its_start_and_said(tmp_path, keeping):
    log = tmp_path / "log.jsonl"
    add(log, 1, 2, 3)
    read = keeping(log)
    assert read(2) == [1, 2]
    os.truncate(log, 0)
    add(log, 4)
    assert read() == [4]
    assert "was cut" in read.said[0]
    assert "lost" in read.said[0]


def test_a_log_that_was_written_anew_is_told_from_one_that_grew(tmp_path, keeping):
    log = tmp_path / "log.jsonl"
    add(log, 1, 2, 3)
    read = keeping(log)
    assert read() == [1, 2, 3]
    log.write_text("5\n6\n7\n8\n9\n")
    assert read() == [5, 6, 7, 8, 9]
    assert "was rewritten" in read.said[0]


def test_a_copy_of_the_log_is_known_and_another_file_is_not(tmp_path):
    log = tmp_path / "log.jsonl"
    add(log, 1, 2, 3)
    read = Reader(log)
    assert read(2) == [1, 2]
    moved = tmp_path / "elsewhere" / "log.jsonl"
    moved.parent.mkdir()
    shutil.copy(log, moved)
    read = read.again(moved)
    assert read() == [3]
    assert read.said == []
    other = tmp_path / "other.jsonl"
    add(other, 7, 8, 9)
    read = read.again(other)
    assert read() == [7, 8, 9]
    assert "is not the file of which" in read.said[0]
