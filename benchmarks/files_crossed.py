"""How many of the package's files one command goes through: files in which a function ran.

    python benchmarks/files_crossed.py            # the two below; --list names the files
    python benchmarks/files_crossed.py audit my_sampler.py:verify

Whoever follows a request by hand has to open these. Compiled kernels are not seen. What runs on
import does not count: the command runs once before, in a process of its own, to say what it
imports. ``compare`` goes through one model and one rule, ``audit`` through the exact tier of
``token``.
"""

import argparse
import contextlib
import importlib
import inspect
import io
import os
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from simverify.auditing import sandbox
from simverify.cli import run

ROOT = Path(__file__).parents[1]
ROOMS = tuple(f"{ROOT / room}{os.sep}" for room in ("simverify", "reports", "simulators", "stats"))

COMMANDS = (
    ["compare", "--gamma", "4", "--models", "markov-64", "--verifiers", "block", "--quiet"],
    ["audit", "token", "--quiet"],
)


def imported(command: list[str]) -> None:
    """Import what a command does."""
    with TemporaryDirectory() as folder:
        names = Path(folder, "names")
        if (process := os.fork()) == 0:
            with contextlib.redirect_stdout(io.StringIO()):
                run(command)
            names.write_text("\n".join(n for n in sys.modules if n.startswith("simverify.")))
            os._exit(0)
        os.waitpid(process, 0)
        for name in names.read_text().split():
            importlib.import_module(name)


def crossed(command: list[str]) -> set[str]:
    """Run a command here and in the processes that it forks; the files that it went through."""
    imported(command)
    found: set[str] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        function = code.co_flags & inspect.CO_OPTIMIZED  # and no body of a class or a module
        if event == "call" and function and code.co_filename.startswith(ROOMS):
            found.add(code.co_filename)

    with TemporaryDirectory() as folder:
        leave = sandbox._exit

        def leaving(status: int) -> None:
            sys.setprofile(None)
            Path(folder, str(os.getpid())).write_text("\n".join(found), encoding="utf-8")
            leave(status)

        with contextlib.redirect_stdout(io.StringIO()):
            # Kept there, because code under audit may replace os._exit.
            sandbox._exit = leaving
            threading.setprofile(note)
            sys.setprofile(note)
            try:
                status = run(command)
            finally:
                sys.setprofile(None)
                threading.setprofile(None)
                sandbox._exit = leave
        if status != 0:
            raise SystemExit(f"simverify {' '.join(command)}: exit code {status}")
        for file in Path(folder).iterdir():
            found |= set(file.read_text(encoding="utf-8").split())
    return {str(Path(file).relative_to(ROOT)) for file in found}


def main() -> None:
    """Count for the command given, or for the two that the project counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="name the files")
    given, command = parser.parse_known_args()
    for words in [command] if command else COMMANDS:
        files = crossed(words)
        print(f"{len(files)} files: simverify {' '.join(words)}")
        if given.list:
            print("\n".join(f"  {file}" for file in sorted(files)))


if __name__ == "__main__":
    main()
