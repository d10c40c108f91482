"""The result document of a run: what tools may rely on, one version number for all of it.

Frozen msgspec structs; ``reports/schema.json`` is generated from them. Same seed and inputs
give the same bytes but for ``meta``. A number that does not exist is null, never NaN.
"""

from typing import Literal

import msgspec

SCHEMA_VERSION: Literal[1] = 1

Verdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A frozen part of the document."""


class Expected(_Struct, frozen=True):
    """Exact E[tau] of one call.

    ``exact``: null for a statistical interval; with ``dp`` the middle of the certain bounds.
    ``fraction``: the same number as "a/b" where it is rational. ``lower``, ``upper``:
    enclosing bounds; certain, unless ``confidence`` says with what probability they hold.
    """

    exact: float | None
    fraction: str | None
    lower: float
    upper: float
    method: Literal["enumeration", "closed-form", "dp", "rao-blackwell"]
    confidence: float | None = None


class Measured(_Struct, frozen=True):
    """A mean over simulated blocks with a two-sided confidence interval valid at any n."""

    mean: float
    ci_low: float
    ci_high: float
    confidence: float
    blocks: int


class Optimum(_Struct, frozen=True):
    """What the rule is measured against: ``block`` without state, ``coupling`` with it."""

    name: Literal["block", "coupling"]
    expected_accepted: float


class Test(_Struct, frozen=True):
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


class Certificate(_Struct, frozen=True):
    """Upper bound on the mean one-token TV that holds with probability 1 - ``delta``."""

    bound: float
    delta: float
    method: str
    assumption: str | None


class ExactCheck(_Struct, frozen=True):
    """The rule's own law against the target's. ``arithmetic``: rational or float64."""

    method: Literal["paths", "tree law"]
    arithmetic: Literal["rational", "float64"]
    scope: str
    max_abs_deviation: float
    tv: float


class Lossless(_Struct, frozen=True):
    """How losslessness was judged. ``tier`` is the strongest that the verdict rests on.

    ``exact``: null where the rule's law is too large to write out. ``tests``: always of the
    compiled kernel. ``detectable``: mean one-token TV (see ``deviation``) found with the
    run's power. ``findings``: what failed, in words.
    """

    tier: Literal["exact", "sampled"]
    max_abs_deviation: float | None
    tv: float | None
    exact: ExactCheck | None
    tests: tuple[Test, ...]
    detectable: float | None
    deviation: str
    certificate: Certificate | None
    findings: tuple[str, ...]


class Curve(_Struct, frozen=True):
    """Pr(tau >= l) for l = 1..gamma: bounds (equal where exact) and measured frequencies."""

    exact: tuple[float, ...] | None
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    measured: tuple[float, ...]


class Speedup(_Struct, frozen=True):
    """Latency model: (E[tau] + 1) / (gamma cost_ratio + 1), target calls costing 1."""

    cost_ratio: float
    predicted: float


class AfterCalls(_Struct, frozen=True):
    """Tokens out after ``calls`` calls. ``exact`` is null where the model does not allow it."""

    calls: int
    exact: float | None
    fraction: str | None
    measured: Measured


class CompareResult(_Struct, frozen=True):
    """One verifier on one model."""

    model: str
    verifier: str
    gamma: int
    vocab_size: int
    verdict: Verdict
    expected_accepted: Expected
    measured: Measured
    block_efficiency: float
    optimum: Optimum
    optimality: float
    lossless: Lossless
    acceptance_ccdf: Curve
    speedup: Speedup
    calls: tuple[AfterCalls, ...]


class Bounds(_Struct, frozen=True):
    """Bounds no rule beats. ``coupling``: ideal full information, one iteration."""

    coupling: Expected


class ModelInfo(_Struct, frozen=True):
    """A model of the run. Perplexities and corpus belong to trained models."""

    name: str
    vocab_size: int
    bounds: Bounds
    corpus_sha256: str | None
    target_perplexity: float | None
    draft_perplexity: float | None


class Timing(_Struct, frozen=True):
    """Speed of the compiled loop that measured one verifier on one model."""

    model: str
    verifier: str
    blocks_per_second: float


class Meta(_Struct, frozen=True):
    """Everything that may differ between two runs of the same seed and inputs."""

    version: str
    started: str
    seconds: float
    machine: str
    python: str
    threads: int
    timings: tuple[Timing, ...]


class CompareRun(_Struct, frozen=True, tag_field="command", tag="compare"):
    """A ``simverify compare`` run.

    ``alpha``: probability that a run in which every verifier is right reports a fault.
    ``detect``, ``power``: a deviation of this TV is found with this probability, or the
    verdict is INCONCLUSIVE.
    """

    schema_version: Literal[1]
    seed: int
    gamma: int
    alpha: float
    detect: float
    power: float
    eos: int | None
    verdict: Verdict
    results: tuple[CompareResult, ...]
    models: tuple[ModelInfo, ...]
    meta: Meta


class Instance(_Struct, frozen=True):
    """A small target and draft: rows by prefix, "" the empty one, "0,2" after tokens 0 and 2.

    Rows are lists of numbers, or of fractions as strings where they are rational.
    """

    name: str
    vocab_size: int
    gamma: int
    target_probs: dict[str, tuple[float | str, ...]]
    draft_probs: dict[str, tuple[float | str, ...]]


class Counterexample(_Struct, frozen=True):
    """The smallest failing instance found, and the output sequence that deviates most on it.

    ``sequence``: the first tokens of a completed output. ``draft_tokens``: the drafted block
    under which the call itself misbehaved, where that is what failed.
    """

    instance: Instance
    sequence: tuple[int, ...]
    probability_emitted: float
    probability_expected: float
    max_abs_deviation: float
    tv: float


class Localisation(_Struct, frozen=True):
    """Where the law leaves the target first.

    ``position``: index of the token in the output. ``stage``: the kind of token that carries
    the deviation; null where the tokens do not tell. ``tv``: distance of the law up to there.
    """

    position: int
    stage: Literal["accepted", "residual", "bonus"] | None
    tv: float


class Diagnosis(_Struct, frozen=True):
    """A catalogued fault and the TV distance of its law from the one found, on the instance.

    Without an error rate: it says what the code resembles, not what it is.
    """

    fault: str
    distance: float


class Probe(_Struct, frozen=True):
    """One edge probe. A violation fails the audit; a warning fails it under strict probes."""

    name: str
    outcome: Literal["ok", "warning", "violation", "not run"]
    message: str


class ExactInstance(_Struct, frozen=True):
    """One instance of the exact tier: the law's deviation over all paths of the code."""

    name: str
    vocab_size: int
    gamma: int
    paths: int
    max_abs_deviation: float
    tv: float
    expected_accepted: float | None
    failed: bool


class SampledTier(_Struct, frozen=True):
    """The sampled tier of an audit; ``power``, ``detect`` and ``alpha`` as promised before.

    ``looks``: how often the tests were evaluated, as fixed beforehand. ``samples``: calls.
    """

    samples: int
    looks: int
    alpha: float
    detect: float
    power: float
    tests: tuple[Test, ...]
    detectable: float | None
    certificate: Certificate | None
    optimality: str | None
    findings: tuple[str, ...]


class AuditRun(_Struct, frozen=True, tag_field="command", tag="audit"):
    """A ``simverify audit`` run.

    ``tier``: what the verdict rests on. ``not_enumerable``: why code, or part of it, went to
    the sampled tier: which call, which line. ``inconclusive``: why there is no verdict.
    ``refuted``: catalogued faults whose law differs from the one found. ``findings``: what
    failed, in words.
    """

    schema_version: Literal[1]
    spec: str
    contract: Literal["verify", "step"]
    seed: int
    gamma: int
    vocab_size: int
    tolerance: float
    verdict: Verdict
    tier: Literal["exact", "sampled"]
    paths: int
    instances: tuple[ExactInstance, ...]
    not_enumerable: str | None
    inconclusive: str | None
    sampled: SampledTier | None
    counterexample: Counterexample | None
    localisation: Localisation | None
    diagnosis: tuple[Diagnosis, ...]
    refuted: tuple[str, ...]
    probes: tuple[Probe, ...]
    findings: tuple[str, ...]
    reproduce: str
    meta: Meta


Document = CompareRun | AuditRun
"""What a result file holds; its field ``command`` says which."""


def overall(verdicts: list[Verdict]) -> Verdict:
    """Return the worst of several verdicts: FAIL, then INCONCLUSIVE, then PASS."""
    order: tuple[Verdict, ...] = ("FAIL", "INCONCLUSIVE", "PASS")
    return next(verdict for verdict in order if verdict in verdicts)
