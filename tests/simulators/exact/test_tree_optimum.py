"""The linear programs: against closed forms of block, greedy and token on chains, and on trees."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from support.instances import random_pair
from support.oracles.oracle_laws import expected_accepted as mean_of
from support.oracles.tree_laws import float_tree_law, tree_law

from simverify.errors import UsageError
from simverify.models.base import compact, toy
from simverify.simulators.exact.bounds import (
    best_hit,
    coupling_bound,
    memoryless_optimum,
    traversal_bounds,
)
from simverify.symbolic.paths import ForkedGenerator, explore
from simverify.trees import SCHEMES, Drafting, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS

# The best hit of one node: its formula, all sets of tokens, the linear program; and the rules.


SIZES = list(itertools.product(range(2, 7), (1, 2, 3)))


def pair(seed, size):
    """Two rows as fractions, a fifth of the entries zero."""
    rng = np.random.default_rng([seed, size])

    def row():
        weights = rng.integers(1, 12, size) * (rng.random(size) < 0.8)
        weights[rng.integers(size)] += 1
        return np.array([Fraction(int(w), int(weights.sum())) for w in weights], dtype=object)

    return row(), row()


def over_all_sets(p, q, k, scheme):
    """The same minimum over every set of tokens, by the law of the siblings."""
    law = scheme.law(q, k)
    sets = itertools.chain.from_iterable(
        itertools.combinations(range(len(p)), n) for n in range(len(p) + 1)
    )
    return 1 + min(
        sum((p[x] for x in some), Fraction(0))
        - sum((mass for siblings, mass in law.items() if set(siblings) <= set(some)), Fraction(0))
        for some in sets
    )


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_the_formula_is_the_minimum_over_all_sets(scheme):
    """Up to 40 pairs of rows for each scheme."""
    for seed in range(40):
        size, k = SIZES[(7 * seed) % len(SIZES)]
        if size**k < 130:
            p, q = pair(seed, size)
            assert best_hit(p, q, k, scheme) == over_all_sets(p, q, k, scheme), (seed, size, k)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
@pytest.mark.thorough
def test_the_formula_is_the_linear_program(scheme):
    """90 pairs of rows for each scheme, six of every size: a formula is right or wrong on most."""
    for seed in range(90):
        size, k = SIZES[(5 * seed) % len(SIZES)]
        p, q = (row.astype(float) for row in pair(seed, size))
        best = best_hit(p, q, k, scheme)
        drafting = Drafting(shape_of_levels([k]), scheme)
        solved = memoryless_optimum(drafting, *(lambda _, row=row: row for row in (p, q)))
        assert solved.value == pytest.approx(best, abs=1e-12), (seed, size, k)


def hits_by_paths(verifier, p, q, k, scheme):
    """The same as ``verifier.hits``, by every draft and every coin of the rule's step."""
    found = 0 * p
    for siblings, mass in scheme.law(q, k).items():

        def step(path, drafted=list(siblings)):  # noqa: B006 -- bound here, and never changed
            return verifier.one_step(p, q, drafted, ForkedGenerator(path))

        for token, weight in explore(step):
            if token in siblings:
                found[token] += mass * weight
    return found


KNOWN = [(v, scheme) for v in TREE_VERIFIERS.values() for scheme in v.hits]


@pytest.mark.parametrize(
    ("verifier", "scheme"), KNOWN, ids=[f"{v.name}-{scheme}" for v, scheme in KNOWN]
)
@pytest.mark.thorough
def test_hits_in_closed_form_are_those_of_all_paths(verifier, scheme):
    """60 pairs of rows for each rule and scheme, four and more of each size up to V = 6 and three
    siblings: what is compared are fractions, and a closed form is right or wrong on most.
    """
    most = 2 if verifier.name == "spechub" else 3
    for seed in range(60):
        size, k = 2 + seed % 5, 1 + seed // 5 % most
        p, q = pair(seed, size)
        closed = verifier.hits[scheme](p, q, k)
        gap = abs(closed - hits_by_paths(verifier, p, q, k, SCHEMES[scheme])).max()
        # K-SEQ's rho is rounded up, which leaves a rejected token that much of a residual.
        assert gap <= (1e-13 if verifier.name == "k-seq" else 0), (seed, k)
        assert closed.sum() <= best_hit(p, q, k, SCHEMES[scheme])


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("greedy-draft", "last-sampled"), ("fixed-tree", "top-k"), ("spechub", "argmax-first")],
)
def test_rules_that_reach_the_best(name, scheme):
    verifier = TREE_VERIFIERS[name]
    for seed in range(10):
        p, q = pair(seed, 4)
        assert verifier.hits[scheme](p, q, 2).sum() == best_hit(p, q, 2, SCHEMES[scheme])


@pytest.mark.parametrize(("k", "best"), [(1, "2/3"), (2, "8/9"), (3, "1")])
def test_numbers_of_the_toy(k, best):
    p, q = (np.array([Fraction(n, 3) for n in row], dtype=object) for row in ((1, 2), (2, 1)))
    assert best_hit(p, q, k, SCHEMES["iid"]) == Fraction(best)
    # The controls: recursive rejection and matching are below, from two drafts on.
    for name in ("recursive", "match"):
        assert (TREE_VERIFIERS[name].hits["iid"](p, q, k).sum() < Fraction(best)) == (
            k > 1 or name == "match"
        )


def test_too_many_draws_to_list():
    row = np.full(200, 1 / 200)
    with pytest.raises(UsageError, match="take fewer drafts or a smaller vocabulary"):
        best_hit(row, row, 3, SCHEMES["without-replacement"])
    assert best_hit(row, row, 3, SCHEMES["iid"]) == pytest.approx(1)


# Traversal on chains as a mixture of block's curves, against all of its trees and coins.


def curve_of(rule, model, levels):
    drafting = Drafting(shape_of_levels(levels), SCHEMES["iid"])
    curve = np.zeros(len(levels))
    for tokens, mass in float_tree_law(TREE_VERIFIERS[rule].rule, model, drafting).items():
        curve[: len(tokens) - 1] += mass
    return curve


@pytest.mark.parametrize("levels", [[1, 1], [2, 1], [3, 1], [2, 1, 1]])
@pytest.mark.parametrize("model", [toy(), compact(), random_pair(3, 3)], ids=lambda m: m.name)
@pytest.mark.thorough
def test_curve(model, levels):
    bounds = traversal_bounds(model, levels[0], len(levels))
    exact = curve_of("traversal", model, levels)
    assert (bounds.lower <= exact + 1e-14).all()
    assert (bounds.upper >= exact - 1e-14).all()
    assert bounds.width < 1e-10
    if len(levels) < 3 and model.name == "compact":
        other = curve_of("recursive", model, levels)
        assert np.abs(other - bounds.lower).max() > 0.01


def test_fractions():
    """Two children of the root, and one chain, which is block's."""
    assert traversal_bounds(toy(), 2, 1).expected_lower == pytest.approx(7 / 9)
    assert traversal_bounds(compact(), 1, 3).expected_lower == pytest.approx(139 / 72)


def iid(levels):
    return Drafting(shape_of_levels(levels), SCHEMES["iid"])


def plain_loop_optimum(target, draft, gamma):
    return memoryless_optimum(iid([1] * gamma), target, draft)


def coupling_optimum(target, draft, gamma):
    return coupling_bound(iid([1] * gamma), target, draft)


def random_instance(seed, size, gamma):
    """Rows of every prefix apart, entries of .02 and more, as exact fractions of 1000."""
    rng = np.random.default_rng([seed, size, gamma])

    def rows():
        spare = 1000 - 20 * size
        return {
            x: [
                Fraction(20 + int(n), 1000)
                for n in rng.multinomial(spare, rng.dirichlet([1] * size))
            ]
            for length in range(gamma + 1)
            for x in itertools.product(range(size), repeat=length)
        }

    return rows(), rows()


def as_row(table):
    return lambda prefix: np.array(table[tuple(prefix)], dtype=np.float64)


def expected_accepted(target, draft, size, gamma):
    """E[tau] of token, block and the coupling bound by their closed forms, in fractions."""
    nodes = {(): (Fraction(1),) * 4}
    token_sum = block_sum = coupling_sum = Fraction(0)
    for _ in range(gamma):
        children = {}
        for x, (token, block, draft_mass, target_mass) in nodes.items():
            for y, (p, q) in enumerate(zip(target[x], draft[x], strict=True)):
                mass = draft_mass * q
                children[(*x, y)] = (token * min(p, q), min(block * p, mass), mass, target_mass * p)
        assert len(children) == size * len(nodes)
        nodes = children
        token_sum += sum(token for token, _, _, _ in nodes.values())
        block_sum += sum(block for _, block, _, _ in nodes.values())
        coupling_sum += sum(min(q, p) for _, _, q, p in nodes.values())
    return float(token_sum), float(block_sum), float(coupling_sum)


@pytest.mark.parametrize(
    ("size", "gamma", "seed"),
    [(2, 1, 0), (2, 2, 0), (2, 2, 1), (2, 4, 0), (3, 2, 0), (3, 2, 1), (3, 3, 0), (4, 2, 0)],
)
def test_block_is_optimal_in_the_plain_loop(size, gamma, seed):
    target, draft = random_instance(seed, size, gamma)
    token, block, coupling = expected_accepted(target, draft, size, gamma)
    optimum = plain_loop_optimum(as_row(target), as_row(draft), gamma)
    assert optimum.value == pytest.approx(block, abs=1e-9)
    assert block - 1e-13 <= optimum.upper <= block + 1e-9
    # The controls: neither a weaker rule nor a bound out of reach would have passed.
    if gamma == 1:
        assert token == pytest.approx(coupling, abs=1e-15)
    else:
        assert token < optimum.value - 1e-4
        assert coupling > optimum.upper + 1e-4


@pytest.mark.parametrize(("size", "gamma", "seed"), [(2, 1, 0), (2, 4, 0), (3, 2, 0), (4, 2, 0)])
def test_coupling_without_the_continuation(size, gamma, seed):
    target, draft = random_instance(seed, size, gamma)
    _, block, coupling = expected_accepted(target, draft, size, gamma)
    optimum = coupling_optimum(as_row(target), as_row(draft), gamma)
    assert optimum.value == pytest.approx(coupling, abs=1e-9)
    assert coupling - 1e-13 <= optimum.upper <= coupling + 1e-9
    if gamma > 1:
        assert block < optimum.value - 1e-4


@pytest.mark.parametrize(
    ("model", "gamma", "block", "greedy"),
    [
        (toy(), 1, 2 / 3, 2 / 3),
        (toy(), 2, 11 / 9, 12 / 9),
        (toy(), 4, 166 / 81, 64 / 27),
        (compact(), 2, 211 / 144, 221 / 144),
        (compact(), 3, 139 / 72, 593 / 288),
    ],
)
def test_exact_numbers(model, gamma, block, greedy):
    plain = plain_loop_optimum(model.target, model.draft, gamma)
    coupling = coupling_optimum(model.target, model.draft, gamma)
    assert plain.value == pytest.approx(block, abs=1e-9)
    assert plain.upper == pytest.approx(block, abs=1e-9)
    assert coupling.value == pytest.approx(greedy, abs=1e-9)
    assert coupling.upper == pytest.approx(greedy, abs=1e-9)


def test_rows_with_zeros():
    target = as_row({(): [0.5, 0.5, 0], (0,): [0, 1, 0], (1,): [0.25, 0, 0.75], (2,): [1, 0, 0]})
    draft = as_row({(): [0.25, 0, 0.75], (0,): [0.5, 0.5, 0], (1,): [1, 0, 0], (2,): [0, 0, 1]})
    # By hand: only token 0 can be kept first, f(0) = 1/4; then f(01) = min(1/4, 1/8).
    assert plain_loop_optimum(target, draft, 1).value == pytest.approx(1 / 4, abs=1e-12)

    def longer(row):
        return lambda prefix: row(prefix[-1:])

    optimum = plain_loop_optimum(longer(target), longer(draft), 2)
    assert optimum.value == pytest.approx(3 / 8, abs=1e-12)
    assert optimum.upper == pytest.approx(3 / 8, abs=1e-12)


@pytest.mark.parametrize(
    ("solve", "levels"), [(memoryless_optimum, [10]), (coupling_bound, [1] * 12)]
)
def test_too_large(solve, levels, monkeypatch):
    # So many trees as are listed take seconds.
    monkeypatch.setattr("simverify.simulators.exact.bounds.MAX_DRAFTS", 500)
    model = compact()
    with pytest.raises(UsageError, match="take a smaller vocabulary or tree for its optimum"):
        solve(iid(levels), model.target, model.draft)


@pytest.mark.parametrize(
    ("levels", "memoryless", "coupling"),
    [
        ([2], 8 / 9, 8 / 9),
        ([3], 1, 1),
        ([1, 2], 35 / 27, 4 / 3),
        ([2, 2], 1271 / 729, 16 / 9),
    ],
)
def test_trees_on_the_toy(levels, memoryless, coupling):
    model = toy()
    best = memoryless_optimum(iid(levels), model.target, model.draft)
    bound = coupling_bound(iid(levels), model.target, model.draft)
    assert best.value == pytest.approx(memoryless, abs=1e-9)
    assert best.upper == pytest.approx(memoryless, abs=1e-9)
    assert bound.value == pytest.approx(coupling, abs=1e-9)
    assert bound.upper == pytest.approx(coupling, abs=1e-9)


@pytest.mark.parametrize("name", ["traversal", "naive", "recursive", "gbv", "tournament"])
@pytest.mark.parametrize("levels", [[2], [2, 1]])
def test_no_rule_is_above_the_optimum_of_its_drafts(name, levels):
    shape, model = shape_of_levels(levels), compact()
    mean = float(mean_of(tree_law(TREE_VERIFIERS[name].rule, model, shape, "iid")))
    best = memoryless_optimum(iid(levels), model.target, model.draft)
    assert mean <= best.upper + 1e-12
    # The control: one of the tree's first level alone has less.
    assert mean > memoryless_optimum(iid([1]), model.target, model.draft).upper


@pytest.mark.parametrize(
    ("name", "scheme"), [("fixed-tree", "top-k"), ("spechub", "argmax-first"),
                         ("greedy-draft", "last-sampled")],
)  # fmt: skip
def test_rules_that_are_optimal_on_their_drafts(name, scheme):
    shape, model = shape_of_levels([2]), compact()
    mean = float(mean_of(tree_law(TREE_VERIFIERS[name].rule, model, shape, scheme)))
    best = memoryless_optimum(Drafting(shape, SCHEMES[scheme]), model.target, model.draft)
    assert best.value == pytest.approx(mean, abs=1e-9)
