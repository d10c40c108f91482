"""What a worker is handed at a time follows from what the tasks before took."""

import msgspec
import pytest

from simverify.sweeping import tasks
from simverify.sweeping.spec import AuditCell, current_versions
from simverify.sweeping.tasks import AuditTask, CountTask, JudgeTask, LoadSizer


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch):
    """Loads as they are."""
    monkeypatch.setattr(tasks, "MIN_LOAD_SECONDS", 0.5)
    monkeypatch.setattr(tasks, "INITIAL_BLOCKS", 1000)


@pytest.fixture
def cells(spec):
    return list(spec.cells())


def count(cell, trials):
    return CountTask(cell, "run", (0, 1), 0, trials, current_versions())


def judge(cell):
    return JudgeTask(cell, 900, 1e-6, 0.01, {}, current_versions())


def test_before_anything_is_known_a_load_is_so_many_blocks(cells):
    known = LoadSizer()
    assert known.shards(cells[0], 250) == 4
    assert known.shards(cells[0], 5000) == 1
    assert known.share(count(cells[0], 250)) == 0.25
    assert known.share(judge(cells[0])) == 1


def test_a_load_is_half_a_second_of_what_is_known(cells):
    known = LoadSizer()
    known.learn(count(cells[0], 900), b"", 0.009)
    assert known.shards(cells[0], 250) == 200
    assert known.share(count(cells[0], 25_000)) == pytest.approx(0.5)
    known.learn(judge(cells[0]), b"", 0.1)
    assert known.share(judge(cells[0])) == pytest.approx(0.2)
    known.learn(count(cells[0], 900), b"", 90)  # slow all at once: one shard is the least
    assert known.shards(cells[0], 250) == 1


def test_a_load_is_longer_where_each_comes_to_many_bytes(cells, monkeypatch):
    monkeypatch.setattr(tasks, "SECONDS_PER_BYTE", 1e-3)
    known = LoadSizer()
    known.learn(count(cells[0], 900), bytes(499), 0.009)
    assert known.shards(cells[0], 250) == 200
    known.learn(count(cells[0], 900), bytes(2000), 0.009)
    assert known.shards(cells[0], 250) == 800
    assert known.share(count(cells[0], 25_000)) == pytest.approx(0.125)


def test_other_cells_are_not_taken_for_it(cells):
    known = LoadSizer()
    known.learn(count(cells[0], 900), b"", 90)
    assert known.shards(cells[1], 250) == 4
    seed = msgspec.structs.replace(cells[0], seed=7, index=9)
    assert known.shards(seed, 250) == 1


def test_audits_go_alone():
    known = LoadSizer()
    task = AuditTask(AuditCell(0, "match", None, 0), 60.0, current_versions())
    known.learn(task, b"", 0.001)
    assert known.share(task) == 1
