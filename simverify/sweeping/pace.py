"""How much a worker is handed at a time: what tasks take is learnt from those that are done."""

import msgspec

from simverify.sweeping.cells import Cell
from simverify.sweeping.tasks import AuditTask, CountTask, JudgeTask, Task

LOAD_SECONDS = 0.5
"""Seconds of a load, where it is known what its tasks take."""

A_BYTE = 2e-7
"""Seconds of a load for each byte of a payload, where that is more.

Counts of a large vocabulary are megabytes. To make, send and read them is to be a small part of the
load, as ``benchmarks/sweeping.py`` measures.
"""

_LEAST = 1e-6
"""Seconds that a task takes at least."""

FIRST_BLOCKS = 1 << 16
"""Blocks of a load where that is not known yet."""


class Pace:
    """What tasks of each kind of cell took. It decides sizes of loads, and never a result."""

    def __init__(self) -> None:
        self._each: dict[object, float] = {}
        """The share of a load that a block is, or the judging of a cell."""

    def learn(self, task: Task, payload: bytes, seconds: float) -> None:
        """Take note of what a task took, and of the bytes that it came to."""
        if not isinstance(task, AuditTask):
            load = max(LOAD_SECONDS, A_BYTE * len(payload))
            # A worker's clock may stand still, or be set back: what takes no time has no pace.
            self._each[_kind(type(task), task.cell)] = max(seconds, _LEAST) / load / _units(task)

    def shards(self, cell: Cell, shard: int) -> int:
        """Return how many shards of ``shard`` blocks of a cell are a load, one at least."""
        each = self._each.get(_kind(CountTask, cell))
        blocks = FIRST_BLOCKS if each is None else 1 / each
        return max(int(blocks // shard), 1)

    def share(self, task: Task) -> float:
        """Return which share of a load a task is; 1 for one that nothing is known of."""
        if isinstance(task, AuditTask):
            return 1.0
        each = self._each.get(_kind(type(task), task.cell))
        if each is not None:
            return each * _units(task)
        return task.trials / FIRST_BLOCKS if isinstance(task, CountTask) else 1.0


def _kind(task: type, cell: Cell) -> object:
    """Return what two cells have in common that take the same time."""
    return task, msgspec.structs.replace(cell, index=0, seed=0)


def _units(task: CountTask | JudgeTask) -> int:
    return task.trials if isinstance(task, CountTask) else 1
