"""The document of ``simverify matrix``: which parameters of a request a server honours."""

from typing import Literal

from simverify.results.common import Meta, Struct, Verdict
from simverify.results.run import Judged

CellOutcome = Literal[
    "honoured", "dropped", "one side", "first row only", "last row only", "wrong order", "other",
    "not honoured", "refused", "no answer", "inconclusive",
]  # fmt: skip
"""What became of a parameter.

"dropped": as if it had not been asked for. "one side": in a part of the verification alone.
"first row only", "last row only": on that row of a drafted block alone. "other": none of these.
"not honoured": more than one of these is left.
"refused": the server says that it does not take it. "no answer": it broke off. "inconclusive": more
than one is left.
"""

SOUND = ("honoured", "refused")
"""Outcomes of a server that does what it says."""

OPEN = ("inconclusive", "no answer")
"""Outcomes that leave a parameter undecided."""


class MatrixCell(Struct, frozen=True):
    """A parameter, or two whose order is looked at, asked at ``value``.

    ``words``: what was found, or what could still be. ``left``: outcomes that were not rejected.
    ``tried``: outcomes that were looked for. ``found``: the least share of tokens drawn without the
    parameter that ``tokens`` would have shown with power .9; null if not even all. ``log_evalue``:
    natural logarithm of the e-value against what was asked for; null where there is none.
    """

    name: str
    value: str
    outcome: CellOutcome
    words: str
    left: tuple[str, ...]
    tried: tuple[str, ...]
    tokens: int
    found: float | None
    log_evalue: float | None


class MatrixRun(Judged, frozen=True, tag_field="command", tag="matrix"):
    """A matrix of parameters.

    ``alpha``: probability at most that any cell of an engine that follows one of the laws is named
    wrongly; ``cell_alpha``: that of one cell. ``budget``: tokens of a cell. ``proxy``: the draft
    that one-sided laws were computed from; null: they were not looked for. ``gammas``: draft
    lengths that were tried. ``order``: in which the parameters were to act. ``ball``: TV that the
    engine's rows may be off by on average.
    """

    schema_version: Literal[1]
    source: str
    target: str
    proxy: str | None
    dtype: str
    alpha: float
    cell_alpha: float
    ball: float
    budget: int
    gammas: tuple[int, ...]
    order: tuple[str, ...]
    cells: tuple[MatrixCell, ...]
    seed: int
    verdict: Verdict
    notes: tuple[str, ...]
    reproduce: str
    meta: Meta


def matrix_verdict(cells: tuple[MatrixCell, ...]) -> Verdict:
    """FAIL where a cell is neither sound nor open; PASS where all are sound, one honoured."""
    outcomes = {cell.outcome for cell in cells}
    if outcomes - {*SOUND, *OPEN}:
        return "FAIL"
    return "PASS" if "honoured" in outcomes and not outcomes.intersection(OPEN) else "INCONCLUSIVE"
