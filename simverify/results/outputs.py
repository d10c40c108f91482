"""The documents of tokens that an engine emitted: an audit of them, and a matrix of parameters."""

from typing import Literal

from simverify.results.common import Certificate, Meta, Struct, Test, Verdict
from simverify.results.run import Judged


class Retokenised(Struct, frozen=True):
    """What was measured on text, whose tokens are the tokenizer's and not the engine's.

    ``requests``: those given as text; ``not_round_tripping``: of these, whose tokens give
    another text. ``control_tokens``: tokens drawn from the target itself, written out and read
    again; ``changed``: how many of them came back as others.
    """

    requests: int
    not_round_tripping: int
    control_tokens: int
    changed: int


class Rescoring(Struct, frozen=True):
    """How far rescored rows move by rounding: TV of each row scored twice.

    ``mean``, ``largest``: together with other requests against alone, over all tokens.
    ``precision``: mean over ``precision_tokens`` tokens of a target that is not in float32 against
    float32; null for one that is. ``margin``: by how much two logits may be off from each other,
    so that a token that truncation cuts off counts as support.
    """

    mean: float
    largest: float
    precision: float | None
    precision_tokens: int
    margin: float


class Reported(Struct, frozen=True):
    """What the engine's own log probabilities say, over ``tokens``.

    ``kind``: what they are of. ``error``: median distance from ours, in nats. ``tv``: by how much
    the engine's rows are off from ours on average, ``tv_upper`` at most, where they are of the
    target; ``allowed``: what the test allows for. ``needed``: tokens after which they told more
    than that; null: never.
    """

    tokens: int
    kind: str
    error: float
    tv: float
    tv_upper: float
    allowed: float
    needed: int | None


class Processing(Struct, frozen=True):
    """What requests were asked for beside temperature, top-k and top-p; null: nothing.

    ``logit_bias``: pairs of id and addend; ``bad_words``: ids of each. ``mask``: name of the
    function. ``order``: in which all act; null: as in Transformers.
    """

    min_p: float | None
    typical_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: tuple[tuple[int, float], ...]
    bad_words: tuple[tuple[int, ...], ...]
    min_tokens: int
    mask: str | None
    order: tuple[str, ...] | None


class OutputRun(Judged, frozen=True, tag_field="command", tag="audit-outputs"):
    """An audit of tokens that another engine emitted, against the target's rescored rows.

    ``source``: the file or the address; ``sha256``: of the judged ids. ``requests``: those that
    were judged, ``tokens`` of them in all, the first of ``planned``, which is N as fixed
    beforehand; ``left_out``: tokens beyond N. ``ended``: requests that end with an
    end-of-sequence token, of which ``restored`` had it put back; ``unfinished``: those that end
    for a reason that nothing says. ``near``, ``unsupported``: tokens that truncation cuts off,
    within the margin and beyond. ``temperature``, ``top_k``, ``top_p``: what the
    first request was asked for; ``otherwise``: how many were asked for something else, and are
    judged by that. ``ball``: TV of the engine's own rows from the rescored ones,
    on average over contexts, that the tests allow for; ``ball_given``: whether it was named;
    ``ball_measured``: what computing rows again in the declared precision moved. ``hidden``: what
    fails by that and passes by a larger ball that was named. ``shape``: the test that rounding
    did what is hidden, or what failed; null where nothing is asked or nothing can tell.
    ``detectable``: of the kind ``deviation`` names, found with power ``power``.
    ``reported``: what the engine's own log probabilities say; null where it gave none.
    ``other_prompts``: prompts of which the server says other tokens than are made of them here.
    ``processing``: what else the first request was asked for; null where nothing was.
    ``certificate``: null unless the verdict is PASS. ``inconclusive``: why there is no verdict.
    """

    schema_version: Literal[1]
    source: str
    endpoint: bool
    target: str
    proxy: str | None
    sha256: str
    vocab_size: int
    requests: int
    tokens: int
    planned: int
    left_out: int
    ended: int
    restored: int
    unfinished: int
    near: int
    unsupported: int
    temperature: float
    top_k: int | None
    top_p: float | None
    otherwise: int
    device: str
    dtype: str
    alpha: float
    detect: float
    power: float
    ball: float
    ball_given: bool
    ball_measured: float
    hidden: tuple[str, ...]
    shape: Test | None
    rescoring: Rescoring
    text: Retokenised | None
    seed: int
    verdict: Verdict
    tests: tuple[Test, ...]
    detectable: float
    deviation: str
    certificate: Certificate | None
    findings: tuple[str, ...]
    inconclusive: str | None
    notes: tuple[str, ...]
    reproduce: str
    meta: Meta
    processing: Processing | None = None
    reported: Reported | None = None
    other_prompts: int = 0


CellOutcome = Literal[
    "honoured", "dropped", "one side", "first row only", "last row only", "wrong order", "other",
    "not honoured", "refused", "inconclusive",
]  # fmt: skip
"""What became of a parameter.

"dropped": as if it had not been asked for. "one side": in a part of the verification alone.
"first row only", "last row only": on that row of a drafted block alone. "other": none of these.
"not honoured": more than one of these is left.
"refused": the server says that it does not take it. "inconclusive": more than one is left.
"""

SOUND = ("honoured", "refused")
"""Outcomes of a server that does what it says."""


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
    if outcomes - {*SOUND, "inconclusive"}:
        return "FAIL"
    return "PASS" if "honoured" in outcomes and "inconclusive" not in outcomes else "INCONCLUSIVE"
