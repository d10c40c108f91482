"""What ``tiles_speed`` times: verification kernels as engines write them."""

import torch
import triton
import triton.language as tl


@triton.jit
def token_kernel(
    out, count, target, draft, drafts, coins, stride, V,
    GAMMA: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    target += b * (GAMMA + 1) * stride
    draft += b * GAMMA * stride
    coins += b * (GAMMA + 1)
    kept = 0
    going = True
    for i in range(GAMMA):
        if going:
            x = tl.load(drafts + b * GAMMA + i)
            p = tl.load(target + i * stride + x)
            q = tl.load(draft + i * stride + x)
            if (q > 0) & (tl.load(coins + i) * q < p):
                tl.store(out + b * (GAMMA + 1) + i, x)
                kept += 1
            else:
                going = False
    total = 0.0
    for start in range(0, V, BLOCK):
        ids = start + tl.arange(0, BLOCK)
        law = tl.load(target + kept * stride + ids, mask=ids < V, other=0.0)
        if kept < GAMMA:
            q = tl.load(draft + kept * stride + ids, mask=ids < V, other=0.0)
            law = tl.maximum(law - q, 0.0)
        total += tl.sum(law)
    goal = tl.load(coins + GAMMA) * total
    before, last, found = 0.0, V - 1, 0
    for start in range(0, V, BLOCK):
        if found == 0:
            ids = start + tl.arange(0, BLOCK)
            law = tl.load(target + kept * stride + ids, mask=ids < V, other=0.0)
            if kept < GAMMA:
                q = tl.load(draft + kept * stride + ids, mask=ids < V, other=0.0)
                law = tl.maximum(law - q, 0.0)
            passed = before + tl.cumsum(law, axis=0) > goal
            if tl.max(passed, axis=0):
                last = start + tl.argmax(passed.to(tl.int32), axis=0)
                found = 1
            before += tl.sum(law)
    tl.store(out + b * (GAMMA + 1) + kept, last)
    tl.store(count + b, kept + 1)


@triton.jit
def noise_kernel(out, logits, seed, V, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    ids = tl.arange(0, BLOCK)
    u = tl.rand(seed, row * V + ids)
    noise = -tl.log(-tl.log(tl.maximum(u, 1e-30)))
    x = tl.load(logits + row * V + ids, mask=ids < V, other=float("-inf"))
    tl.store(out + row, tl.argmax(tl.where(ids < V, x + noise, float("-inf")), axis=0))


def token(target, draft, drafts, coins):
    """Tokens and counts of token verification: rows (B, G+1, V), (B, G, V), coins (B, G+1)."""
    batch, gamma, vocab = draft.shape
    out = torch.full((batch, gamma + 1), -1, dtype=torch.int64)
    count = torch.empty(batch, dtype=torch.int32)
    token_kernel[(batch,)](
        out, count, target, draft, drafts, coins, vocab, vocab, GAMMA=gamma, BLOCK=4096
    )
    return out, count


def noise(logits):
    """A token of each row (B, V), by Gumbel noise of one seed."""
    out = torch.empty(len(logits), dtype=torch.int32)
    noise_kernel[(len(logits),)](out, logits, 7, logits.shape[1], BLOCK=1024)
    return out
