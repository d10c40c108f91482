"""."""

import itertools
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from support.whole_laws import compare_verify

from simverify.auditing import run as module
from simverify.auditing.coins import NotMonotone, TooManyCalls, bisect_law, compare_coins
from simverify.auditing.run import self_test
from simverify.auditing.settings import AuditSettings
from simverify.engines.adapt import with_coins
from simverify.faults import CONTROLS, FAULTS
from simverify.models.base import compact
from simverify.results import Tried

COMPACT = compact()


def invert(weights, u):
    goal, total = u * sum(weights), 0
    for token, weight in enumerate(weights):
        total = total + weight
        if weight > 0 and goal < total:
            return token
    return max(token for token, weight in enumerate(weights) if weight > 0)


def excess(p, q):
    return [max(a - b, 0) for a, b in zip(p, q, strict=True)]


def token(p, q, x, u, *, factor=1.0, reuse=False):
    for i, t in enumerate(x):
        if not u[i] < factor * p[i][t] / q[i][t]:
            return [*x[:i].tolist(), invert(excess(p[i], q[i]), u[i] if reuse else u[-1])]
    return [*x.tolist(), invert(p[-1], u[-1])]


def inflated(p, q, x, u):
    return token(p, q, x, u, factor=1.0001)


def reused(p, q, x, u):
    return token(p, q, x, u, reuse=True)


def block(p, q, x, u, *, token_residual=False):
    gamma, tau, kept, weight = len(x), 0, 1.0, 1.0
    for i, t in enumerate(x):
        weight = min(1.0, weight * p[i][t] / q[i][t])
        h = weight
        if i + 1 < gamma:
            above = sum(excess(weight * p[i + 1], q[i + 1]))
            h = above / (above + 1 - weight) if above + 1 - weight > 0 else 1.0
        if u[i] < h:
            tau, kept = i + 1, weight
    if tau == gamma:
        return [*x.tolist(), invert(p[-1], u[-1])]
    scale = 1.0 if token_residual else kept
    return [*x[:tau].tolist(), invert(excess(scale * p[tau], q[tau]), u[-1])]


def stealth(p, q, x, u):
    return block(p, q, x, u, token_residual=True)


@pytest.mark.parametrize(
    ("rule", "gamma", "tau"),
    [(token, 1, 5 / 6), (token, 3, 379 / 216), (block, 2, 211 / 144), (block, 3, 139 / 72)],
)
def test_correct_rules_are_lossless_with_their_own_acceptance(rule, gamma, tau):
    result = compare_coins(rule, COMPACT, gamma)
    assert result.max_abs_deviation < 1e-14
    assert result.pruned == result.lost == 0
    assert result.expected_accepted == pytest.approx(tau, abs=1e-13)


def test_float32_coins_deviate_by_their_own_grid_only():
    assert 1e-10 < compare_coins(token, COMPACT, 2, bits=24).max_abs_deviation < 1e-7


@pytest.mark.parametrize(("rule", "floor"), [(inflated, 1e-5), (reused, 0.01), (stealth, 1e-4)])
def test_faulty_rules_are_wrong_and_the_path_enumerator_agrees(rule, floor):
    by_coins = compare_coins(rule, COMPACT, 3)
    by_paths = compare_verify(with_coins(rule), COMPACT, 3)
    assert by_coins.max_abs_deviation > floor
    assert by_coins.max_abs_deviation == pytest.approx(by_paths.max_abs_deviation, abs=1e-12)
    assert by_coins.tv == pytest.approx(by_paths.tv, abs=1e-12)
    assert by_coins.place.position == by_paths.place.position


def boxes_by_chance(rng, coins, cells):
    """A function that is constant on the boxes of a random decision tree over the coins."""

    def grow(budget):
        if budget == 1:
            return (int(rng.integers(10**6)),)
        left = int(rng.integers(1, budget))
        return int(rng.integers(coins)), rng.random(), grow(left), grow(budget - left)

    tree = grow(cells)

    def function(u):
        node = tree
        while len(node) == 4:
            axis, cut, low, high = node
            node = low if u[axis] < cut else high
        return node

    return function


@pytest.mark.parametrize("seed", range(20))
def test_laws_of_random_boxes_are_those_of_the_whole_grid(seed):
    rng = np.random.default_rng(seed)
    bits, coins = 4, 3
    function = boxes_by_chance(rng, coins, 6)
    grid = (np.array(point) / 2**bits for point in itertools.product(range(2**bits), repeat=coins))
    counts = Counter(function(point) for point in grid)
    due = {tokens: count / 2 ** (bits * coins) for tokens, count in counts.items()}
    law = bisect_law(function, coins, bits=bits, probes=32)
    assert law.probabilities == pytest.approx(due, abs=1e-12)
    assert law.unresolved == 0
    fine = bisect_law(function, coins, probes=32)
    off = [abs(law.probabilities.get(t, 0) - p) for t, p in fine.probabilities.items()]
    assert 0.001 < max(off) <= law.error


@pytest.mark.parametrize(
    "accepts",
    [
        lambda u, a: abs(u - 0.5) < a / 2,
        lambda u, a: (3 * u) % 1 < a,
        lambda u, a: u < a / 2 or u >= 1 - a / 2,
    ],
)
def test_a_coin_that_is_not_monotone_is_refused_with_its_witness(accepts):
    def rule(p, q, x, u):
        if accepts(u[0], min(1, p[0][x[0]] / q[0][x[0]])):
            return [int(x[0]), invert(p[1], u[1])]
        return [invert(excess(p[0], q[0]), u[1])]

    with pytest.raises(NotMonotone, match="coin 0 is not monotone") as caught:
        compare_coins(rule, COMPACT, 1)
    assert caught.value.coin == 0
    # The same rule with coins in order is followed: the refusal is about the coin.
    assert compare_coins(token, COMPACT, 1).max_abs_deviation < 1e-14


def test_the_witness_shows_the_output_coming_back():
    def rule(u):
        return (int(0.3 < u[1] < 0.7 and u[0] > 0.2), int(u[2] < 0.5))

    with pytest.raises(NotMonotone) as caught:
        bisect_law(rule, 3)
    error = caught.value
    assert error.points == tuple(sorted(error.points))
    given = []
    for value in error.points:
        coins = np.array(error.held)
        coins[error.coin] = value
        given.append(rule(coins))
    assert given == [error.outer, error.inner, error.outer]
    assert error.inner != error.outer


def test_boundaries_across_the_axes_are_bounded_not_guessed():
    law = bisect_law(lambda u: (int(u[0] * u[1] < 0.3),), 2, max_calls=20_000)
    truth = 0.3 - 0.3 * np.log(0.3)
    assert 1e-4 < law.unresolved < 0.01
    assert law.probabilities[1,] <= truth <= law.probabilities[1,] + law.unresolved
    assert law.error >= law.unresolved
    assert law.calls <= 20_000


def test_hidden_randomness_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="draws more than its coins"):
        bisect_law(lambda u: (int(rng.integers(10**9)),), 1)
    with pytest.raises(ValueError, match="draws more than its coins"):
        bisect_law(lambda u: (int(0.2 < u[0] < 0.8 and rng.integers(10**9)),), 1)


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (lambda p, x: [], "empty"),
        (lambda p, x: [7], "out-of-range"),
        (lambda p, x: [0.5], "not-integers"),
        (lambda p, x: [*x, 0, 0], "too-many"),
        (lambda p, x: [*((x + 1) % 3), 0], "not-a-prefix"),
        (lambda p, x: 1 // 0, "raises"),
        (lambda p, x: p.fill(0) or [0], "inputs-modified"),
    ],
)
def test_wrong_results_are_findings(result, kind):
    found = compare_coins(lambda p, q, x, u: result(p, x), COMPACT, 1)
    assert [finding.kind for finding in found.findings] == [kind]
    assert found.max_abs_deviation > 0.01


def test_bad_parameters_say_what_to_pass():
    with pytest.raises(TooManyCalls, match="8 corners of 3 coins"):
        bisect_law(lambda u: (0,), 3, max_calls=8)
    with pytest.raises(ValueError, match="from 1 to 16 coins"):
        bisect_law(lambda u: (0,), 0)
    with pytest.raises(ValueError, match="24 for float32"):
        bisect_law(lambda u: (0,), 1, bits=64)
    with pytest.raises(ValueError, match="probes=0"):
        bisect_law(lambda u: (0,), 1, probes=0)


SMALLER = AuditSettings(gamma=2, vocab=3)
"""Two drafts and three tokens at most: every fault shows on them. The other slow test is of the
defaults, four and four."""


@pytest.fixture
def some(monkeypatch):
    """Every seventh entry alone is tried, and a fault of whole batches; the faults' names."""
    known = list(module._catalogue_entries())
    entries = [*known[::7], next(entry for entry in known if entry.subject.batch)]
    monkeypatch.setattr(module, "_catalogue_entries", lambda: iter(entries))
    return {entry.subject.name for entry in entries if entry.kind == "fault"}


@pytest.mark.thorough
def test_some_faults_are_caught_and_some_controls_pass(some):
    run = self_test(SMALLER)
    assert (run.verdict, run.unexpected) == ("PASS", ())
    assert {entry.name for entry in run.results if entry.caught} == some
    assert {entry.kind for entry in run.results} == {"fault", "control"}
    assert {entry.tier for entry in run.results} >= {"exact", "sampled"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [SMALLER, AuditSettings()], ids=["smaller instances", "as it comes"]
)
def test_every_fault_is_caught_and_every_control_passes(settings):
    run = self_test(settings)
    assert (run.verdict, run.unexpected) == ("PASS", ())
    tried = run.results
    names = {entry.name for entry in tried}
    assert set(FAULTS) <= names
    assert set(CONTROLS) <= names
    # What the enumerator can follow is caught exactly.
    sampled = {entry.name for entry in tried if entry.tier == "sampled"}
    batches = {name for name, fault in FAULTS.items() if fault.batch}
    assert sampled == batches


def test_a_blind_audit_is_seen(monkeypatch, some):
    """Negative control: an audit that never fails anything misses the faults."""

    class Blind:
        failure = not_enumerable = None
        paths = 0

    class Deaf:
        verdict = "PASS"
        tier = SimpleNamespace(samples=0)

    monkeypatch.setattr(module, "run_exact_tier", lambda *_, **__: Blind())
    monkeypatch.setattr(module, "sample_callable", lambda *_, **__: Deaf())
    run = self_test(SMALLER)
    assert run.verdict == "FAIL"
    assert set(run.unexpected) >= some & set(FAULTS) - {"zero-mass-accept"}


def test_what_is_expected():
    def as_expected(kind, caught):
        entry = Tried(name="a", kind=kind, caught=caught, tier="exact", effort=1, tv=None)
        return entry.as_expected

    assert as_expected("fault", True)
    assert not as_expected("fault", False)
    assert as_expected("control", False)
    assert not as_expected("control", True)
