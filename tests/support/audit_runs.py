"""Audits of every kind as documents: failed, starved of samples, passed."""

from msgspec.structs import replace

from simverify.results import (
    AuditRun,
    Counterexample,
    Diagnosis,
    ExactInstance,
    Finding,
    Instance,
    Localisation,
    Meta,
    SampledModel,
    SampledTier,
)

META = Meta(
    version="0", started="", seconds=0.0, machine="", python="", threads=1, timings=()
)  # fmt: skip


def finding(kind, text):
    """A finding of an audit."""
    return Finding(kind=kind, text=text)


FAILED_INSTANCE = ExactInstance(
    name="plain",
    vocab_size=3,
    gamma=1,
    paths=12,
    max_abs_deviation=5 / 36,
    tv=1 / 6,
    expected_accepted=None,
    optimum=None,
    failed=True,
)

COUNTEREXAMPLE = Counterexample(
    instance=Instance(
        name="found",
        vocab_size=3,
        gamma=1,
        target_probs={
            "": ("1/3", "1/3", "1/3"),
            "0": ("1/2", "1/2", "0"),
            "1": ("1/3", "1/3", "1/3"),
            "2": ("1/2", "1/2", "0"),
        },
        draft_probs={
            "": ("0", "0", "1"),
            "0": (0.25, 0.25, 0.5),
            "1": ("0", "0", "1"),
            "2": (0.25, 0.25, 0.5),
        },
    ),
    sequence=(0, 1),
    probability_emitted=0.25,
    probability_expected=1 / 9,
    max_abs_deviation=5 / 36,
    tv=1 / 6,
)

FAILED = AuditRun(
    schema_version=1,
    spec="my_sampler.py:verify",
    contract="verify",
    seed=7,
    gamma=4,
    vocab_size=5,
    tolerance=1e-9,
    dtype="float64",
    verdict="FAIL",
    tier="exact",
    paths=1234,
    instances=(FAILED_INSTANCE,),
    not_enumerable=None,
    inconclusive=None,
    sampled=None,
    counterexample=COUNTEREXAMPLE,
    localisation=Localisation(position=0, stage="residual", tv=1 / 6),
    diagnosis=(Diagnosis(fault="reused-uniform", distance=1e-16),),
    refuted=(),
    probes=(),
    findings=(finding("law", "the exact distribution on found differs"),),
    notes=(),
    reproduce="simverify audit my_sampler.py:verify --contract verify --seed 7",
    meta=META,
)

SAMPLED_ON = (
    SampledModel("compact, gamma=3", 3, 3, 400, detect=0.01, detectable=0.034, bound=None),
    SampledModel("wide, V=12, gamma=1", 12, 1, 100, detect=0.03, detectable=0.055, bound=None),
)

STARVED = replace(
    FAILED,
    verdict="INCONCLUSIVE",
    tier="sampled",
    instances=(),
    not_enumerable="cannot follow bytes() of a generator at my_sampler.py:15",
    inconclusive="the budget ends in the pilot",
    sampled=SampledTier(
        samples=500,
        looks=1,
        alpha=1e-6,
        detect=0.01,
        power=0.9,
        tests=(),
        detectable=0.034,
        certificate=None,
        optimality=None,
        findings=(),
        instances=SAMPLED_ON,
    ),
    counterexample=None,
    localisation=None,
    diagnosis=(),
    findings=(),
)

PASSED = replace(
    FAILED,
    verdict="PASS",
    instances=(replace(FAILED_INSTANCE, failed=False, max_abs_deviation=2e-16, tv=0.0),),
    counterexample=None,
    localisation=None,
    diagnosis=(),
    findings=(),
    refuted=("wrong-bonus-row", "naive-block"),
)


def words(run):
    """The text of an audit on one line."""
    return " ".join(run.as_text(verbose=True).split())
