"""Certified bounds against exact numbers, fractions and full enumeration."""

from fractions import Fraction

import numpy as np
import pytest

from simverify.models.base import MarkovModel, compact, rational_markov, toy
from simverify.models.markov import markov
from simverify.simulators.exact import bounds
from simverify.simulators.exact.bounds import tree_bounds

RULES = ("block", "greedy")


@pytest.fixture
def on_grid(monkeypatch):
    """Keep the first level only, so that small trees go through the grid too."""
    monkeypatch.setattr(bounds, "_EXACT_ATOMS", 0)


def exact_curve(model, gamma, rule):
    """Pr(tau >= l) in fractions, node by node; ``model.rational`` is the model."""
    rows = model.rational
    nodes = [(None, Fraction(1), Fraction(1))]
    curve = []
    for _ in range(gamma):
        children = []
        for last, mass, joint in nodes:
            p = rows.target_start if last is None else rows.target_rows[last % model.states]
            q = rows.draft_start if last is None else rows.draft_rows[last % model.states]
            for token in range(model.vocab_size):
                m, f = mass * q[token], joint * p[token]
                if rule == "block":
                    f = min(f, m)
                if m and f:
                    children.append((token, m, f))
        nodes = children
        curve.append(sum((min(m, f) for _, m, f in nodes), Fraction(0)))
    return curve


def float_curve(model, gamma, rule):
    """Compute the same curve in float64 and by whole arrays: for larger trees, to about 1e-12."""
    mass, joint = model.draft_start, model.target_start
    last = np.arange(model.vocab_size)
    curve = []
    for level in range(gamma):
        if level:
            mass = (mass[:, None] * model.draft_rows[last % model.states]).ravel()
            joint = (joint[:, None] * model.target_rows[last % model.states]).ravel()
            last = np.tile(np.arange(model.vocab_size), mass.size // model.vocab_size)
        if rule == "block":
            joint = np.minimum(joint, mass)
        curve.append(np.minimum(mass, joint).sum())
    return np.array(curve)


def random_rational(seed, size, states, zeros):
    """Twelfth-like rows; with ``zeros``, about a third of the entries are 0, in p and q apart."""
    rng = np.random.default_rng([seed, size, states])

    def rows(count):
        weights = rng.integers(1, 12, (count, size))
        if zeros:
            weights *= rng.random((count, size)) < 0.67
        weights[np.arange(count), rng.integers(0, size, count)] += 3
        return [[Fraction(int(w), int(row.sum())) for w in row] for row in weights]

    return rational_markov("random", rows(1)[0], rows(states), rows(1)[0], rows(states))


def random_model(seed, size, mix, concentration=0.5):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(size, concentration), size + 1)
    q = mix * p + (1 - mix) * rng.dirichlet(np.full(size, concentration), size + 1)
    return MarkovModel("random", p[0], p[1:], q[0], q[1:])


def encloses(result, curve, room=0.0):
    """Whether an exact curve (fractions or floats) lies inside, ``room`` for its own error."""
    return all(
        Fraction(float(low)) <= Fraction(value) + Fraction(room)
        and Fraction(value) - Fraction(room) <= Fraction(float(high))
        for low, value, high in zip(result.lower, curve, result.upper, strict=True)
    )


# The models' float rows are their fractions rounded, which moves a curve by about 1e-16 a level.
ROUNDED_ROWS = 1e-14


def test_figure_3_of_the_paper():
    block = "2/3 5/9 4/9 31/81 26/81 205/729 176/729 1403/6561 1222/6561 9817/59049"
    greedy = "2/3 2/3 14/27 14/27 34/81 34/81 758/2187 758/2187 5702/19683 5702/19683"
    for rule, curve in (("block", block), ("greedy", greedy)):
        result = tree_bounds(toy(), 10, rule)
        assert encloses(result, map(Fraction, curve.split()), ROUNDED_ROWS)
        assert result.width < 1e-12
        assert result.bins == 0


@pytest.mark.parametrize(
    ("model", "gamma", "block", "greedy"),
    [
        (toy(), 2, "11/9", "12/9"),
        (toy(), 3, "5/3", "50/27"),
        (toy(), 8, "20384/6561", "8536/2187"),
        (compact(), 1, "5/6", "5/6"),
        (compact(), 2, "211/144", "221/144"),
        (compact(), 3, "139/72", "593/288"),
    ],
)
def test_exact_expectations(model, gamma, block, greedy):
    for rule, value in (("block", block), ("greedy", greedy)):
        result = tree_bounds(model, gamma, rule)
        assert result.expected_lower <= Fraction(value) + Fraction(1e-13)
        assert result.expected_upper >= Fraction(value) - Fraction(1e-13)
        assert result.width < 1e-12


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("size", "states", "gamma"), [(2, 1, 8), (3, 3, 6), (4, 4, 5), (5, 2, 4)])
def test_grid_encloses_the_exact_curve(on_grid, rule, zeros, size, states, gamma):
    for seed in range(3):
        model = random_rational(seed, size, states, zeros)
        exact = exact_curve(model, gamma, rule)
        for bins in (32, 100, 1000):
            result = tree_bounds(model, gamma, rule, bins=bins)
            assert result.bins == (bins if sum(exact[1:]) else 0)
            assert encloses(result, exact, ROUNDED_ROWS), (seed, bins)
        assert result.width < 1e-3


def test_grid_tells_the_rules_apart(on_grid):
    # Atoms and kinks coincide on this model, so its width falls with the bins only.
    model = compact()
    block, greedy = (tree_bounds(model, 6, rule) for rule in RULES)
    assert block.width < 1e-3
    assert greedy.width < 1e-3
    assert encloses(block, exact_curve(model, 6, "block"), ROUNDED_ROWS)
    assert encloses(greedy, exact_curve(model, 6, "greedy"), ROUNDED_ROWS)
    assert not encloses(block, exact_curve(model, 6, "greedy"))
    assert not encloses(greedy, exact_curve(model, 6, "block"))
    rows = model.rational
    moved = rational_markov(
        "moved", rows.target_rows[0], rows.target_rows, rows.draft_rows[0], rows.draft_rows
    )
    assert not encloses(block, exact_curve(moved, 6, "block"))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mix", [0.0, 0.6, 0.97, 0.9999])
def test_grid_encloses_a_larger_tree(on_grid, rule, mix):
    model = random_model(3, 24, mix)
    curve = float_curve(model, 4, rule)
    result = tree_bounds(model, 4, rule)
    assert encloses(result, curve, 1e-12)
    assert result.width < 2e-6


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("size", [2, 3])
def test_rays_of_small_fractions_stay_few(monkeypatch, rule, size):
    model = toy() if size == 2 else compact()
    exact = exact_curve(model, 8, rule)
    monkeypatch.setattr(bounds, "_EXACT_ATOMS", 2000)
    result = tree_bounds(model, 8, rule)
    assert result.bins == 0
    assert encloses(result, exact, ROUNDED_ROWS)
    assert result.width < 1e-10
    monkeypatch.undo()
    assert tree_bounds(model, 20, rule).width < 1e-9


def test_width_falls_with_the_square_of_the_bins(on_grid):
    model = random_model(4, 16, 0.6)
    for rule in RULES:
        few, many = (tree_bounds(model, 6, rule, bins=bins) for bins in (256, 2048))
        assert many.width < few.width / 16
        # Both hold, so they overlap.
        assert (many.lower <= few.upper).all()
        assert (few.lower <= many.upper).all()


@pytest.mark.parametrize(("rule", "width"), [("block", 1e-6), ("greedy", 1e-5)])
def test_width_on_markov_64(rule, width):
    model = markov(64)
    result = tree_bounds(model, 8, rule)
    assert 0 < result.width < width
    # Another 1e-9 for the first levels, whose sums are rounded in another order.
    np.testing.assert_allclose(result.lower[:3], float_curve(model, 3, rule), atol=1e-9)
    assert (np.diff(result.lower) < 0).all()


@pytest.mark.parametrize("rule", RULES)
def test_more_tokens_than_states(on_grid, rule):
    # Tokens of equal next state and shift are added up before the levels are run.
    model = markov(64)
    folded = MarkovModel(
        "folded", model.target_start, model.target_rows[:3], model.draft_start, model.draft_rows[:3]
    )
    result = tree_bounds(folded, 3, rule)
    assert encloses(result, float_curve(folded, 3, rule), 1e-12)
    assert result.width < 1e-5


@pytest.mark.parametrize("rule", RULES)
def test_edges(on_grid, rule):
    same = MarkovModel("same", *(random_model(5, 8, 1.0).__dict__[k] for k in _FIELDS))
    result = tree_bounds(same, 5, rule)
    assert encloses(result, np.ones(5), 1e-13)
    assert result.width < 1e-9

    left, right = np.array([0.5, 0.5, 0, 0]), np.array([0, 0, 0.5, 0.5])
    disjoint = MarkovModel("disjoint", left, left[None], right, right[None])
    assert tree_bounds(disjoint, 3, rule).upper.tolist() == [0.0] * 3

    tiny = np.array([1e-310, 1e-200, 1e-5, 1 - 1e-5])
    even = np.full(4, 0.25)
    for p, q in ((tiny, even), (even, tiny)):
        model = MarkovModel("tiny", p, p[None], q, q[None])
        assert encloses(tree_bounds(model, 4, rule), float_curve(model, 4, rule), 1e-13)


_FIELDS = ("target_start", "target_rows", "draft_start", "draft_rows")


@pytest.mark.parametrize(
    ("gamma", "rule", "bins", "message"),
    [
        (0, "block", None, "gamma is 0"),
        (2, "token", None, "rule is 'token'"),
        (2, "block", 8, "bins is 8"),
    ],
)
def test_bad_input(gamma, rule, bins, message):
    with pytest.raises(ValueError, match=message):
        tree_bounds(toy(), gamma, rule, bins=bins)


def test_bad_threads():
    with pytest.raises(ValueError, match="threads is 0: pass 1 or more"):
        tree_bounds(toy(), 2, "block", threads=0)


def test_the_number_of_threads_changes_no_bound():
    model = markov(40)
    alone, beside = (tree_bounds(model, 6, "greedy", threads=n) for n in (1, 5))
    assert alone.bins > 0
    np.testing.assert_array_equal(alone.lower, beside.lower)
    np.testing.assert_array_equal(alone.upper, beside.upper)


def test_a_large_vocabulary_is_bounded_on_a_grid_chosen_from_a_sample(monkeypatch):
    """Any grid gives true bounds; one from a third of the tokens is nearly as narrow."""
    model = markov(700)
    whole = tree_bounds(model, 5, "block", bins=256)
    monkeypatch.setattr(bounds, "_GRID_TOKENS", model.target_rows.size // 3)
    some = tree_bounds(model, 5, "block", bins=256)
    assert (some.lower <= whole.upper).all()
    assert (whole.lower <= some.upper).all()
    assert 0 < some.width < 2 * whole.width


def test_levels_that_lose_nothing_are_one():
    for rule in ("block", "greedy"):
        cold = tree_bounds(markov(50, temperature=0.0, distance=0.0), 6, rule)
        assert (cold.lower == 1).all()
        far = tree_bounds(markov(50, temperature=0.0, distance=1.0), 6, rule)
        assert set(far.lower) <= {0.0, 1.0}
        assert (tree_bounds(markov(50), 3, rule).upper < 1).all()
