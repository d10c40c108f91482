"""The words for an audit's result: what must be in them, and how wide they are."""

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from simverify.reports.failure import failure_lines, verdict_lines
from simverify.results import (
    AuditRun,
    Certificate,
    Counterexample,
    Diagnosis,
    ExactInstance,
    FaultAtStrength,
    Instance,
    Localisation,
    Meta,
    NamedFaults,
    Probe,
    SampledModel,
    SampledTier,
    Suspect,
)

META = Meta(
    version="0", started="", seconds=0.0, machine="", python="", threads=1, timings=()
)  # fmt: skip

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
    findings=("the exact law on found differs",),
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
    return " ".join(" ".join(failure_lines(run)).split())


def probe(name, outcome, message):
    return Probe(name=name, outcome=outcome, message=message)


def test_a_failure_says_all_of_it():
    text = words(FAILED)
    for part in (
        "FAIL my_sampler.py:verify: verify contract, gamma up to 4, V up to 5, seed 7",
        "1,234 paths",
        "Smallest counterexample: V = 3, gamma = 1",
        "after no token | 1: p = 1/3, 1/3, 1/3 q = 0, 0, 1",
        "after 0 | 2: p = 1/2, 1/2, 0 q = 0.25, 0.25, 0.5",
        "An output beginning 0, 1 has probability 1/4 = 0.25; it should have 1/9 = 0.1111.",
        "first at output token 1, the token drawn after a rejection",
        "TV of the whole output 1/6 = 0.1667",
        "that of the fault reused-uniform",
        "the exact law on found differs",
    ):
        assert part in text
    assert text.endswith(f"To reproduce: {FAILED.reproduce}")


def test_a_pass_says_what_it_rests_on_and_refutes():
    assert verdict_lines(PASSED) == failure_lines(PASSED)
    text = words(PASSED)
    assert "exact on 1 instance, 1,234 paths: largest deviation 2e-16" in text
    assert "refutes the faults wrong-bonus-row, naive-block" in text


def test_notes_follow_the_verdict():
    run = replace(PASSED, notes=("accepts less than the optimum", "prints: 12 bytes"))
    assert verdict_lines(run)[-2:] == [
        "note: accepts less than the optimum",
        "note: prints: 12 bytes",
    ]


def test_code_that_took_its_process_down_has_no_law():
    run = replace(FAILED, instances=(), paths=0, counterexample=None, findings=("ends it",))
    text = words(run)
    assert "no law was computed: the code did not get so far" in text
    assert "not followed" not in text


def test_what_comes_before_and_ends_a_generation_is_said():
    instance = replace(COUNTEREXAMPLE.instance, earlier_calls=2, eos=1)
    text = words(replace(FAILED, counterexample=replace(COUNTEREXAMPLE, instance=instance)))
    assert "Another generation, of 2 calls at most, comes first; then reset()." in text
    assert "Token 1 ends a generation: what follows it is dropped." in text
    assert "generation" not in words(FAILED)


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
    assert head.endswith("sampled on V=3 gamma=3, V=12 gamma=1, nothing beyond, seed 7 ")
    assert "gamma up to" not in text
    assert "asked against 0.01, TV at most 0.0081; on V=12 gamma=1: " in rest
    assert "TV at most 0.024; nothing beyond; the bounds hold but for 0.001" in rest


def test_whole_batches_of_code_that_was_followed_keep_the_sizes_of_the_exact_tier():
    batched = replace(PASSED, tier="sampled", sampled=STARVED.sampled)
    text = words(batched)
    assert "gamma up to 4, V up to 5" in text
    assert "on V=3 gamma=3: power 0.9" in text


@pytest.mark.parametrize(
    ("distance", "said"),
    [
        (0.0, "Its law there is that of the fault reused-uniform"),
        (1e-3, "looks like the fault reused-uniform (simverify faults): the two laws differ by TV"),
        (0.16, "The nearest is reused-uniform: the two laws differ by TV 0.16, there or on a"),
    ],
)
def test_a_fault_is_named_by_how_near_it_is(distance, said):
    diagnosis = (Diagnosis(fault="reused-uniform", distance=distance),)
    assert said in words(replace(FAILED, diagnosis=diagnosis))


def test_probes_with_one_message_share_a_line_and_are_not_told_twice():
    probes = (
        probe("u = 0", "violation", "raised ValueError: boom"),
        probe("p = q", "violation", "raised ValueError: boom"),
        probe("zero rows", "warning", "emitted token 2"),
        probe("inputs", "ok", "bytes compared"),
    )
    told = ("probe u = 0: raised ValueError: boom", "probe p = q: raised ValueError: boom")
    text = words(replace(FAILED, probes=probes, findings=(*told, "too-many: 9 tokens")))
    assert text.count("boom") == 1
    # Where nothing else failed they are what failed.
    alone = words(replace(FAILED, probes=probes, findings=told))
    assert "What failed: probe u = 0: raised ValueError: boom" in alone
    assert "violation: raised ValueError: boom (u = 0, p = q)" in text
    assert "warning: emitted token 2 (zero rows)" in text
    assert "What failed: too-many: 9 tokens" in text
    assert "bytes compared" not in text


def test_a_warning_that_failed_under_strict_probes_says_so():
    probes = (probe("u = 0", "warning", "accepted p = 0"),)
    strict = replace(FAILED, probes=probes, findings=("probe u = 0: accepted p = 0",))
    assert "warning, strict: accepted p = 0" in words(strict)


def test_many_prefixes_end_in_a_count():
    names = ["", *map(str, range(400))]
    rows = dict.fromkeys(names, ("1/2", "1/2"))
    other = {**rows, "399": ("1", "0")}
    instance = replace(COUNTEREXAMPLE.instance, target_probs=rows, draft_probs=other)
    run = replace(FAILED, counterexample=replace(COUNTEREXAMPLE, instance=instance))
    line = next(line for line in failure_lines(run) if "more:" in line)
    shown, _, rest = line.strip().removeprefix("after ").rpartition(" | ")
    assert len(shown.split(" | ")) + int(rest.removesuffix(" more:")) == 400
    assert len(line) <= 80


@pytest.mark.parametrize("value", [0.0, 1.0, 1 / 3, 0.123456789, 1e-9, 7 / 9973])
def test_fractions_are_shown_only_where_they_are_exact(value):
    found = replace(COUNTEREXAMPLE, probability_emitted=value)
    text = words(replace(FAILED, counterexample=found))
    shown = text.partition("has probability ")[2].partition(";")[0]
    fraction, equals, decimal = shown.partition(" = ")
    assert bool(equals) == (value in (1 / 3, 7 / 9973))
    assert float(decimal or fraction) == pytest.approx(value, rel=1e-3)
    if equals:
        top, bottom = map(int, fraction.split("/"))
        assert top / bottom == pytest.approx(value, rel=1e-12)


@given(
    spec=st.text(max_size=60),
    message=st.text(max_size=300),
    paths=st.integers(0, 10**12),
    path=st.from_regex(r"[a-z/ '\"]{1,70}\.py:verify", fullmatch=True),
)
@settings(max_examples=60, deadline=None, database=None)
def test_lines_fit_and_cannot_move_the_cursor(spec, message, paths, path):
    command = shlex.join(["simverify", "audit", path, "--contract", "verify", "--seed", "7"])
    run = replace(
        FAILED,
        spec=spec,
        findings=(message,),
        probes=(probe(message, "violation", message),),
        paths=paths,
        not_enumerable=message,
        reproduce=command,
    )
    lines = failure_lines(run)
    assert all(line.isprintable() for line in lines)
    start = lines.index("To reproduce:")
    assert all(len(line) <= 80 for line in lines[:start])
    joined = "\n".join(lines[start + 1 :]).replace("\\\n", " ")
    assert shlex.split(joined) == shlex.split(command)


def test_a_broken_quotation_in_a_command_is_shown_as_it_is():
    run = replace(FAILED, reproduce="simverify audit it's.py:verify")
    assert failure_lines(run)[-1] == "  simverify audit it's.py:verify"


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
        findings=("transitions: p = 1e-12",),
    )
    assert all(len(line) <= 80 for line in failure_lines(failed))
    assert "localised: bonus; the bonus slot alone deviates" in words(failed)
    assert "fits best: wrong-bonus-row at strength 1, which explains 97%" in words(failed)


def test_ten_million_characters_are_cut_and_counted():
    text = words(replace(FAILED, notes=("x" * 10_000_000,)))
    assert len(text) < 20_000
    assert "... (10,000,006 characters)" in text
