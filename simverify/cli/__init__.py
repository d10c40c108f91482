"""The command line: ``simverify compare`` and its smaller sisters.

Commands load on use, so that ``--help`` imports neither numba nor torch. Exit codes: 0 pass,
1 a fault was found, 2 usage or bad input, 3 inconclusive, 4 internal error, 130 interrupted.
"""

import errno
import io
import os
import sys
import traceback
from importlib.metadata import version

from cyclopts import App, CycloptsError

from simverify.cli.common import discard_output
from simverify.cli.settings import sources
from simverify.errors import SimverifyError
from simverify.names import printable

_COMMANDS = {
    "compare": ("compare:compare", "Compare verifiers on models."),
    "audit": ("audit:audit", "Put any verifier on trial."),
    "replay": ("audit:replay", "Show one failing path of an audit again."),
    "verifiers": ("info:verifiers", "List the built-in verifiers."),
    "models": ("info:models", "List the built-in models."),
    "faults": ("info:faults", "List the catalogue of faulty verifiers."),
    "engines": ("info:engines", "List the engines that can be audited."),
    "doctor": ("info:doctor", "Check this installation."),
    "schema": ("info:schema", "Print the JSON Schema of result files."),
}
"""Where each command lives, and its line in ``--help``, which loads none of them."""

_EXAMPLES = {
    "compare": (
        "simverify compare --gamma 8",
        "simverify compare --gamma 4 --verifiers token,block --models markov-256",
        "simverify compare --gamma 4 --models toy,my-pair.json --json run.json",
        "simverify compare --gamma 2 --models toy --calls 4",
    ),
    "audit": (
        "simverify audit my_sampler.py:verify",
        "simverify audit package.module:Rule --contract step",
        "simverify audit transformers --json run.json",
        "simverify audit --self-test",
    ),
    "replay": ("simverify replay run.json#0",),
}

INTERRUPTED = 130

app = App(
    name="simverify",
    help="Is a speculative-decoding verifier lossless, and how far is it from optimal?",
    help_epilogue=(
        "Examples:  simverify compare --gamma 8   |   "
        "simverify compare --gamma 4 --models my-pair.json --json run.json"
    ),
    version=lambda: version("simverify"),
    config=sources(_COMMANDS),
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
for _name, (_place, _help) in _COMMANDS.items():
    app.command(
        f"simverify.cli.{_place}",
        name=_name,
        help=_help,
        help_epilogue="Examples:\n\n" + "\n\n".join(_EXAMPLES[_name]) if _name in _EXAMPLES else "",
    )


def main() -> None:
    """Entry point of the ``simverify`` command."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Where the encoding has no "±", a result with "?" in its place beats a traceback.
        sys.stdout.reconfigure(errors="replace")
    code = run(sys.argv[1:])
    if code == INTERRUPTED:
        # Threads that are still compiling would hold the exit back for seconds.
        os._exit(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line on ``arguments``; returns the exit code."""
    try:
        code = app(
            arguments,
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        sys.stdout.flush()
    except CycloptsError as error:
        return _complain(str(error), 2)
    except SimverifyError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _complain("interrupted; nothing was written", INTERRUPTED)
    except BrokenPipeError:
        discard_output()
        return 0
    except MemoryError:
        return _complain("out of memory: take a smaller vocabulary, gamma or --blocks", 4)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _internal(error)
        discard_output()
        return _complain("the output cannot be written: no space left on the device", 2)
    except Exception as error:  # the last line of defence, with what a bug report needs
        return _internal(error)
    return code if isinstance(code, int) else 0


def _internal(error: Exception) -> int:
    traceback.print_exc()
    return _complain(f"internal error: {type(error).__name__}: {error}", 4)


def _complain(message: str, code: int) -> int:
    print(f"simverify: {printable(' '.join(message.split()))}", file=sys.stderr, flush=True)
    return code
