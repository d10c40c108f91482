"""Rules for draft trees: lossless to the last fraction, and their slips are not."""

from fractions import Fraction

import pytest
from support.instances import disjoint_pair, equal_pair, one_hot_pair, random_pair
from support.oracles.oracle_laws import expected_accepted
from support.oracles.tree_laws import tree_deviation, tree_law

from simverify.models.base import compact, toy
from simverify.trees import SCHEMES, shape_of_levels
from simverify.verifiers import VERIFIERS
from simverify.verifiers.base import draw, excess
from simverify.verifiers.trees import TREE_VERIFIERS
from simverify.verifiers.trees.base import exclude_tokens, normalised, walk_rule

CLAIMS = [(name, scheme) for name, v in TREE_VERIFIERS.items() for scheme in v.schemes]
SMALL = ([1], [2], [3], [1, 1], [1, 2], [2, 1])
LARGE = ([2, 2], [3, 1], [2, 1, 1])


def is_lossless(name, scheme, model, levels):
    verifier, shape = TREE_VERIFIERS[name], shape_of_levels(levels)
    if not verifier.fits(shape):
        return
    law = tree_law(verifier.rule, model, shape, scheme)
    assert tree_deviation(law, model, shape) == 0, (model.name, levels)


@pytest.mark.parametrize(("name", "scheme"), CLAIMS)
@pytest.mark.thorough
def test_lossless_on_two_tokens(name, scheme):
    for levels in SMALL + LARGE:
        is_lossless(name, scheme, toy(), levels)


@pytest.mark.parametrize(("name", "scheme"), CLAIMS)
@pytest.mark.thorough
def test_lossless_on_three_tokens(name, scheme):
    # K-SEQ's rho is a fraction of 52 bits, and every path multiplies them.
    models = [compact()] if name == "k-seq" else [compact(), random_pair(0, 3)]
    for model in models:
        for levels in ([2], [1, 2]) if name == "k-seq" else ([2], [1, 2], [2, 1]):
            is_lossless(name, scheme, model, levels)


@pytest.mark.parametrize("model", [one_hot_pair(), equal_pair(), disjoint_pair()])
@pytest.mark.parametrize(("name", "scheme"), CLAIMS)
def test_lossless_on_degenerate_rows(name, scheme, model):
    for levels in ([3], [2, 1]) if model.vocab_size < 4 else ([2],):
        if name != "k-seq" or levels != [2, 1]:
            is_lossless(name, scheme, model, levels)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scheme"), CLAIMS)
def test_lossless_on_fifty_models(name, scheme):
    for model in [compact(), *(random_pair(i, 2 + i % 2) for i in range(50))]:
        for levels in [2], [1, 2], [2, 1], *(LARGE if model.vocab_size < 3 else ()):
            if name != "k-seq" or model.vocab_size < 3 or levels != [2, 1]:
                is_lossless(name, scheme, model, levels)


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("naive", "argmax-first"), ("naive", "top-k"), ("k-seq", "without-replacement"),
        ("recursive", "without-replacement"), ("recursive", "argmax-first"),
        ("recursive-without-replacement", "iid"), ("spechub", "iid"), ("spechub", "top-k"),
        ("greedy-draft", "argmax-first"), ("greedy-draft", "top-k"),
        ("tournament", "without-replacement"), ("gbv", "without-replacement"),
        ("traversal", "without-replacement"),
        ("traversal-without-replacement", "iid"), ("fixed-tree", "iid"),
        ("hierarchical", "top-k"), ("traversal", "last-sampled"),
    ],
)  # fmt: skip
def test_another_scheme_than_claimed_is_lossy(name, scheme):
    verifier = TREE_VERIFIERS[name]
    assert scheme in SCHEMES
    assert scheme not in verifier.schemes
    chain = (name, scheme) in (("hierarchical", "top-k"), ("greedy-draft", "argmax-first"))
    shape = shape_of_levels([1, 1] if chain else [2])
    # On the compact model the residual is one token, and several of these are hidden.
    model = random_pair(3, 4)
    law = tree_law(verifier.rule, model, shape, scheme)
    assert tree_deviation(law, model, shape) > Fraction(1, 100)


def recursive_variant(p, q, siblings, rng, *, renormalise=True, stale=False, twice=False):
    """Return the token of recursive rejection without replacement, with one thing done wrong."""
    residual = p
    for x in siblings:
        if q[x] > 0 and rng.random() < residual[x] / q[x]:
            return x
        residual = excess(residual, q)
        if twice:
            residual = excess(residual, q)
        if renormalise:
            residual = normalised(residual, p)
        if not stale:
            q = exclude_tokens(q, [x])
    return draw(residual, p, rng)


@pytest.mark.parametrize("slip", [{"renormalise": False}, {"stale": True}, {"twice": True}])
def test_slips_of_recursive_rejection_are_lossy(slip):
    shape, model = shape_of_levels([2]), random_pair(3, 4)

    def deviation(**slip):
        rule = walk_rule(lambda *given: recursive_variant(*given, **slip))
        return tree_deviation(tree_law(rule, model, shape, "without-replacement"), model, shape)

    assert deviation() == 0
    assert deviation(**slip) > 0


@pytest.mark.parametrize(
    ("name", "levels", "expected"),
    [
        ("traversal", [2], Fraction(7, 9)),
        ("traversal", [1, 2], Fraction(34, 27)),
        ("traversal", [2, 2], Fraction(118, 81)),
        ("gbv", [2], Fraction(8, 9)),
        ("gbv", [2, 1], Fraction(131, 81)),
        ("gbv", [2, 1, 1], Fraction(1621, 729)),
        ("gbv", [3], Fraction(26, 27)),
        ("recursive", [2], Fraction(7, 9)),
        ("recursive", [3], Fraction(23, 27)),
        ("match", [2], Fraction(2, 3)),
        ("traversal", [1, 1, 1], Fraction(5, 3)),
        ("hierarchical", [1, 1, 1], Fraction(5, 3)),
        ("tree-monte-carlo", [1, 1, 1], Fraction(5, 3)),
    ],
)  # fmt: skip
def test_numbers_on_the_toy(name, levels, expected):
    law = tree_law(TREE_VERIFIERS[name].rule, toy(), shape_of_levels(levels), "iid")
    assert expected_accepted(law) == expected


@pytest.mark.parametrize(("levels", "expected"), [([2], 0.811420), ([3], 0.896576)])
def test_k_seq_on_the_toy(levels, expected):
    law = tree_law(TREE_VERIFIERS["k-seq"].rule, toy(), shape_of_levels(levels), "iid")
    assert float(expected_accepted(law)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("levels", "expected"), [([1, 1], "211/144"), ([1, 1, 1], "139/72")])
@pytest.mark.parametrize(
    "name", ["traversal", "traversal-without-replacement", "hierarchical", "gbv",
             "tree-monte-carlo"]
)  # fmt: skip
def test_a_chain_is_judged_as_block_does(name, levels, expected):
    law = tree_law(TREE_VERIFIERS[name].rule, compact(), shape_of_levels(levels), "iid")
    assert expected_accepted(law) == Fraction(expected)


@pytest.mark.parametrize("name", TREE_VERIFIERS)
def test_a_rule_has_the_law_of_block_on_a_chain_where_it_says_so(name):
    def block(target_probs, draft_probs, tokens, parents, rng):
        return VERIFIERS["block"].rule(target_probs, draft_probs[:-1], tokens, rng)

    verifier, shape = TREE_VERIFIERS[name], shape_of_levels([1, 1, 1])
    scheme = "iid" if "iid" in verifier.schemes else verifier.schemes[0]
    same = [
        tree_law(verifier.rule, model, shape, scheme) == tree_law(block, model, shape, scheme)
        for model in [toy(), compact(), *(random_pair(i, 2 + i % 2) for i in range(4))]
    ]
    assert all(same) == verifier.block_on_chain


def test_spechub_and_greedy_draft_have_one_law():
    shape = shape_of_levels([2, 1])
    laws = [
        tree_law(TREE_VERIFIERS[name].rule, compact(), shape, scheme)
        for name, scheme in (("spechub", "argmax-first"), ("greedy-draft", "argmax-first"))
    ]
    # A single child is certain here, which greedy draft takes for a sample.
    assert expected_accepted(laws[0]) < expected_accepted(laws[1])
    one = shape_of_levels([2])
    assert tree_law(TREE_VERIFIERS["spechub"].rule, compact(), one, "argmax-first") == tree_law(
        TREE_VERIFIERS["greedy-draft"].rule, compact(), one, "last-sampled"
    )


def test_a_fixed_tree_accepts_the_mass_of_its_nodes():
    law = tree_law(TREE_VERIFIERS["fixed-tree"].rule, compact(), shape_of_levels([2, 1]), "top-k")
    # Nodes 0, 2 and below each its likeliest child by q, twelfths of the compact model.
    mass = Fraction(5, 12) * (1 + Fraction(3, 12)) + Fraction(6, 12) * (1 + Fraction(3, 12))
    assert expected_accepted(law) == mass
