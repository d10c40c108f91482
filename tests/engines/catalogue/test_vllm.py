"""vLLM's two runners and Aphrodite: doubles with kernels of their own, run without a GPU."""

import pytest
from support.engine_doubles import check_double, checkout, largest_deviation

from simverify.engines import get_engine
from simverify.errors import SimverifyError

torch = pytest.importorskip("torch")

V1 = """
import torch
from nobody.triton_utils import tl, triton
from nobody.warmup import triton_kernel_dispatcher_with_warmup

EMPTY: tl.constexpr = -1


@triton.jit
def judge_kernel(out_ptr, drafts_ptr, q_ptr, p_ptr, bonus_ptr, again_ptr, coins_ptr, n, V):
    rejected = False
    for i in range(n):
        if not rejected:
            x = tl.load(drafts_ptr + i)
            if tl.load(p_ptr + i * V + x) / tl.load(q_ptr + i * V + x) < tl.load(coins_ptr + i):
                rejected = True
                x = tl.load(again_ptr + i)
            tl.store(out_ptr + i, x)
    if not rejected:
        tl.store(out_ptr + n, tl.load(bonus_ptr))


@triton.jit
def recover_kernel(again_ptr, q_ptr, p_ptr, noise_ptr, V, BLOCK: tl.constexpr):
    i, ids = tl.program_id(0), tl.arange(0, BLOCK)
    p = tl.load(p_ptr + i * V + ids, mask=ids < V, other=0.0)
    q = tl.load(q_ptr + i * V + ids, mask=ids < V, other=0.0)
    score = tl.maximum(p - q, 0.0) / tl.load(noise_ptr + ids, mask=ids < V, other=1.0)
    tl.store(again_ptr + i, tl.argmax(tl.where(ids < V, score, float("-inf")), axis=0))


def rejection_sample(draft_token_ids, num_draft_tokens, max_spec_len, cu_num_draft_tokens,
                     draft_probs, target_logits, bonus_token_ids, sampling_metadata):
    assert num_draft_tokens == [max_spec_len] and sampling_metadata.all_random
    p = target_logits.softmax(-1, dtype=torch.float32)
    noise = torch.empty(p.shape[1]).exponential_()
    again = torch.empty_like(draft_token_ids)
    recover_kernel[(max_spec_len,)](again, draft_probs, p, noise, p.shape[1], BLOCK=1024)
    out = torch.full((1, max_spec_len + 1), EMPTY, dtype=torch.int32)
    coins = torch.rand(max_spec_len, dtype=torch.float64)
    LAUNCH
    return out
"""
GIVEN = "out, draft_token_ids, draft_probs, p, bonus_token_ids, again, coins, max_spec_len"
DECORATED = (
    V1.replace("LAUNCH", f"_judge({GIVEN})")
    + """

def _rejection_random_sample_warmup_inputs():
    raise AssertionError


@triton_kernel_dispatcher_with_warmup(
    kernel=judge_kernel, warmup_inputs=_rejection_random_sample_warmup_inputs
)
def _judge(out, drafts, q, p, bonus, again, coins, n):
    return (1,), dict(V=p.shape[1])
"""
)
PLAIN = V1.replace("LAUNCH", f"judge_kernel[(1,)]({GIVEN}, p.shape[1])")

CPU = (
    V1[: V1.index("@triton.jit")]
    + """
@triton.jit
def rejection_random_sample_kernel(out_ptr):
    raise AssertionError("the C++ kernel stands in its place")


@triton_kernel_dispatcher_with_warmup(kernel=rejection_random_sample_kernel)
def _judge(output_token_ids, draft_token_ids, draft_probs, target_probs, bonus, again, coins):
    return (1,), dict(vocab_size=target_probs.shape[1])


@triton_kernel_dispatcher_with_warmup(kernel=sample_recovered_tokens_kernel)
def _recover(output_token_ids, draft_probs, target_probs, inv_q):
    return (1,), dict(vocab_size=target_probs.shape[1], BLOCK_SIZE=8192)


"""
    + V1[V1.index("def rejection_sample") : V1.index("    recover_kernel[")]
    + """
    _recover(again, draft_probs, p, noise.reciprocal())
    out = torch.full((1, max_spec_len + 1), EMPTY, dtype=torch.int32)
    coins = torch.rand(max_spec_len, dtype=torch.float64)
    _judge(out, draft_token_ids, draft_probs, p, bonus_token_ids, again, coins)
    return out
"""
)
WRAPPERS = """
def _rejection_random_sample_kernel_impl(output_token_ids, draft_token_ids, draft_probs,
                                         target_probs, bonus, again, coins, vocab_size):
    for i, x in enumerate(draft_token_ids.tolist()):
        if target_probs[i, x] / draft_probs[i, x] < coins[i]:
            output_token_ids[0, i] = again[i]
            return
        output_token_ids[0, i] = x
    output_token_ids[0, -1] = bonus[0, 0]


def _sample_recovered_tokens_kernel_impl(output_token_ids, draft_probs, target_probs, inv_q,
                                         vocab_size, BLOCK_SIZE=None):
    for i in range(len(draft_probs)):
        excess = (target_probs[i] - draft_probs[i]).clamp(min=0)
        output_token_ids[i] = (excess * inv_q).argmax()
"""
UTILS = "vllm/utils/cpu_triton_utils.py"

NOISE = """
from nobody.triton_utils import tl, triton


@triton.jit
def tl_rand32(seed, offset, includes_zero: tl.constexpr):
    return tl.rand(seed, offset)


@triton.jit
def murmur3_uniform32(seed, pos, offset):
    return tl.rand(seed + pos * 1000003, offset)


@triton.jit
def _log1p_neg_stable(value):
    return tl.log(tl.maximum(1.0 - value, 6e-8))


@triton.jit
def gumbel_block_argmax(logits, block, mask, seed, pos):
    noise = -tl.log(-_log1p_neg_stable(murmur3_uniform32(seed, pos, block)))
    return tl.argmax(tl.where(mask, logits + noise, float("-inf")), axis=0)
"""
V2 = """
import torch
from nobody.triton_utils import tl, tldevice, triton
from nobody.gumbel import gumbel_block_argmax, tl_rand32


@triton.jit
def judge_kernel(out_ptr, count_ptr, p_ptr, q_ptr, drafts_ptr, pos_ptr, seed_ptr,
                 GAMMA: tl.constexpr, V, BLOCK: tl.constexpr):
    seed, ids = tl.load(seed_ptr), tl.arange(0, BLOCK)
    kept, going = 0, True
    for i in range(GAMMA):
        if going:
            x = tl.load(drafts_ptr + i + 1)
            u = tl_rand32(seed, tl.load(pos_ptr + i), includes_zero=False)
            if tl.log(u) + tl.load(q_ptr + i * V + x) < tl.load(p_ptr + i * V + x):
                tl.store(out_ptr + i, x)
                kept += 1
            else:
                going = False
    logits = tl.load(p_ptr + kept * V + ids, mask=ids < V, other=float("-inf"))
    if kept < GAMMA:
        q = tl.load(q_ptr + kept * V + ids, mask=ids < V, other=float("-inf"))
        ratio = tl.exp(q - logits)
        logits = tl.where(ratio < 1.0, logits + tldevice.log1p(-ratio), float("-inf"))
    last = gumbel_block_argmax(logits, ids, ids < V, seed, tl.load(pos_ptr + kept))
    tl.store(out_ptr + kept, last)
    tl.store(count_ptr, kept + 1)


def rejection_sample(target_logits, draft_logits, draft_sampled, cu_num_logits, pos, idx_mapping,
                     expanded_idx_mapping, expanded_local_pos, temperature, seed,
                     num_speculative_steps, use_block_verification=False):
    out = torch.empty(1, num_speculative_steps + 1, dtype=torch.int64)
    count = torch.empty(1, dtype=torch.int32)
    judge_kernel[(1,)](out, count, target_logits, draft_logits, draft_sampled, pos, seed,
                       num_speculative_steps, target_logits.shape[1], BLOCK=1024)
    return out, count
"""


def test_v1(tmp_path):
    check_double("vllm-v1", tmp_path, DECORATED, "tl.maximum(p - q, 0.0)", "p")


def test_aphrodite(tmp_path):
    check_double("aphrodite", tmp_path, PLAIN, "tl.maximum(p - q, 0.0)", "p")


def test_v1_on_a_cpu_calls_the_wrappers_of_its_library(tmp_path, monkeypatch):
    loaded = []
    monkeypatch.setattr(torch.ops, "load_library", loaded.append)
    good = checkout(tmp_path / "right", "vllm-v1-cpu", CPU, {UTILS: WRAPPERS})
    assert largest_deviation("vllm-v1-cpu", good) < 1e-6
    assert loaded == [str(good / "vllm/_C_AVX2.abi3.so")]
    wrong = WRAPPERS.replace("target_probs[i] - draft_probs[i]", "target_probs[i]")
    bad = checkout(tmp_path / "wrong", "vllm-v1-cpu", CPU, {UTILS: wrong})
    assert largest_deviation("vllm-v1-cpu", bad) > 1e-3


@pytest.mark.parametrize("name", ["vllm-v2-token", "vllm-v2-block"])
def test_v2(tmp_path, name):
    for kind in ("right", "wrong"):
        noise = tmp_path / kind / "vllm/v1/worker/gpu/sample/gumbel.py"
        noise.parent.mkdir(parents=True)
        noise.write_text(NOISE)
    # The coin of the first draft is used for every draft.
    check_double(name, tmp_path, V2, "tl.load(pos_ptr + i)", "tl.load(pos_ptr)")


def test_another_signature_is_one_line(tmp_path):
    changed = PLAIN.replace("target_logits", "target_rows")
    with pytest.raises(SimverifyError, match=r"'aphrodite': rejection_sample .* no target_logits"):
        get_engine("aphrodite").load(checkout(tmp_path, "aphrodite", changed))


def test_what_a_kernel_uses_that_is_not_known_is_one_line(tmp_path):
    changed = PLAIN.replace("tl.argmax(", "tl.histogram(")
    with pytest.raises(SimverifyError, match=r"py:29: recover_kernel uses tl\.histogram"):
        get_engine("aphrodite").load(checkout(tmp_path, "aphrodite", changed))
