"""Races of draws that rounding swamps: ties are broken by place, as often as numbers tie."""

import itertools

import numpy as np
import pytest

from simverify import exact_law
from simverify.symbolic.forms import SINGLE_UNIFORM, Machine
from simverify.symbolic.rounded_races import constant_law, step_law, winning_weights

torch = pytest.importorskip("torch")


def scaled(x, factor):
    return x * float(factor)


WEIGHTS = np.log([0.5, 0.3, 0.2])


def scores(rng, size=3):
    return (WEIGHTS[:size] + rng.gumbel(size=size)).astype(np.float32)


RACES = {
    "a large constant": lambda rng: np.argmax(scores(rng) + np.float32(1e6)),
    "added and subtracted": lambda rng: np.argmax(
        (scores(rng) + np.float32(1e6)) - np.float32(1e6)
    ),
    "16 bits": lambda rng: np.argmax(scores(rng).astype(np.float16)),
    "logits far from 0": lambda rng: np.argmax(
        (WEIGHTS - 3e5).astype(np.float32) + rng.gumbel(size=3).astype(np.float32)
    ),
    "bfloat16": lambda rng: (
        torch.as_tensor(WEIGHTS) - (-torch.rand(3, dtype=torch.float64).log()).log()
    )
    .bfloat16()
    .argmax(),
    "the first to arrive": lambda rng: np.argmin(
        (rng.exponential(size=3) / np.exp(WEIGHTS)).astype(np.float32) + np.float32(1e5)
    ),
    "two compared": lambda rng: int(
        np.float32(rng.gumbel()) + np.float32(1e6) > np.float32(rng.gumbel()) + np.float32(1e6)
    ),
    "beside a number": lambda rng: np.argmax(
        np.append(scores(rng) + np.float32(1e6), np.float32(1e6 + 1))
    ),
    "uniforms of few bits": lambda rng: np.argmax(
        (rng.random(2) * 8).astype(np.float32) + np.float32(2**22)
    ),
}  # fmt: skip

N = 200_000


@pytest.mark.parametrize("race", RACES)
@pytest.mark.thorough(by_day=2)
def test_the_law_is_that_of_numbers(race):
    law = exact_law(lambda rng: int(RACES[race](rng)))
    rng = np.random.default_rng(7)
    torch.manual_seed(7)
    seen = np.bincount([int(RACES[race](rng)) for _ in range(N)], minlength=4) / N
    for outcome, share in enumerate(seen):
        due = float(law.get(outcome, 0.0))
        # 1e-9 a test.
        assert abs(share - due) <= 6.5 * np.sqrt(max(due * (1 - due), 1 / N) / N)


@pytest.mark.parametrize("largest", [True, False])
def test_the_weights_are_those_of_all_points(largest):
    points = 2**6

    def machine(scale, shift):
        root = Machine(None, lambda k: np.float32(k / points), np.float32(0.5), 0.0)
        return Machine(
            root, lambda x: np.floor(x * np.float32(scale)) + np.float32(shift), np.float32(1), 99.0
        )

    machines = [machine(8, 0), machine(5, 1), machine(16, -3)]
    laws = [step_law(x, 0, points - 1) for x in machines] + [constant_law(4.0)]
    weights = winning_weights(laws, largest=largest)
    values = [[float(x.values()(k)) for k in range(points)] for x in machines] + [[4.0]]
    first = np.argmax if largest else np.argmin
    wins = np.bincount([first(x) for x in itertools.product(*values)], minlength=4)
    assert weights == pytest.approx(wins / points**3, abs=1e-12)
    assert weights != pytest.approx(weights[::-1], abs=1e-3)


def test_long_integers_are_known_by_their_value_and_not_by_their_place():
    root = Machine(None, np.float64, np.float64(1), 0.0)
    digits = str(2**70)
    one, other = int(digits), int(digits)
    assert one is not other
    laws = [step_law(Machine(root, scaled, 1.0, 0.0, x), 0, 3) for x in (one, other, one + 2**60)]
    assert laws[0] is laws[1]
    assert laws[2].values.tolist() == [float(k * (one + 2**60)) for k in range(4)]


def test_a_draw_of_too_many_values_has_no_steps():
    assert step_law(SINGLE_UNIFORM, 0, 2**24 - 1) is None


def test_what_was_raced_is_not_asked_again():
    def rule(rng):
        s = scores(rng) + np.float32(1e6)
        first = int(np.argmax(s))
        return first, bool(s[0] > np.float32(1e6))

    with pytest.raises(Exception, match="after it was compared with a draw"):
        exact_law(rule)
