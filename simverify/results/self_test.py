"""The document of ``simverify audit --self-test``."""

from typing import Literal

from simverify.results.common import Meta, Struct, Verdict
from simverify.results.run import Judged


class Tried(Struct, frozen=True):
    """One entry of the catalogue on trial.

    ``kind``: a fault, which must be caught, or a control, which must pass. ``tier``: what
    decided; ``effort``: paths of the exact tier, calls of the sampled one, or probes; ``tv``:
    of the first failing instance, null where the exact tier did not find it.
    """

    name: str
    kind: Literal["fault", "control"]
    caught: bool
    tier: Literal["exact", "sampled", "probe"]
    effort: int
    tv: float | None

    @property
    def as_expected(self) -> bool:
        """Whether the fault was caught, or the control passed."""
        return self.caught == (self.kind == "fault")


class SelfTestRun(Judged, frozen=True, tag_field="command", tag="self-test"):
    """A ``simverify audit --self-test`` run.

    ``verdict``: PASS if every fault was caught and every control passed, else FAIL.
    ``unexpected``: the names of those that were not.
    """

    schema_version: Literal[1]
    seed: int
    gamma: int
    vocab_size: int
    alpha: float
    detect: float
    verdict: Verdict
    results: tuple[Tried, ...]
    unexpected: tuple[str, ...]
    meta: Meta
