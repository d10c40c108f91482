"""What the documents of all commands share."""

import importlib
import math
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Protocol, cast

import msgspec
from msgspec import Meta as Limits

SCHEMA_VERSION: Literal[1] = 1

Verdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]

# Ranges of fields. Numbers that were added up may miss a limit by their rounding.

ROUNDING = 1e-6

Count = Annotated[int, Limits(ge=0)]
Positive = Annotated[int, Limits(ge=1)]
NonNegative = Annotated[float, Limits(ge=0)]
Rate = Annotated[float, Limits(gt=0, le=1)]
"""A level, a confidence or a share that is not 0."""

Probability = Annotated[float, Limits(ge=-ROUNDING, le=1 + ROUNDING)]
Cosine = Annotated[float, Limits(ge=-1 - ROUNDING, le=1 + ROUNDING)]
LogProbability = Annotated[float, Limits(le=0)]
Parents = Annotated[tuple[int, ...], Limits(min_length=1)]
"""The parent of each node of a tree, -1 for the root, parents first."""


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A frozen part of the document."""


class Test(Struct, frozen=True):
    """One test of a kernel or of emitted tokens, with its share of the run's alpha.

    ``min_detectable``: smallest deviation, of the kind named in ``deviation``, that is found
    with the run's power; null where this many tokens promise nothing. ``log_pvalue``: null
    where the observation is impossible under the null hypothesis (p = 0).
    """

    name: str
    statistic: float
    log_pvalue: LogProbability | None
    alpha: Rate
    n: Count
    df: Count | None
    method: str
    min_detectable: float | None
    deviation: str
    rejected: bool


class FaultAtStrength(Struct, frozen=True):
    """A catalogued fault, mixed with the target at ``strength``; 1 is the fault itself.

    ``log_evalue``: natural logarithm of the e-value against it where it is refuted, for it
    where it fits best; null where infinite.
    """

    fault: str
    strength: Rate
    log_evalue: float | None


class NamedFaults(Struct, frozen=True):
    """What likelihood ratios say of the catalogued faults whose slots have a law.

    ``refuted``: each at the smallest strength from which on its mixtures with the target, and
    nothing else, are refuted; a fault that is there is refuted with probability ``beta`` at
    most. ``best``: the mixture that fits best, a diagnosis without an error rate, and
    ``explains`` the part of the deviation's log-likelihood that it has; both null where
    nothing was found.
    """

    refuted: tuple[FaultAtStrength, ...]
    not_refuted: tuple[str, ...]
    beta: float
    best: FaultAtStrength | None
    explains: float | None


class Suspect(Struct, frozen=True):
    """The part of a verifier that sampled tests point at, without an error rate.

    ``part``: null where they point at none. ``position``: index of the first slot or position
    whose own tests show it. ``why``: the reason in words. ``lines``: the lines of code that run in
    that part of a call alone, as ``file:line``, four at most; of "accept", where it is decided.
    """

    part: (
        Literal["accept", "residual", "bonus", "draft contract", "row plumbing", "random stream"]
        | None
    )
    position: int | None
    why: str
    lines: tuple[str, ...] = ()


class Certificate(Struct, frozen=True):
    """Upper bound on the mean one-token TV that holds with probability 1 - ``delta``."""

    bound: float
    delta: Rate
    method: str
    assumption: str | None


class Timing(Struct, frozen=True):
    """Blocks a second of one verifier on one model: drafted, verified, their tokens counted.

    The same for every verifier, a rule with state included: first calls, counted by slot as
    the model's tests count them.
    """

    model: str
    verifier: str
    blocks_per_second: NonNegative


class Latency(Struct, frozen=True):
    """Wall clock of one verifier on a pair of real models, against decoding without a draft.

    Seconds over all emitted tokens, batched requests together: ``draft``, ``score`` (the
    target's calls) and ``verify`` add up to ``speculative``; reading prompts, which costs the
    same without a draft, is in neither it nor ``plain``. ``cost_ratio``: seconds of a drafted
    token over those of a target call on gamma+1; ``predicted``: speed-up by the latency model
    at that ratio; ``measured``: ``plain`` over ``speculative``. ``block_cost``: seconds of a
    target call on gamma+1 tokens over those of a call on one, which the model takes for 1.
    """

    model: str
    verifier: str
    plain: float
    speculative: float
    draft: float
    score: float
    verify: float
    cost_ratio: float
    predicted: NonNegative
    measured: float
    block_cost: float


class OnDevices(Struct, frozen=True):
    """What the time model says of drafting on ``devices`` devices, in seconds.

    ``iteration``: drafting one block of gamma tokens; the target's pass is not in it.
    ``per_token``: the same by drafted token. ``speed_up``: plain drafting over it, above 1 where
    groups are faster.
    """

    devices: Positive
    iteration: NonNegative
    per_token: float
    speed_up: Annotated[float, Limits(gt=0)]


class DraftingTime(Struct, frozen=True):
    """What a pass of the draft takes in groups of ``layer_parallel`` layers, in seconds.

    Medians of single steps: ``attention``, ``mlp`` of one block; ``group`` of the attention blocks
    of ``group_size`` layers, ``workers`` of which ran at once; ``exact_pass``, ``fuzzy_pass`` of
    all. ``rest``, ``added``: all else in a pass, and what running at once takes besides, fitted.
    ``predicted``: by the time model. ``per_token``: of one drafted token of each request, side by
    side, measured while the first rule decoded; ``share``: of drafting in a whole iteration;
    ``tokens_per_second``: emitted.
    """

    layer_parallel: Positive
    attention: NonNegative
    mlp: NonNegative
    group: NonNegative
    group_size: int
    workers: int
    exact_pass: NonNegative
    fuzzy_pass: NonNegative
    rest: NonNegative
    added: NonNegative
    predicted: tuple[OnDevices, ...]
    per_token: NonNegative
    share: Probability
    tokens_per_second: NonNegative


class Meta(Struct, frozen=True):
    """Everything that may differ between two runs of the same seed and inputs."""

    version: str
    started: str
    seconds: NonNegative
    machine: str
    python: str
    threads: int
    timings: tuple[Timing, ...]
    latencies: tuple[Latency, ...] = ()
    drafting: tuple[DraftingTime, ...] = ()


def overall(verdicts: list[Verdict]) -> Verdict:
    """Return the worst of several verdicts: FAIL, then INCONCLUSIVE, then PASS."""
    order: tuple[Verdict, ...] = ("FAIL", "INCONCLUSIVE", "PASS")
    return next(verdict for verdict in order if verdict in verdicts)


EXIT_CODES = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}


# Checks that documents share: each yields what is wrong, named by its field.


def check_verdict(where: str, verdict: object, expected: object, why: str) -> Iterator[str]:
    """Complain of a verdict, or another value, that is not the ``expected`` one."""
    if verdict != expected:
        yield f"{where} is {verdict}: expected {expected}, {why}"


def check_tests(tests: Sequence[Test], findings: Sequence[object], where: str) -> Iterator[str]:
    """Complain of tests that rejected against their own log p, or without a finding."""
    for k, test in enumerate(tests):
        rejected = test.log_pvalue is None or test.log_pvalue < math.log(test.alpha)
        if test.rejected != rejected:
            shown = str(test.rejected).lower()
            yield f"{where}.tests[{k}].rejected is {shown}: expected otherwise, by log_pvalue"
        if test.rejected and not findings:
            yield f"{where}.tests[{k}].rejected is true: expected a finding in {where}.findings"


def check_length(where: str, values: Sequence[object], expected: int, why: str) -> Iterator[str]:
    """Complain of a list that has not the ``expected`` number of values."""
    if len(values) != expected:
        yield f"{where} has {len(values)} values: expected {expected}, {why}"


def check_parents(parents: tuple[int, ...], where: str) -> Iterator[str]:
    """Complain of ``parents`` that make no tree."""
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            yield f"{where}[{node}] is {parent}: expected -1, or a node before it"
            return


# What you do with a whole run: print it, show it in a notebook, save it, report it.


PRESENTER_MODULE = "simverify.reports.present"
"""The module that renders runs: named, not imported, since results know nothing of reports."""


class _Presenter(Protocol):
    def run_text(self, run: "Run", *, verbose: bool) -> str: ...

    def notebook_html(self, run: "Run") -> str: ...

    def save_run(self, run: "Run", path: str | os.PathLike[str]) -> None: ...

    def write_reports(self, run: "Run", folder: str | os.PathLike[str]) -> None: ...


class Run(Struct, frozen=True):
    """A result document as a whole.

    ``print(run)`` shows what the terminal shows; a notebook shows the report.
    """

    about: ClassVar[str] = ""
    """The headline, as ``str.format`` takes it with the run."""

    schema_version: Literal[1]

    @property
    def exit_code(self) -> int:
        """The exit code of its command."""
        return 0

    @property
    def headline(self) -> str:
        """What the run was about, for a list of runs."""
        return self.about.format(self)

    @property
    def specs(self) -> tuple[str, ...]:
        """SPECs of the code that it was about, which a record of the run looks up."""
        return ()

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self, *, verbose: bool = False) -> str:
        """Return what the terminal shows, 80 columns wide; ``verbose``: all of it."""
        return _load_presenter().run_text(self, verbose=verbose)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run file, whole or not at all; :func:`simverify.load` reads it.

        Raises ``UsageError`` if ``path`` cannot be written.
        """
        _load_presenter().save_run(self, path)

    def report(self, folder: str | os.PathLike[str]) -> None:
        """Write HTML, Markdown, JUnit XML and the run file to ``folder``.

        Raises ``UsageError`` if ``folder`` cannot be made or written to.
        """
        _load_presenter().write_reports(self, folder)

    def _repr_html_(self) -> str:
        return _load_presenter().notebook_html(self)


class Judged(Run, frozen=True):
    """A run with a verdict."""

    if TYPE_CHECKING:
        verdict: Verdict

    @property
    def exit_code(self) -> int:
        """0 on a PASS, 1 on a FAIL, 3 where the run cannot tell."""
        return EXIT_CODES[self.verdict]

    @property
    def passed(self) -> bool:
        """Whether the verdict is PASS: not so of FAIL, and not of INCONCLUSIVE."""
        return self.verdict == "PASS"


def _load_presenter() -> _Presenter:
    return cast("_Presenter", importlib.import_module(PRESENTER_MODULE))
