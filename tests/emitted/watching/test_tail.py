"""A log that grows, is rotated, cut, replaced or moved: each line once; what is lost is said."""

import json
import os
import shutil

import pytest

from simverify.emitted.watching.tail import Place, Tail


class Reader:
    def __init__(self, path, place=None, *, keeps_open=False):
        self.said, self.open = [], keeps_open
        self.tail = Tail(path, place or Place(), self.said.append)

    def __call__(self, most=1000):
        try:
            return [json.loads(line) for line in self.tail.lines(most) if line.strip()]
        finally:
            if not self.open:
                self.tail.close()

    def again(self, path):
        """What another process goes on with."""
        self.tail.close()
        return Reader(path, Place(**self.tail.place.as_dict()))


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
    assert "written anew" in read.said[0]


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
