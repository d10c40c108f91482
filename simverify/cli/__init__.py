"""The command line: ``simverify compare`` and its smaller sisters.

Commands load on use, so that ``--help`` imports neither numba nor torch. Exit codes: 0 pass,
1 a fault was found, 2 usage or bad input, 3 inconclusive, 4 internal error, 130 interrupted.
"""

import os
import sys
import traceback
from importlib.metadata import version

from cyclopts import App, CycloptsError, config

from simverify.errors import SimverifyError

app = App(
    name="simverify",
    help="Is a speculative-decoding verifier lossless, and how far is it from optimal?",
    help_epilogue=(
        "Examples:  simverify compare --gamma 8   |   "
        "simverify compare --gamma 4 --models my-pair.json --json run.json"
    ),
    version=lambda: version("simverify"),
    config=[
        config.Env("SIMVERIFY_"),
        config.Toml("pyproject.toml", root_keys=["tool", "simverify"], search_parents=True),
    ],
    help_format="plaintext",
)
app.command("simverify.cli.compare:compare", name="compare")
app.command("simverify.cli.audit:audit", name="audit")
app.command("simverify.cli.audit:replay", name="replay")
app.command("simverify.cli.info:verifiers", name="verifiers")
app.command("simverify.cli.info:models", name="models")
app.command("simverify.cli.info:faults", name="faults")
app.command("simverify.cli.info:engines", name="engines")
app.command("simverify.cli.info:doctor", name="doctor")
app.command("simverify.cli.info:schema", name="schema")


def main() -> None:
    """Entry point of the ``simverify`` command."""
    sys.exit(run(sys.argv[1:]))


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
        return _complain(" ".join(str(error).split()), 2)
    except SimverifyError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _complain("interrupted; nothing was written", 130)
    except BrokenPipeError:
        # The reader left; what is still buffered goes nowhere, without a word.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _complain("out of memory: take a smaller vocabulary, gamma or --blocks", 4)
    except Exception as error:  # the last line of defence, with what a bug report needs
        traceback.print_exc()
        return _complain(f"internal error: {type(error).__name__}: {error}", 4)
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    print(f"simverify: {message}", file=sys.stderr)
    return code
