"""What drafted blocks are worth, against the rules' own laws over all drafts."""

import itertools

import numpy as np
import pytest

from simverify.models import get_model
from simverify.simulators.decoding.expected import RULES, LaneMeans, curves, law_of_tau
from simverify.simulators.decoding.lanes import Block
from simverify.simulators.exact.rows import markov_rows
from simverify.simulators.exact.tree import grow
from simverify.verifiers import VERIFIERS

GAMMA = 3


def weighted_blocks(model):
    """Every drafted block with its probability under the draft."""
    for x in itertools.product(range(model.vocab_size), repeat=GAMMA):
        p = np.array([model.target(x[:i]) for i in range(GAMMA + 1)])
        q = np.array([model.draft(x[:i]) for i in range(GAMMA + 1)])
        yield np.prod([q[i][y] for i, y in enumerate(x)]), Block(0, 0, True, p, q, x, 0, ())


@pytest.mark.parametrize("name", ["toy", "compact"])
def test_means_over_all_drafts_are_the_rules_own(name):
    model = get_model(name)
    worth, laws = np.zeros((len(RULES), GAMMA)), np.zeros((len(RULES), GAMMA + 1))
    for weight, block in weighted_blocks(model):
        worth += weight * curves(block)
        laws += [weight * law_of_tau(block, rule) for rule in RULES]
    for i, rule in enumerate(RULES):
        exact = np.array(grow(VERIFIERS[rule], markov_rows(model), GAMMA).curve, float)
        np.testing.assert_allclose(worth[i], exact, atol=1e-14)
        np.testing.assert_allclose(laws[i][::-1].cumsum()[::-1][1:], exact, atol=1e-14)
        np.testing.assert_allclose(laws[i].sum(), 1.0)


def test_a_block_without_the_drafts_randomness_varies_less_than_its_coins():
    found = [
        (weight, curves(block), block) for weight, block in weighted_blocks(get_model("compact"))
    ]
    for i, rule in enumerate(RULES):
        mean = sum(w * c[i].sum() for w, c, _ in found)
        between = sum(w * (c[i].sum() - mean) ** 2 for w, c, _ in found)
        tau = np.arange(GAMMA + 1)
        whole = sum(w * law_of_tau(b, rule) @ (tau - mean) ** 2 for w, _, b in found)
        assert between < whole / 2


@pytest.mark.distribution
def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(5)
    lanes, runs, covered, naive = 12, 3000, 0, 0
    for _ in range(runs):
        means, values = LaneMeans(lanes, 1), []
        for lane in range(lanes):
            level = rng.normal()  # the lane's own, which its blocks share
            for value in level + rng.normal(size=8):
                means.add(lane, [value])
                values.append(value)
        found = means.interval([1.0], 0.9)
        covered += found.low <= 0.0 <= found.high
        naive += abs(np.mean(values)) < 1.645 * np.std(values) / np.sqrt(len(values))
    assert abs(covered / runs - 0.9) < 6.2 * np.sqrt(0.09 / runs)
    # Negative control: blocks taken for independent.
    assert abs(naive / runs - 0.9) > 6.2 * np.sqrt(0.09 / runs)
