"""What is known of one audit of a sweep: a shard whose record is its result."""

import msgspec

from simverify.results import SweepAudit
from simverify.sweeping.folder import Folder
from simverify.sweeping.records import Record, ResultRecord, frame, unpack
from simverify.sweeping.spec import AuditCell


class AuditState:
    """An audit of a sweep: reads its file, or writes it."""

    def __init__(self, cell: AuditCell, folder: Folder) -> None:
        self.cell, self.folder = cell, folder
        self.result: SweepAudit | None = None
        self.document = b""
        """The whole document, with its times."""
        self.damaged = 0
        for record in unpack(folder.read(cell.index)):
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
        records = unpack(self.folder.read(self.cell.index))
        whole = [record for record in records if isinstance(record, ResultRecord)]
        data = frame(msgspec.msgpack.encode(whole[-1])) if self.result is not None else b""
        self.folder.replace(self.folder.cell_file(self.cell.index), data)

    def keep(self, payload: bytes) -> bool:
        """Write the result, and beside it the whole document."""
        record = msgspec.msgpack.decode(payload, type=Record)
        assert isinstance(record, ResultRecord)
        self._take(record)
        if self.document:
            text = msgspec.json.format(self.document, indent=2) + b"\n"
            self.folder.replace(self.folder.audit_file(self.cell.index), text)
        self.folder.append(self.cell.index, frame(payload))
        return True
