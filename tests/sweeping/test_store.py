"""The folder keeps whole files, whatever happens while they are written."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support.small_disks import mounted, no_file_beyond
from support.waiting import wait_for

from simverify.errors import UsageError
from simverify.simulators.run import Counts
from simverify.sweeping.run import run_sweep
from simverify.sweeping.spec import SweepSpec, current_versions
from simverify.sweeping.store import (
    CountsRecord,
    ResultRecord,
    SweepFolder,
    SweepManifest,
    frame_payload,
    pack_counts,
    pack_record,
    unpack_counts,
    unpack_records,
)

PROGRAM = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from simverify.sweeping.store import SweepManifest as Begun, SweepFolder as Folder
    folder = Folder(Path(sys.argv[1]))
    """
)


def in_a_process(text, folder, **how):
    command = [sys.executable, "-c", PROGRAM + textwrap.dedent(text), str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **how)


def test_a_kill_between_write_and_rename_leaves_the_file_as_it_was(tmp_path):
    folder, file = SweepFolder(tmp_path), tmp_path / "file"
    folder.replace(file, b"old")
    killed = in_a_process(
        """
        Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        folder.replace(folder.path / "file", b"new" * 1000)
        """,
        tmp_path,
    )
    with killed:
        assert killed.wait(60) == -signal.SIGKILL
    assert file.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2  # what was half done lies beside it
    folder.replace(file, b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"new"]


def test_a_killed_run_leaves_no_lock(tmp_path):
    holder = in_a_process(
        """
        with folder.locked():
            print("locked", flush=True)
            signal.pause()
        """,
        tmp_path,
    )
    with holder:
        assert holder.stdout.readline() == "locked\n"
        folder = SweepFolder(tmp_path)
        assert folder.in_use
        words = f"{tmp_path} is in use by another run, process {holder.pid} on "
        with pytest.raises(UsageError, match=words), folder.locked():
            pass
        holder.kill()
        holder.wait(60)
    assert not folder.in_use
    with folder.locked():
        assert folder.in_use


def test_a_disk_without_locks_is_one_line(tmp_path, monkeypatch):
    def refused(_file, _kind):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    words = f"{tmp_path} cannot be locked: No locks available"
    with pytest.raises(UsageError, match=words), SweepFolder(tmp_path).locked():
        pass


class FullDisk:
    """Stands for os.write: so many bytes have room, and the last write ends in the middle."""

    def __init__(self, room):
        self.room, self._write = room, os.write

    def __call__(self, descriptor, data):
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        part = bytes(data[: self.room])
        self.room -= len(part)
        return self._write(descriptor, part)


def test_a_full_disk_leaves_files_as_they_were(tmp_path, monkeypatch):
    folder = SweepFolder(tmp_path)
    folder.append(0, b"first")
    monkeypatch.setattr(os, "write", FullDisk(3))
    with pytest.raises(UsageError, match=r"cells/0000/0000000 cannot be written: No space left"):
        folder.append(0, b"second")
    assert folder.read(0) == b"first"
    with pytest.raises(UsageError, match="No space left"):
        folder.replace(folder.cell_file(0), b"other")
    assert folder.read(0) == b"first"
    assert len(list(folder.cell_file(0).parent.iterdir())) == 1


@pytest.mark.parametrize("room", [10, 2_000, 9_000, 16_000])
@pytest.mark.thorough
def test_a_sweep_on_a_full_disk_goes_on_when_there_is_room(
    spec, ends_as_expected, tmp_path, monkeypatch, room
):
    out = tmp_path / "sweep"
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", FullDisk(room))
        with pytest.raises(UsageError, match=r"No space left on device; every finished shard"):
            run_sweep(spec, out, executor="threads")
    assert not (out / "sweep.json").exists()
    ends_as_expected(out)


def test_a_limit_on_files_is_a_line_too(spec, ends_as_expected, tmp_path):
    """A real refusal by the system: no file may grow beyond 3,000 bytes."""
    out = tmp_path / "sweep"
    with (
        no_file_beyond(3000),
        pytest.raises(UsageError, match="cannot be written: File too large; every finished"),
    ):
        run_sweep(spec, out, executor="threads")
    assert not (out / "sweep.json").exists()
    ends_as_expected(out)


@pytest.fixture
def small_disk(tmp_path):
    with mounted(tmp_path / "disk", "64k") as place:
        yield place


def test_a_small_file_system(spec, ends_as_expected, small_disk):
    filler = small_disk / "filler"
    filler.write_bytes(bytes(48 * 1024))
    out = small_disk / "sweep"
    with pytest.raises(UsageError, match="No space left on device"):
        run_sweep(spec, out, executor="threads")
    assert not (out / "sweep.json").exists()
    filler.unlink()
    with pytest.raises(UsageError, match=r"sweep\.json cannot be written: No space left"):
        run_sweep(spec, out, executor="threads")
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    ends_as_expected(out)


@pytest.fixture
def done(tmp_path):
    """A small sweep, its folder and what it came to."""
    spec = SweepSpec(models=("toy",), verifiers=("token",), gamma=(1,), blocks=10)
    run_sweep(spec, tmp_path / "sweep", executor="threads")
    return spec, tmp_path / "sweep", (tmp_path / "sweep" / "sweep.json").read_bytes()


@pytest.mark.parametrize("damage", ["{}", "changed", None])
def test_a_damaged_note_of_what_the_sweep_is_loses_nothing(done, damage):
    spec, out, document = done
    note = out / "spec.json"
    before = note.read_text()
    note.unlink()
    if damage is not None:
        note.write_text(before.replace('"blocks": 10', '"blocks": 11') if damage != "{}" else "{}")
    cell = next((out / "cells").glob("*/*"))
    counted = cell.read_bytes()
    run_sweep(spec, out, executor="threads")
    assert (out / "sweep.json").read_bytes() == document
    assert note.read_text() == before
    assert cell.read_bytes() == counted  # nothing was done again


def test_results_of_what_nobody_knows_are_refused(done):
    spec, out, _ = done
    other = msgspec.structs.replace(spec, blocks=11)
    (out / "spec.json").write_text("{}")
    with pytest.raises(UsageError, match=r"spec.json is damaged or of another version"):
        run_sweep(other, out, executor="threads")
    (out / "spec.json").unlink()
    with pytest.raises(UsageError, match=r"has cells and no spec.json"):
        run_sweep(other, out, executor="threads")


def test_a_record_that_cannot_be_read_is_a_line(done, monkeypatch):
    spec, out, _ = done
    cell, read = next((out / "cells").glob("*/*")), Path.read_bytes

    def refused(path):
        if path == cell:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    (out / "spec.json").write_text("{}")
    with pytest.raises(UsageError, match=f"{cell.name} cannot be read: Permission denied"):
        run_sweep(spec, out, executor="threads")


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "sweep"):
        with pytest.raises(UsageError, match="in a file: --out names"), SweepFolder(out).locked():
            pass


def test_a_sweep_that_finished_nothing_makes_room_for_another(tmp_path):
    out, asked = tmp_path / "sweep", SweepSpec(models=("toy",), verifiers=("token",), gamma=(1,))
    folder = SweepFolder(out)
    with folder.locked():
        folder.begin(SweepManifest(asked, {}, current_versions()))
    assert folder.begun().spec == asked
    other = msgspec.structs.replace(asked, blocks=10)
    assert run_sweep(other, out, executor="threads").cells
    with pytest.raises(UsageError, match="holds another sweep: its blocks is 10, here 1000000"):
        run_sweep(asked, out, executor="threads")


@pytest.mark.parametrize("name", ["sweep.json", "meta.json"])
def test_files_of_somebody_else_are_not_written_over(tmp_path, name):
    (tmp_path / name).write_text("mine")
    asked = SweepSpec(models=("toy",), verifiers=("token",), gamma=(1,), blocks=10)
    with pytest.raises(UsageError, match=f"has {name} and no spec.json; name another folder"):
        run_sweep(asked, tmp_path, executor="threads")
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("model", ["markov-0", "markov-99999999", "missing.json", "nonsense"])
def test_a_model_that_is_none_makes_no_folder(tmp_path, model):
    asked = SweepSpec(models=("toy", model), verifiers=("token",), gamma=(1,), blocks=10)
    with pytest.raises(UsageError, match=model):
        run_sweep(asked, tmp_path / "sweep", executor="threads")
    assert not (tmp_path / "sweep").exists()


def killed_after(wait, out, spec):
    """Run a sweep in a process, on two processes of its own, and kill it after ``wait()``."""
    words = [sys.executable, "-c", "from simverify.cli import main; main()"]
    words += ["sweep", "--out", str(out), "--workers", "2", "--quiet"]
    words += spec.command().split()[2:-2]
    with subprocess.Popen(words, start_new_session=True) as process:
        wait()
        process.kill()
        process.wait(60)


@pytest.mark.thorough
def test_a_killed_sweep_goes_on(spec, ends_as_expected, tmp_path):
    out = tmp_path / "sweep"
    killed_after(lambda: wait_for((out / "spec.json").exists), out, spec)
    ends_as_expected(out)


@pytest.mark.slow
@pytest.mark.parametrize("tenths", range(5, 65, 4))
def test_a_sweep_killed_again_and_again(spec, ends_as_expected, tmp_path, tenths):
    out = tmp_path / "sweep"
    for _ in range(3):
        killed_after(lambda: time.sleep(tenths / 10), out, spec)
    ends_as_expected(out)


# Records hold what was put in, and nothing that was changed.


RECORDS = [
    CountsRecord(3, "run", ((0, 4), (7, 8)), b"SVS1 in the middle of a payload"),
    CountsRecord(3, "first calls", ((1, 2),), b""),
    ResultRecord(3, "cell", b"{}", b"SVS1"),
]
KEY = b"of this sweep"
DATA = b"".join(pack_record(record, KEY) for record in RECORDS)


def test_records_come_back():
    assert list(unpack_records(DATA, KEY)) == RECORDS
    assert list(unpack_records(b"", KEY)) == []


def test_a_changed_byte_costs_one_record_and_is_seen():
    for place in range(len(DATA)):
        changed = DATA[:place] + bytes([DATA[place] ^ 0x20]) + DATA[place + 1 :]
        found = list(unpack_records(changed, KEY))
        assert found.count(None) == 1
        assert len(found) == 3
        assert all(record in RECORDS for record in found if record is not None)


def test_what_is_cut_short_leaves_the_records_before_it():
    ends = np.cumsum([0, *(len(pack_record(record, KEY)) for record in RECORDS)])
    for length in range(1, len(DATA)):
        whole = int((ends <= length).sum()) - 1
        torn = [] if length in ends else [None]
        assert list(unpack_records(DATA[:length], KEY)) == RECORDS[:whole] + torn


def test_a_whole_record_of_something_else_is_none():
    assert list(unpack_records(frame_payload(b"\xc1", KEY) + DATA, KEY)) == [None, *RECORDS]


def test_records_of_another_sweep_are_none():
    other = b"".join(pack_record(record, b"of another one") for record in RECORDS)
    assert set(unpack_records(other, KEY)) == {None}
    assert [one for one in unpack_records(other + DATA + other, KEY) if one] == RECORDS


whole_numbers = st.integers(0, 2**62)


@settings(max_examples=30, deadline=None)
@given(
    arrays(np.int64, 3, elements=whole_numbers),
    arrays(np.int64, (2, 2), elements=whole_numbers),
    arrays(np.int64, (1, 2, 2), elements=st.integers(0, 300)),
    whole_numbers,
    st.booleans(),
)
def test_counts_come_back(accepted, lengths, transitions, trials, small):
    counts = Counts(trials, accepted, lengths, transitions, np.zeros((2, 0, 16), np.int64), 5)
    found = unpack_counts(pack_counts(counts, small=small))
    assert (found.trials, found.unsupported) == (trials, 5)
    for name in ("accepted", "lengths", "transitions", "pits"):
        one, other = getattr(found, name), getattr(counts, name)
        assert one.dtype == np.int64
        assert one.shape == other.shape
        assert (one == other).all()
