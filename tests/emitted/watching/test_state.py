"""A state on disk: whole or not at all, of one life, for one process."""

import json
import os
import random
import signal
import time

import numpy as np
import pytest

from simverify.emitted.watching.canary import BETS, Canary, WatchSettings
from simverify.emitted.watching.state import State
from simverify.errors import UsageError

SETTINGS = WatchSettings()
KEY = {"source": "log.jsonl", "target": "tiny-llama", "top_p": None}


def opened(folder, **changes):
    return State(folder, KEY | changes, SETTINGS, False)


def grown(tokens):
    canary = Canary(SETTINGS, False)
    u = np.random.default_rng(1).random(tokens)
    canary.lasting.add(np.concatenate([BETS.log_factors(u)] * 2))
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
