"""Laws of catalogued faults, computed once for all processes of a run of the suite.

An audit holds what it found to dozens of them, and most audits here are short and run in a fork of
the tests: each would compute the same laws anew.
"""

import hashlib
import os
import pickle
import re
from contextlib import suppress
from functools import lru_cache, wraps
from pathlib import Path

from simverify.auditing import examiner
from simverify.faults import FAULTS

FOLDER = "LAWS_OF_TESTS"
"""Where a process that the tests start finds the folder, in its environment."""

REMEMBERED = ("_fault_comparison", "_fault_deviates")
"""What :mod:`diagnosis` itself remembers, within a process."""


def kept_in(folder, compute):
    """Return ``compute`` of a fault and what else tells its results apart, kept in files."""

    @wraps(compute)
    def kept(fault, *asked):
        if FAULTS.get(fault.name) is not fault:
            return compute(fault, *asked)
        # A scheme shows where its functions lie; its name tells it from the others.
        key = re.sub(" at 0x[0-9a-f]+", "", repr((compute.__name__, fault.name, *asked)))
        file = Path(folder, hashlib.sha256(key.encode()).hexdigest())
        # Missing, or half written by a process that was ended.
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            return pickle.loads(file.read_bytes())
        found = compute(fault, *asked)
        # A law may be a tree whose rows are asked for: it stays in its process.
        with suppress(OSError, AttributeError, pickle.PicklingError):
            data = pickle.dumps(found)
            own = file.with_suffix(f".{os.getpid()}")
            own.write_bytes(data)
            own.replace(file)
        return found

    return lru_cache(maxsize=1024)(kept)


def keep_laws(folder, monkeypatch):
    """Let every audit of this process and of its forks use the laws in ``folder``."""
    for name in REMEMBERED:
        compute = getattr(examiner, name).__wrapped__
        monkeypatch.setattr(examiner, name, kept_in(folder, compute))
