"""The command line: ``main`` runs one of the commands and returns its exit code.

Commands load on use, so that ``--help`` imports neither numba nor torch, and nothing slow loads
before Ctrl-C is handled. Exit codes: 0 pass, 1 a fault was found, 2 usage or bad input,
3 inconclusive, 4 internal error, 130 interrupted.
"""

__simverify_role__ = "interface"


import errno
import os
import sys

from simverify.cli.interrupt import (
    INTERRUPT_EXIT_CODE,
    INTERRUPT_MESSAGE,
    ignore_interrupts,
    leave_on_interrupt,
)
from simverify.cli.streams import UNWRITABLE_ERRNOS, discard_output, open_streams, print_error

_MAX_ERROR_LINE = 1000
"""Characters of an error: a line that quotes a whole file helps nobody."""


_PATH_ERRNOS = (errno.ENAMETOOLONG, errno.EACCES)
"""What even a look at a path may fail with: the name was a user's, and nothing is broken."""


def main() -> None:
    """Entry point of the ``simverify`` command."""
    leave_on_interrupt()
    if open_streams():
        code = run(sys.argv[1:])
    else:
        code = _print_error("standard output is closed: send it to a file, or to /dev/null", 2)
    if code == INTERRUPT_EXIT_CODE:
        # Threads that are still compiling would hold the exit back for seconds.
        os._exit(code)
    ignore_interrupts()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line on ``arguments``; returns the exit code."""
    from simverify.errors import SimverifyError

    try:
        return _run_app(arguments)
    except SimverifyError as error:
        return _print_error(str(error), error.exit_code)
    except KeyboardInterrupt as interrupt:
        # One with words was raised again by a command that has written something.
        print_error(f"simverify: {interrupt}" if interrupt.args else INTERRUPT_MESSAGE.rstrip())
        return INTERRUPT_EXIT_CODE
    except MemoryError:
        return _print_error("out of memory: take a smaller vocabulary, gamma or --blocks", 4)
    except OSError as error:
        if error.filename is not None and error.errno in _PATH_ERRNOS:
            return _print_error(f"{error.filename} cannot be used: {error.strerror}", 2)
        # Whatever opens a file of its own says which; standard output has no name.
        if error.filename is not None or error.errno not in UNWRITABLE_ERRNOS:
            return _report_internal_error(error)
        discard_output()
        return _print_error(f"the output cannot be written: {error.strerror}", 2)
    except Exception as error:  # the last line of defence, with what a bug report needs
        return _report_internal_error(error)


def _run_app(arguments: list[str]) -> int:
    from cyclopts import CycloptsError

    from simverify.cli.app import app
    from simverify.cli.common import output_console
    from simverify.errors import UsageError

    try:
        code = app(
            arguments,
            console=output_console(),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        sys.stdout.flush()
    except CycloptsError as error:
        raise UsageError(str(error)) from None
    except BrokenPipeError:
        # Only lists, helps and the like get here: a verdict is kept by who prints it.
        discard_output()
        return 0
    return code if isinstance(code, int) else 0


def _report_internal_error(error: Exception) -> int:
    import traceback

    print_error("".join(traceback.format_exception(error)).rstrip())
    return _print_error(f"internal error: {type(error).__name__}: {error}", 4)


def _print_error(message: str, code: int) -> int:
    from simverify.checks import printable

    line = printable(" ".join(message.split()))
    if len(line) > _MAX_ERROR_LINE:
        line = f"{line[: _MAX_ERROR_LINE - 300]} ... {line[-300:]}"
    print_error(f"simverify: {line}")
    return code
