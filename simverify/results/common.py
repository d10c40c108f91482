"""What the documents of all commands share."""

import importlib
import os
from typing import TYPE_CHECKING, Literal, Protocol, cast

import msgspec

SCHEMA_VERSION: Literal[1] = 1

Verdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]


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
    log_pvalue: float | None
    alpha: float
    n: int
    df: int | None
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
    strength: float
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
    whose own tests show it. ``why``: the reason in words.
    """

    part: (
        Literal["accept", "residual", "bonus", "draft contract", "row plumbing", "random stream"]
        | None
    )
    position: int | None
    why: str


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
    predicted: float
    measured: float
    block_cost: float


class OnDevices(Struct, frozen=True):
    """What the time model says of drafting on ``devices`` devices, in seconds.

    ``iteration``: drafting one block of gamma tokens; the target's pass is not in it.
    ``per_token``: the same by drafted token. ``speed_up``: plain drafting over it, above 1 where
    groups are faster.
    """

    devices: int
    iteration: float
    per_token: float
    speed_up: float


class DraftingTime(Struct, frozen=True):
    """What a pass of the draft takes in groups of ``layer_parallel`` layers, in seconds.

    Medians of single steps: ``attention``, ``mlp`` of one block; ``group`` of the attention blocks
    of ``group_size`` layers, ``workers`` of which ran at once; ``exact_pass``, ``fuzzy_pass`` of
    all. ``rest``, ``added``: all else in a pass, and what running at once takes besides, fitted.
    ``predicted``: by the time model. ``per_token``: of one drafted token of each request, side by
    side, measured while the first rule decoded; ``share``: of drafting in a whole iteration;
    ``tokens_per_second``: emitted.
    """

    layer_parallel: int
    attention: float
    mlp: float
    group: float
    group_size: int
    workers: int
    exact_pass: float
    fuzzy_pass: float
    rest: float
    added: float
    predicted: tuple[OnDevices, ...]
    per_token: float
    share: float
    tokens_per_second: float


class Meta(Struct, frozen=True):
    """Everything that may differ between two runs of the same seed and inputs."""

    version: str
    started: str
    seconds: float
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
    def passed(self) -> bool:
        """Whether the verdict is PASS: not so of FAIL, and not of INCONCLUSIVE."""
        return self.verdict == "PASS"


def _load_presenter() -> _Presenter:
    return cast("_Presenter", importlib.import_module(PRESENTER_MODULE))
