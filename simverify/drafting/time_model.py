"""The cost model of EasySpec: what drafting takes, in seconds, fitted to measured times."""

from collections.abc import Sequence
from dataclasses import dataclass

from simverify.checks import check_ranges
from simverify.drafting.groups import layer_groups
from simverify.results import OnDevices

DEFAULT_DEVICES = (1, 2, 4, 8)


@dataclass(frozen=True)
class TimeModel:
    """Times of the parts of a draft model, from which those of its passes follow.

    A group of n attention blocks takes n T(A) one after another and, on d > 1 devices,
    ceil(n / d) T(A) + T_add at once; a group of one takes T(A) always. MLP blocks, the head and
    the rest take the same both ways. (Wu et al., "EasySpec": T_seq = N T(A) for a group of N,
    T_fuzzy = T(A) + T_add with as many devices.)

    ``layers``: of the model. ``layer_parallel``: N. ``attention``: T(A), one attention block.
    ``mlp``: one MLP block. ``rest``: all else in a pass. ``added``: T_add, what running a group
    at once takes besides.
    """

    layers: int
    layer_parallel: int
    attention: float
    mlp: float
    rest: float
    added: float

    def exact_pass(self) -> float:
        """Return what an exact pass takes."""
        return self._pass(self.layers * self.attention)

    def fuzzy_pass(self, devices: int) -> float:
        """Return what a fuzzy pass takes on so many devices."""
        groups = layer_groups(self.layers, self.layer_parallel)
        return self._pass(sum(self._group(len(group), devices) for group in groups))

    def plain_drafting(self, gamma: int) -> float:
        """Return what drafting a block of ``gamma`` tokens takes in exact passes."""
        return gamma * self.exact_pass()

    def drafting(self, gamma: int, devices: int) -> float:
        """Return what drafting a block of ``gamma`` tokens takes.

        The first comes from the exact pass that refills the cache, the others from fuzzy ones.
        """
        return self.exact_pass() + (gamma - 1) * self.fuzzy_pass(devices)

    def _pass(self, attentions: float) -> float:
        return attentions + self.layers * self.mlp + self.rest

    def _group(self, size: int, devices: int) -> float:
        if size == 1 or devices == 1:
            return size * self.attention
        return -(-size // devices) * self.attention + self.added


def predict_drafting(
    times: TimeModel, gamma: int, devices: Sequence[int] = DEFAULT_DEVICES
) -> list[OnDevices]:
    """Return what drafting blocks of ``gamma`` tokens takes, by number of devices.

    Raises ``UsageError`` if ``gamma`` or a number of devices is below 1.
    """
    check_ranges([("gamma", gamma, gamma >= 1, "1 or more")])
    check_ranges(("devices", d, d >= 1, "1 or more") for d in devices)
    plain = times.plain_drafting(gamma)
    return [
        OnDevices(devices=d, iteration=took, per_token=took / gamma, speed_up=plain / took)
        for d in devices
        for took in [times.drafting(gamma, d)]
    ]


@dataclass(frozen=True)
class BlockTimes:
    """Measured medians of one step that feeds one token a request, in seconds.

    ``attention``, ``mlp``: one block with its norm. ``group``: the attention blocks of a group of
    ``group_size`` layers, of which ``workers`` ran at once at most. ``exact_pass``,
    ``fuzzy_pass``: all layers and the head.
    """

    layers: int
    layer_parallel: int
    attention: float
    mlp: float
    group: float
    group_size: int
    workers: int
    exact_pass: float
    fuzzy_pass: float


def fit_time_model(measured: BlockTimes) -> TimeModel:
    """Fit the model to what was measured.

    T_add is what the group took beyond the rounds of T(A) that its workers needed, and the rest
    of a pass what an exact one took beyond its blocks; neither falls below 0. With one worker
    nothing ran at once: T_add is then 0, as it was not measured, and what is predicted for
    several devices is the least that the model allows.
    """
    rounds = -(-measured.group_size // measured.workers)
    seen = measured.group_size > 1 and measured.workers > 1
    blocks = measured.layers * (measured.attention + measured.mlp)
    return TimeModel(
        layers=measured.layers,
        layer_parallel=measured.layer_parallel,
        attention=measured.attention,
        mlp=measured.mlp,
        rest=max(measured.exact_pass - blocks, 0.0),
        added=max(measured.group - rounds * measured.attention, 0.0) if seen else 0.0,
    )
