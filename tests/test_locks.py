"""A lock is one process's, until that process gives it back or ends."""

import fcntl
import subprocess
import sys
from types import SimpleNamespace

from simverify.folders import Lock, is_locked


def test_one_has_it_at_a_time(tmp_path):
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    assert first.take("who has it")
    assert is_locked(tmp_path / "lock")
    assert not second.take("not this one")
    assert (tmp_path / "lock").read_text() == "who has it"
    first.release()
    assert not is_locked(tmp_path / "lock")
    assert second.take("another")
    assert (tmp_path / "lock").read_text() == "another"
    second.release()


def test_no_file_is_not_locked(tmp_path):
    assert not is_locked(tmp_path / "lock")


def test_a_process_with_a_copy_of_the_descriptor_does_not_keep_it(tmp_path):
    """As a process has that another thread is just starting."""
    lock = Lock(tmp_path / "lock")
    assert lock.take()
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock._file.fileno()]
    ) as child:
        lock.release()
        assert child.poll() is None
        other = Lock(tmp_path / "lock")
        assert other.take()
        other.release()
        child.communicate(b"\n")


def test_who_only_looks_keeps_nobody_out(tmp_path, monkeypatch):
    """It has the lock for an instant; a look that lasts would."""
    lock, looks = Lock(tmp_path / "lock"), (tmp_path / "lock").open("r")
    asked = []
    with looks:
        fcntl.flock(looks, fcntl.LOCK_SH)
        assert not lock.take()

        def sleep(seconds):
            asked.append(seconds)
            if len(asked) == 4:
                looks.close()

        monkeypatch.setattr("simverify.folders.time", SimpleNamespace(sleep=sleep))
        assert lock.take()
        assert len(asked) == 4
    lock.release()
