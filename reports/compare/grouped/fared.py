"""How drafts by layers in groups fared: a row for each N, and what must be known to read it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simverify.reports.words import listed
from simverify.results import CompareRun, DraftAcceptance, DraftingTime, LayerParallel


@dataclass(frozen=True)
class Fared:
    """Drafts in groups of ``number`` layers.

    ``calibrated``, ``without``: a single draft's acceptance, None where every layer stands alone
    and drafts are plain. ``time``: None where nothing was timed. ``here``: plain drafting of a
    block over drafting in groups, by the passes measured; above 1 where groups are faster.
    """

    number: int
    plain: DraftAcceptance
    calibrated: DraftAcceptance | None
    without: DraftAcceptance | None
    time: DraftingTime | None
    here: float | None


def in_groups(entry: LayerParallel) -> bool:
    """Return whether some layers of ``entry`` run at once."""
    return any(len(group) > 1 for group in entry.groups)


def fared(run: CompareRun) -> list[Fared]:
    """Return a row for each number of layers a group, in the order of the run."""
    times = {time.layer_parallel: time for time in run.meta.drafting}
    return [_row(entry, times.get(entry.layer_parallel), run.gamma) for entry in run.layer_parallel]


def _row(entry: LayerParallel, time: DraftingTime | None, gamma: int) -> Fared:
    narrow = min(found.width for found in entry.acceptance)
    by = {found.calibration: found for found in entry.acceptance if found.width == narrow}
    here = None
    if time is not None and in_groups(entry):
        drafting = time.exact_pass + (gamma - 1) * time.fuzzy_pass
        here = gamma * time.exact_pass / drafting if drafting > 0 else None
    return Fared(entry.layer_parallel, by[None], by.get(True), by.get(False), time, here)


def devices(run: CompareRun) -> list[int]:
    """Return the numbers of devices, above one, for which times are predicted."""
    found = {on.devices for time in run.meta.drafting for on in time.predicted}
    return sorted(count for count in found if count > 1)


def predicted(time: DraftingTime | None, count: int) -> float | None:
    """Return the predicted speed of drafting on ``count`` devices, over plain drafting's."""
    speeds = () if time is None else time.predicted
    return next((on.speed_up for on in speeds if on.devices == count), None)


def group_words(groups: Iterable[Sequence[int]]) -> str:
    """Return the layers of each group: 0 | 1-3 | 4-6 | 7."""
    return " | ".join(
        str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups
    )


def loss_words(run: CompareRun) -> str:
    """Return what is lost, for who has never read of it."""
    confidence = run.layer_parallel[0].acceptance[0].expected_accepted.confidence or 0.999
    return (
        "loss: by how much fewer draft tokens are kept than of plain drafts, with a "
        f"{confidence:.1%} interval (below 0: more). with, without: calibration, an exact pass "
        "after each call that mends the draft's cache."
    )


def speed_words(run: CompareRun) -> str:
    """Return what was measured and what a model says, and where groups are slower here."""
    rows = [row for row in fared(run) if row.here is not None]
    asked = listed(map(str, devices(run)))
    words = "speed: of drafting a block, where plain drafting's is 1. "
    if rows:
        at_once = max(row.time.workers for row in rows if row.time is not None)
        how = "one layer at a time" if at_once == 1 else f"up to {at_once} layers at once"
        slower = [str(row.number) for row in rows if row.here is not None and row.here < 1.0]
        lost = f": slower than plain for N = {listed(slower)}" if slower else ""
        words += f"here: measured on this machine, {how}{lost}. "
    alone = any(row.time is not None and row.time.workers == 1 for row in rows)
    most = " at most" if alone else ""
    return words + (
        f"model: what a time model, fitted to blocks timed here, predicts{most} on {asked} "
        "devices; nobody measured it."
    )


def time_model_words(run: CompareRun) -> str:
    """Return the time model, and what it could not be fitted to."""
    words = (
        "The time model: a group of n attention blocks takes n T(A) one after another, and on d "
        "devices ceil(n / d) T(A) + T_add; MLP blocks and the rest take the same both ways; a "
        "block of drafts takes one exact pass and gamma - 1 in groups. T(A), T_add and the rest "
        "are fitted to medians of single steps on this machine. Drafted token, share and emitted "
        "tokens a second are of whole generations by the first verifier."
    )
    alone = [
        str(time.layer_parallel)
        for time in run.meta.drafting
        if time.group_size > 1 and time.workers == 1
    ]
    if alone:
        words += (
            f" For N = {listed(alone)} nothing ran at once here: T_add counts as 0, and the "
            "prediction is the most that the model allows."
        )
    return words
