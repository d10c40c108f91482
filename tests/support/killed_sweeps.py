"""Sweeps that are broken off at a certain point, and what they had kept by then."""

import textwrap
from pathlib import Path

from simverify.sweeping import run
from simverify.sweeping.store import SweepFolder
from simverify.sweeping.tasks import AuditState, CellState

KILLED = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    import msgspec
    from simverify.sweeping import tasks
    from simverify.sweeping.run import run_sweep
    from simverify.sweeping.spec import SweepSpec as Spec
    tasks.MIN_LOAD_SECONDS, tasks.SECONDS_PER_BYTE, tasks.INITIAL_BLOCKS = 1e-9, 0.0, 1
    name, number, spec, out, executor = sys.argv[1:]
    rename, met = Path.rename, []
    def dies(path, target):
        met.extend([True] * (name in str(target)))
        if len(met) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(path, target)
    Path.rename = dies
    if __name__ == "__main__":
        run_sweep(msgspec.json.decode(spec, type=Spec), Path(out), executor=executor, workers=2)
    """
)
"""A program whose sweep kills its own process as it is about to rename a file.

Its words: a part of the name of the file, how many such files, the spec, the folder, the executor.
"""


def kept_of(spec, out):
    """Return how many shards of a sweep are kept."""
    return sum(CellState(cell, spec, SweepFolder(out)).finished for cell in spec.cells())


def when_kept(monkeypatch, number, what):
    """Have ``what`` done once, as soon as so many shards are kept; a list that says it was."""
    take, done = run._SweepRunner._take, []

    def taken(sweep, workers, future):
        take(sweep, workers, future)
        if sweep.progress.done >= number and not done:
            done.append(True)
            what()

    monkeypatch.setattr(run._SweepRunner, "_take", taken)
    return done


def interrupt():
    """Do as Ctrl-C does."""
    raise KeyboardInterrupt


def ended_of(spec, out):
    """Names of the audits that have ended."""
    cells = [cell for cell in spec.audit_cells() if AuditState(cell, SweepFolder(out)).finished]
    return {Path(cell.spec).stem for cell in cells}
