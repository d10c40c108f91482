"""Runs on real models: E[tau] alone is tested, with the error over lanes."""

from msgspec.structs import replace
from support.pages.report_runs import real_run

from simverify.baselines.check import check_baseline


def moved(run, by, width):
    rows = tuple(
        replace(
            row,
            measured=replace(
                row.measured, mean=3.0 + by, ci_low=3.0 + by - width, ci_high=3.0 + by + width
            ),
        )
        for row in run.results
    )
    return replace(run, results=rows, decoding=replace(run.decoding, lanes=64))


def test_the_mean_is_tested_and_no_level_is():
    run = real_run()
    old = moved(run, 0.0, 0.01)
    assert check_baseline(old, moved(run, 0.002, 0.01)).verdict == "PASS"
    worse = check_baseline(old, moved(run, -0.1, 0.01))
    assert worse.verdict == "FAIL"
    assert {item.what for item in worse.of("worse")} == {"E[tau], measured"}
    short = check_baseline(old, moved(run, -0.1, 0.5))
    assert short.verdict == "INCONCLUSIVE"
    assert short.blocks is not None


def test_too_few_lanes_tell_nothing():
    run = moved(real_run(), 0.0, 0.01)
    few = replace(run, decoding=replace(run.decoding, lanes=2))
    assert check_baseline(few, few).verdict == "INCONCLUSIVE"
