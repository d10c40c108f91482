"""The best hit of one node: its formula, all sets of tokens, the linear program; and the rules."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from simverify.errors import UsageError
from simverify.simulators.exact.one_step import best_hit
from simverify.simulators.exact.tree_optimum import memoryless_optimum
from simverify.symbolic.enumeration.paths import Coins, explore
from simverify.trees import SCHEMES, Drafting, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS

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
            return verifier.one_step(p, q, drafted, Coins(path))

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
