"""The document of ``simverify plan``."""

from typing import Literal

from simverify.results.common import Meta, Struct
from simverify.results.run import Run


class PlanLine(Struct, frozen=True):
    """One test or certificate of a plan.

    ``level``: its share of alpha; beta or delta where it refutes or certifies. ``samples``
    find ``deviation``, the kind named in ``measure``, with the plan's power; null: none do.
    """

    test: str
    level: float
    samples: float | None
    unit: Literal["tokens", "blocks"]
    deviation: float | None
    measure: str


class PlanMeta(Meta, frozen=True, kw_only=True):
    """What the plan's times rest on.

    ``row_seconds``: for each row of ``rows``, how long its samples take at the speed in
    ``timings``; null where no number of samples will do.
    """

    row_seconds: tuple[float | None, ...]


class PlanRun(Run, frozen=True, tag_field="command", tag="plan"):
    """What a claim costs, or what a budget detects.

    ``asked``: which of the three was given. ``deviation`` is null in a plan from a budget,
    ``samples`` (emitted tokens) in a plan from a deviation; ``seconds`` is null unless it was
    the budget, and then ``samples`` and the rows follow from this machine's speed.
    ``contexts``: prefixes that repeat, over all slots, whose transitions are counted.
    ``tokens_per_block``: measured, on the model in ``meta.timings``.
    """

    schema_version: Literal[1]
    seed: int
    alpha: float
    power: float
    vocab_size: int
    gamma: int
    contexts: int
    asked: Literal["deviation", "samples", "seconds"]
    deviation: float | None
    samples: int | None
    seconds: float | None
    tokens_per_block: float
    rows: tuple[PlanLine, ...]
    meta: PlanMeta
