"""What a command costs: processor time of all its processes, and their memory together."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

EVERY = 0.1
"""Seconds between looks at the memory; what is there for less may be missed."""

PROCESSES = Path("/proc")


def cost(words: Sequence[str]) -> dict[str, float]:
    """Run simverify with these words; see :func:`measured`."""
    return measured([sys.executable, "-m", "simverify", *words, "--quiet"])


def measured(command: Sequence[str]) -> dict[str, float]:
    """Run a command; its processor seconds, wall seconds and peaks of memory.

    ``mebibytes`` are those of all its processes at one time, a page that several share counted once
    (PSS); ``largest_mebibytes`` are of the largest one. Where there is no ``/proc`` to read, both
    are of the largest.
    """
    begin = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        with _Watched(process.pid) as watched:
            said = process.stderr.read()
            # Of the process and of those that it waited for.
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}: {said}")
    # This peak is at least that of the process that starts the command, so that it comes last.
    peak = used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return {
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "seconds": time.perf_counter() - begin,
        "mebibytes": watched.together or peak,
        "largest_mebibytes": watched.largest or peak,
    }


class _Watched:
    """Looks at the memory of a process and all below it, again and again."""

    def __init__(self, pid: int) -> None:
        self.together = self.largest = 0.0
        self._pid, self._over = pid, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Watched":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            found = _tree(self._pid)
            self.together = max(
                self.together, sum(_mebibytes(pid, "smaps_rollup", "Pss") for pid in found)
            )
            peaks = (_mebibytes(pid, "status", "VmHWM") for pid in found)
            self.largest = max(self.largest, *peaks)


def _tree(root: int) -> list[int]:
    """Process ids of ``root`` and all below it."""
    with suppress(psutil.NoSuchProcess):
        return [root, *(each.pid for each in psutil.Process(root).children(recursive=True))]
    return [root]


def _mebibytes(pid: int, file: str, name: str) -> float:
    """One of the sizes that the system keeps of a process; 0 if it has ended."""
    try:
        lines = (PROCESSES / str(pid) / file).read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024
