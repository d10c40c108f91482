"""Loops that draw until they accept: known up to the mass of what was not run."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from support.one_block import endless, law_of

from simverify.auditing.exact_tier import TRUNCATED_MASS, run_exact_tier
from simverify.auditing.examiner import BATTERY_BUDGET, Examiner
from simverify.auditing.instances import instance_battery, instances_for
from simverify.auditing.subject import Subject
from simverify.symbolic import engine
from simverify.symbolic.engine import Budget
from simverify.symbolic.paths import HeaviestFirst, TooManyPaths
from simverify.symbolic.provenance import OutOfTime
from simverify.symbolic.watchdog import DeadlineExpired, Stopwatch, deadline

# Budgets of paths and seconds, and code that never ends.


@pytest.mark.parametrize("in_thread", [False, True])
def test_an_endless_loop_is_a_finding(in_thread, monkeypatch):
    monkeypatch.setattr(engine, "MIN_HANG_SECONDS", engine.MIN_HANG_SECONDS / 4)
    laws = []
    budget = Budget(200_000, engine.MIN_HANG_SECONDS + 0.1)
    run = lambda: laws.append(law_of(endless, budget=budget))  # noqa: E731
    if in_thread:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(10)
    else:
        run()
    assert laws[0].findings[0].kind == "hangs"
    assert not laws[0].complete


def test_a_limit_that_is_too_short_for_anyone_calls_nobody_a_hang():
    with pytest.raises(OutOfTime):
        law_of(endless, budget=Budget(200_000, 0.2))


def coin_flips(p, q, x, rng):
    return [sum(rng.random() < 0.5 for _ in range(30)) % 3]


def test_budgets_are_told_apart():
    with pytest.raises(TooManyPaths):
        law_of(coin_flips, budget=Budget(50, 60.0))
    with pytest.raises(OutOfTime):
        law_of(coin_flips, budget=Budget(10**9, 0.2))


def test_a_rejection_loop_runs_out_of_paths_and_is_not_called_endless():
    def rule(p, q, x, rng):
        while True:
            y = int(rng.integers(3))
            if rng.random() < p[0][y]:
                return [y]

    with pytest.raises(TooManyPaths):
        law_of(rule, budget=Budget(500, 60.0))


def test_thin_branches_are_not_run_but_counted():
    def rule(p, q, x, rng):
        return [1 if rng.random() < 1e-13 else 0]

    law = law_of(rule)
    assert law.paths == 1
    assert law.pruned == pytest.approx(1e-13, rel=1e-3)
    assert law_of(rule, prune=0.0).probabilities[(1,)] == 1e-13


def test_a_limit_counts_the_codes_own_seconds():
    # As on a busy machine: a third of the wall clock is the code's.
    began, waits = time.thread_time(), 0.004

    def work():
        while True:
            ends = time.thread_time() + waits / 2
            while time.thread_time() < ends:
                pass
            time.sleep(waits)

    with pytest.raises(DeadlineExpired), deadline(0.2):
        work()
    assert time.thread_time() - began > 0.15


@pytest.mark.parametrize(("wall", "cpu", "counted"), [(10.0, 1.0, 1.0), (10.0, 0.1, 10.0)])
def test_who_sleeps_is_timed_by_the_wall_clock(monkeypatch, wall, cpu, counted):
    monkeypatch.setattr(time, "monotonic", iter([100.0, 100.0 + wall]).__next__)
    monkeypatch.setattr(time, "thread_time", iter([5.0, 5.0 + cpu]).__next__)
    assert Stopwatch().seconds() == pytest.approx(counted)


MODELS = {model.name: model for model in instance_battery(4, 12)}
CORE = [MODELS["plain, V=2, gamma=1"], MODELS["plain, V=3, gamma=1"], MODELS["plain, V=3, gamma=2"]]


def loop(accept=0.9, fault=None, cap=None, branches=1):
    """Return the token rule whose residual is drawn once a coin of ``accept`` says so.

    ``fault``: the try that draws from the target instead; ``cap``: the number of tries after
    which that is done; ``branches``: of another draw in each try, which is not used.
    """

    def verify(p, q, x, rng):
        for i, t in enumerate(x):
            if not rng.random() < p[i][t] / q[i][t]:
                kept, tries = list(map(int, x[:i])), 0
                r = np.maximum(p[i] - q[i], 0)
                while True:
                    tries += 1
                    int(rng.integers(branches))
                    late = cap is not None and tries > cap
                    if late or rng.random() < accept:
                        row = p[i] if late or tries == fault else r / r.sum()
                        return [*kept, int(rng.choice(len(r), p=row))]
        return [*map(int, x), int(rng.choice(p.shape[1], p=p[-1]))]

    return verify


def proposals(fault=None):
    """Return the token rule whose residual is drawn by rejection from the target."""

    def verify(p, q, x, rng):
        for i, t in enumerate(x):
            if not rng.random() < p[i][t] / q[i][t]:
                tries = 0
                while True:
                    tries += 1
                    y = int(rng.choice(p.shape[1], p=p[i]))
                    share = max(0.0, p[i][y] - q[i][y]) / p[i][y] if p[i][y] else 0.0
                    if tries == fault or rng.random() < share:
                        return [*map(int, x[:i]), y]
        return [*map(int, x), int(rng.choice(p.shape[1], p=p[-1]))]

    return verify


def tier_of(rule, models=CORE):
    return run_exact_tier(
        Subject("mine", rule, None), "verify", models, tolerance=None, searching=False
    )


@pytest.mark.parametrize("accept", [0.9, 0.3])
@pytest.mark.thorough
def test_a_right_loop_passes(accept):
    tier = tier_of(loop(accept))
    assert (tier.failure, tier.not_enumerable, tier.skipped) == (None, None, [])
    assert all(judged.comparison.pruned < 1e-6 for judged in tier.judged)


@pytest.mark.parametrize("fault", [1, 3, 5])
def test_a_fault_of_one_try_is_caught(fault):
    tier = tier_of(loop(fault=fault))
    assert tier.failure.comparison.tv == pytest.approx(0.1 ** (fault - 1) * 0.9 / 9, rel=1e-6)


@pytest.mark.parametrize("mass", [1e-3, 1e-5])
def test_tries_that_end_after_ten_are_caught(mass):
    tier = tier_of(loop(accept=1 - mass**0.1, cap=10))
    assert tier.failure.comparison.tv == pytest.approx(mass / 9, rel=1e-6)


TRUNCATING = replace(BATTERY_BUDGET, enough=TRUNCATED_MASS)


def test_of_many_branches_the_heaviest_are_run():
    model = MODELS["plain, V=2, gamma=1"]
    rule = loop(accept=0.97, branches=3)
    judged = Examiner(Subject("mine", rule, None), "verify", budget=TRUNCATING).judge(model)
    assert not judged.failed
    assert not judged.undecided
    assert 0 < judged.comparison.pruned <= TRUNCATED_MASS
    wrong = loop(accept=0.97, branches=3, fault=3)
    assert Examiner(Subject("mine", wrong, None), "verify", budget=TRUNCATING).judge(model).deviates


def test_a_fault_lighter_than_what_is_left_out_fails_nobody():
    model = MODELS["plain, V=2, gamma=1"]
    rule = loop(accept=0.97, branches=3, fault=6)
    judged = Examiner(Subject("mine", rule, None), "verify", budget=TRUNCATING).judge(model)
    assert not judged.failed
    assert judged.comparison.pruned > 0.03**5 / 10


@pytest.mark.thorough
def test_too_many_branches_neither_pass_nor_fail_but_where_the_known_part_does():
    tier = tier_of(proposals(), instances_for("verify", 4, 12, 0))
    assert tier.failure is None
    assert "leave out a mass above" in str(tier.not_enumerable)
    wrong = tier_of(proposals(fault=2), instances_for("verify", 4, 12, 0))
    assert wrong.failure.deviates


def test_the_heaviest_path_comes_first_and_the_rest_is_known():
    def run(path):
        return tuple(path.fork((0.1, 0.6, 0.3)) for _ in range(3))

    heaviest = HeaviestFirst(run, enough=0.3)
    found = list(heaviest)
    assert sum(weight for _, weight in found) + heaviest.rest == pytest.approx(1)
    every = HeaviestFirst(run, enough=0.0)
    laws = dict(every)
    assert len(laws) == 27
    assert every.rest == pytest.approx(0, abs=1e-15)
    assert sum(laws.values()) == pytest.approx(1)
    # Within a quarter more the paths come to an end, and nothing is left out.
    nearly = HeaviestFirst(run, enough=0.02)
    assert len(list(nearly)) == 27
    assert nearly.rest == pytest.approx(0, abs=1e-15)
    assert HeaviestFirst(run, enough=0.0, most=5).rest == 1.0
    assert len(list(HeaviestFirst(run, enough=0.0, most=5))) == 5


# A later call may need other stand-ins than the first: then all calls are run with those.


OTHER_STAND_INS_MODELS = [
    m for m in instances_for("step", 1, 3, 0) if m.name == "plain, V=3, gamma=1"
]


class Second:
    """Right but for ``cut``; from its second call on it turns its draw into a plain float."""

    cut = 0.0

    def reset(self):
        self.calls = 0

    def step(self, prefix, target, draft, gamma, rng):
        self.calls += 1
        u = rng.random()
        u = float(u) if self.calls > 1 else u
        cdf = np.cumsum(target(prefix))[:-1]
        return [sum(u >= c - self.cut for c in cdf.tolist())]


class Wrong(Second):
    cut = 0.01


@pytest.mark.parametrize(("rule", "fails"), [(Second, False), (Wrong, True)])
def test_a_later_call_needs_other_stand_ins(rule, fails):
    tier = run_exact_tier(
        Subject("rule", rule, "step"),
        "step",
        OTHER_STAND_INS_MODELS,
        tolerance=None,
        searching=False,
    )
    assert tier.not_enumerable is None
    assert (tier.failure is not None) == fails
    assert len(tier.judged) == 1
