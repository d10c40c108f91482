"""The sampled tier for any callable: plan, looks, verdict.

What cannot be enumerated is run on instances so small that every context repeats, and what
it emits is counted against exact laws. The plan is stated before it starts: at most four
looks, at each of which the run may fail; it passes at its planned end alone.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simverify import results
from simverify.auditing.exact.generations.enumerate import takes_step_arguments
from simverify.auditing.probes.named_lines import finding
from simverify.auditing.process.quiet import global_generators
from simverify.auditing.replay.trial_choice import chosen, misused
from simverify.auditing.sampled.documents import certificates, sampled_models, tests_findings, worst
from simverify.auditing.sampled.emissions import KeptDraw, Misuse, TimeUp
from simverify.auditing.sampled.judge import Judgement, Spending, by_slot, judge
from simverify.auditing.sampled.plan import Plan, asked, make_plan, whole_batches
from simverify.auditing.sampled.run import Contract, Runner
from simverify.auditing.sampled.tables import MAX_OUTPUTS, SampledInstance
from simverify.battery.judgement import faults_document, finite, suspect_document, test_document
from simverify.battery.localise import Located, locate
from simverify.battery.naming import Named, name_faults
from simverify.options.parts import Sizes
from simverify.stats.planning.looks import plan_looks

CERTIFICATE_DELTA = 1e-3
MAX_SAMPLES = Sizes.max_samples
SECONDS = Sizes.seconds

KEEPS_DRAWS = "the code keeps draws of the exact tier: build its tables in each call"
"""Why a run ended whose code went on using what is no number."""


@dataclass(frozen=True)
class SampledAudit:
    """Verdict of the sampled tier. ``reason``: why it is INCONCLUSIVE; None otherwise.

    ``plan`` is None where the code failed before there was one. ``trial``: one that shows what
    failed; None where nothing did. ``hurried``: that less was asked for, for want of time.
    """

    verdict: results.Verdict
    tier: results.SampledTier
    plan: Plan | None
    reason: str | None
    trial: results.FailingTrial | None = None
    hurried: str | None = None


def sample_callable(
    rule: Callable[..., Any],
    contract: Contract,
    *,
    instances: Sequence[SampledInstance],
    seed: int,
    alpha: float = 1e-6,
    detect: float = 0.01,
    coarser: Sequence[float] = (),
    power: float = 0.9,
    max_samples: int = MAX_SAMPLES,
    seconds: float = SECONDS,
    batch: int | None = None,
    say: Callable[[str], None] | None = None,
) -> SampledAudit:
    """Put ``rule`` on trial by sampling.

    Parameters
    ----------
    rule : callable
        Under ``contract``; a step rule may be a class or factory, built anew per trial.
    contract : {"verify", "step"}
        A step rule is run from reset until gamma + 1 tokens are out.
    instances : sequence of SampledInstance
        What to run it on; each gets an equal part of alpha, and as many trials as it needs.
    seed : int
        Of drafts, streams and completions.
    alpha : float
        Probability that a lossless rule fails; optimality spends a tenth of it apart.
    detect, power : float
        A mean one-token TV of ``detect``, by position and rows, on any instance is found
        with probability ``power``, or the verdict is INCONCLUSIVE; of a coarse instance a
        larger one, see :func:`~simverify.auditing.sampled.plan.asked`.
    coarser : sequence of float
        What to ask for instead where ``detect`` would take longer than ``seconds``: the first
        that fits, by the pilot's clock. The result says which.
    max_samples : int
        Budget of trials, the pilots' included.
    seconds : float
        Wall-clock limit, which can only end the run, to INCONCLUSIVE.
    batch : int, optional
        Blocks per call of a batched verify rule: ``rule(target_probs (B, gamma+1, V),
        draft_probs (B, gamma, V), draft_tokens (B, gamma), rng)`` returns int
        (B, gamma+1), padded with -1, or a list of B rows. None: one block, no batch axis.
    say : callable, optional
        Is told the plan in one line before the run starts.

    Raises
    ------
    ValueError
        An argument is out of range, or ``rule`` fits neither form of its contract.
    """
    detects = (detect, *coarser)
    _sample_callable_iv(contract, instances, alpha, detects, power, max_samples, seconds, batch)
    run = _Run(
        rule, contract, tuple(instances), seed, alpha, detects, power, max_samples, seconds,
        batch,
    )  # fmt: skip
    with global_generators(seed):
        return run.run(say)


@dataclass(frozen=True, eq=False)
class _Run:
    rule: Callable[..., Any]
    contract: Contract
    instances: tuple[SampledInstance, ...]
    seed: int
    alpha: float
    detects: tuple[float, ...]
    power: float
    max_samples: int
    seconds: float
    batch: int | None

    def run(self, say: Callable[[str], None] | None) -> SampledAudit:
        ends = time.monotonic() + self.seconds
        judged: list[Judgement] = []
        looks = 0
        runners = self._runners(ends, pilot=False)
        plan = None
        try:
            plan = make_plan(
                self._runners(ends, pilot=True), alpha=self.alpha, detects=self.detects,
                power=self.power, max_samples=self.max_samples, ends=ends,
            )  # fmt: skip
            if plan is None:
                return self._result(runners, judged, looks, plan, "the budget ends in the pilot")
            if say is not None:
                say(plan.line)
            randomisers = [
                np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(i, 2)))
                for i in range(len(runners))
            ]
            share = self.alpha / len(runners)
            schedules = [plan_looks(n, alpha=share) for n in plan.samples]
            uniforms = [r.random(n) for r, n in zip(randomisers, plan.samples, strict=True)]
            for at in range(max(map(len, schedules))):
                fresh = []
                for runner, schedule, u in zip(runners, schedules, uniforms, strict=True):
                    look = schedule[min(at, len(schedule) - 1)]
                    runner.run(whole_batches(look.samples, self.batch or 1))
                    spent = Spending(share, look.alpha / share, last=look is schedule[-1])
                    fresh.append(self._judge(runner, spent, u))
                judged, looks = fresh, at + 1
                if any(j.findings for j in judged):
                    break
        except Misuse as misuse:
            return self._result(runners, judged, looks, plan, None, misuse=misuse)
        except TimeUp:
            reason = f"the time limit of {self.seconds:g} s passed"
            return self._result(runners, judged, looks, plan, reason)
        except KeptDraw:
            reason = KEEPS_DRAWS
            return self._result(runners, judged, looks, plan, reason)
        return self._result(runners, judged, looks, plan, None)

    def _runners(self, ends: float, *, pilot: bool) -> list[Runner]:
        return [
            Runner(
                instance.rule or self.rule, self.contract, instance, seed=self.seed,
                number=number, pilot=pilot, rows=self.batch, ends=ends, seconds=self.seconds,
            )
            for number, instance in enumerate(self.instances)
        ]  # fmt: skip

    def _judge(self, runner: Runner, look: Spending, uniforms: Any) -> Judgement:
        return judge(
            runner.tables, runner.emissions, self.contract, look,
            uniforms=uniforms[: len(runner.emissions)], power=self.power,
            rows=self.batch,
        )  # fmt: skip

    def _result(
        self,
        runners: list[Runner],
        judged: list[Judgement],
        looks: int,
        plan: Plan | None,
        reason: str | None,
        *,
        misuse: Misuse | None = None,
    ) -> SampledAudit:
        findings = tests_findings(text for j in judged for text in j.findings)
        if misuse is not None:
            findings.insert(0, finding("contract", str(misuse)))
        detect = self.detects[0] if plan is None else plan.detect
        if reason is None and not findings:
            reason = self._short(judged, detect)
        verdict: results.Verdict = "FAIL" if findings else "INCONCLUSIVE" if reason else "PASS"
        tests = [test_document(test) for j in judged for test in j.tests]
        named = self._named(runners, diagnose=bool(findings)) if judged else None
        bounds = certificates(runners, CERTIFICATE_DELTA) if verdict == "PASS" else ()
        tier = results.SampledTier(
            samples=sum(len(runner.emissions) for runner in runners),
            looks=looks,
            alpha=self.alpha,
            detect=detect,
            power=self.power,
            tests=tuple(tests),
            detectable=finite(self._detectable(judged)),
            certificate=worst(bounds, CERTIFICATE_DELTA) if bounds else None,
            faults=faults_document(named),
            localisation=suspect_document(_located(judged, named)),
            optimality="; ".join(j.optimality for j in judged) or None,
            findings=tuple(findings),
            instances=sampled_models(runners, judged, bounds, detect),
        )
        trial = None
        if misuse is not None:
            trial = misused(misuse, runners, self.contract)
        elif findings:
            failed = [number for number, j in enumerate(judged) if j.findings]
            trial = chosen(runners, failed, self.contract)
        reason = reason if verdict == "INCONCLUSIVE" else None
        hurried = None
        if detect > self.detects[0]:
            hurried = (
                f"a TV of {self.detects[0]:g} would have taken longer than {self.seconds:g} s, so "
                f"{detect:g} was asked for: raise --seconds, or state --detect"
            )
        return SampledAudit(verdict, tier, plan, reason, trial, hurried)

    def _named(self, runners: list[Runner], *, diagnose: bool) -> Named:
        """Ask the catalogue about all instances together, by slots of single calls."""
        # Only code without state has slots that follow the target.
        stateless = self.contract == "verify" or takes_step_arguments(self.rule)
        tables = [by_slot(runner.tables, runner.emissions) for runner in runners]
        return name_faults(tables, diagnose=diagnose and stateless)

    def _short(self, judged: list[Judgement], detect: float) -> str | None:
        """Say on which instance the run promises too little; None if on none."""
        for instance, judgement in zip(self.instances, judged, strict=True):
            wanted = asked(instance, detect)
            if judgement.detectable > wanted:
                return (
                    f"the calls on {instance.name} promise a TV of {judgement.detectable:.3g}, "
                    f"not {wanted:g}: raise max_samples"
                )
        return None

    def _detectable(self, judged: list[Judgement]) -> float:
        """Return what is found on every instance that is not coarse; inf before a look."""
        pairs = zip(self.instances, judged, strict=True) if judged else ()
        return max((j.detectable for x, j in pairs if not x.coarse), default=math.inf)


def _located(judged: list[Judgement], named: Named | None) -> Located | None:
    """Where the instances that failed point; the first of them that points anywhere."""
    places = [locate(replace(j.evidence, named=named)) for j in judged if j.findings]
    return next((place for place in places if place.part), places[0] if places else None)


def _sample_callable_iv(
    contract: str,
    instances: Sequence[SampledInstance],
    alpha: float,
    detects: Sequence[float],
    power: float,
    max_samples: int,
    seconds: float,
    batch: int | None,
) -> None:
    if contract not in ("verify", "step"):
        raise ValueError(f"contract is {contract!r}: pass 'verify' or 'step'")
    if not instances:
        raise ValueError("instances are empty: pass one or more, as default_instances() gives")
    for x in instances:
        if x.gamma < 1 or x.model.vocab_size ** (x.gamma + 1) > MAX_OUTPUTS:
            raise ValueError(
                f"{x.name} has {x.model.vocab_size}^{x.gamma + 1} outputs: pass gamma 1 or more "
                f"and at most {MAX_OUTPUTS} outputs"
            )
    for name, value in (("alpha", alpha), *(("detect", x) for x in detects), ("power", power)):
        if not 0 < value < 1:
            raise ValueError(f"{name} is {value}: pass a number strictly between 0 and 1")
    if max_samples < 1 or not seconds > 0:
        raise ValueError(f"max_samples={max_samples}, seconds={seconds}: both must be positive")
    if batch is not None and (batch < 1 or contract == "step"):
        raise ValueError(f"batch is {batch} under {contract}: pass 1 or more rows, under verify")
