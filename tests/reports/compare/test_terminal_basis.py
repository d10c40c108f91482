"""What the lines below a comparison's table say that it rests on."""

import pytest
from msgspec.structs import replace
from support.pages.printed import assert_fits, every, flat, shown, small_comparison

from simverify.results import Certificate, FaultAtStrength, Power, Suspect


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
    assert "not found at any size" in " ".join(shown(nothing).split())


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
    bounds = iter([0.001, 0.004, 0.002, 0.003, 0.0015] * 2)
    some = every(
        run,
        lambda row: replace(
            row,
            lossless=replace(
                row.lossless,
                certificate=Certificate(
                    bound=next(bounds), delta=1e-3, method="by hand", assumption="N is fixed"
                ),
            ),
        ),
    )
    words = "certified at 99.9%: mean one-token TV at most 0.0010 to 0.0040, if N is fixed"
    assert flat(some).count(words) == 2


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


def test_a_bound_is_certified_with_a_pass_alone(run):
    """The document holds none of a result that did not pass, so that nothing can show it."""
    for row in run.results:
        assert (row.lossless.certificate is not None) == (row.lossless.verdict == "PASS")
    assert "certified at" not in flat(run)


def test_an_interval_that_is_cut_off_says_its_ends(run):
    def measured(low, mean, high):
        return every(
            run,
            lambda row: replace(
                row, measured=replace(row.measured, ci_low=low, mean=mean, ci_high=high)
            ),
        )

    assert "1.0000±0.0100" in shown(measured(0.99, 1.0, 1.01))
    cut = shown(measured(0.0, 0.004, 0.021))
    assert "0.0000..0.0210" in cut
    assert "±" not in cut.split("coupling bound")[0]
    assert_fits(cut)
