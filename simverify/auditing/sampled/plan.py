"""The plan of a sampled run: sized on a pilot, stated before the run starts."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from simverify.auditing.sampled.judge import Spending, predict_detectable
from simverify.auditing.sampled.run import Runner
from simverify.auditing.sampled.tables import SampledInstance
from simverify.stats.planning.looks import LOOKS

PILOT_TRIALS = 1024
"""They size the run and never enter its tests."""

ROOM = 0.95
"""Part of the TV asked for that is planned with: a right verifier's own sway stays below it."""

MARGIN = 1.06
"""Trials above what the pilot asks for: the pilot's own error, and whole tokens."""

SWAY = 6.0
"""Tokens of a context sway by the square root of their number, and cells fall in or out of pools
with them: n trials are planned for a TV smaller by this over sqrt(n). Measured: up to a tenth
of the TV at 2,000 trials."""

HURRY = 1.5
"""So much longer than in the pilot the calls may take: its tests cost time too."""

COARSER, COARSEST = 3.0, 0.3
"""A coarse instance is asked for so many times the TV, for a ninth of the trials; from
``COARSEST`` on it is asked for no more than the others."""


@dataclass(frozen=True)
class Plan:
    """How many trials each instance gets, and the TV that is found there with the run's power.

    ``instances``: their names; ``samples`` and ``detectable``: one for each. ``detect``: what
    the run is for; ``seconds``: how long its calls take, by the pilot.
    """

    instances: tuple[str, ...]
    samples: tuple[int, ...]
    detectable: tuple[float, ...]
    alpha: float
    power: float
    detect: float
    seconds: float

    @property
    def line(self) -> str:
        """The plan in one line, for the user to read before it starts."""
        each = zip(self.instances, self.samples, self.detectable, strict=True)
        runs = ", ".join(f"{n:,} on {x}, TV {found:.4f}" for x, n, found in each)
        return (
            f"{sum(self.samples):,} calls, about {self.seconds:.0f} s; {len(LOOKS)} looks; "
            f"false-alarm rate {self.alpha:g}; with probability {self.power:g} a mean one-token "
            f"TV is found where it is as large as stated: {runs}"
        )


def asked(instance: SampledInstance, detect: float) -> float:
    """Return the mean one-token TV that a run for ``detect`` is to find on ``instance``."""
    return max(detect, min(COARSER * detect, COARSEST)) if instance.coarse else detect


def make_plan(
    pilots: Sequence[Runner],
    *,
    alpha: float,
    detects: Sequence[float],
    power: float,
    max_samples: int,
    ends: float,
) -> Plan | None:
    """Size the run on each instance by its pilot, which is run here.

    Each instance gets as many trials as promise what is asked of it, in whole batches; all
    proportionally fewer if they and the pilots would exceed ``max_samples``. Asked for is the
    first of ``detects`` whose calls end well before ``ends`` (of :func:`time.monotonic`), or the
    first if none does. None if the budget ends with the pilots. Raises ``Misuse`` or ``TimeUp``
    as the code does.
    """
    rows = pilots[0].rows or 1
    pilot = whole_batches(PILOT_TRIALS, rows)
    budget = max_samples - pilot * len(pilots)
    if budget < 4 * rows * len(pilots):
        return None
    each = []
    for runner in pilots:
        started = time.monotonic()
        runner.run(pilot)
        each.append((time.monotonic() - started) / pilot)

    def plan(detect: float) -> Plan:
        return _plan(pilots, each, rows, budget, alpha=alpha, detect=detect, power=power)

    first = plan(detects[0])
    left = (ends - time.monotonic()) / HURRY
    if first.seconds <= left:
        return first
    return next((x for x in map(plan, detects[1:]) if x.seconds <= left), first)


def _plan(
    pilots: Sequence[Runner],
    each: Sequence[float],
    rows: int,
    budget: int,
    *,
    alpha: float,
    detect: float,
    power: float,
) -> Plan:
    """Return the plan for ``detect`` by pilots that have run, at ``each`` seconds a trial."""
    share = alpha / len(pilots)
    wanted = [
        whole_batches(_trials(runner, share, asked(runner.instance, detect), power), rows)
        for runner in pilots
    ]
    part = min(1.0, budget / sum(wanted))
    samples = [n if part == 1.0 else max(int(n * part) // rows, 1) * rows for n in wanted]
    return Plan(
        instances=tuple(runner.instance.name for runner in pilots),
        samples=tuple(samples),
        detectable=tuple(
            _promise(runner, n, share, power) for runner, n in zip(pilots, samples, strict=True)
        ),
        alpha=alpha,
        power=power,
        detect=detect,
        seconds=math.fsum(n * took for n, took in zip(samples, each, strict=True)),
    )


def whole_batches(trials: int, rows: int) -> int:
    """Round ``trials`` up to a multiple of ``rows``."""
    return -(-trials // rows) * rows


def _promise(pilot: Runner, trials: int, alpha: float, power: float) -> float:
    """TV that the last look, with its share of ``alpha``, finds after ``trials`` trials."""
    last = Spending(alpha, LOOKS[-1][1], last=True)
    return predict_detectable(pilot.tables, pilot.emissions, trials, last, power=power)


def _trials(pilot: Runner, alpha: float, detect: float, power: float) -> int:
    """Smallest number of trials that promises ``detect``, by bisection, with a margin."""
    most = 1024

    def fits(trials: int) -> bool:
        aim = ROOM * detect * (1.0 - SWAY / math.sqrt(trials))
        return _promise(pilot, trials, alpha, power) <= aim

    while not fits(most) and most < 1 << 40:
        most *= 2
    least = most // 2
    while most - least > most // 64:
        middle = (least + most) // 2
        least, most = (least, middle) if fits(middle) else (middle, most)
    return math.ceil(most * MARGIN)
