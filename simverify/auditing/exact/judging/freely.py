"""A law that the exact tier found is held against calls that nothing steers.

Paths say which tokens come out of which cell of the draws; how much a cell weighs is the
stand-ins' word. So the code also makes calls on its own libraries' random numbers, where nothing
stands in, and a sequential test (Wald 1945) asks which law their outputs follow: the one that
was enumerated, or the target's.
"""

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import chisquare

from simverify.auditing.exact.instances.made import SmallModel, battery
from simverify.auditing.process.quiet import global_generators
from simverify.auditing.sampled.emissions import KeptDraw, Misuse, TimeUp
from simverify.auditing.sampled.run import Runner
from simverify.auditing.sampled.tables import SampledInstance
from simverify.auditing.subject import Contract, Subject

CALLS = 1_024
"""Most calls: larger deviations than a TV of some hundredths are decided by then."""

_STEP = 64
_SECONDS = 10.0

ERROR = 1e-3
"""Rate at which each side of the test is wrong. A failure that is doubted by mistake is judged
by the sampled tier, which sees whatever is so large."""

_MOST = 7.0
"""Log likelihood ratio of one output at most: no single one decides."""

_CONSTANT = 1e-9
"""P-value under which outputs of code that seeds itself are not the target's."""

Law = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Free:
    """Calls of ``subject`` that nothing steers."""

    subject: Subject
    contract: Contract

    def contradict(self, model: SmallModel, emitted: Law) -> int:
        """Return after how many calls on ``model`` they follow the target and not ``emitted``.

        0 where they do not, or where it stays open. ``emitted``: float64 (V,) * length.
        """
        if model.prompt or model.earlier_calls or model.eos is not None:
            return 0
        runner = self._runner(model)
        due = runner.tables.joint(emitted.ndim)
        with np.errstate(divide="ignore", invalid="ignore"):
            evidence = np.clip(np.log(emitted.ravel()) - np.log(due), -_MOST, _MOST)
        evidence = np.nan_to_num(evidence)
        bound = -math.log(ERROR)
        with suppress(KeptDraw, Misuse, TimeUp), global_generators(0):
            for calls in range(_STEP, CALLS + 1, _STEP):
                runner.run(calls)
                codes = runner.tables.codes(runner.emissions.tokens, emitted.ndim)
                ratio = evidence[codes].cumsum()
                ended = np.flatnonzero(np.abs(ratio) >= bound)
                if len(ended):
                    return int(ended[0]) + 1 if ratio[ended[0]] < 0 else 0
        return 0

    def repeats_itself(self, seen_on: SmallModel) -> bool:
        """Whether outputs of calls leave the target, on an instance with many outputs.

        One at least as large as ``seen_on``, where the code seeded itself.
        What is drawn after a constant seed is the same in every call; a fault is what then
        comes out.
        """
        plain = [m for m in battery(3, 3) if m.family == "plain" and len(m.targets) > 1]
        sizes = max(seen_on.vocab_size, 3), max(seen_on.gamma, 2)
        model = min(plain, key=lambda m: abs(m.vocab_size - sizes[0]) + abs(m.gamma - sizes[1]))
        runner = self._runner(model)
        with suppress(KeptDraw, TimeUp), global_generators(0):
            try:
                runner.run(CALLS // 2)
            except Misuse:
                return True
            length = model.gamma + 1
            due = runner.tables.joint(length) * len(runner.emissions)
            codes = runner.tables.codes(runner.emissions.tokens, length)
            seen = np.bincount(codes, minlength=due.size)
            possible = due > 0
            if seen[~possible].any():
                return True
            return bool(chisquare(seen[possible], due[possible]).pvalue < _CONSTANT)
        return False

    def _runner(self, model: SmallModel) -> Runner:
        return Runner(
            self.subject.generator_rule(), self.contract, SampledInstance(model, model.gamma),
            seed=0, number=0, pilot=False, rows=None, ends=math.inf, seconds=_SECONDS,
        )  # fmt: skip
