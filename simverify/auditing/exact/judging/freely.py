"""A law that the exact tier found is held against calls that nothing steers.

Paths say which tokens come out of which cell of the draws; how much a cell weighs is the
stand-ins' word. So the code also makes calls on its own libraries' random numbers, where nothing
stands in, and a sequential test (Wald 1945) asks which law their outputs follow: the one that
was enumerated, or the target's.
"""

import itertools
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from simverify.auditing.exact.generations.drafts import Reports, built_drafter, grow
from simverify.auditing.exact.generations.enumerate import (
    check_ids,
    read_tokens,
    takes_step_arguments,
)
from simverify.auditing.exact.generations.generation import decode, ending
from simverify.auditing.exact.instances.made import SmallModel, battery
from simverify.auditing.exact.judging.comparison import Comparison
from simverify.auditing.process.quiet import global_generators, quiet
from simverify.auditing.sampled.emissions import KeptDraw, Misuse, TimeUp
from simverify.auditing.sampled.run import Runner
from simverify.auditing.sampled.tables import SampledInstance
from simverify.auditing.subject import Contract, Subject
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.guards.watchdog import Expired, deadline

CALLS = 1_024
"""Most calls: larger deviations than a TV of some hundredths are decided by then."""

_STEP = 64
_SECONDS = 10.0
"""Of one call, which ends the test if it takes longer: what decides is the number of calls."""

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
        alone = not (model.prompt or model.earlier_calls or model.eos is not None)
        outputs = self._calls(model) if alone else self._generations(model)
        with np.errstate(divide="ignore", invalid="ignore"):
            evidence = np.log(emitted) - np.log(_joint(model, emitted.ndim))
        evidence = np.nan_to_num(np.clip(evidence, -_MOST, _MOST))
        bound, ratio = -math.log(ERROR), 0.0
        with global_generators(0):
            for calls, tokens in enumerate(itertools.islice(outputs, CALLS), 1):
                ratio += evidence[tokens]
                if abs(ratio) >= bound:
                    return calls if ratio < 0 else 0
        return 0

    def contradict_draft(self, model: SmallModel, found: Comparison) -> int:
        """Return after how many trees of a drafter its calls follow what they report after all.

        Of those calls that are like the one which deviates most; 0 as :meth:`contradict`.
        """
        call, tokens = found.call, found.worst.tokens
        assert call is not None, "a drafter's law has a call that deviates most"
        assert model.drafting is not None, "and is of trees"
        shape, rng = model.drafting.shape, np.random.default_rng(0)
        bound, ratio = -math.log(ERROR), 0.0
        with global_generators(0), suppress(Expired, Exception, SystemExit):
            for calls in range(1, CALLS + 1):
                with deadline(_SECONDS), quiet():
                    drafter = built_drafter(self.subject.rule)
                    made = grow(drafter, shape, model.draft, rng, model.prompt).calls
                place = len(call.before)
                if place >= len(made) or tuple(x.tokens for x in made[:place]) != call.before:
                    continue
                like = len(made[place].tokens) == len(tokens)
                if not like or np.abs(made[place].reported - call.reported).max() > Reports.SAME:
                    continue
                emitted, due = found.worst.emitted, found.worst.due
                if made[place].tokens != tokens:
                    emitted, due = 1 - emitted, 1 - due
                # The smallest is far below what any count of calls could show.
                evidence = math.log(max(emitted, 1e-12)) - math.log(max(due, 1e-12))
                ratio += min(max(evidence, -_MOST), _MOST)
                if abs(ratio) >= bound:
                    return calls if ratio < 0 else 0
        return 0

    def _calls(self, model: SmallModel) -> Iterator[Tokens]:
        """Yield the first tokens of outputs, as the sampled tier makes them."""
        runner = self._runner(model)
        with suppress(KeptDraw, Misuse, TimeUp):
            for calls in range(_STEP, CALLS + 1, _STEP):
                runner.run(calls)
                yield from map(tuple, runner.emissions.tokens[calls - _STEP : calls].tolist())

    def _generations(self, model: SmallModel) -> Iterator[Tokens]:
        """Yield the first tokens of generations of ``model``, filled up behind their end."""
        rule, length = self.subject.rule, model.gamma + 1
        rng = np.random.default_rng(0)
        is_step = takes_step_arguments(rule)

        def generation() -> Tokens:
            instance = None if is_step else rule()
            step = rule if instance is None else instance.step

            def more(prefix: Tokens) -> Tokens:
                tokens = read_tokens(step(prefix, model.target, model.draft, model.gamma, rng))
                check_ids(tokens, model.vocab_size)
                return tokens

            return decode(
                more, getattr(instance, "reset", None), length=length, prefix=model.prompt,
                eos=model.eos, earlier_calls=model.earlier_calls,
            )  # fmt: skip

        fill = 0 if model.eos is None else model.eos
        while True:
            try:
                with deadline(_SECONDS), quiet():
                    tokens = generation()
            except (Expired, Exception, SystemExit):
                return  # what the code raises is told elsewhere
            yield (*tokens, *[fill] * length)[:length]

    def repeats_itself(self, seen_on: SmallModel) -> bool:
        """Whether outputs of calls leave the target, on an instance with many outputs.

        One at least as large as ``seen_on``, where the code seeded itself.
        What is drawn after a constant seed is the same in every call; a fault is what then
        comes out.
        """
        plain = [m for m in battery(3, 3) if m.family == "plain" and len(m.targets) > 1]
        sizes = max(seen_on.vocab_size, 3), max(seen_on.gamma, 2)
        model = min(plain, key=lambda m: abs(m.vocab_size - sizes[0]) + abs(m.gamma - sizes[1]))
        model = replace(model, drafting=seen_on.drafting)
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
            from scipy.stats import chisquare  # half a second that few processes need

            return bool(chisquare(seen[possible], due[possible]).pvalue < _CONSTANT)
        return False

    def _runner(self, model: SmallModel) -> Runner:
        subject = self.subject
        if model.drafting is not None:
            subject = subject.drafting_itself(model.drafting, self.contract)
        contract: Literal["verify", "step"] = "verify" if self.contract == "verify" else "step"
        return Runner(
            subject.generator_rule(), contract, SampledInstance(model, model.gamma),
            seed=0, number=0, pilot=False, rows=None, ends=math.inf, seconds=_SECONDS,
        )  # fmt: skip


def _joint(model: SmallModel, length: int) -> Law:
    """Return the target's law of the first ``length`` tokens, (V,) * length."""
    row = ending(model.target, model.eos)
    due = np.ones(())
    for depth in range(length):
        rows = [row(model.prompt + tokens) for tokens in np.ndindex(due.shape)]
        due = due[..., None] * np.reshape(rows, (model.vocab_size,) * (depth + 1))
    return due
