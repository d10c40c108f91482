"""The linear programs against the closed forms of block, greedy and token."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from support.oracles.linear_program import coupling_optimum, plain_loop_optimum

from simverify.models.small import compact, toy


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


@pytest.mark.parametrize("solve", [plain_loop_optimum, coupling_optimum])
def test_bad_input(solve):
    model = compact()
    with pytest.raises(ValueError, match="gamma is 0"):
        solve(model.target, model.draft, 0)
    with pytest.raises(ValueError, match="shrink V or gamma"):
        solve(model.target, model.draft, 12)
