"""The documents of served engines: audited tokens, two engines, matrix, triage, watch."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType

from simverify.results.common import (
    Certificate,
    Judged,
    Meta,
    NonNegative,
    Positive,
    Rate,
    Struct,
    Test,
    Verdict,
    check_tests,
    check_verdict,
)
from simverify.results.registry import Kind, register_kind


def _open_complaints(run: "AgainstRun | OutputRun | WatchRun") -> Iterator[str]:
    if (run.inconclusive is None) == (run.verdict == "INCONCLUSIVE"):
        yield f"inconclusive is {run.inconclusive!r} with the verdict {run.verdict}"


def _certificate_complaints(run: "AgainstRun | OutputRun | TriageRun") -> Iterator[str]:
    if run.certificate is not None and run.verdict != "PASS":
        yield f"certificate stands beside the verdict {run.verdict}: expected null"


# The document of ``simverify audit --against``: two engines without a target.


class AskedFor(Struct, frozen=True):
    """What both engines were asked for; null is all tokens."""

    temperature: NonNegative
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

    about: ClassVar[str] = "{0.first} against {0.second}"

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
    alpha: Rate
    detect: Rate
    power: Rate
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


def _against_verdicts(run: AgainstRun) -> Iterator[str]:
    yield from check_tests(run.tests, run.findings, "tests")
    expected: Verdict = "FAIL" if run.findings else "PASS"
    if expected == "PASS" and run.detectable > run.detect:
        expected = "INCONCLUSIVE"
    # Copies leave no verdict whatever was found, and one stream for both or answers of one token
    # none where nothing was.
    if run.verdict != "INCONCLUSIVE" or (run.findings and not min(run.copied)):
        yield from check_verdict("verdict", run.verdict, expected, "by findings and detectable")
    yield from _open_complaints(run)
    yield from _certificate_complaints(run)


register_kind(
    Kind(
        AgainstRun,
        "two engines against each other",
        ".served:against_report",
        verdicts=_against_verdicts,
    )
)

# The document of ``simverify matrix``: which parameters of a request a server honours.


CellOutcome = Literal[
    "honoured",
    "dropped",
    "one side",
    "first row only",
    "last row only",
    "wrong order",
    "other",
    "not honoured",
    "refused",
    "no answer",
    "inconclusive",
]
"""What became of a parameter.

"dropped": as if it had not been asked for. "one side": in a part of the verification alone.
"first row only", "last row only": on that row of a drafted block alone. "other": none of these.
"not honoured": more than one of these is left.
"refused": the server says that it does not take it. "no answer": it broke off. "inconclusive": more
than one is left.
"""

SOUND_OUTCOMES = ("honoured", "refused")
"""Outcomes of a server that does what it says."""

OPEN_OUTCOMES = ("inconclusive", "no answer")
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

    about: ClassVar[str] = "{0.source}"

    source: str
    target: str
    proxy: str | None
    dtype: str
    alpha: Rate
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
    if outcomes - {*SOUND_OUTCOMES, *OPEN_OUTCOMES}:
        return "FAIL"
    decided = "honoured" in outcomes and not outcomes.intersection(OPEN_OUTCOMES)
    return "PASS" if decided else "INCONCLUSIVE"


def _matrix_verdicts(run: MatrixRun) -> Iterator[str]:
    yield from check_verdict("verdict", run.verdict, matrix_verdict(run.cells), "by its cells")
    for i, cell in enumerate(run.cells):
        decided = cell.outcome not in ("refused", *OPEN_OUTCOMES, "other", "not honoured")
        if decided and cell.left != (cell.outcome,):
            yield f"cells[{i}].outcome is {cell.outcome!r} and left is {list(cell.left)}"


register_kind(
    Kind(MatrixRun, "a matrix of parameters", ".served:matrix_report", verdicts=_matrix_verdicts)
)

# The document of ``simverify audit --outputs`` and ``--endpoint``.


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


PlaceOf = Literal["request", "draft", "rejection"]
"""What a place is of. "rejection": 0 is before the request's first rejected draft, 1 after it."""


class WorstToken(Struct, frozen=True):
    """A token that the target hardly expected, in its context.

    ``request``: its number, from 0; ``position``: of the token among those emitted, ``slot`` in the
    draft that it was judged with, null where nothing says. ``before``, ``after``: the text around.
    ``p``: its probability, ``rank`` among all tokens, from 1; ``chance``: of it and all that
    are no likelier. ``expected``: the likeliest token.
    """

    request: int
    position: int
    slot: int | None
    token: int
    text: str
    before: str
    after: str
    p: float
    rank: int
    chance: float
    expected: int
    expected_text: str
    expected_p: float


class AtPlace(Struct, frozen=True):
    """How far the mean ``name`` is off at the positions ``first`` to ``last`` of ``of``.

    ``mean``: of a token's value less its mean under its row; ``sigmas``: the sum, standardised.
    """

    of: PlaceOf
    first: int
    last: int
    tokens: int
    name: str
    mean: float
    sigmas: float


class Reported(Struct, frozen=True):
    """What the engine's own log probabilities say, over ``tokens``.

    ``kind``: what they are of. ``error``: median distance from ours, in nats. ``tv``: by how much
    the engine's rows are off from ours on average, ``tv_upper`` at most, where they are of the
    target; ``allowed``: what the test allows for. ``needed``: tokens after which they told more
    than that; null: never. ``fits``: whether they are of the target at all; where not, the
    distances tell nothing.
    """

    tokens: int
    kind: str
    error: float
    tv: NonNegative
    tv_upper: float
    allowed: float
    needed: int | None
    fits: bool = True


class FormatPower(Struct, frozen=True):
    """What the judged tokens would have told of weights that were rounded to a format.

    ``tv``: of its law from the target's, mean over contexts; ``power``: of the bets on rounded
    weights, by what its law would have won. ``needed``: tokens for a power of .9; null if more
    than are bet on, or by no number.
    """

    name: str
    tv: NonNegative
    power: Rate
    needed: int | None


class Processing(Struct, frozen=True):
    """What requests were asked for beside temperature, top-k and top-p; null: nothing.

    ``logit_bias``: pairs of id and addend; ``bad_words``: ids of each. ``mask``: name of the
    function. ``order``: in which all act; null: as in Transformers. ``allowed_token_ids``: the only
    ids that may come; empty for all.
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
    allowed_token_ids: tuple[int, ...] = ()


class EngineCounters(Struct, frozen=True):
    """What an engine counted itself, and what that says; null: it does not count that.

    ``drafts``: verifications; ``drafted``, ``accepted``: tokens, ``per_position`` by their place in
    the draft; ``emitted``: tokens. ``accept_length``, ``accept_rate``: gauges of SGLang.
    ``optimum``: largest share of first drafts that a lossless rule accepts on these tokens; null
    where it was not computed. ``findings``: what cannot be; they are among the run's. ``lead``:
    what a PASS says first of the draft, null where it is as good as it can be or nothing can tell.
    """

    drafts: float | None
    drafted: float | None
    accepted: float | None
    per_position: tuple[float, ...]
    emitted: float | None
    accept_length: float | None
    accept_rate: float | None
    optimum: float | None
    findings: tuple[str, ...]
    notes: tuple[str, ...]
    lead: str | None


class DraftRate(Struct, frozen=True):
    """How many of ``drafts`` were accepted, and how many the token rule accepts on average."""

    drafts: int
    accepted: int
    expected: float


class AcceptedDrafts(Struct, frozen=True):
    """Drafts ``before`` a request's first rejected one, which counts among them, and ``after`` it.

    ``lead``: what a PASS says of them first; null where the draft is as good as it can be, or too
    few tell.
    """

    before: DraftRate
    after: DraftRate
    lead: str | None


class Explanation(Struct, frozen=True):
    """A way to sample, in ``words``, and the p-value of the tokens by it."""

    words: str
    pvalue: Rate


class Explained(Struct, frozen=True):
    """What the first ``tokens`` of a run that failed are consistent with, of ``tried`` ways.

    One of these is what was asked for, which is excluded. ``alpha``: rate at most at which the
    true one is. ``fits``: those that are not excluded, the best first. ``rest_log_pvalue``: natural
    logarithm of the largest p-value of those that are.
    """

    tokens: int
    alpha: Rate
    tried: int
    fits: tuple[Explanation, ...]
    rest_log_pvalue: float


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
    ``stopped``: whether a server was asked no more because the bets said FAIL; ``failed_from``:
    after how many tokens they do, null if never. ``budget``: tokens that it might emit, null for
    any.
    ``detectable``: of the kind ``deviation`` names, found with power ``power``.
    ``reported``: what the engine's own log probabilities say; null where it gave none.
    ``other_prompts``: prompts of which the server says other tokens than are made of them here.
    ``longest_prompt``, ``longest_answer``: tokens of the longest that was judged, 0 where a
    document does not say.
    ``weights``: which rounded weights would have failed; empty unless the verdict is PASS.
    ``processing``: what else the first request was asked for; null where nothing was.
    ``counters``: what the engine counted itself; null where no page was given. ``acceptance``: of
    drafts whose place the log gives; null without it or without the engine's draft. ``untested``:
    parameters that requests name and that no bound is stated for.
    ``certificate``: null unless the verdict is PASS. ``worst``: the tokens that were expected
    least; ``places``: where a mean is off; both empty unless the verdict is FAIL.
    ``explained``: which other ways to sample fit the tokens; null where the tokens fit what was
    asked for, or did not fail. ``unsettled``: what answers say that leaves no verdict, as a right
    server and a wrong one may say it. ``copies``: answers that repeat another, where that is no
    chance; the tests of single tokens leave them out. ``inconclusive``: why there is no verdict.
    """

    about: ClassVar[str] = "{0.source}"

    source: str
    endpoint: bool
    target: str
    proxy: str | None
    sha256: str
    vocab_size: Positive
    requests: int
    tokens: int
    planned: int
    left_out: int
    ended: int
    restored: int
    unfinished: int
    near: int
    unsupported: int
    temperature: NonNegative
    top_k: int | None
    top_p: float | None
    otherwise: int
    device: str
    dtype: str
    alpha: Rate
    detect: Rate
    power: Rate
    ball: float
    ball_given: bool
    ball_measured: float
    hidden: tuple[str, ...]
    shape: Test | None
    rescoring: Rescoring
    text: Retokenised | None
    stopped: bool
    failed_from: int | None
    budget: int | None
    seed: int
    verdict: Verdict
    tests: tuple[Test, ...]
    detectable: float
    deviation: str
    certificate: Certificate | None
    findings: tuple[str, ...]
    worst: tuple[WorstToken, ...]
    places: tuple[AtPlace, ...]
    inconclusive: str | None
    notes: tuple[str, ...]
    reproduce: str
    meta: Meta
    processing: Processing | None = None
    reported: Reported | None = None
    other_prompts: int = 0
    longest_prompt: int = 0
    longest_answer: int = 0
    weights: tuple[FormatPower, ...] = ()
    counters: EngineCounters | None = None
    explained: Explained | None = None
    unsettled: tuple[str, ...] = ()
    copies: int = 0
    acceptance: AcceptedDrafts | None = None
    untested: tuple[str, ...] = ()


def _output_verdicts(run: OutputRun) -> Iterator[str]:
    yield from check_tests(run.tests, run.findings, "outputs")
    unread = run.text is not None and run.text.not_round_tripping > 0
    expected: Verdict = "FAIL" if run.findings else "PASS"
    unlike = bool(run.hidden) and (run.shape is None or run.shape.rejected)
    short = expected == "PASS" and (run.detectable > run.detect or unlike or bool(run.unsettled))
    if unread or short or (run.other_prompts and run.inconclusive is not None):
        expected = "INCONCLUSIVE"
    why = "by findings, text, detectable and hidden"
    yield from check_verdict("verdict", run.verdict, expected, why)
    yield from _open_complaints(run)
    yield from _certificate_complaints(run)
    if run.unsupported and not run.findings:
        yield "unsupported tokens without a finding: expected one"
    if run.counters is not None and not set(run.counters.findings) <= set(run.findings):
        yield "counters.findings are not all in findings"


register_kind(
    Kind(
        OutputRun, "an audit of emitted tokens", ".served:output_report", verdicts=_output_verdicts
    )
)

# The document of ``simverify triage``: two logs of greedy answers, and why they differ.


TriageClass = Literal[
    "same",
    "numerics",
    "precision",
    "text",
    "early stop",
    "template",
    "cache or rows",
    "verifier",
    "unclear",
]
"""What became of a request, from nothing to the gravest.

"same": both logs have the same tokens, and the target's choices. "numerics": they part where
the target's two choices are nearer than rounding moves them. "precision": nearer than bfloat16
would move them, and not the declared precision. "text": off, where the tokens are known by
their text alone. "early stop": one begins the other. "template", "cache or rows", "verifier": a
token that is not the target's choice by more than rounding, by what explains it. "unclear": such
a token, where a cause fits most of them, and would by chance too.
"""

TriageSide = Literal["a", "b", "both"]


class TriageCase(Struct, frozen=True):
    """One request that is not the same.

    ``request``: from 1, in the order of pairs; ``line_a``, ``line_b``: in the logs. ``parted``:
    index of the first token that differs, null where none does. ``at``: index of the token that
    is told, ``side`` whose it is, ``gap`` by how many logits it is behind the target's choice,
    ``rank`` how many tokens are ahead of it; null where no token is off. ``cause``: in words;
    ``chance``: how likely a cause that is a guess fits as often by chance, null where the cause is
    a fact or nothing fits. ``fault``: whether it fails the run; null where nobody can tell.
    ``slot``: place within the engine's call, from 0, and tokens of that call; null where the log
    does not say. ``choice``: the target's token there. ``before``: text before it; ``text_a``,
    ``text_b``: what the logs go on with.
    """

    request: int
    line_a: int
    line_b: int
    kind: TriageClass
    fault: bool | None
    side: TriageSide | None
    parted: int | None
    at: int | None
    gap: float | None
    rank: int | None
    cause: str
    chance: float | None
    slot: tuple[int, int] | None
    token_a: int | None
    token_b: int | None
    choice: int | None
    before: str
    text_a: str
    text_b: str


class TriageCount(Struct, frozen=True):
    """How many requests a class has, and whose token was off."""

    kind: TriageClass
    requests: int
    side_a: int
    side_b: int
    both: int


class TriageCause(Struct, frozen=True):
    """What was tried as an explanation of ``places`` off tokens, and fits ``fits`` of them.

    ``by_chance``: share of other places at which it gives the runner-up, the next likely token.
    ``chance``: probability that the best of all that were tried fits so well by that. ``taken``:
    whether it is taken for the cause.
    """

    name: str
    kind: TriageClass
    places: int
    fits: int
    by_chance: float
    chance: float
    taken: bool


class TriageRun(Judged, frozen=True, tag_field="command", tag="triage"):
    """A triage of two logs of greedy answers, against the target's rescored rows.

    ``a``, ``b``: the logs or servers; ``sha256``: of the ids of both. ``requests``: pairs;
    ``alone_a``, ``alone_b``: answers of one log alone. ``tokens``: rescored, of both. ``declared``:
    whether the precision was named. ``moved``: by how much rescoring moved the distance of two
    logits at most; ``radius``: what an engine's rounding may come to, twice that. ``due_numerics``:
    requests that would part by the rounding seen here, on average at most. ``agreed``: tokens that
    both emit after the same tokens; ``agreed_off``: those of them that are not the target's choice
    by more than the radius. ``counts``: of every class; ``causes``: what was tried, of ``tried``
    explanations in all, and fits somewhere; ``cases``: the requests that are not the same, the
    gravest first, ``left_out`` more.
    """

    about: ClassVar[str] = "{0.a} against {0.b}"

    a: str
    b: str
    target: str
    draft: str | None
    sha256: str
    requests: int
    alone_a: int
    alone_b: int
    tokens: int
    device: str
    dtype: str
    declared: bool
    moved: float
    radius: float
    due_numerics: float
    agreed: int
    agreed_off: int
    counts: tuple[TriageCount, ...]
    causes: tuple[TriageCause, ...]
    tried: int
    cases: tuple[TriageCase, ...]
    left_out: int
    verdict: Verdict
    certificate: Certificate | None
    findings: tuple[str, ...]
    inconclusive: str | None
    notes: tuple[str, ...]
    reproduce: str
    meta: Meta


def _triage_verdicts(run: TriageRun) -> Iterator[str]:
    differing = sum(one.requests for one in run.counts if one.kind != "same")
    if sum(one.requests for one in run.counts) != run.requests:
        yield f"counts do not add up to requests, {run.requests}"
    if len(run.cases) + run.left_out != differing:
        yield f"cases and left_out do not add up to {differing}, the requests that are not the same"
    faults = any(case.fault for case in run.cases)
    if run.findings and not faults:
        yield "findings without a case that is a fault: expected one"
    expected: Verdict = "FAIL" if faults else "PASS"
    if run.inconclusive is not None:
        expected = "INCONCLUSIVE"
    yield from check_verdict("verdict", run.verdict, expected, "by its cases and inconclusive")
    if run.verdict == "PASS" and any(case.fault is None for case in run.cases):
        yield "verdict is PASS with a case of which nobody can tell: expected INCONCLUSIVE"
    yield from _certificate_complaints(run)


register_kind(
    Kind(TriageRun, "a triage of two logs", ".served:triage_report", verdicts=_triage_verdicts)
)

# The document of ``simverify watch``: a server over the whole time that it is watched.


class WatchDelay(Struct, frozen=True):
    """A change ``after`` so many tokens is told within ``tokens`` more, with the run's power.

    ``tokens``: null where the rows are too uncertain for a deviation of that size.
    """

    after: int
    tokens: float | None


class WatchRun(Judged, frozen=True, tag_field="command", tag="watch"):
    """What a watch has seen in all its life, over all its processes.

    ``source``: the log or the address; ``state``: the folder. ``requests``, ``tokens``: judged;
    ``unread``: lines that could not be, ``text_alone`` of them without token ids; ``restarts``:
    times that the log was rotated, cut or replaced. ``alpha``: probability that there is ever an
    alarm where nothing is wrong. ``detect``: the deviation that ``delays`` are of. ``balls``: by
    how much a row's order may be off, by its name. ``log_evalue``: of all bets now, ``highest``:
    the largest there was, at token ``highest_at``; ``hurdle``: ln(1 / alpha), at which the
    alarm is raised. ``unsupported``: tokens that truncation cuts off, beyond the margin; ``near``:
    within it. ``alarm``: why, null for none; ``alarm_at``: the token. ``weights``: of so many
    requests one was scored with rounded weights too; absent where none was.
    """

    about: ClassVar[str] = "{0.source}"

    source: str
    endpoint: bool
    target: str
    draft: str | None
    state: str
    device: str
    dtype: str
    temperature: NonNegative
    top_k: int | None
    top_p: float | None
    requests: int
    tokens: int
    unread: int
    text_alone: int
    restarts: int
    alpha: Rate
    detect: Rate
    power: Rate
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


def _watch_verdicts(run: WatchRun) -> Iterator[str]:
    raised = run.alarm is not None
    if raised != (run.alarm_at is not None) or raised != bool(run.findings):
        yield "alarm, alarm_at and findings do not go together: expected all, or none"
    if not raised and (run.highest >= run.hurdle or run.unsupported):
        yield "alarm is null: expected one, by highest and unsupported"
    delay = run.delays[0].tokens if run.delays and run.delays[0].after == 0 else None
    enough = delay is not None and run.tokens >= delay
    expected: Verdict = "FAIL" if raised else "PASS" if enough else "INCONCLUSIVE"
    yield from check_verdict("verdict", run.verdict, expected, "by alarm, tokens and delays")
    yield from _open_complaints(run)


register_kind(Kind(WatchRun, "a watch", ".served:watch_report", verdicts=_watch_verdicts))
