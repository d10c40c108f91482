"""The document of ``simverify audit --against``: two engines without a target."""

from typing import Literal

from simverify.results.common import Certificate, Meta, Struct, Test, Verdict
from simverify.results.run import Judged


class AskedFor(Struct, frozen=True):
    """What both engines were asked for; null is all tokens."""

    temperature: float
    top_k: int | None
    top_p: float | None
    max_tokens: int


class AgainstRun(Judged, frozen=True, tag_field="command", tag="audit-against"):
    """Answers of two engines to the same prompts, compared.

    ``first``, ``second``: files or addresses; ``endpoint``: whether servers were asked, side by
    side. ``units``: what was compared. ``prompts``, ``repeats``: prompts, and how often the
    one that was asked most was; ``asked_most``: prompts that were asked half as often or oftener,
    of which power and certificate speak; ``once``: share of the answers to them that begin as no
    other does, of which no power is promised; ``pairs`` of answers in all, of ``planned``;
    ``left_out``: answers without another beside them. ``tokens``: units of the answers of each.
    ``copied``: prompts to which each gave one answer alone. ``asked``: null of files.
    ``sha256``: of what was compared. ``detectable``: of the kind ``deviation`` names, found with
    power ``power``. ``certificate``: of the first token alone; null unless the verdict is PASS.
    ``shown``: where the two differ most, without an error rate; empty unless something was found.
    ``inconclusive``: why there is no verdict.
    """

    schema_version: Literal[1]
    first: str
    second: str
    endpoint: bool
    units: Literal["ids", "token texts", "text"]
    prompts: int
    repeats: int
    asked_most: int
    once: float
    pairs: int
    planned: int
    left_out: int
    tokens: tuple[int, int]
    copied: tuple[int, int]
    asked: AskedFor | None
    sha256: str
    alpha: float
    detect: float
    power: float
    seed: int
    verdict: Verdict
    tests: tuple[Test, ...]
    detectable: float
    deviation: str
    certificate: Certificate | None
    findings: tuple[str, ...]
    shown: tuple[str, ...]
    inconclusive: str | None
    notes: tuple[str, ...]
    reproduce: str
    meta: Meta
