"""Doubles of further servers' verifiers that judge a whole batch, and faults that only one shows.

Each fault is a piece of the double and what stands there wrongly, by the kind of company that shows
it: a batch of one request is right with it.
"""

V2 = """
import torch
from nobody.triton_utils import tl, tldevice, triton
from nobody.gumbel import gumbel_block_argmax, tl_rand32


@triton.jit
def judge_kernel(out_ptr, count_ptr, p_ptr, q_ptr, drafts_ptr, ends_ptr, pos_ptr, heat_ptr,
                 seed_ptr, SLOTS: tl.constexpr, V, BLOCK: tl.constexpr):
    b, ids = tl.program_id(0), tl.arange(0, BLOCK)
    start, seed = tl.load(ends_ptr + b), tl.load(seed_ptr + b)
    n = tl.load(ends_ptr + b + 1) - start - 1
    greedy = tl.load(heat_ptr + b) == 0.0
    q_start = b * (SLOTS - 1)
    kept, going = 0, True
    for i in range(n):
        if going:
            x = tl.load(drafts_ptr + start + i + 1)
            if greedy:
                row = tl.load(p_ptr + (start + i) * V + ids, mask=ids < V, other=float("-inf"))
                going = tl.argmax(row, axis=0) == x
            else:
                u = tl_rand32(seed, tl.load(pos_ptr + start + i), includes_zero=False)
                q = tl.load(q_ptr + (q_start + i) * V + x)
                going = tl.log(u) + q < tl.load(p_ptr + (start + i) * V + x)
            if going:
                tl.store(out_ptr + b * SLOTS + i, x)
                kept += 1
    logits = tl.load(p_ptr + (start + kept) * V + ids, mask=ids < V, other=float("-inf"))
    if greedy:
        last = tl.argmax(logits, axis=0)
    else:
        if kept < n:
            q = tl.load(q_ptr + (q_start + kept) * V + ids, mask=ids < V, other=float("-inf"))
            ratio = tl.exp(q - logits)
            logits = tl.where(ratio < 1.0, logits + tldevice.log1p(-ratio), float("-inf"))
        pos = tl.load(pos_ptr + start + kept)
        last = gumbel_block_argmax(logits, ids, ids < V, seed, pos)
    tl.store(out_ptr + b * SLOTS + kept, last)
    tl.store(count_ptr + b, kept + 1)


def rejection_sample(target_logits, draft_logits, draft_sampled, cu_num_logits, pos, idx_mapping,
                     expanded_idx_mapping, expanded_local_pos, temperature, seed,
                     num_speculative_steps, use_block_verification=False):
    size, slots = len(cu_num_logits) - 1, num_speculative_steps + 1
    out = torch.empty(size, slots, dtype=torch.int64)
    count = torch.empty(size, dtype=torch.int32)
    judge_kernel[(size,)](out, count, target_logits, draft_logits, draft_sampled, cu_num_logits,
                          pos, temperature, seed, slots, target_logits.shape[1], BLOCK=1024)
    return out, count
"""
"""As vLLM's V2 runner: a kernel with a program for each request, and counts of what is written."""

V2_FAULTS = {
    "ragged": ("n = tl.load(ends_ptr + b + 1) - start - 1", "n = SLOTS - 1"),
    "greedy": ("tl.load(heat_ptr + b)", "tl.load(heat_ptr)"),
    "padded": ("q_ptr + (q_start + kept) * V", "q_ptr + kept * V"),
}

ASCEND = """
import torch
from nobody.triton_utils import HAS_TRITON, triton
from nobody.kernels import sample_recovered_tokens_kernel


def sample_recovered_tokens(max_spec_len, num_draft_tokens, cu_num_draft_tokens, draft_token_ids,
                            draft_probs, target_probs, sampling_metadata, device,
                            use_block_verify=False):
    if HAS_TRITON:
        return sample_recovered_tokens_kernel[(1,)]()
    rest = target_probs.clone()
    if draft_probs is None:
        rest[torch.arange(len(rest)), draft_token_ids] = 0
    else:
        rest = (rest - draft_probs).clamp(min=0)
    noise = torch.empty(len(num_draft_tokens), rest.shape[1]).exponential_()
    whose = [b for b, n in enumerate(num_draft_tokens) for _ in range(n)]
    return (rest / noise[whose]).argmax(dim=1)


def rejection_random_sample_pytorch(
    output_token_ids, cu_num_draft_tokens, draft_token_ids, draft_probs, target_probs,
    bonus_token_ids, recovered_token_ids, uniform_probs, is_greedy, max_spec_len, vocab_size,
    IS_NGRAM=False,
):
    start = 0
    for b, end in enumerate(cu_num_draft_tokens.tolist()):
        n = end - start
        for i in range(n):
            x = draft_token_ids[start + i]
            q = 1.0 if IS_NGRAM else draft_probs[start + i, x]
            if uniform_probs[start + i] * q > target_probs[start + i, x]:
                output_token_ids[b, i] = recovered_token_ids[start + i]
                break
            output_token_ids[b, i] = x
        else:
            output_token_ids[b, n] = bonus_token_ids[b, 0]
        start = end
"""
"""As vLLM-Ascend without kernels: drafts one after the other, recovered tokens ready drawn."""

ASCEND_FAULTS = {
    "ragged": ("output_token_ids[b, n] = bonus", "output_token_ids[b, max_spec_len] = bonus"),
    "stale": ("start = end", "start = (b + 1) * max_spec_len"),
    "padded": ("recovered_token_ids[start + i]", "recovered_token_ids[i]"),
    "one-hot": ("target_probs[start + i, x]", "target_probs[i, x]"),
}

LMDEPLOY = """
import torch
from somewhere.nobody.has import RejectionSamplingImpl, PLACEHOLDER_TOKEN_ID


class DefaultRejectionSamplingImpl(RejectionSamplingImpl):

    def forward(self, target_logits, draft_token_ids, bonus_token_ids, *, is_greedy=None,
                draft_probs=None):
        size, n = draft_token_ids.shape
        out = torch.full((size, n + 1), PLACEHOLDER_TOKEN_ID)
        for b in range(size):
            greedy = is_greedy is not None and bool(is_greedy[b])
            for i in range(n):
                token, p = int(draft_token_ids[b, i]), target_logits[b, i].softmax(-1)
                if greedy:
                    out[b, i] = p.argmax()
                    if int(p.argmax()) != token:
                        break
                    continue
                q = torch.eye(len(p))[token] if draft_probs is None else draft_probs[b, i]
                if torch.rand((), dtype=p.dtype) * q[token] < p[token]:
                    out[b, i] = token
                    continue
                out[b, i] = torch.multinomial((p - q).clamp_min(0), 1)
                break
            else:
                out[b, n] = bonus_token_ids[b]
        return out, None, None
"""
"""As LMDeploy: drafts of one length, greedy requests by a flag."""

LMDEPLOY_FAULTS = {
    "padded": ("draft_probs[b, i]", "draft_probs[b - 1, i]"),
    "greedy": ("bool(is_greedy[b])", "bool(is_greedy[0])"),
    "one-hot": ("target_logits[b, i]", "target_logits[0, i]"),
}

SGLANG = """
import triton
import triton.language as tl


@triton.jit
def chain_kernel(Predicts, Index, Number, Drafts, Places, Coins, Last, P, Q, SLOTS: tl.constexpr,
                 V: tl.constexpr, BLOCK: tl.constexpr):
    b = tl.program_id(0)
    first, drafted = b * SLOTS, b * (SLOTS - 1)
    place = tl.load(Places + first)
    tl.store(Index + first, place)
    row, step, going = 0, 1, 1
    while (step < SLOTS) and (going == 1):
        x = tl.load(Drafts + first + step)
        p, q = tl.load(P + (first + row) * V + x), tl.load(Q + (drafted + row) * V + x)
        if tl.load(Coins + drafted + step - 1) * q < p:
            tl.store(Predicts + place, x)
            place = tl.load(Places + first + step)
            tl.store(Index + first + step, place)
            row = step
            step += 1
        else:
            going = 0
    tl.store(Number + b, row)
    ids = tl.arange(0, BLOCK)
    law = tl.load(P + (first + row) * V + ids, mask=ids < V, other=0.0)
    if row < SLOTS - 1:
        q = tl.load(Q + (drafted + row) * V + ids, mask=ids < V, other=0.0)
        law = tl.maximum(law - q, 0.0)
    over = tl.cumsum(law, axis=0) > tl.load(Last + b) * tl.sum(law)
    final = V - 1
    if tl.max(over, axis=0):
        final = tl.argmax(over.to(tl.int32), axis=0)
    tl.store(Predicts + place, final)


def chain_speculative_sampling_triton(
    predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token,
    retrive_next_sibling, uniform_samples, uniform_samples_for_final_sampling, target_probs,
    draft_probs, threshold_single, threshold_acc, deterministic, *, block_verification=False,
):
    chain_kernel[(candidates.shape[0],)](
        predicts, accept_index, accept_token_num, candidates, retrive_index, uniform_samples,
        uniform_samples_for_final_sampling, target_probs, draft_probs,
        SLOTS=candidates.shape[1], V=target_probs.shape[-1], BLOCK=4096, num_warps=4,
    )
"""
"""As SGLang: drafts of one length behind a root token, coins ready drawn, places of an output."""

SGLANG_FAULTS = {
    "padded": ("law = tl.load(P + (first + row) * V", "law = tl.load(P + row * V"),
    "padded, places": ("tl.load(Places + first + step)", "tl.load(Places + step)"),
}
