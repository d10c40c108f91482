"""What a script learns of a run: its exit code, as one table."""

import errno

import pytest

import simverify.cli as cli
from simverify.cli.common import EXIT_CODES
from simverify.errors import SimverifyError, UsageError

CODES = {
    "an error of its own": (SimverifyError("no"), 4),
    "bad usage": (UsageError("no"), 2),
    "Ctrl-C": (KeyboardInterrupt(), 130),
    "Ctrl-C, after some output": (KeyboardInterrupt("kept what was done"), 130),
    "no memory": (MemoryError(), 4),
    "a full disk": (OSError(errno.ENOSPC, "No space left on device"), 2),
    "a file that is no output": (FileNotFoundError(errno.ENOENT, "No such file", "a.json"), 4),
    "a bug": (ValueError("no"), 4),
    "another bug": (AssertionError(), 4),
}


def test_a_verdict_has_a_code_of_its_own():
    assert EXIT_CODES == {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}


@pytest.mark.parametrize(("error", "code"), CODES.values(), ids=CODES)
def test_what_ends_a_run_has_a_code(monkeypatch, error, code):
    def ending(arguments):
        raise error

    monkeypatch.setattr(cli, "_run", ending)
    monkeypatch.setattr(cli, "discard_output", lambda: None)
    assert cli.run(["compare"]) == code
    assert code not in EXIT_CODES.values()


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_command_that_ends_says_its_own(monkeypatch, code):
    monkeypatch.setattr(cli, "_run", lambda arguments: code)
    assert cli.run(["compare"]) == code
