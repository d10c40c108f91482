import pytest
from support.engine_doubles import check_double, checkout

from simverify.engines import get_engine

torch = pytest.importorskip("torch")

DOUBLE = """
from __future__ import annotations

import msgspec
import torch
import triton

from sglang.kernels.ops.speculative.dspark.dispatch import inputs_on_cuda


class RejectionNoise(msgspec.Struct, frozen=True):
    key: int
    counter: torch.Tensor


def blockwise_rejection_torch(*, candidates, target_logits, draft_logits, target_temperatures,
                              draft_temperatures, noise: RejectionNoise, cutoff_verify_lens=None):
    source = torch.Generator(device=candidates.device)
    source.manual_seed(noise.key + int(noise.counter.item()))
    gamma = candidates.shape[1] - 1
    p = (target_logits.float() / target_temperatures).softmax(-1)
    q = (draft_logits[0].float() / draft_temperatures).softmax(-1)
    coins = torch.rand((1, gamma), generator=source, device=candidates.device)[0]
    tokens = candidates[0, 1:].tolist()
    count = 0
    while count < gamma and coins[count] * q[count, tokens[count]] < p[count, tokens[count]]:
        count += 1
    row = p[gamma] if count == gamma else (p[count] - q[count]).clamp_min(0)
    gumbel = -torch.log(-torch.log(torch.rand((1, len(row)), generator=source)))
    noise.counter.add_(1)
    return torch.tensor([count]), (row.log() + gumbel).argmax(-1), None
"""
RIGHT, WRONG = "(p[count] - q[count]).clamp_min(0)", "p[count]"


def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path):
    check_double("sglang-dspark", tmp_path, DOUBLE, RIGHT, WRONG)


def test_as_it_is_its_tokens_are_those_of_its_counter(tmp_path):
    """It draws nothing of its own but the counter; what comes depends on it alone."""
    import numpy as np

    verify = get_engine("sglang-dspark-as-is").load(
        checkout(tmp_path, "sglang-dspark-as-is", DOUBLE)
    )
    p, q = np.full((3, 4), 0.25), np.array([[0.7, 0.1, 0.1, 0.1]] * 2)

    def emitted(seed):
        return [tuple(verify(p, q, [0, 0], np.random.default_rng(seed + i))) for i in range(40)]

    state = torch.random.get_rng_state()
    first = emitted(0)
    assert first == emitted(0) != emitted(40)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert {len(tokens) for tokens in first} == {1, 2, 3}
