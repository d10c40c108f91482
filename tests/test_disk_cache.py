"""Results that later processes read again."""

from dataclasses import replace

import pytest

from simverify import disk_cache
from simverify.auditing import examiner
from simverify.auditing.instances import instances_for
from simverify.disk_cache import cached_on_disk, write_results
from simverify.faults import FAULTS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "cache_folder", lambda _: tmp_path)
    return tmp_path


def another_process(calls):
    """Return the function as a process that begins has it."""

    @cached_on_disk(lambda x: None if x < 0 else (x,))
    def square(x):
        calls.append(x)
        return x * x

    return square


def test_a_later_process_reads_what_was_written(folder):
    calls = []
    assert another_process(calls)(3) == 9
    assert not list(folder.iterdir())  # before the process is known to be sound
    write_results(trusted=True)
    square = another_process(calls)
    assert [square(3), square(3), square(4)] == [9, 9, 16]
    assert calls == [3, 4]


def test_what_an_untrusted_process_computed_is_dropped(folder):
    calls = []
    another_process(calls)(3)
    write_results(trusted=False)
    write_results(trusted=True)
    another_process(calls)(3)
    assert calls == [3, 3]


@pytest.mark.parametrize("damage", [b"", b"\x80\x05", b"no pickle"])
def test_damaged_files_are_computed_anew(folder, damage):
    calls = []
    another_process(calls)(3)
    write_results(trusted=True)
    (file,) = folder.iterdir()
    file.write_bytes(damage)
    assert another_process(calls)(3) == 9
    assert calls == [3, 3]


def test_calls_without_a_key_and_unwritable_folders(folder, monkeypatch):
    calls = []
    assert another_process(calls)(-2) == 4
    monkeypatch.setattr(disk_cache, "cache_folder", lambda _: None)
    assert another_process(calls)(3) == 9
    write_results(trusted=True)
    assert not list(folder.iterdir())


def test_the_stamp_changes_with_the_sources(folder, monkeypatch):
    before = disk_cache._stamp()
    monkeypatch.setattr(disk_cache, "simverify_sources_sha256", lambda: "of other sources")
    assert disk_cache._stamp.__wrapped__() != before


def test_catalogue_results_have_a_key_where_only_our_sources_matter():
    model, *_ = instances_for("verify", 2, 3, 0)
    fault = next(f for f in FAULTS.values() if f.contract == "verify")
    key = examiner._catalogue_key(fault, "verify", model)
    assert key == examiner._catalogue_key(fault, "verify", model)
    # Negative controls: another fault of that name, an instance of a search, another instance.
    other = replace(fault, rule=lambda *_: [0])
    assert examiner._catalogue_key(other, "verify", model) is None
    found = replace(model, name="found, V=2, gamma=1")
    assert examiner._catalogue_key(fault, "verify", found) is None
    assert examiner._catalogue_key(fault, "verify", instances_for("verify", 2, 3, 0)[1]) != key
