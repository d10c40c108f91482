"""The linear programs: against closed forms of block, greedy and token on chains, and on trees."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from support.oracles.oracle_laws import expected_accepted as mean_of
from support.oracles.tree_laws import tree_law

from simverify.errors import UsageError
from simverify.models.small import compact, toy
from simverify.simulators.exact.tree_optimum import coupling_bound, memoryless_optimum
from simverify.trees import SCHEMES, Drafting, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS


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
    monkeypatch.setattr("simverify.simulators.exact.tree_optimum.MAX_DRAFTS", 500)
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
