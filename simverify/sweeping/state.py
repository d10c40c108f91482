"""What is known of one cell, its shards that are counted, their sum, its result; or of an audit."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from simverify.results import SweepAudit, SweepCell
from simverify.sweeping.cells import AuditCell, Cell, PartName
from simverify.sweeping.folder import Folder
from simverify.sweeping.records import (
    CountsRecord,
    Record,
    ResultRecord,
    frame,
    pack,
    pack_counts,
    unpack,
    unpack_counts,
)
from simverify.sweeping.spec import Spec

if TYPE_CHECKING:
    from simverify.simulators.run import Counts

FOLD = 64
"""Records that a cell's file gathers before they are added up into one."""

FOLD_BYTES = 1 << 26
"""Bytes of them, likewise: records of a large vocabulary are some megabytes each."""

KEPT_BYTES = 1 << 20
"""Bytes of counts that stay as they came when a cell is judged; more are compressed."""

Result = SweepCell | SweepAudit


class CellState:
    """A cell of a sweep: reads its file, adds to it, and knows which shards are missing."""

    def __init__(self, cell: Cell, spec: Spec, folder: Folder) -> None:
        self.cell, self.spec, self.folder = cell, spec, folder
        self.done: dict[PartName, set[int]] = {part: set() for part in cell.parts}
        self.counts: dict[PartName, Counts] = {}
        self.result: SweepCell | None = None
        self.damaged = 0
        self._records = 0
        self._loose = 0
        self._result_payload = b""
        for record in unpack(folder.read(cell.index), folder.key):
            self._take(record)

    def _take(self, record: Record | None) -> None:
        if isinstance(record, CountsRecord) and record.cell == self.cell.index:
            self.damaged += not self._add(record)
            self._loose += len(record.counts)
        elif isinstance(record, ResultRecord) and record.cell == self.cell.index:
            self.result = msgspec.json.decode(record.result, type=SweepCell)
            self._result_payload = msgspec.msgpack.encode(record)
        else:
            self.damaged += 1
        self._records += 1

    def _add(self, record: CountsRecord) -> bool:
        """Add the counts of a record; False if it is not of shards that are missing."""
        done = self.done.get(record.part)
        if not all(0 <= first < end <= self.spec.shards for first, end in record.shards):
            return False
        shards = {shard for first, end in record.shards for shard in range(first, end)}
        if done is None or done & shards:
            return False
        counts = unpack_counts(record.counts)
        if counts.trials != sum(self.spec.trials(*shards)[1] for shards in record.shards):
            return False
        before = self.counts.get(record.part)
        self.counts[record.part] = counts if before is None else before + counts
        done |= shards
        return True

    def missing(self, most: Callable[[], int]) -> Iterator[tuple[PartName, tuple[int, int]]]:
        """Yield ranges [first, end) of shards that are not counted, of ``most()`` or fewer."""
        for part, done in self.done.items():
            first = 0
            while first < self.spec.shards:
                end, last = first, min(first + most(), self.spec.shards)
                while end < last and end not in done:
                    end += 1
                if end > first:
                    yield part, (first, end)
                first = max(end, first + 1)

    @property
    def counted(self) -> bool:
        """Whether all shards are."""
        return all(len(done) == self.spec.shards for done in self.done.values())

    @property
    def finished(self) -> int:
        """How many shards are counted."""
        return sum(map(len, self.done.values()))

    def mend(self) -> None:
        """Write the file anew without what is damaged."""
        self._fold()

    def keep(self, payload: bytes) -> bool:
        """Write the record of a shard, or of the result; False if there was one already."""
        record = msgspec.msgpack.decode(payload, type=Record)
        if isinstance(record, ResultRecord):
            self._take(record)
        elif not self._add(record):
            return False
        else:
            self._records += 1
            self._loose += len(record.counts)
        if self._to_be_folded():
            self._fold()
        else:
            self.folder.append(self.cell.index, frame(payload, self.folder.key))
        return True

    def _to_be_folded(self) -> bool:
        if self.result is None:
            return self._records > FOLD or self._loose > FOLD_BYTES
        # What stays for good is small: a record of each part, and the result.
        return self._records > len(self.done) + 1 or self._loose > KEPT_BYTES

    def packed(self) -> dict[PartName, bytes]:
        """Return the counts of all parts, to be judged."""
        return {part: pack_counts(counts, small=False) for part, counts in self.counts.items()}

    def _fold(self) -> None:
        records = [
            CountsRecord(
                self.cell.index, part, _ranges(self.done[part]), pack_counts(counts, small=True)
            )
            for part, counts in self.counts.items()
        ]
        data = b"".join(pack(record, self.folder.key) for record in records)
        if self.result is not None:
            data += frame(self._result_payload, self.folder.key)
        self.folder.replace(self.folder.cell_file(self.cell.index), data)
        self._records = len(records) + (self.result is not None)
        self._loose = 0


class AuditState:
    """An audit of a sweep: reads its file, or writes it."""

    def __init__(self, cell: AuditCell, folder: Folder) -> None:
        self.cell, self.folder = cell, folder
        self.result: SweepAudit | None = None
        self.document = b""
        """The whole document, with its times."""
        self.damaged = 0
        for record in unpack(folder.read(cell.index), folder.key):
            if isinstance(record, ResultRecord) and record.cell == cell.index:
                self._take(record)
            else:
                self.damaged += 1

    def _take(self, record: ResultRecord) -> None:
        self.result = msgspec.json.decode(record.result, type=SweepAudit)
        self.document = record.document

    @property
    def finished(self) -> int:
        """1 if the audit has ended."""
        return int(self.result is not None)

    def mend(self) -> None:
        """Forget what is damaged: the audit is run again unless a whole record is there too."""
        data = b""
        if self.result is not None:
            told = msgspec.json.encode(self.result)
            data = pack(
                ResultRecord(self.cell.index, "audit", told, self.document), self.folder.key
            )
        self.folder.replace(self.folder.cell_file(self.cell.index), data)

    def keep(self, payload: bytes) -> bool:
        """Write the result, and beside it the whole document."""
        record = msgspec.msgpack.decode(payload, type=Record)
        assert isinstance(record, ResultRecord)
        self._take(record)
        if self.document:
            text = msgspec.json.format(self.document, indent=2) + b"\n"
            self.folder.replace(self.folder.audit_file(self.cell.index), text)
        self.folder.append(self.cell.index, frame(payload, self.folder.key))
        return True


def _ranges(shards: set[int]) -> tuple[tuple[int, int], ...]:
    """Return the ranges [first, end) that make up a set of numbers."""
    found: list[tuple[int, int]] = []
    for shard in sorted(shards):
        if found and found[-1][1] == shard:
            found[-1] = found[-1][0], shard + 1
        else:
            found.append((shard, shard + 1))
    return tuple(found)
