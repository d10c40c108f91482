"""The words for what an audit's sampled tier found."""

import pytest
from msgspec.structs import replace
from support.audit_runs import PASSED, SAMPLED_ON, STARVED, finding, words

from simverify.battery.localise import PARTS
from simverify.reports.audit.facts import audit_ruling
from simverify.reports.audit.failure import audit_lines
from simverify.results import Certificate, FaultAtStrength, NamedFaults, Probe, Suspect


def test_an_inconclusive_run_says_what_could_not_be_followed_and_what_was_reached():
    text = words(STARVED)
    assert "not followed exactly: cannot follow bytes() of a generator at my_sampler.py:15" in text
    assert "500 calls" in text
    assert "on V=3 gamma=3: power 0.9 against TV 0.034 or more, asked against 0.01;" in text
    assert "on V=12 gamma=1: power 0.9 against TV 0.055 or more, asked against 0.03;" in text
    assert "There is no verdict" in text
    nothing = [replace(x, detectable=None) for x in SAMPLED_ON]
    unseen = replace(STARVED, sampled=replace(STARVED.sampled, instances=nothing))
    assert "power 0.9 against no TV yet" in words(unseen)


def test_a_sampled_verdict_claims_no_size_that_was_not_sampled():
    bounds = (0.0081, 0.024)
    models = [replace(x, bound=b) for x, b in zip(SAMPLED_ON, bounds, strict=True)]
    bound = Certificate(bound=0.024, delta=1e-3, method="plug-in", assumption=None)
    tier = replace(STARVED.sampled, instances=models, certificate=bound)
    text = words(replace(STARVED, verdict="PASS", sampled=tier))
    head, rest = text.split("not followed exactly", 1)
    assert head.endswith("sampled on V=3 gamma=3, V=12 gamma=1 only, seed 7 ")
    assert "gamma up to" not in text
    assert "asked against 0.01, TV at most 0.0081; on V=12 gamma=1: " in rest
    assert "TV at most 0.024; nothing is promised beyond; the bounds hold but for 0.001" in rest


def test_one_instance_is_named():
    (only, *_) = SAMPLED_ON
    tier = replace(STARVED.sampled, instances=[replace(only, name="trace of a pair")])
    run = replace(STARVED, verdict="PASS", sampled=tier)
    assert "sampled on trace of a pair alone (V=3 gamma=3), seed 7" in words(run)
    assert "with the error rates below, on trace of a pair: nothing" in audit_ruling(run)


def test_whole_batches_of_code_that_was_followed_keep_the_sizes_of_the_exact_tier():
    batched = replace(PASSED, tier="sampled", sampled=STARVED.sampled)
    text = words(batched)
    assert "gamma up to 4, V up to 5" in text
    assert "on V=3 gamma=3: power 0.9" in text


def test_sampled_tests_say_what_they_refute_and_where_they_point():
    faults = NamedFaults(
        refuted=(FaultAtStrength(fault="inverted-ratio", strength=0.1, log_evalue=20.0),),
        not_refuted=("rounded-q",),
        beta=1e-3,
        best=None,
        explains=None,
    )
    passed = replace(STARVED, verdict="PASS", sampled=replace(STARVED.sampled, faults=faults))
    assert "refutes 1 of 2 named faults" in words(passed)
    assert "fits best" not in words(passed)
    best = replace(
        faults,
        best=FaultAtStrength(fault="wrong-bonus-row", strength=1.0, log_evalue=None),
        explains=0.97,
    )
    place = Suspect(part="bonus", position=3, why="the bonus slot alone deviates")
    failed = replace(
        passed,
        verdict="FAIL",
        sampled=replace(STARVED.sampled, faults=best, localisation=place),
        findings=(finding("tests", "transitions: p = 1e-12"),),
    )
    assert all(len(line) <= 80 for line in audit_lines(failed))
    assert "localised: bonus; the bonus slot alone deviates" in words(failed)
    assert "fits best: wrong-bonus-row at strength 1, which explains 97%" in words(failed)


def failed(part, fault=None, explains=None, **changes):
    """A sampled failure that points at ``part`` and looks like ``fault``."""
    best = fault and FaultAtStrength(fault=fault, strength=1.0, log_evalue=40.0)
    faults = NamedFaults(refuted=(), not_refuted=(), beta=1e-3, best=best, explains=explains)
    rejected = finding("tests", "compact, gamma=3: named faults, at any time: p = 1e-9")
    tier = replace(
        STARVED.sampled,
        faults=faults,
        findings=(rejected,),
        localisation=Suspect(part=part, position=None, why="as the tests say"),
    )
    run = replace(STARVED, verdict="FAIL", sampled=tier, findings=(rejected,))
    return replace(run, **changes)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            failed("residual", "one-hot-residual", 0.97),
            "its output does not follow the target model: the token that it draws after a "
            "rejection does not follow the target. It looks like the fault one-hot-residual "
            "(simverify faults).",
        ),
        (
            failed("bonus"),
            "its output does not follow the target model: the bonus token, drawn when every draft "
            "token is accepted, does not follow the target.",
        ),
        (
            failed("accept", "lenient(0.9)", 0.3),
            "its output does not follow the target model: it accepts draft tokens otherwise than a "
            "lossless rule may.",
        ),
        (
            failed("random stream"),
            "its calls, or rows of a batch, depend on each other, although each alone follows the "
            "target model.",
        ),
        (
            failed(None),
            "its output does not follow the target model; no part of it alone explains that.",
        ),
        (
            failed(
                None,
                sampled=None,
                findings=(finding("process", "hangs: no answer for 30 s, in a first call"),),
            ),
            "hangs: no answer for 30 s, in a first call.",
        ),
        (
            failed(
                None,
                sampled=None,
                findings=(finding("probe", "probe u = 0: emitted token 9"),),
                probes=(Probe(name="u = 0", outcome="violation", message="emitted token 9"),),
            ),
            "it fails 1 edge probe: emitted token 9.",
        ),
    ],
)
def test_a_failure_begins_with_words_and_not_with_the_names_of_tests(run, said):
    assert audit_ruling(run) == f"Do not ship it: {said}"
    assert "named faults, at any time" not in audit_ruling(run)
    if run.sampled is not None:
        text = words(run)
        assert text.index(said[1:]) < text.index("What failed: ")


@pytest.mark.parametrize("part", sorted({*PARTS.values()}))
def test_every_part_that_tests_point_at_has_words(part):
    assert len(audit_ruling(failed(part, "a-fault", 0.9))) > 80
