"""What a command costs: processor time of all its processes, and their memory together."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

EVERY = 0.05
"""Seconds between looks at the memory; what is there for less may be missed."""

PROCESSES = Path("/proc")


def cost(words: Sequence[str]) -> dict[str, float]:
    """Run simverify with these words; see :func:`measured`."""
    return measured([sys.executable, "-m", "simverify", *words, "--quiet"])


def measured(command: Sequence[str]) -> dict[str, float]:
    """Run a command; its processor seconds, wall seconds and peaks of memory.

    ``mebibytes`` are those of all its processes at one time, a page that several share counted once
    (PSS); ``largest_mebibytes`` are of the largest one. Where there is no ``/proc``, all are taken
    for as much as the largest.
    """
    begin = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        with _Watched(process.pid) as watched:
            said = process.stderr.read()
            # Of the process and of those that it waited for; the peak is that of the largest one.
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}: {said}")
    largest = used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return {
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "seconds": time.perf_counter() - begin,
        "mebibytes": max(watched.mebibytes, largest),
        "largest_mebibytes": largest,
    }


class _Watched:
    """Looks at the memory of a process and all below it, again and again."""

    def __init__(self, pid: int) -> None:
        self.mebibytes = 0.0
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
            self.mebibytes = max(self.mebibytes, sum(map(_memory, _tree(self._pid))))


def _tree(root: int) -> list[int]:
    """Process ids of ``root`` and all below it."""
    below: dict[int, list[int]] = {}
    for place in PROCESSES.glob("[0-9]*/stat"):
        try:
            # The name, in brackets, may hold anything; the parent is the second word behind it.
            parent = int(place.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it has ended
        below.setdefault(parent, []).append(int(place.parent.name))
    found = [root]
    for pid in found:
        found += below.get(pid, [])
    return found


def _memory(pid: int) -> float:
    """Mebibytes of one process, its part of what it shares."""
    try:
        lines = (PROCESSES / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0  # it has ended
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
