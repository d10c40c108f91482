import pytest
from support.engine_doubles import check_double

pytest.importorskip("torch")

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


@pytest.mark.parametrize(
    ("name", "asked"), [("sglang-token-shim", "False"), ("sglang-block-shim", "True")]
)
def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path, name, asked):
    check_double(name, tmp_path, DOUBLE.replace("ASKED", asked), "tl.load(Last)", "tl.load(Coins)")
