"""How far a sweep is, by a clock that nobody sets."""

import time

import pytest

from simverify.sweeping.progress import Progress, span


def test_a_line_now_and_then():
    now, said = [0.0], []
    progress = Progress(said.append, 1000, every=10, clock=lambda: now[0])
    progress.found = 100
    for second in range(1, 26):
        now[0] = second
        progress.done += 4
        progress.tick("block on toy")
    assert said == [
        "140 of 1,000 shards, 4 a second, 4 min left: block on toy",
        "180 of 1,000 shards, 4 a second, 3 min left: block on toy",
    ]


def test_the_time_until_workers_are_there_is_no_time_of_a_shard():
    now, said = [0.0], []
    progress = Progress(said.append, 100, every=10, clock=lambda: now[0])
    now[0] = 60.0
    progress.begin()
    now[0] = 65.0
    progress.done = 20
    progress.tick("block on toy")
    assert said == ["20 of 100 shards, 4 a second, 20 s left: block on toy"]


def test_nothing_is_foretold_before_anything_is_done():
    assert Progress(print, 10, every=0).line("a cell", 0.0) == "0 of 10 shards: a cell"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_times_in_words(seconds, words):
    assert span(seconds) == words


def test_a_clock_that_is_set_changes_nothing(ends_as_expected, tmp_path, monkeypatch):
    """The wall clock jumps by years, back and forth, at every look."""
    jumps = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: 1e9 * (-1) ** next(jumps))
    said = ends_as_expected(tmp_path / "sweep", every=0)
    shown = [line for line in said if " of " in line]
    assert len(shown) == 24 + 4
    assert shown[-1].startswith("24 of 24 shards")
    assert not any("-" in line.split("left")[0] for line in shown)
