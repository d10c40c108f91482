"""What the lines below a comparison's table say that it rests on."""

import pytest
from msgspec.structs import replace
from support.printed import assert_fits, every, flat, shown, small_comparison

from simverify.results import FaultAtStrength, Power, Suspect


@pytest.fixture(scope="module")
def run():
    return small_comparison()


def with_lossless(run, model, **changes):
    return every(
        run,
        lambda row: (
            replace(row, lossless=replace(row.lossless, **changes)) if row.model == model else row
        ),
    )


def test_what_is_undetectable_is_said(run):
    nothing = every(run, lambda row: replace(row, lossless=replace(row.lossless, detectable=None)))
    assert "power .9 for nothing" in " ".join(shown(nothing).split())


def test_one_promise_for_all_models_or_each_with_its_own(run):
    acceptance = "shift of a Pr(tau >= l) out of its bounds. FAIL"
    assert f"is INCONCLUSIVE: mean one-token TV; {acceptance}" in flat(run)
    partly = with_lossless(run, "toy", deviation="mean one-token TV, monotone in some order")
    assert (
        "Found with probability 0.9 from 0.01 on, or the verdict is INCONCLUSIVE: mean one-token "
        f"TV, monotone in some order (toy); mean one-token TV (markov-16); {acceptance}"
        in flat(partly)
    )


def test_the_power_is_that_of_the_weakest_and_says_of_what(run):
    sizes = iter([0.01, 0.03, 0.02] * 4)
    partly = every(
        run,
        lambda row: replace(
            row,
            lossless=replace(
                row.lossless,
                detectable=next(sizes),
                deviation="TV in some order",
                beside=(Power(deviation="TV between cells", detectable=0.25),),
            ),
        ),
    )
    assert flat(partly).count("TV in some order: power .9 from 0.0300 on") == 2
    assert flat(partly).count("beside it: TV between cells: power .9 from 0.2500 on") == 2


def test_certificates_stand_with_their_assumption(run):
    text = flat(run)
    for model in run.models:
        rows = [row.lossless.certificate for row in run.results if row.model == model.name]
        for assumption in {row.assumption for row in rows}:
            bounds = [f"{row.bound:.4f}" for row in rows if row.assumption == assumption]
            low, high = min(bounds), max(bounds)
            size = low if low == high else f"{low} to {high}"
            assert f"certified at 99.9%: mean one-token TV at most {size}, if {assumption}" in text


def test_refuted_faults_are_counted_and_a_failure_is_localised(run):
    text = flat(run)
    counts = {
        f"{len(row.lossless.faults.refuted)} of "
        f"{len(row.lossless.faults.refuted) + len(row.lossless.faults.not_refuted)}"
        for row in run.results
    }
    assert "named faults refuted: token" in text
    assert all(count in text for count in counts)

    def change(row):
        faults = replace(
            row.lossless.faults,
            best=FaultAtStrength(fault="reused-uniform", strength=0.3, log_evalue=99.0),
            explains=0.914,
        )
        place = Suspect(part="random stream", position=1, why="reused-uniform explains it")
        lossless = replace(
            row.lossless, verdict="FAIL", findings=("p = 0",), faults=faults, localisation=place
        )
        return replace(row, verdict="FAIL", lossless=lossless)

    failed = every(run, change)
    assert_fits(shown(failed))
    text = flat(failed)
    assert "block: localised: random stream; reused-uniform explains it" in text
    assert (
        "block: fits best: reused-uniform at strength 0.3, which explains 91% of the deviation"
    ) in text
    none = every(
        run,
        lambda row: replace(
            row,
            lossless=replace(
                row.lossless,
                faults=None,
                localisation=Suspect(part=None, position=None, why="nothing alone explains it"),
            ),
        ),
    )
    assert "named faults refuted" not in flat(none)
    assert "block: not localised; nothing alone explains it" in flat(none)
