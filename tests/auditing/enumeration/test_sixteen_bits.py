"""Uniforms of 16 bits have the steps of the libraries that draw them."""

import numpy as np
import pytest

from simverify.auditing.enumeration import enumerate_verify
from simverify.symbolic.forms import to_bfloat16

torch = pytest.importorskip("torch")


def test_bfloat16_is_rounded_as_torch_does():
    numbers = torch.cat([torch.randn(2000) * 10.0**k for k in range(-40, 38, 6)])
    ties = torch.arange(1 << 15, 1 << 17, 7, dtype=torch.int32).view(torch.float32)
    for x in torch.cat([numbers, ties, torch.tensor([0.0, -0.0, torch.inf])]):
        assert float(to_bfloat16(x.item())) == x.to(torch.bfloat16).item()


# Uniforms of 16 bits, and how many steps the accepted ones have at r = 0.3. torch draws them in
# float32 and rounds; what would be 1 becomes 0 (aten/src/ATen/native/cpu/DistributionTemplates.h).
BRAIN_STEPS, HALF_STEPS = (153 + 154) / 1024 + 1 / 512, (1228 + 1229) / 8192 + 1 / 4096
COINS = {
    "drawn in bfloat16": (lambda: torch.rand(1, dtype=torch.bfloat16), BRAIN_STEPS),
    "drawn in float16": (lambda: torch.rand(1, dtype=torch.float16), HALF_STEPS),
    "rand_like": (lambda: torch.rand_like(torch.ones(1, dtype=torch.bfloat16)), BRAIN_STEPS),
    "uniform_": (lambda: torch.empty(1, dtype=torch.half).uniform_(), HALF_STEPS),
    "between bounds": (
        lambda: torch.empty(1, dtype=torch.bfloat16).uniform_(-0.7, 1.3),
        # 1.3 is 166/128 in bfloat16, and so is all from 165.5/128 on.
        ((153 + 154) / 1024 + 0.7) / 2 + (1.3 - 165.5 / 128) / 2,
    ),
    "cast by method": (lambda: torch.rand(1).bfloat16(), (153 + 154) / 1024),
    "cast by to": (lambda: torch.rand(1).to(torch.bfloat16), (153 + 154) / 1024),
    "cast by type": (lambda: torch.rand(1).type(torch.bfloat16), (153 + 154) / 1024),
    "computed": (lambda: torch.rand(1).bfloat16() * 1.0, (153 + 154) / 1024),
    "cast in numpy": (
        lambda: np.random.default_rng().random(1).astype(np.float16),
        (1228 + 1229) / 8192,
    ),
}


@pytest.mark.parametrize("what", COINS)
def test_a_uniform_of_16_bits_has_its_steps(what):
    coin, due = COINS[what]
    rows = np.full((2, 3), 1 / 3)
    law = enumerate_verify(lambda p, q, x, rng: [int(coin()[0] < 0.3)], rows, rows[:1], [0])
    assert law.probabilities[(1,)] == pytest.approx(due, abs=2**-23)  # a point or two at ties
    assert law.dtypes.keys() & {"float16", "bfloat16"}


@pytest.mark.parametrize(
    "what", ["drawn in bfloat16", "drawn in float16", "uniform_", "between bounds"]
)
def test_the_steps_are_those_of_the_library(what):
    coin, due = COINS[what]
    like = coin()
    n = 2_000_000
    low, high = (-0.7, 1.3) if what == "between bounds" else (0, 1)
    rng = torch.Generator().manual_seed(7)
    drawn = torch.empty(n, dtype=like.dtype).uniform_(low, high, generator=rng)
    # 1e-9 a test; a grid of 2^-8, or without what would be 1, is off by 1e-3 in bfloat16.
    spread = 6.1 * (due * (1 - due) / n) ** 0.5
    assert abs((drawn < 0.3).double().mean().item() - due) < spread
    zeros = (drawn == low).double().mean().item() * (
        2**8 if like.dtype is torch.bfloat16 else 2**11
    )
    if low == 0:
        assert zeros == pytest.approx(1 / 2, abs=0.1)
