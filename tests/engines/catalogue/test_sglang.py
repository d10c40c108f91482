import numpy as np
import pytest
from support.engine_doubles import check_double, checkout

import simverify
from simverify.auditing.coins import compare_coins
from simverify.engines import get_engine
from simverify.engines.catalogue.sglang import sglang_chain_sampling
from simverify.models.base import compact

COMPACT = compact()
COIN_BITS = 24  # float32

DOUBLE = """
import triton
import triton.language as tl


@triton.jit
def chain_kernel(Predicts, Index, Number, Drafts, Places, Coins, Last, P, Q, SLOTS: tl.constexpr,
                 V: tl.constexpr, BLOCK: tl.constexpr, BLOCK_VERIFICATION: tl.constexpr):
    place = tl.load(Places)
    tl.store(Index, place)
    row, step, going = 0, 1, 1
    while (step < SLOTS) and (going == 1):
        x = tl.load(Drafts + step)
        p, q = tl.load(P + row * V + x), tl.load(Q + row * V + x)
        if tl.load(Coins + step - 1) * q < p:
            tl.store(Predicts + place, x)
            place = tl.load(Places + step)
            tl.store(Index + step, place)
            row = step
            step += 1
        else:
            going = 0
    tl.store(Number, row)
    ids = tl.arange(0, BLOCK)
    law = tl.load(P + row * V + ids, mask=ids < V, other=0.0)
    if row < SLOTS - 1:
        law = tl.maximum(law - tl.load(Q + row * V + ids, mask=ids < V, other=0.0), 0.0)
    over = tl.cumsum(law, axis=0) > tl.load(Last) * tl.sum(law)
    final = V - 1
    if tl.max(over, axis=0):
        final = tl.argmax(over.to(tl.int32), axis=0)
    tl.store(Predicts + place, final)


def chain_speculative_sampling_triton(
    predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token,
    retrive_next_sibling, uniform_samples, uniform_samples_for_final_sampling, target_probs,
    draft_probs, threshold_single, threshold_acc, deterministic, *, block_verification=False,
):
    assert block_verification is ASKED
    chain_kernel[(candidates.shape[0],)](
        predicts, accept_index, accept_token_num, candidates, retrive_index, uniform_samples,
        uniform_samples_for_final_sampling, target_probs, draft_probs,
        SLOTS=candidates.shape[1], V=target_probs.shape[-1], BLOCK=4096,
        BLOCK_VERIFICATION=block_verification, num_warps=4,
    )
"""


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
    result = compare_coins(sglang_chain_sampling(stand_in()), COMPACT, 2, bits=COIN_BITS)
    assert result.max_abs_deviation < 1e-6
    assert result.expected_accepted == pytest.approx(101 / 72, abs=1e-6)
    wrong = compare_coins(
        sglang_chain_sampling(stand_in(residual_row=0)), COMPACT, 2, bits=COIN_BITS
    )
    assert wrong.max_abs_deviation > 0.001
    assert wrong.findings == ()


def test_block_verification_is_passed_on():
    seen = []
    p = np.full((2, 3), 1 / 3)
    for block in (False, True):
        verify = sglang_chain_sampling(stand_in(seen=seen), block=block)
        verify(p, p[:1], np.array([0]), np.zeros(2))
    assert seen == [False, True]


@pytest.mark.parametrize(("name", "asked"), [("sglang", "False"), ("sglang-block", "True")])
def test_without_a_gpu_the_kernel_is_followed_path_by_path(tmp_path, no_gpu, name, asked):
    check_double(name, tmp_path, DOUBLE.replace("ASKED", asked), "tl.load(Last)", "tl.load(Coins)")


@pytest.mark.slow
def test_the_report_says_how_the_kernel_was_run(tmp_path, no_gpu, unsearched):
    folder = checkout(tmp_path, "sglang", DOUBLE.replace("ASKED", "False"))
    run = simverify.audit("sglang", engine_path=folder, gamma=1, vocab=2)
    assert run.verdict == "PASS"
    assert run.notes[0] == "its Triton kernels ran without a GPU, by simverify.triton_cpu"


@pytest.mark.parametrize("gpu", [True, False])
def test_where_there_is_a_gpu_the_kernel_is_compiled_and_its_coins_bisected(monkeypatch, gpu):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    here = get_engine("sglang").here
    assert here.tier == ("coins" if gpu else "exact")
    assert here.needs == (("torch", "triton") if gpu else ("torch",))
    assert here.coin_bits == (COIN_BITS if gpu else 53)
    assert bool(here.note) is not gpu
