"""Doubles of servers' verifiers that judge a whole batch, with kernels of their own."""

V1 = """
import torch
from nobody.triton_utils import tl, triton


@triton.jit
def greedy_kernel(out_ptr, ends_ptr, drafts_ptr, best_ptr, bonus_ptr, greedy_ptr, width):
    b = tl.program_id(0)
    if not tl.load(greedy_ptr + b):
        return
    start = tl.zeros([], tl.int64) if b == 0 else tl.load(ends_ptr + b - 1)
    n = tl.load(ends_ptr + b) - start
    rejected = False
    for i in range(n):
        if not rejected:
            best = tl.load(best_ptr + start + i)
            tl.store(out_ptr + b * width + i, best)
            rejected = tl.load(drafts_ptr + start + i) != best
    if not rejected:
        tl.store(out_ptr + b * width + n, tl.load(bonus_ptr + b))


@triton.jit
def judge_kernel(out_ptr, ends_ptr, drafts_ptr, q_ptr, p_ptr, bonus_ptr, again_ptr, coins_ptr,
                 greedy_ptr, width, V, NO_DRAFT: tl.constexpr):
    b = tl.program_id(0)
    if tl.load(greedy_ptr + b):
        return
    start = tl.zeros([], tl.int64) if b == 0 else tl.load(ends_ptr + b - 1)
    n = tl.load(ends_ptr + b) - start
    rejected = False
    for i in range(n):
        if not rejected:
            x = tl.load(drafts_ptr + start + i)
            kept = False
            if x >= 0:
                q = 1.0 if NO_DRAFT else tl.load(q_ptr + (start + i) * V + x)
                p = tl.load(p_ptr + (start + i) * V + x)
                kept = q > 0 and p / q >= tl.load(coins_ptr + start + i)
            if not kept:
                rejected = True
                x = tl.load(again_ptr + start + i)
            tl.store(out_ptr + b * width + i, x)
    if not rejected:
        tl.store(out_ptr + b * width + n, tl.load(bonus_ptr + b))


@triton.jit
def recover_kernel(again_ptr, ends_ptr, drafts_ptr, q_ptr, p_ptr, noise_ptr, V,
                   NO_DRAFT: tl.constexpr, BLOCK: tl.constexpr):
    b, i = tl.program_id(0), tl.program_id(1)
    start = tl.zeros([], tl.int64) if b == 0 else tl.load(ends_ptr + b - 1)
    if i >= tl.load(ends_ptr + b) - start:
        return
    place, ids = start + i, tl.arange(0, BLOCK)
    inside = ids < V
    if NO_DRAFT:
        x = tl.load(drafts_ptr + place)
        left = tl.load(p_ptr + place * V + ids, mask=inside & (ids != x), other=0.0)
    else:
        p = tl.load(p_ptr + place * V + ids, mask=inside, other=0.0)
        q = tl.load(q_ptr + place * V + ids, mask=inside, other=0.0)
        left = tl.maximum(p - q, 0.0)
    score = left * tl.load(noise_ptr + b * V + ids, mask=inside, other=0.0)
    score = tl.where(inside, score, float("-inf"))
    most, token = tl.max(score, axis=0, return_indices=True)
    tl.store(again_ptr + place, token)


def rejection_sample(draft_token_ids, num_draft_tokens, max_spec_len, cu_num_draft_tokens,
                     draft_probs, target_logits, bonus_token_ids, sampling_metadata):
    size, width = len(num_draft_tokens), max_spec_len + 1
    p = target_logits.softmax(-1, dtype=torch.float32)
    vocab, none = p.shape[1], draft_probs is None
    greedy = sampling_metadata.temperature == 0
    out = torch.full((size, width), -1, dtype=torch.int32)
    coins = torch.rand(len(p), dtype=torch.float64)
    starts = (cu_num_draft_tokens - torch.tensor(num_draft_tokens)).tolist()
    noise = torch.empty(size, vocab).exponential_()
    for b, generator in sampling_metadata.generators.items():
        end = starts[b] + num_draft_tokens[b]
        coins[starts[b] : end].uniform_(generator=generator)
        noise[b].exponential_(generator=generator)
    if not sampling_metadata.all_random:
        greedy_kernel[(size,)](out, cu_num_draft_tokens, draft_token_ids,
                               target_logits.argmax(-1), bonus_token_ids, greedy, width)
    again = torch.empty_like(draft_token_ids)
    recover_kernel[(size, max_spec_len)](again, cu_num_draft_tokens, draft_token_ids,
                                         draft_probs, p, noise.reciprocal(), vocab,
                                         NO_DRAFT=none, BLOCK=1024)
    judge_kernel[(size,)](out, cu_num_draft_tokens, draft_token_ids, draft_probs, p,
                          bonus_token_ids, again, coins, greedy, width, vocab, NO_DRAFT=none)
    return out
"""
"""As vLLM's V1 runner: drafts one after the other, greedy requests by a kernel of their own."""

V1_FAULTS = {
    # Right in every batch of one request, and in no other.
    "ragged": ("tl.load(bonus_ptr + b))\n\n\n@triton.jit\ndef recover", "tl.load(bonus_ptr))\n\n\n"
               "@triton.jit\ndef recover"),
    "padded": ("p = tl.load(p_ptr + (start + i) * V + x)", "p = tl.load(p_ptr + i * V + x)"),
    "greedy": ("if tl.load(greedy_ptr + b):", "if tl.load(greedy_ptr):"),
    "one-hot": ("(ids != x), other=0.0)", "(ids != ids + x), other=0.0)"),
    "seeds": (".items():", ".items() if False else [(b, sampling_metadata.generators[0])\n"
              "                         for b in sampling_metadata.generators]:"),
}  # fmt: skip
"""By the kind of company that shows it: a piece of the double, and what stands there wrongly."""
