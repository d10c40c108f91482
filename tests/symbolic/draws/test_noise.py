"""One noise raced several times with different weights: the joint law of its winners."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats
from support.fuzzing.differential import Finding, run_twice
from support.fuzzing.programs import races as random_races
from support.oracles.token_law import INSTANCES, closed_form, distance

from simverify import exact_law
from simverify.auditing.enumeration import enumerate_verify
from simverify.symbolic import CannotEnumerate
from simverify.symbolic.races import ArrivalInequality, NarrowedRace, SharedNoise, TooManyCones

FALSE_ALARM = 1e-9


def races(weights, winners):
    """What it means that each row of weights has its winner."""
    return [
        ArrivalInequality(a, i, row[i] / row[a])
        for row, a in zip(weights, winners, strict=True)
        for i in range(len(row))
        if i != a and row[i] > 0
    ]


def joint(weights):
    """Law of the winners of all rows, of one noise."""
    rows = [[i for i, w in enumerate(row) if w > 0] for row in weights]
    found = {}
    for winners in itertools.product(*rows):
        (found[winners],) = SharedNoise().masses([races(weights, winners)])
    return found


def test_two_races_of_two():
    """E_0 v_1 > E_1 v_0 and E_1 w_0 > E_0 w_1: E_0 / E_1 lies between two ratios."""
    law = joint([[1.0, 3.0], [2.0, 1.0]])
    # The ratio E_0 / E_1 is below r with probability r / (1 + r).
    assert law[0, 0] == pytest.approx(1 / 4, abs=1e-15)
    assert law[1, 1] == pytest.approx(1 - 2 / 3, abs=1e-15)
    assert law[1, 0] == pytest.approx(2 / 3 - 1 / 4, abs=1e-15)
    assert law[0, 1] == 0


def test_a_first_race_is_the_usual_one():
    law = joint([[1.0, 3.0, 6.0]])
    assert law == pytest.approx({(0,): 0.1, (1,): 0.3, (2,): 0.6}, abs=1e-15)


def of_two(w, v, a, b):
    """P(a wins by w and b by v), a not b, as one integral over t = E_b / E_a, wedge by wedge."""
    w, v = w / w[a], v / v[b]
    others = [i for i in range(len(w)) if i not in (a, b)]
    first, last = w[b], 1 / v[a]
    if first >= last:
        return 0.0
    cuts = sorted({first, last, *(w[i] / v[i] for i in others if first < w[i] / v[i] < last)})
    total = 0.0
    for s, t in itertools.pairwise(cuts):
        middle = (s + t) / 2
        x = 1 + sum(w[i] for i in others if w[i] > v[i] * middle)
        y = 1 + sum(v[i] for i in others if w[i] <= v[i] * middle)
        total += (t - s) / ((x + y * s) * (x + y * t))
    return total


@pytest.mark.parametrize("seed", range(20))
def test_two_races_have_the_law_of_the_wedges(seed):
    rng = np.random.default_rng(seed)
    w, v = rng.exponential(size=(2, int(rng.integers(2, 7)))) + 1e-3
    law = joint([w, v])
    for (a, b), mass in law.items():
        both = 1 / np.maximum(w / w[a], v / v[b]).sum()
        due = both if a == b else of_two(w, v, a, b)
        assert mass == pytest.approx(due, abs=1e-14)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.thorough
def test_winners_of_several_races_are_as_often_what_they_are(seed):
    """Against plain draws, some weights zero; each race's own law is the usual one."""
    rng = np.random.default_rng(100 + seed)
    weights = rng.exponential(size=(int(rng.integers(2, 5)), 4)) + 0.05
    weights[rng.random(weights.shape) < 0.25] = 0
    weights[:, seed % 4] += 0.2
    law = joint(weights)
    assert math.fsum(law.values()) == pytest.approx(1, abs=1e-13)
    for k, row in enumerate(weights):
        for i in np.flatnonzero(row):
            alone = math.fsum(mass for winners, mass in law.items() if winners[k] == i)
            assert alone == pytest.approx(row[i] / row.sum(), abs=1e-13)
    count = 200_000
    noise = rng.exponential(size=(count, 4))
    with np.errstate(divide="ignore"):
        won = np.stack([(noise / row).argmin(axis=1) for row in weights], axis=1)
    seen = {tuple(map(int, key)): int(n) for key, n in zip(*np.unique(
        won, axis=0, return_counts=True), strict=True)}  # fmt: skip
    assert set(seen) <= {winners for winners, mass in law.items() if mass > 0}
    tails = [
        min(stats.binom.sf(seen.get(x, 0) - 1, count, m), stats.binom.cdf(seen.get(x, 0), count, m))
        for x, m in law.items()
    ]
    assert min(tails) > FALSE_ALARM / len(tails)


def test_independent_races_are_another_law():
    """Negative control of the test above."""
    weights = np.array([[1.0, 2, 3, 4], [4.0, 3, 2, 1]])
    law = joint(weights)
    shares = weights / weights.sum(axis=1, keepdims=True)
    apart = {(a, b): shares[0, a] * shares[1, b] for a, b in law}
    assert max(abs(law[x] - apart[x]) for x in law) > 0.05


@pytest.mark.parametrize("winners", [(0, 0), (3, 0), (2, 1)])
def test_what_is_sampled_agrees_with_what_is_known(winners):
    weights = np.array([[3.0, 2, 5, 4], [3.0, 3, 2, 1]])
    noise = SharedNoise(races(weights, winners))
    rng = np.random.default_rng(7)
    samples = [noise.sample(rng) for _ in range(4_000)]
    drawn = np.array([[sample[i] for i in range(4)] for sample in samples])
    won = np.stack([(drawn / row).argmin(axis=1) for row in weights], axis=1)
    assert (won == winners).all()
    # The same exponentials, drawn until they agree.
    plain = rng.exponential(size=(400_000, 4))
    kept = np.stack([(plain / row).argmin(axis=1) for row in weights], axis=1) == winners
    plain = plain[kept.all(axis=1)]
    for i in range(4):
        assert stats.ks_2samp(drawn[:, i], plain[:, i]).pvalue > FALSE_ALARM
    assert stats.ks_2samp(drawn[:, 0] * 1.3, plain[:, 0]).pvalue < FALSE_ALARM


def test_a_law_of_too_many_pieces_is_not_computed():
    rng = np.random.default_rng(3)
    weights = rng.exponential(size=(6, 40)) + 50 * np.eye(6, 40)
    winners = tuple(range(6))
    with pytest.raises(TooManyCones):
        SharedNoise().masses([races(weights, winners)])


PROGRAMS = {
    "two winners": "s = rng.exponential(size=3)\n"
    "    return 3 * np.argmax(W[:3] / s) + np.argmax(W[1:] / s)",
    "gumbel": "g = rng.gumbel(size=3)\n"
    "    return 3 * np.argmax(np.log(W[:3]) + g) + np.argmax(np.log(W[1:]) + g)",
    "three winners": "s = np.array([[1, 2, 3], [3, 1, 2], [1, 5, 1.]]) / rng.exponential(size=3)\n"
    "    a = s.argmax(axis=1); return a[0] + 3 * a[1] + 9 * a[2]",
    "a loop that compares": "s = np.array([[1, 2, 3], [3, 1, 2.]]) / rng.exponential(size=3)\n"
    "    best = [0, 0]\n"
    "    for k in (0, 1):\n"
    "        for i in (1, 2):\n"
    "            if s[k][i] > s[k][best[k]]: best[k] = i\n"
    "    return best[0] + 3 * best[1]",
    "sorted, then raced": "e = rng.exponential(size=3)\n"
    "    order = np.argsort(e / W[:3]); return order[0] + 3 * order[1] + 9 * np.argmin(e / W[1:])",
    "raced, then sorted": "e = rng.exponential(size=3)\n"
    "    a = np.argmin(e / W[1:]); order = np.argsort(e / W[:3]); return a + 3 * order[1]",
    "in part": "e = rng.exponential(size=4)\n"
    "    return np.argmin(e[:3] / W[:3]) + 4 * np.argmin(e[1:] / W[:3])",
    "two noises in one race": "e, f = rng.exponential(size=2), rng.exponential(size=2)\n"
    "    a, b = np.argmin(e / W[:2]), np.argmin(f / W[2:])\n"
    "    return a + 2 * b + 4 * np.argmin(np.concatenate([e, f]) / W[::-1])",
    "the same weights again": "e = rng.exponential(size=3)\n"
    "    a, b = np.argmin(e / W[:3]), np.argmin(e / W[1:])\n"
    "    return a + 3 * b + 9 * (a == np.argmin(e / W[:3])) + 18 * (b == np.argmin(e / W[1:]))",
    "a power of uniforms": "u = rng.random(3)\n"
    "    return np.argmax(u ** (1 / W[:3])) + 3 * np.argmax(u ** (1 / W[1:]))",
    "weights that one token lacks": "e = rng.exponential(size=3); w = np.array([0., 0.4, 0.6])\n"
    "    return np.argmax(W[:3] / e) + 3 * np.argmax(w / e)",
}  # fmt: skip


@pytest.mark.parametrize("what", PROGRAMS)
def test_programs_have_the_law_of_plain_runs(what):
    assert run_twice(f"def program(rng):\n    {PROGRAMS[what]}\n", seed=21, few=20_000) == "same"


@given(random_races())
@settings(max_examples=15, derandomize=True, database=None, deadline=None)
def test_random_races_of_one_noise(text):
    assert run_twice(text, seed=23, few=1_000) == "same"


def test_in_torch():
    pytest.importorskip("torch")
    text = (
        "def program(rng):\n    e = torch.empty(3).exponential_()\n"
        "    w = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]])\n"
        "    a = (w / e).argmax(dim=-1)\n    return int(a[0] + 3 * a[1])\n"
    )
    assert run_twice(text, seed=22, few=5_000) == "same"


def test_independent_noise_is_told_from_one_noise():
    """Negative control: the law of the one is not that of the other."""
    one = "e = rng.exponential(size=3); f = e"
    two = "e, f = rng.exponential(size=3), rng.exponential(size=3)"
    laws = []
    for drawn in (one, two):
        scope = {"np": np, "W": np.array([0.5, 0.3, 0.2, 0.7])}
        exec(
            f"def rule(p, q, x, rng):\n    {drawn}\n"
            "    return [int(np.argmax(W[:3] / e) == np.argmax(W[1:] / f))]",
            scope,
        )
        rows = np.full((2, 3), 1 / 3)
        laws.append(enumerate_verify(scope["rule"], rows, rows[:1], [0]).probabilities)
    assert abs(laws[0][1,] - laws[1][1,]) > 0.05
    assert not isinstance(
        run_twice(
            f"def program(rng):\n    {two}\n    return np.argmin(e) == np.argmin(f)\n", seed=1
        ),
        Finding,
    )


def everything_is_read(p, q, x, rng):
    """One noise for all slots, and every winner is written to the output before it is cut."""
    rest = np.maximum(p[:-1] - q, 0)
    rows = np.concatenate([np.where(rest.any(axis=1, keepdims=True), rest, p[:-1]), p[-1:]])
    last = [int(t) for t in np.argmax(rows / rng.exponential(size=p.shape[1]), axis=-1)]
    for i, y in enumerate(x):
        if rng.random() >= p[i, y] / q[i, y]:
            return [*x[:i], last[i]]
    return [*x, last[-1]]


@pytest.mark.parametrize("instance", INSTANCES)
def test_a_right_rule_that_reads_every_winner_is_right(instance):
    p, q, drafted = INSTANCES[instance]
    law = enumerate_verify(everything_is_read, p, q, drafted)
    assert distance(law.probabilities, closed_form(p, q, drafted)) < 1e-12
    assert law.findings == ()


def test_a_rule_that_draws_its_draft_and_its_residual_from_one_noise_is_wrong():
    p, q = np.array([[0.2, 0.5, 0.3]] * 2), np.array([[0.8, 0.15, 0.05]])

    def rule(p, q, x, rng):
        e = rng.exponential(size=p.shape[1])
        y = int(np.argmin(e / q[0]))
        if rng.random() < p[0, y] / q[0, y]:
            return [y]
        return [int(np.argmin(e / np.maximum(p[0] - q[0], 0)))]

    with np.errstate(divide="ignore"):
        law = enumerate_verify(rule, p, q, [0])
    first = np.array([law.probabilities.get((y,), 0.0) for y in range(p.shape[1])])
    assert first.sum() == pytest.approx(1, abs=1e-12)
    assert np.abs(first - p[0]).sum() > 1e-2


def test_noise_raced_too_often_is_refused_by_name():
    rng = np.random.default_rng(3)
    weights = rng.exponential(size=(6, 20)) + 50 * np.eye(6, 20)

    def rule(p, q, x, rng):
        a = np.argmax(weights / rng.exponential(size=20), axis=1)
        return [int(a.sum()) % 3]

    rows = np.full((2, 3), 1 / 3)
    with pytest.raises(CannotEnumerate, match="raced many times with different weights"):
        enumerate_verify(rule, rows, rows[:1], [0])


@pytest.mark.parametrize("rate", [1e-12, 1e-3])
@pytest.mark.parametrize("flip", [False, True])
def test_a_race_of_narrowed_noise_is_replayed_whoever_won(rate, flip):
    def f(rng):
        u = rng.random(2)
        e = -np.log1p(-u) if flip else -np.log(u)
        return 2 if e[0] < 1e-4 else int(np.argmin(e * np.array([1.0, 1 / rate])))

    law = exact_law(f)
    assert law[2] == pytest.approx(-np.expm1(-1e-4), rel=1e-9)
    rare = np.exp(-1e-4) * -np.expm1(-1e-4 * rate - np.log1p(rate))
    assert law[1] == pytest.approx(rare, rel=1e-9)


def test_numbers_of_a_narrowed_race_agree_with_its_winner():
    class Atom:
        def __init__(self, low, high):
            self.low, self.high = low, high

    rng = np.random.default_rng(0)
    rates = (1.0, 0.5, 2.0)
    for flip in (False, True):
        atoms = [Atom(0.1, 0.7), Atom(0.0, 1.0), Atom(0.3, 0.9)]
        for won in range(3):
            race = NarrowedRace(atoms, rates, won, flip=flip)
            for _ in range(200):
                drawn = race.sample_uniforms(rng)
                u = np.array([drawn[id(x)] for x in atoms])
                assert all(x.low <= y <= x.high for x, y in zip(atoms, u, strict=True))
                assert np.argmin(-np.log(1 - u if flip else u) / rates) == won
