"""One audit in a process of its own, with a limit: its document, or why there is none."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from simverify.checks import clean
from simverify.errors import UsageError
from simverify.results import AuditRun
from simverify.results.reading.document import read_audit
from simverify.results.surveys import State

_EXPECTED = {0: "PASS", 1: "FAIL", 3: "INCONCLUSIVE"}
_REFUSED = (2, 4)
"""Exit codes of an audit that said in a line why it could not begin."""

_BROKE = ("internal error", "out of memory")
"""How the complaint of an audit begins that went wrong by itself."""

_WITH_US = """\
import sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)
"""
"""Linux is asked to end a process with this one: a CI may kill it."""

_PROGRAM = f"""{_WITH_US}
from simverify.cli import main
main()
"""
"""The command line."""

_SAID = f"""{_WITH_US}
import json
from simverify.engines import get_engine
engine = get_engine(sys.argv[1])
with open(sys.argv[2], "w") as file:
    json.dump([engine.gamma, engine.vocab, engine.here.note], file)
"""
"""What an engine of another distribution says when it is loaded, which is for its own process."""

_LOADED_WITHIN = 30.0
"""Seconds that it has for that."""

_OURS = ("SIMVERIFY_AUDIT_", "SIMVERIFY_RUNS", "GITHUB_STEP_SUMMARY")
"""What a caller's environment says to its own audits, not to those of a survey."""


@dataclass(frozen=True)
class Audited:
    """What came of an audit.

    ``run``: where ``state`` is "judged". ``reason``: in a line, where it is not. ``exit_code``: of
    the process, negative where a signal ended it; None where it was stopped. ``note``: what the
    engine says of how its code was run.
    """

    state: State
    run: AuditRun | None
    reason: str
    exit_code: int | None
    seconds: float
    note: str = ""


class Processes:
    """The processes of a survey; leaving the block ends all that still run."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all that run, and start no more."""
        with self._lock:
            self._closed = True
            for process in self._running:
                _end(process)

    def audit(
        self,
        words: Sequence[str],
        limit: float,
        *,
        python_path: Sequence[Path] = (),
        python: str = sys.executable,
    ) -> Audited:
        """Run ``simverify audit`` with these words; ``limit``: seconds of wall clock.

        ``python_path``: folders that are searched before all others. No setting of the folder or
        of the environment reaches it.
        """
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="simverify-") as scratch:
            folder = Path(scratch)
            (folder / "pyproject.toml").touch()  # the nearest one, with nothing in it
            file = folder / "run.json"
            command = [python, "-P", "-c", _PROGRAM, "audit", *words, "--json", str(file)]
            with (folder / "said").open("wb") as said, self._started(
                command, folder, said.fileno(), python_path
            ) as process:  # fmt: skip
                try:
                    code: int | None = process.wait(limit)
                except subprocess.TimeoutExpired:
                    code = None
            seconds = time.monotonic() - began
            complaint = _last_line(folder / "said")
            audited = _audited(code, file, complaint, limit, seconds)
        if audited.run is None or str(file) not in audited.run.reproduce:
            return audited
        # The run file is gone by now, and nobody could replay it.
        run = structs.replace(audited.run, reproduce=shlex.join(["simverify", "audit", *words]))
        return replace(audited, run=run)

    def said_by(self, name: str, limit: float) -> tuple[int | None, int | None, str]:
        """Return the gamma, vocab and note of an engine of another distribution.

        None, None and "" are what it leaves. An engine that does not load says nothing: its audit
        will say why.
        """
        with tempfile.TemporaryDirectory(prefix="simverify-") as scratch:
            folder = Path(scratch)
            file = folder / "said.json"
            command = [sys.executable, "-P", "-c", _SAID, name, str(file)]
            said = (folder / "said").open("wb")
            with said, self._started(command, folder, said.fileno(), ()) as process:
                try:
                    process.wait(min(limit, _LOADED_WITHIN))
                except subprocess.TimeoutExpired:
                    return None, None, ""
            if not file.exists():
                return None, None, ""
            gamma, vocab, note = json.loads(file.read_text(encoding="utf-8"))
            return gamma, vocab, note

    @contextmanager
    def _started(
        self, command: Sequence[str], folder: Path, said: int, python_path: Sequence[Path]
    ) -> Iterator["subprocess.Popen[bytes]"]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
        before = [str(path) for path in python_path]
        if inherited := environment.get("PYTHONPATH"):
            before.append(inherited)
        environment["PYTHONPATH"] = os.pathsep.join(before)
        with self._lock:
            if self._closed:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
            )  # fmt: skip
            self._running.add(process)
        try:
            yield process
        finally:
            with self._lock:
                self._running.discard(process)
                _end(process)
            process.wait()


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it started, whether or not it is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _audited(code: int | None, file: Path, complaint: str, limit: float, seconds: float) -> Audited:
    if code is None:
        reason = f"not done within {limit:g} s: raise --limit, or lower --gamma or --vocab"
        return Audited("out of time", None, reason, None, seconds)
    if code in _REFUSED and not file.exists():
        broke = complaint.startswith(_BROKE)
        state: State = "crashed" if broke else "not loaded"
        return Audited(state, None, complaint or "it does not say why", code, seconds)
    if code not in _EXPECTED or not file.exists():
        how = f"ended by signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        words = f": {complaint}" if complaint else ""
        return Audited("crashed", None, f"{how}{words}", code, seconds)
    try:
        run = read_audit(file)
    except UsageError as error:
        return Audited("crashed", None, clean(str(error)), code, seconds)
    if run.verdict != _EXPECTED[code]:
        reason = f"exit code {code} with the verdict {run.verdict}"
        return Audited("crashed", None, reason, code, seconds)
    return Audited("judged", run, run.inconclusive or "", code, seconds)


def _last_line(file: Path) -> str:
    """Return the last line that a process said, without the name that it begins with."""
    with file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 8192))
        lines = stream.read().decode(errors="replace").splitlines()
    said = [line for line in lines if line.strip()]
    return clean(said[-1].removeprefix("simverify: ")) if said else ""
