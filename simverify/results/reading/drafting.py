"""What goes together in a comparison of ways to draft: names, groups of layers, losses, times."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from simverify.results import (
    CompareRun,
    DraftAcceptance,
    DraftingTime,
    LayerParallel,
    LayerSimilarity,
    Loss,
    ModelInfo,
)

_ROUNDING = 1e-6

GROUPED = "easyspec"
"""The drafter whose layers run in groups."""


def drafting_complaints(run: CompareRun) -> Iterator[str]:
    """Name each field about drafters, groups of layers and their times that fits nothing else."""
    for i, model in enumerate(run.models):
        yield from _drafter(run, model, f"models[{i}].drafter")
    recorded = None if run.decoding is None else run.decoding.drafter
    if recorded is not None and not _of_trace(run):
        yield "decoding.drafter stands beside no trace: expected null"
    if run.layer_parallel and run.decoding is None:
        yield "layer_parallel stands beside simulated models: expected it empty"
    numbers = [entry.layer_parallel for entry in run.layer_parallel]
    of_models = [m.drafter.layer_parallel for m in run.models if m.drafter is not None]
    for i, entry in enumerate(run.layer_parallel):
        where = f"layer_parallel[{i}]"
        if entry.layer_parallel in numbers[:i]:
            yield f"{where}.layer_parallel is {entry.layer_parallel} again: expected each N once"
        if entry.layer_parallel not in of_models:
            yield (
                f"{where}.layer_parallel is {entry.layer_parallel}: expected that of a drafter in "
                "models"
            )
        yield from _groups(entry, where)
        for k, layer in enumerate(entry.layers):
            yield from _similarity(layer, k, f"{where}.layers[{k}]")
        yield from _acceptance(entry.acceptance, run.gamma, f"{where}.acceptance")
        if _plain(entry) != _plain(run.layer_parallel[0]):
            yield f"{where}.acceptance has other plain drafts than layer_parallel[0]: expected them"
    timed = [time.layer_parallel for time in run.meta.drafting]
    if timed != numbers:
        yield f"meta.drafting is of N = {timed}: expected {numbers}, as layer_parallel"
    for i, time in enumerate(run.meta.drafting):
        yield from _times(time, run.gamma, f"meta.drafting[{i}]")


def _drafter(run: CompareRun, model: ModelInfo, where: str) -> Iterator[str]:
    found = model.drafter
    if found is None:
        return
    if run.decoding is None:
        yield f"{where} stands beside simulated models: expected null"
    for name in ("layer_parallel", "calibration"):
        value = getattr(found, name)
        if (value is None) == (found.name == GROUPED):
            shown = msgspec.json.encode(value).decode()
            due = f"expected it of {GROUPED}, and of that alone"
            yield f"{where}.{name} is {shown} for {found.name!r}: {due}"
    if run.decoding is not None and _of_trace(run):
        if found != run.decoding.drafter:
            yield f"{where} is not decoding.drafter: expected the recording's"
        return
    numbers = [entry.layer_parallel for entry in run.layer_parallel]
    if found.layer_parallel is not None and found.layer_parallel not in numbers:
        yield f"{where}.layer_parallel is {found.layer_parallel}, which is not in layer_parallel"


def _of_trace(run: CompareRun) -> bool:
    return run.decoding is not None and run.decoding.trace is not None


def _groups(entry: LayerParallel, where: str) -> Iterator[str]:
    """Every layer stands in one group, in order, and no group has more than N."""
    layers = [layer for group in entry.groups for layer in group]
    if not entry.layers:
        yield f"{where}.layers is empty: expected one or more"
    elif layers != list(range(len(entry.layers))):
        yield (
            f"{where}.groups holds the layers {layers}: expected 0 to {len(entry.layers) - 1}, "
            "each once and in order, as layers"
        )
    for k, group in enumerate(entry.groups):
        if not 1 <= len(group) <= entry.layer_parallel:
            yield (
                f"{where}.groups[{k}] has {len(group)} layers: expected 1 to "
                f"{entry.layer_parallel}, as layer_parallel"
            )


def _similarity(layer: LayerSimilarity, place: int, where: str) -> Iterator[str]:
    if layer.layer != place:
        yield f"{where}.layer is {layer.layer}: expected {place}, its place"
    for name in ("hidden", "attention", "q", "k", "v"):
        value = getattr(layer, name)
        if not -1.0 - _ROUNDING <= value <= 1.0 + _ROUNDING:
            yield f"{where}.{name} is {value:g}: expected -1 to 1"


def _acceptance(found: Sequence[DraftAcceptance], gamma: int, where: str) -> Iterator[str]:
    plain = {one.width: one for one in found if one.calibration is None}
    if not plain:
        yield f"{where} has no plain drafts: expected those of every width"
    seen = set()
    for k, one in enumerate(found):
        here, key = f"{where}[{k}]", (one.width, one.calibration)
        if key in seen:
            yield f"{here} has the width and the calibration of one before it: expected each once"
        seen.add(key)
        kept = one.expected_accepted
        # Of few lanes an interval may end above gamma.
        if not 0.0 <= kept.lower <= min(kept.upper, gamma):
            yield (
                f"{here}.expected_accepted is {kept.lower:g} to {kept.upper:g}: expected bounds in "
                f"order, the lower of 0 to {gamma}"
            )
        if one.calibration is None:
            if one.loss is not None:
                yield f"{here}.loss stands beside plain drafts: expected null"
        elif one.width not in plain:
            yield f"{here}.width is {one.width}, of which there are no plain drafts"
        elif one.loss is not None:
            yield from _loss(one.loss, one, plain[one.width], f"{here}.loss")
        elif plain[one.width].expected_accepted.lower > 0.0:
            yield f"{here}.loss is null: expected it, against plain drafts as wide"
    calibrations = {one.calibration for one in found}
    if len(seen) < len(plain) * len(calibrations):
        yield f"{where} lacks a width with or without calibration: expected all of them of each"


def _loss(loss: Loss, one: DraftAcceptance, plain: DraftAcceptance, where: str) -> Iterator[str]:
    if not loss.ci_low <= loss.mean <= loss.ci_high:
        yield (
            f"{where}.mean is {loss.mean:g}: expected {loss.ci_low:g} to {loss.ci_high:g}, its "
            "interval"
        )
    own, of_plain = one.expected_accepted, plain.expected_accepted
    # Where a bound was cut off at 0 the mean is not in the middle.
    if own.lower > 0.0 and of_plain.lower > 0.0:
        due = 1.0 - (own.lower + own.upper) / (of_plain.lower + of_plain.upper)
        if abs(loss.mean - due) > _ROUNDING * max(1.0, abs(due)):
            yield f"{where}.mean is {loss.mean:g}: expected {due:g}, by expected_accepted"


def _times(time: DraftingTime, gamma: int, where: str) -> Iterator[str]:
    for name in ("attention", "mlp", "group", "exact_pass", "fuzzy_pass", "rest", "added",
                 "per_token", "tokens_per_second"):  # fmt: skip
        value = getattr(time, name)
        if value < 0.0:
            yield f"{where}.{name} is {value:g}: expected 0 or more"
    if not 0.0 <= time.share <= 1.0 + _ROUNDING:
        yield f"{where}.share is {time.share:g}: expected 0 to 1"
    if not 1 <= time.workers <= time.group_size <= time.layer_parallel:
        yield (
            f"{where} has workers, group_size and layer_parallel of {time.workers}, "
            f"{time.group_size} and {time.layer_parallel}: expected 1 or more, in this order"
        )
    if any(one.devices >= two.devices for one, two in pairwise(time.predicted)):
        yield f"{where}.predicted names devices out of order, or twice"
    for k, on in enumerate(time.predicted):
        here = f"{where}.predicted[{k}]"
        if on.devices < 1 or on.speed_up <= 0.0 or on.iteration < 0.0:
            yield f"{here} has a number below 1 device, or a time or speed that is negative"
        if abs(on.per_token * gamma - on.iteration) > _ROUNDING * abs(on.iteration):
            due = on.iteration / gamma
            yield f"{here}.per_token is {on.per_token:g}: expected {due:g}, by iteration"


def _plain(entry: LayerParallel) -> list[DraftAcceptance]:
    return [one for one in entry.acceptance if one.calibration is None]
