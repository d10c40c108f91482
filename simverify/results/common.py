"""What the documents of all commands share."""

from typing import Literal

import msgspec

SCHEMA_VERSION: Literal[1] = 1

Verdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A frozen part of the document."""


class Test(Struct, frozen=True):
    """One test of the compiled kernel, with its share of the run's alpha.

    ``min_detectable``: smallest deviation, of the kind named in ``deviation``, that is found
    with the run's power; null where this many tokens promise nothing. ``log_pvalue``: null
    where the observation is impossible under the null hypothesis (p = 0).
    """

    name: str
    statistic: float
    log_pvalue: float | None
    alpha: float
    n: int
    df: int | None
    method: str
    min_detectable: float | None
    deviation: str
    rejected: bool


class Certificate(Struct, frozen=True):
    """Upper bound on the mean one-token TV that holds with probability 1 - ``delta``."""

    bound: float
    delta: float
    method: str
    assumption: str | None


class Timing(Struct, frozen=True):
    """Blocks a second of one verifier on one model: drafted, verified, their tokens counted.

    The same for every verifier, a rule with state included: first calls, counted by slot as
    the model's tests count them.
    """

    model: str
    verifier: str
    blocks_per_second: float


class Meta(Struct, frozen=True):
    """Everything that may differ between two runs of the same seed and inputs."""

    version: str
    started: str
    seconds: float
    machine: str
    python: str
    threads: int
    timings: tuple[Timing, ...]


def overall(verdicts: list[Verdict]) -> Verdict:
    """Return the worst of several verdicts: FAIL, then INCONCLUSIVE, then PASS."""
    order: tuple[Verdict, ...] = ("FAIL", "INCONCLUSIVE", "PASS")
    return next(verdict for verdict in order if verdict in verdicts)
