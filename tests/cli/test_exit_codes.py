"""What a script learns of a run: its exit code and one line, as one table."""

import errno
import os
import sys
import traceback

import cyclopts
import pytest

from simverify import cli
from simverify.errors import SimverifyError, UsageError
from simverify.results.common import EXIT_CODES

FULL = "No space left on device"
MEMORY = "out of memory: take a smaller vocabulary, gamma or --blocks"

CODES = {
    "an error of its own": (SimverifyError("no"), 4, "no"),
    "bad usage": (UsageError("no"), 2, "no"),
    "Ctrl-C": (KeyboardInterrupt(), 130, "interrupted; nothing was written"),
    "Ctrl-C, after some output": (KeyboardInterrupt("kept what was done"), 130,
                                  "kept what was done"),
    "no memory": (MemoryError(), 4, MEMORY),
    "a full disk": (OSError(errno.ENOSPC, FULL), 2, f"the output cannot be written: {FULL}"),
    "a quota that is used up": (OSError(errno.EDQUOT, "Disk quota exceeded"), 2,
                                "the output cannot be written: Disk quota exceeded"),
    "a disk that fails": (OSError(errno.EIO, "Input/output error"), 2,
                          "the output cannot be written: Input/output error"),
    "a name that is too long": (OSError(errno.ENAMETOOLONG, "File name too long", "aaa"), 2,
                                "aaa cannot be used: File name too long"),
    "a folder of others": (PermissionError(errno.EACCES, "Permission denied", "a"), 2,
                           "a cannot be used: Permission denied"),
}  # fmt: skip

BUGS = {
    "a file that is no output": FileNotFoundError(errno.ENOENT, "No such file", "a.json"),
    "a file on a full disk": OSError(errno.ENOSPC, FULL, "a.json"),
    "another error of the system": OSError(errno.EPERM, "Not permitted"),
    "no permission for what has no name": PermissionError(errno.EACCES, "Permission denied"),
    "a bug": ValueError("no"),
    "another bug": AssertionError(),
}
"""Errors that exit with 4, behind a traceback."""


def test_a_verdict_has_a_code_of_its_own():
    assert EXIT_CODES == {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}


@pytest.fixture
def discarded(monkeypatch):
    """How often what is still written to standard output was let go."""
    times = []
    monkeypatch.setattr(cli, "discard_output", lambda: times.append(1))
    return times


def ending(error):
    def run(arguments):
        raise error

    return run


@pytest.mark.parametrize(("error", "code", "words"), CODES.values(), ids=CODES)
def test_what_ends_a_run_has_a_code(monkeypatch, capsys, discarded, error, code, words):
    monkeypatch.setattr(cli, "_run_app", ending(error))
    assert cli.run(["compare"]) == code
    assert code not in EXIT_CODES.values()
    assert capsys.readouterr() == ("", f"simverify: {words}\n")
    # A file with a name is not standard output.
    assert len(discarded) == (isinstance(error, OSError) and error.filename is None)


@pytest.mark.parametrize("error", BUGS.values(), ids=BUGS)
def test_a_bug_has_a_traceback(monkeypatch, capsys, discarded, error):
    monkeypatch.setattr(cli, "_run_app", ending(error))
    assert cli.run(["compare"]) == 4
    lines = "".join(traceback.format_exception(error))
    line = f"simverify: internal error: {type(error).__name__}: {error}".rstrip()
    assert capsys.readouterr() == ("", f"{lines}{line}\n")
    assert not discarded


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_command_that_ends_says_its_own(monkeypatch, code):
    monkeypatch.setattr(cli, "_run_app", lambda arguments: code)
    assert cli.run(["compare"]) == code


# Messages and the line that is left of them: on one line, printable, and cut in the middle.
LINES = [
    ("two\n  words", "two words"),
    ("red \x1b[31m", "red ?[31m"),
    ("a" * 700 + "b" * 300, "a" * 700 + "b" * 300),
    ("a" * 700 + "c" + "b" * 300, "a" * 700 + " ... " + "b" * 300),
]


@pytest.mark.parametrize(("message", "line"), LINES, ids=range(len(LINES)))
def test_a_complaint_is_one_line(monkeypatch, capsys, message, line):
    monkeypatch.setattr(cli, "_run_app", ending(UsageError(message)))
    assert cli.run([]) == 2
    assert capsys.readouterr().err == f"simverify: {line}\n"


@pytest.fixture
def app(monkeypatch):
    """The command line's parser, which does and returns what it is told, and what it was given."""

    class App:
        does = staticmethod(lambda: None)
        given: tuple = ()

        def __call__(self, *arguments, **options):
            self.given = (arguments, options)
            return self.does()

    app = App()
    monkeypatch.setattr("simverify.cli.app.app", app)
    monkeypatch.setattr("simverify.cli.common.output_console", lambda: "a console")
    return app


@pytest.mark.parametrize(
    ("returned", "code"), [(0, 0), (1, 1), (3, 3), (None, 0), ("a text", 0)], ids=str
)
def test_a_command_returns_its_code(app, returned, code):
    app.does = lambda: returned
    assert cli.run(["compare", "--gamma", "2"]) == code
    assert app.given == (
        (["compare", "--gamma", "2"],),
        {
            "console": "a console",
            "exit_on_error": False,
            "print_error": False,
            "result_action": "return_value",
        },
    )


def raising(error):
    def do():
        raise error

    return do


def test_what_the_parser_refuses_is_bad_usage(app, capsys):
    app.does = raising(cyclopts.CycloptsError(msg="Unknown option: --gama"))
    assert cli.run(["compare"]) == 2
    assert capsys.readouterr().err == "simverify: Unknown option: --gama\n"


def test_a_reader_that_has_left_is_no_error(app, capsys, discarded):
    app.does = raising(BrokenPipeError())
    assert cli.run(["faults"]) == 0
    assert discarded == [1]
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def process(monkeypatch):
    """What ``main`` does to the process, in order."""
    done = []

    def leave(code):
        done.append(("left at once", code))
        raise SystemExit(code)

    monkeypatch.setattr(sys, "argv", ["simverify", "compare", "--gamma", "2"])
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(cli, "leave_on_interrupt", lambda: done.append("handles Ctrl-C"))
    monkeypatch.setattr(cli, "ignore_interrupts", lambda: done.append("ignores Ctrl-C"))
    monkeypatch.setattr(cli, "open_streams", lambda: True)
    return done


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4])
def test_the_process_ends_with_the_code_of_the_run(monkeypatch, process, code):
    monkeypatch.setattr(cli, "run", lambda arguments: process.append(arguments) or code)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    assert process == ["handles Ctrl-C", ["compare", "--gamma", "2"], "ignores Ctrl-C"]


def test_an_interrupted_process_waits_for_nobody(monkeypatch, process):
    monkeypatch.setattr(cli, "run", lambda arguments: 130)
    with pytest.raises(SystemExit):
        cli.main()
    assert process == ["handles Ctrl-C", ("left at once", 130)]


def test_without_an_output_nothing_is_run(monkeypatch, process, capsys):
    monkeypatch.setattr(cli, "open_streams", lambda: False)
    monkeypatch.setattr(cli, "run", lambda arguments: pytest.fail("ran"))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    closed = "standard output is closed: send it to a file, or to /dev/null"
    assert capsys.readouterr().err == f"simverify: {closed}\n"
