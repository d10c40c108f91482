"""Streams that are closed, broken or full: one line, a sensible exit code, no traceback."""

import io
import json
import os
import re
import resource
import stat
import subprocess
import sys

import pytest

from simverify.cli import streams

MAIN = "from simverify.cli import main; main()"
RUN = ("compare", "--gamma", "2", "--models", "toy", "--verifiers", "token", "--blocks", "1000")
LIMIT = 1024


def shell(tmp_path, arguments, redirection, **more):
    """Run the command line in a shell that redirects its streams."""
    line = f'"$0" -c "$1" {" ".join(arguments)} {redirection}'
    return subprocess.run(
        ["bash", "-c", line, sys.executable, MAIN],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        **more,
    )


def limited():
    # A module's bytecode would be cut off as well, and Python would read it from then on.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


@pytest.mark.parametrize("arguments", [RUN, ("--help",), ("schema",)])
def test_standard_output_closed(tmp_path, arguments):
    done = shell(tmp_path, arguments, ">&-")
    assert done.returncode == 2
    assert done.stderr == (
        "simverify: standard output is closed: send it to a file, or to /dev/null\n"
    )


@pytest.mark.thorough
def test_standard_error_closed(tmp_path):
    """Its lines must not go to standard output instead."""
    done = shell(tmp_path, (*RUN, "--json", "-"), "2>&-")
    assert done.returncode == 3
    assert json.loads(done.stdout)["command"] == "compare"
    done = shell(tmp_path, ("compare", "--gamma", "0"), "2>&-")
    assert (done.returncode, done.stdout) == (2, "")


def test_everything_closed(tmp_path):
    done = shell(tmp_path, (*RUN, "--json", "run.json"), "<&- >&- 2>&-")
    assert done.returncode == 2
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("arguments", [RUN, (*RUN, "--json", "-"), ("--help",), ("verifiers",)])
@pytest.mark.thorough
def test_standard_output_that_cannot_be_written(tmp_path, arguments):
    done = shell(
        tmp_path, (*arguments, "--quiet") if arguments[0] == "compare" else arguments, "1</dev/null"
    )
    assert done.returncode == 2
    assert done.stderr == "simverify: the output cannot be written: Bad file descriptor\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("schema",), ("compare", "--help"), ("faults",)])
def test_standard_output_that_fills_up(tmp_path, monkeypatch, arguments, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with (tmp_path / "out").open("w") as file:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *arguments],
            stdout=file, stderr=subprocess.PIPE, text=True, preexec_fn=limited, timeout=60,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "simverify: the output cannot be written: File too large\n"


def test_a_document_that_does_not_fit_leaves_the_old_one(tmp_path):
    (tmp_path / "run.json").write_text("old")
    arguments = [*RUN, "--quiet", "--json", "run.json"]
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments],
        cwd=tmp_path, capture_output=True, text=True, preexec_fn=limited, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "simverify: run.json cannot be written: File too large\n"
    assert (tmp_path / "run.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["run.json"]


@pytest.mark.parametrize("arguments", ["--help", "schema", "faults", "compare --help"])
def test_a_reader_that_left_is_no_error(start, arguments):
    process = start(*arguments.split())
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == ""


@pytest.mark.thorough
def test_nobody_reads_the_progress(start):
    lossy = ("--models", "toy", "--verifiers", "temperature-0", "--blocks", "1000", "--gamma", "2")
    process = start("compare", *lossy)
    process.stderr.close()
    assert "\nFAIL: Do not ship temperature-0 on toy: " in process.stdout.read()
    assert process.wait(timeout=60) == 1


def test_nobody_reads_the_complaint(start):
    process = start("compare", "--gamma", "0")
    process.stderr.close()
    assert process.wait(timeout=60) == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_disk_that_is_full(tmp_path):
    done = shell(tmp_path, ("schema",), "> /dev/full")
    assert done.returncode == 2
    assert done.stderr == "simverify: the output cannot be written: No space left on device\n"


def test_an_encoding_without_a_sign_takes_another(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = shell(tmp_path, (*RUN, "--quiet"), "")
    assert (done.returncode, done.stderr) == (3, "")
    assert re.search(r"\d\?\d", done.stdout)  # a plus-minus elsewhere


STANDARD_INPUT = "from simverify.cli.streams import open_streams; open_streams(); import os; "


def test_no_file_takes_the_number_of_standard_input():
    words = [sys.executable, "-c", STANDARD_INPUT + "print(os.open(os.devnull, os.O_RDONLY) > 2)"]
    done = subprocess.run(
        ["bash", "-c", '"$@" <&-', "bash", *words], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_what_nobody_reads_is_let_go(monkeypatch):
    """Or Python would complain of it when it ends."""

    class Left(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    gone = []
    monkeypatch.setattr(sys, "stderr", Left())
    monkeypatch.setattr(streams, "_redirect_to_null", gone.append)
    streams.print_error("a line")
    assert gone == [2]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_replaced_document_keeps_its_mode(command, tmp_path, mode):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "real.json").chmod(mode)
    (tmp_path / "link.json").symlink_to("real.json")
    for name in ("real.json", "link.json"):
        command.compare("--json", name)
        assert stat.S_IMODE((tmp_path / "real.json").stat().st_mode) == mode
    assert (tmp_path / "link.json").is_symlink()


def test_a_link_to_itself(command, tmp_path):
    (tmp_path / "loop.json").symlink_to("loop.json")
    assert command.compare("--json", "loop.json") == 2
    assert "loop.json cannot be written: Too many levels" in command.complaint()
    assert (tmp_path / "loop.json").is_symlink()


@pytest.mark.parametrize("name", ["out", "/dev/stdout"])
def test_a_document_onto_standard_output_itself(tmp_path, name):
    """The file would be replaced under its own writer, and the table be lost."""
    done = shell(tmp_path, (*RUN, "--json", name), "> out")
    assert done.returncode == 2
    assert done.stderr == f'simverify: {name} is standard output itself: use "-" to write there\n'


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to any file")
def test_a_file_that_is_not_to_be_written(command, tmp_path):
    (tmp_path / "run.json").write_text("old")
    (tmp_path / "run.json").chmod(0o444)
    assert command.compare("--json", "run.json") == 2
    assert "run.json cannot be written: Permission denied" in command.complaint()
