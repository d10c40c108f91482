"""Comparisons whose drafts run layers in groups, with numbers that are easily followed."""

from msgspec.structs import replace
from support.pages.report_runs import real_run

from simverify.drafting import layer_groups
from simverify.results import (
    DraftAcceptance,
    Drafter,
    DraftingTime,
    Expected,
    LayerParallel,
    LayerSimilarity,
    Loss,
    OnDevices,
)

LAYERS, WIDTHS = 8, (1, 2, 4)
PLAIN = {1: 2.0, 2: 2.5, 4: 2.8}
KEPT = {True: 0.95, False: 0.75}
"""Share of plain drafts' tokens, with calibration and without."""


def grouped_run(numbers=(1, 2, 4), *, calibration=True, workers=1, name="little 0"):
    """Token, block and greedy on one pair that drafts in groups of each of ``numbers`` layers."""
    run = real_run()
    without = "" if calibration else ", no-calibration"
    names = {number: f"{name} easyspec({number}{without})" for number in numbers}
    return replace(
        run,
        models=tuple(
            replace(
                run.models[0], name=names[number], given=None,
                draft_distance=None, temperature=None,
                drafter=Drafter(name="easyspec", layer_parallel=number, calibration=calibration),
            )
            for number in numbers
        ),
        results=tuple(
            replace(row, model=names[number]) for number in numbers for row in run.results
        ),
        layer_parallel=tuple(_entry(number) for number in numbers),
        meta=replace(
            run.meta,
            timings=tuple(
                replace(timing, model=names[number])
                for number in numbers
                for timing in run.meta.timings
            ),
            latencies=tuple(
                replace(found, model=names[number])
                for number in numbers
                for found in run.meta.latencies
            ),
            drafting=tuple(_time(number, run.gamma, workers) for number in numbers),
        ),
    )  # fmt: skip


def _entry(number):
    groups = tuple(map(tuple, layer_groups(LAYERS, number)))
    first = {group[0] for group in groups}
    acceptance = [_accepted(width, None, PLAIN[width], 500, None) for width in WIDTHS]
    if number > 1:
        acceptance += [
            _accepted(width, calibrated, kept * PLAIN[width], 600,
                      Loss(mean=1 - kept, ci_low=0.95 - kept, ci_high=1.05 - kept))
            for calibrated, kept in KEPT.items()
            for width in WIDTHS
        ]  # fmt: skip
    layers = tuple(
        LayerSimilarity(
            layer=layer,
            **dict.fromkeys(("hidden", "attention", "q", "k", "v"), 1.0 if layer in first else 0.9),
        )
        for layer in range(LAYERS)
    )
    return LayerParallel(
        layer_parallel=number, groups=groups, layers=layers, acceptance=tuple(acceptance)
    )


def _accepted(width, calibration, middle, blocks, loss):
    bounds = Expected(
        exact=None, fraction=None, lower=middle - 0.1, upper=middle + 0.1, method="rao-blackwell",
        confidence=0.999,
    )  # fmt: skip
    return DraftAcceptance(
        width=width, calibration=calibration, expected_accepted=bounds, blocks=blocks, loss=loss
    )


def _time(number, gamma, workers):
    """A pass takes 10 ms; one in groups of 2 takes 20 ms, others as long as it."""
    size = 1 if number == 1 else min(number, 4)
    return DraftingTime(
        layer_parallel=number, attention=1e-3, mlp=5e-5, group=size * 1e-3, group_size=size,
        workers=min(workers, size), exact_pass=0.01, fuzzy_pass=0.02 if number == 2 else 0.01,
        rest=1.6e-3, added=2e-4 if workers > 1 else 0.0,
        predicted=tuple(
            OnDevices(devices=devices, iteration=gamma * 0.01 / speed, per_token=0.01 / speed,
                      speed_up=speed)
            for devices, grouped in ((1, 1.0), (2, 1.25), (4, 1.5), (8, 1.75))
            for speed in [grouped if size > 1 else 1.0]
        ),
        per_token=2e-3, share=0.625, tokens_per_second=123.4,
    )  # fmt: skip
