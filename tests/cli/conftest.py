import json
import os
import signal
import subprocess
import sys

import pytest
from support.false_alarms import ALPHA

from simverify.cli import run

QUICK = {
    "--models": "toy",
    "--verifiers": "token",
    "--gamma": "2",
    "--blocks": "1000",
    "--alpha": str(ALPHA),
}


class Command:
    """The command line in this process, in a folder of its own; what it left on each stream."""

    def __init__(self, capfd):
        self._capfd = capfd

    def __call__(self, *arguments):
        self._capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        self.out, self.err = self._capfd.readouterr()
        return code

    def compare(self, *arguments):
        """A quick comparison; later arguments take the place of QUICK's."""
        given = [str(argument) for argument in arguments]
        quick = [word for pair in QUICK.items() if pair[0] not in given for word in pair]
        return self("compare", *quick, *given)

    def complaint(self):
        """The one line on standard error, when nothing else was said."""
        assert self.out == ""
        assert self.err.startswith("simverify: ")
        assert self.err.count("\n") == 1
        assert self.err.endswith("\n")
        return self.err.removeprefix("simverify: ").rstrip("\n")


@pytest.fixture
def command(capfd, tmp_path, monkeypatch, unsearched):
    monkeypatch.chdir(tmp_path)
    # Whether this process is the first to compile is not what these tests are about.
    monkeypatch.setattr("simverify.comparing.comparison.compiled_before", lambda: True)
    for name in os.environ:
        if name.startswith("SIMVERIFY_") and name != "SIMVERIFY_CACHE_DIR":
            monkeypatch.delenv(name)
    return Command(capfd)


@pytest.fixture
def start(tmp_path):
    """Start the command line as a process of its own, on three pipes."""
    running = []
    # What this process ignores or blocks, by a test before, those it starts would too.
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def start(*arguments, code="from simverify.cli import main; main()"):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def pair(tmp_path):
    """Write a pair of two tokens, with fields changed, to a file; return its name."""

    def write(file="pair.json", /, **fields):
        side = {"start": ["1/2", "1/2"], "rows": [["1/3", "2/3"], ["3/4", "1/4"]]}
        other = {"start": ["1/4", "3/4"], "rows": [["1/2", "1/2"], ["1/4", "3/4"]]}
        document = {"name": "mine", "target": side, "draft": other} | fields
        (tmp_path / file).write_text(json.dumps(document))
        return file

    return write
