"""The document of ``simverify watch``: a server that is watched over its life."""

from typing import Literal

from msgspec import UNSET, UnsetType

from simverify.results.common import Meta, Struct, Verdict
from simverify.results.run import Judged


class WatchDelay(Struct, frozen=True):
    """A change ``after`` so many tokens is told within ``tokens`` more, with the run's power.

    ``tokens``: null where the rows are too uncertain for a deviation of that size.
    """

    after: int
    tokens: float | None


class WatchRun(Judged, frozen=True, tag_field="command", tag="watch"):
    """What a watch has seen in all its life, over all its processes.

    ``source``: the log or the address; ``state``: the folder. ``requests``, ``tokens``: judged;
    ``unread``: lines that could not be, ``text_alone`` of them for want of token ids; ``restarts``:
    times that the log was rotated, cut or replaced. ``alpha``: probability that there is ever an
    alarm where nothing is wrong. ``detect``: the deviation that ``delays`` are of. ``balls``: by
    how much a row's order may be off, by its name. ``log_evalue``: of all bets now, ``highest``:
    the largest there was, at token ``highest_at``; ``hurdle``: ln(1 / alpha), at which the
    alarm is raised. ``unsupported``: tokens that truncation cuts off, beyond the margin; ``near``:
    within it. ``alarm``: why, null for none; ``alarm_at``: the token. ``weights``: of so many
    requests one was scored with rounded weights too; absent where none was.
    """

    schema_version: Literal[1]
    source: str
    endpoint: bool
    target: str
    draft: str | None
    state: str
    device: str
    dtype: str
    temperature: float
    top_k: int | None
    top_p: float | None
    requests: int
    tokens: int
    unread: int
    text_alone: int
    restarts: int
    alpha: float
    detect: float
    power: float
    balls: dict[str, float]
    delays: tuple[WatchDelay, ...]
    log_evalue: float
    highest: float
    highest_at: int
    hurdle: float
    near: int
    unsupported: int
    alarm: str | None
    alarm_at: int | None
    seed: int
    verdict: Verdict
    findings: tuple[str, ...]
    inconclusive: str | None
    notes: tuple[str, ...]
    reproduce: str
    meta: Meta
    weights: int | UnsetType = UNSET
