import os

import numpy as np
import pytest

from simverify.auditing.exact.coins.coin_blocks import compare_coins
from simverify.engines import get_engine
from simverify.engines.servers.sglang import chain_sampling
from simverify.folders import find_package
from simverify.models.small import compact

COMPACT = compact()
COIN_BITS = 24  # float32

needs_sglang = pytest.mark.skipif(
    any(find_package(name) is None for name in ("sglang", "triton", "torch")),
    reason="sglang and triton are not installed: pip install --no-deps sglang triton",
)


def stand_in(residual_row=None, seen=None):
    """The interface of SGLang's function around the token rule, in plain torch."""
    torch = pytest.importorskip("torch")

    def function(
        predicts, accept_index, accept_token_num, candidates, retrive_index, _next, _sibling,
        uniform_samples, uniform_samples_for_final_sampling, target_probs, draft_probs,
        _single, _acc, _deterministic, *, block_verification,
    ):  # fmt: skip
        if seen is not None:
            seen.append(block_verification)
        assert target_probs.dtype == draft_probs.dtype == uniform_samples.dtype == torch.float32
        gamma = candidates.shape[1] - 1
        ids, p, q = candidates[0, 1:], target_probs[0], draft_probs[0]
        accept_index[0, 0] = place = retrive_index[0, 0]
        k = 0
        while k < gamma and uniform_samples[0, k] * q[k, ids[k]] < p[k, ids[k]]:
            predicts[place] = ids[k]
            k += 1
            accept_index[0, k] = place = retrive_index[0, k]
        accept_token_num[0] = k
        row = k if residual_row is None else residual_row
        rest = p[gamma] if k == gamma else (p[row] - q[row]).clamp(min=0)
        over = rest.cumsum(0) > uniform_samples_for_final_sampling[0] * rest.sum()
        predicts[place] = over.int().argmax() if over.any() else len(rest) - 1

    return function


def test_the_adapter_puts_tokens_coins_and_rows_in_their_places():
    result = compare_coins(chain_sampling(stand_in()), COMPACT, 2, bits=COIN_BITS)
    assert result.max_abs_deviation < 1e-6
    assert result.expected_accepted == pytest.approx(101 / 72, abs=1e-6)
    wrong = compare_coins(chain_sampling(stand_in(residual_row=0)), COMPACT, 2, bits=COIN_BITS)
    assert wrong.max_abs_deviation > 0.001
    assert wrong.findings == ()


def test_block_verification_is_passed_on():
    seen = []
    p = np.full((2, 3), 1 / 3)
    for block in (False, True):
        verify = chain_sampling(stand_in(seen=seen), block_verification=block)
        verify(p, p[:1], np.array([0]), np.zeros(2))
    assert seen == [False, True]


@needs_sglang
@pytest.mark.parametrize(
    ("name", "gamma", "tau"), [("sglang", 1, 5 / 6), ("sglang-block", 2, 211 / 144)]
)
def test_sglangs_own_kernel_is_lossless(name, gamma, tau):
    engine = get_engine(name)
    verify = engine.load()
    assert engine.coin_bits == COIN_BITS
    result = compare_coins(
        verify, COMPACT, gamma, bits=COIN_BITS, tolerance=engine.tolerance, probes=2
    )
    assert result.max_abs_deviation < 1e-7
    assert result.expected_accepted == pytest.approx(tau, abs=1e-6)
    assert result.findings == ()
    assert "TRITON_INTERPRET" not in os.environ


@needs_sglang
def test_sglangs_kernel_on_a_wrong_draft_is_caught():
    verify = get_engine("sglang").load()

    def on_scaled_draft(p, q, x, u):
        return verify(p, 0.9 * q, x, u)

    result = compare_coins(on_scaled_draft, COMPACT, 1, bits=COIN_BITS, probes=2)
    assert result.max_abs_deviation > 0.001
