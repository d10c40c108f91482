"""Loops that draw until they accept: known up to the mass of what was not run."""

import numpy as np
import pytest

from simverify.auditing.exact.battery import ENOUGH
from simverify.auditing.exact.instances.made import battery, instances_for
from simverify.auditing.exact.judging.examiner import Examiner
from simverify.auditing.exact.tier import examine
from simverify.auditing.subject import Subject
from simverify.symbolic.enumeration.paths import Heaviest

MODELS = {model.name: model for model in battery(4, 12)}
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
    return examine(Subject("mine", rule, None), "verify", models, tolerance=None, searching=False)


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


def test_of_many_branches_the_heaviest_are_run():
    model = MODELS["plain, V=2, gamma=1"]
    rule = loop(accept=0.97, branches=3)
    judged = Examiner(Subject("mine", rule, None), "verify", enough=ENOUGH).judge(model)
    assert not judged.failed
    assert not judged.undecided
    assert 0 < judged.comparison.pruned <= ENOUGH
    wrong = loop(accept=0.97, branches=3, fault=3)
    assert Examiner(Subject("mine", wrong, None), "verify", enough=ENOUGH).judge(model).deviates


def test_a_fault_lighter_than_what_is_left_out_fails_nobody():
    model = MODELS["plain, V=2, gamma=1"]
    rule = loop(accept=0.97, branches=3, fault=6)
    judged = Examiner(Subject("mine", rule, None), "verify", enough=ENOUGH).judge(model)
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

    heaviest = Heaviest(run, enough=0.3)
    found = list(heaviest)
    assert sum(weight for _, weight in found) + heaviest.rest == pytest.approx(1)
    every = Heaviest(run, enough=0.0)
    laws = dict(every)
    assert len(laws) == 27
    assert every.rest == pytest.approx(0, abs=1e-15)
    assert sum(laws.values()) == pytest.approx(1)
    # Within a quarter more the paths come to an end, and nothing is left out.
    nearly = Heaviest(run, enough=0.02)
    assert len(list(nearly)) == 27
    assert nearly.rest == pytest.approx(0, abs=1e-15)
    assert Heaviest(run, enough=0.0, max_paths=5).rest == 1.0
    assert len(list(Heaviest(run, enough=0.0, max_paths=5))) == 5
