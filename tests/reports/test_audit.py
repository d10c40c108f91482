"""The words for an audit's result: what must be in them, and how wide they are."""

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.audit_runs import COUNTEREXAMPLE, FAILED, PASSED, SAMPLED_ON, STARVED, finding, words

from simverify.battery.battery import PART_OF_FAULT
from simverify.reports.audit import audit_advice
from simverify.results import (
    Certificate,
    ClockStop,
    Diagnosis,
    FaultAtStrength,
    NamedFaults,
    Probe,
    Suspect,
)


def probe(name, outcome, message, **more):
    return Probe(name=name, outcome=outcome, message=message, **more)


def test_a_failure_says_all_of_it():
    text = words(FAILED)
    for part in (
        "FAIL: my_sampler.py:verify does not emit the target's distribution.",
        "Checked: verify contract, gamma up to 4, V up to 5, seed 7",
        "1,234 paths",
        "Smallest counterexample: V = 3, gamma = 1",
        "after no token | 1: p = 1/3, 1/3, 1/3 q = 0, 0, 1",
        "after 0 | 2: p = 1/2, 1/2, 0 q = 0.25, 0.25, 0.5",
        "An output beginning 0, 1 has probability 1/4 = 0.25; it should have 1/9 = 0.1111.",
        "first at output token 1, the token drawn after a rejection",
        "TV of the whole output 1/6 = 0.1667",
        "that of the fault reused-uniform",
        "the exact distribution on found differs",
    ):
        assert part in text
    assert text.endswith(f"To reproduce: {FAILED.reproduce}")


def test_a_pass_says_what_it_rests_on_and_refutes():
    text = words(PASSED)
    assert "Exact: 1 instance, 1,234 paths: largest deviation 2e-16" in text
    assert "Refuted: the faults wrong-bonus-row, naive-block" in text


def test_what_is_left_out_is_no_deviation_above_the_tolerance():
    name = PASSED.instances[0]
    cut = replace(name, name="cut", max_abs_deviation=2.7e-7, left_out=2.6e-7)
    text = words(replace(PASSED, instances=(name, cut)))
    assert "2 instances, 1,234 paths: largest deviation 2e-16, tolerance 1e-09" in text
    assert "on 1 of them the lightest paths are left out" in text
    assert "no output is off by more than 2.7e-07 (1e-06 is allowed)" in text
    text = words(replace(PASSED, instances=(cut, cut)))
    assert "largest deviation" not in text
    assert "on each of them the lightest paths are left out" in text
    assert "left out" not in words(PASSED)
    failed = replace(FAILED, instances=(replace(cut, failed=True),))
    assert "largest deviation 2.7e-07, tolerance 1e-09" in words(failed)


def test_a_verdict_that_the_clock_had_a_part_in_says_so():
    stop = ClockStop(seconds=60.0, judged=35, instances=64, next="plain, V=5, gamma=2")
    said = "stopped by the clock after 60 s, 35 of 64 instances"
    text = words(replace(PASSED, stopped=stop))
    assert f"{said}: lossless on those 35; the next is plain, V=5, gamma=2" in text
    ruling = audit_advice(replace(PASSED, stopped=stop))
    assert ruling.startswith("Lossless on the 35 of 64 instances that there was time for")
    assert said in words(replace(FAILED, stopped=stop))
    assert "lossless on those" not in words(replace(FAILED, stopped=stop))
    for run in (PASSED, FAILED):
        assert "clock" not in words(run)


def test_the_first_sentence_of_a_pass_says_what_it_covers():
    def first(run):
        return words(run).partition(" Checked:")[0]

    stop = ClockStop(seconds=60.0, judged=35, instances=64, next="plain, V=5, gamma=2")
    stopped = first(replace(PASSED, stopped=stop))
    assert stopped.endswith("on 35 of 64 instances; the time limit ended it.")
    assert "exactly" not in stopped
    count = len(PASSED.instances)
    assert f"on {count} of {count + 3} instances" in first(replace(PASSED, left_out=3))
    assert first(PASSED).endswith("emits exactly the target's distribution.")


def test_notes_follow_the_verdict():
    run = replace(PASSED, notes=("accepts less than the optimum", "prints: 12 bytes"))
    assert run.as_text(verbose=True).splitlines()[-3:] == [
        "Notes:",
        "  accepts less than the optimum",
        "  prints: 12 bytes",
    ]


def test_code_that_took_its_process_down_has_no_law():
    run = replace(
        FAILED,
        instances=(),
        paths=0,
        counterexample=None,
        findings=(finding("process", "ends it"),),
    )
    text = words(run)
    assert "no distribution was computed: the code did not get that far" in text
    assert "not followed" not in text


def test_what_comes_before_and_ends_a_generation_is_said():
    instance = replace(COUNTEREXAMPLE.instance, earlier_calls=2, eos=1)
    text = words(replace(FAILED, counterexample=replace(COUNTEREXAMPLE, instance=instance)))
    assert "Another generation, of 2 calls at most, comes first; then reset()." in text
    assert "Token 1 ends a generation: what follows it is dropped." in text
    assert "generation" not in words(FAILED)


@pytest.mark.parametrize(
    ("distance", "said"),
    [
        (0.0, "Its distribution there equals that of the fault reused-uniform"),
        (
            1e-3,
            "looks like the fault reused-uniform (simverify faults): the two distributions differ",
        ),
        (
            0.05,
            "The nearest is reused-uniform: the two distributions differ by TV 0.05, there or on a",
        ),
        (0.16, "none of the catalogued faults. To reproduce:"),
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
    told = tuple(
        finding("probe", f"probe {name}: raised ValueError: boom") for name in ("u = 0", "p = q")
    )
    text = words(
        replace(FAILED, probes=probes, findings=(*told, finding("contract", "too-many: 9 tokens")))
    )
    assert text.count("boom") == 1
    # Where nothing else failed they are what failed.
    alone = words(replace(FAILED, probes=probes, findings=told))
    assert "What failed: probe u = 0: raised ValueError: boom" in alone
    assert "violation: raised ValueError: boom (u = 0, p = q)" in text
    assert "warning: emitted token 2 (zero rows)" in text
    assert "What failed: too-many: 9 tokens" in text
    assert "bytes compared" not in text


def test_a_warning_that_failed_under_strict_probes_says_so():
    probes = (probe("u = 0", "warning", "accepted p = 0", failed=True),)
    strict = replace(
        FAILED, probes=probes, findings=(finding("probe", "probe u = 0: accepted p = 0"),)
    )
    assert "warning, strict: accepted p = 0" in words(strict)


def test_many_prefixes_end_in_a_count():
    names = ["", *map(str, range(400))]
    rows = dict.fromkeys(names, ("1/2", "1/2"))
    other = {**rows, "399": ("1", "0")}
    instance = replace(COUNTEREXAMPLE.instance, target_probs=rows, draft_probs=other)
    run = replace(FAILED, counterexample=replace(COUNTEREXAMPLE, instance=instance))
    line = next(line for line in str(run).splitlines() if "more:" in line)
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
        findings=(finding("contract", message),),
        probes=(probe(message, "violation", message),),
        paths=paths,
        not_enumerable=message,
        reproduce=command,
    )
    lines = str(run).splitlines()
    assert all(line.isprintable() for line in lines)
    start = lines.index("To reproduce:")
    assert all(len(line) <= 80 for line in lines[:start])
    joined = "\n".join(lines[start + 1 :]).replace("\\\n", " ")
    assert shlex.split(joined) == shlex.split(command)


def test_a_broken_quotation_in_a_command_is_shown_as_it_is():
    run = replace(FAILED, reproduce="simverify audit it's.py:verify")
    assert str(run).splitlines()[-1] == "  simverify audit it's.py:verify"


def test_ten_million_characters_are_cut_and_counted():
    text = words(replace(FAILED, notes=("x" * 10_000_000,)))
    assert len(text) < 20_000
    assert "... (10,000,000 characters)" in text


@pytest.mark.parametrize("field", ["findings", "notes", "probes"])
def test_thousands_of_entries_are_cut_and_counted(field):
    entries = [f"entry {i} " + "x" * (i % 300) for i in range(5000)]
    if field == "findings":
        entries = [finding("contract", entry) for entry in entries]
    if field == "probes":
        entries = [probe(f"no {i}", "violation", entry) for i, entry in enumerate(entries)]
    lines = replace(FAILED, **{field: tuple(entries)}).as_text(verbose=True).splitlines()
    assert len(lines) < 300
    assert "entry 20 " in " ".join(lines)
    assert [line.strip() for line in lines if "stand in the run file" in line] == [
        f"{5000 - sum('entry' in line for line in lines):,} more stand in the run file"
    ]


def test_thousands_of_rows_are_cut_and_counted():
    rows = {str(i): (i / 1000, 1 - i / 1000) for i in range(1000)}
    instance = replace(COUNTEREXAMPLE.instance, target_probs=rows, draft_probs=rows)
    run = replace(FAILED, counterexample=replace(COUNTEREXAMPLE, instance=instance))
    lines = str(run).splitlines()
    assert "  900 more rows stand in the run file" in lines
    assert len(lines) < 400


def test_the_short_answer_counts_faults_and_notes():
    run = replace(PASSED, notes=("one", "two", "three", "four"))
    short, long = (run.as_text(verbose=verbose).splitlines() for verbose in (False, True))
    assert "Refuted: 2 named faults (simverify faults)" in short
    assert short[-4:] == ["Notes:", "  one", "  two", "  2 notes more: see --verbose"]
    assert long[-5:] == ["Notes:", "  one", "  two", "  three", "  four"]


# The words for what an audit's sampled tier found.


def test_an_inconclusive_run_says_what_could_not_be_followed_and_what_was_reached():
    text = words(STARVED)
    assert "Not followed exactly: cannot follow bytes() of a generator at my_sampler.py:15" in text
    assert "500 calls" in text
    assert "On V=3 gamma=3: power 0.9 against TV 0.034 or more, asked against 0.01" in text
    assert "On V=12 gamma=1: power 0.9 against TV 0.055 or more, asked against 0.03" in text
    assert "No verdict: the budget ends in the pilot." in text
    nothing = [replace(x, detectable=None) for x in SAMPLED_ON]
    unseen = replace(STARVED, sampled=replace(STARVED.sampled, instances=nothing))
    assert "power 0.9 against no TV yet" in words(unseen)


def test_a_sampled_verdict_claims_no_size_that_was_not_sampled():
    bounds = (0.0081, 0.024)
    models = [replace(x, bound=b) for x, b in zip(SAMPLED_ON, bounds, strict=True)]
    bound = Certificate(bound=0.024, delta=1e-3, method="plug-in", assumption=None)
    tier = replace(STARVED.sampled, instances=models, certificate=bound)
    text = words(replace(STARVED, verdict="PASS", sampled=tier))
    head, rest = text.split("Not followed exactly", 1)
    assert head.endswith("sampled on V=3 gamma=3, V=12 gamma=1 only, seed 7 ")
    assert "gamma up to" not in text
    assert "asked against 0.01, TV at most 0.0081 On V=12 gamma=1: " in rest
    assert "TV at most 0.024, but for a probability of 0.001 (plug-in)" in rest


def test_one_instance_is_named():
    (only, *_) = SAMPLED_ON
    tier = replace(STARVED.sampled, instances=[replace(only, name="trace of a pair")])
    run = replace(STARVED, verdict="PASS", sampled=tier)
    assert "sampled on trace of a pair alone (V=3 gamma=3), seed 7" in words(run)
    assert "on trace of a pair (error rates below): this run" in audit_advice(run)


def test_whole_batches_of_code_that_was_followed_keep_the_sizes_of_the_exact_tier():
    batched = replace(PASSED, tier="sampled", sampled=STARVED.sampled)
    text = words(batched)
    assert "gamma up to 4, V up to 5" in text
    assert "On V=3 gamma=3: power 0.9" in text


def test_sampled_tests_say_what_they_refute_and_where_they_point():
    faults = NamedFaults(
        refuted=(FaultAtStrength(fault="inverted-ratio", strength=0.1, log_evalue=20.0),),
        not_refuted=("rounded-q",),
        beta=1e-3,
        best=None,
        explains=None,
    )
    passed = replace(STARVED, verdict="PASS", sampled=replace(STARVED.sampled, faults=faults))
    assert "Refuted: 1 of 2 named faults" in words(passed)
    assert "Fits best" not in words(passed)
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
    assert all(len(line) <= 80 for line in str(failed).splitlines())
    assert "Localised: bonus; the bonus slot alone deviates" in words(failed)
    assert "Fits best: wrong-bonus-row at strength 1, which explains 97%" in words(failed)


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
    assert audit_advice(run) == f"Do not ship it: {said}"
    assert "named faults, at any time" not in audit_advice(run)
    if run.sampled is not None:
        text = words(run)
        assert text.index(said[1:]) < text.index("What failed: ")


@pytest.mark.parametrize("part", sorted({*PART_OF_FAULT.values()}))
def test_every_part_that_tests_point_at_has_words(part):
    assert len(audit_advice(failed(part, "a-fault", 0.9))) > 80
