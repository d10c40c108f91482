"""The doctor says what a bug report needs, and what to do about what is missing."""

import importlib.metadata
import importlib.util
import os
import platform

import pytest

from simverify.history import record
from simverify.simulators import kernels


def test_what_a_report_needs(command):
    assert command("doctor") == 0
    for word in (
        importlib.metadata.version("simverify"),
        platform.python_version(),
        importlib.metadata.version("numba"),
        "torch",
        "transformers",
        "GPU",
        "processor",
        "memory",
        f"usable of {os.cpu_count()}",
        "cache folder",
        "kernels",
        "ngram",
        "known answer reproduced",
    ):
        assert word in command.out
    assert command.err == ""


@pytest.mark.parametrize(
    ("package", "install"),
    [("torch", "torch"), ("transformers", "torch transformers"), ("triton", "triton")],
)
def test_what_to_do_about_a_missing_package(command, monkeypatch, package, install):
    version, find = importlib.metadata.version, importlib.util.find_spec

    def without(name):
        if name == package:
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(record, "version", without)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else find(name)
    )
    assert command("doctor") == 0
    _, said = " ".join(command.out.split()).split(f" {package} not installed")
    assert f"pip install {install} " in said.partition(" GPU ")[0] + " "


def test_a_cache_that_cannot_be_written(command, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SIMVERIFY_CACHE_DIR", str(tmp_path / "file"))
    assert command("doctor") == 0
    # A long path is folded anywhere.
    words = f"SIMVERIFY_CACHE_DIR, {tmp_path}/file, cannot be written"
    assert "".join(words.split()) in "".join(command.out.split())


def test_a_broken_generator_is_4(command, monkeypatch):
    monkeypatch.setattr(kernels.philox, "philox", lambda *_: (0, 0, 0, 0))
    assert command("doctor") == 4
    assert "WRONG known answer" in command.out
