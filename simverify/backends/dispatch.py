"""Which version runs where."""

import torch

from simverify.backends import fused, rules
from simverify.backends.verified import Verified


def verify(
    rule: str,
    target: torch.Tensor,
    draft: torch.Tensor | None,
    draft_tokens: torch.Tensor,
    uniforms: torch.Tensor,
    *,
    logits: bool = False,
    check: bool = True,
) -> Verified:
    """Verify a batch of drafted blocks: fused kernels on a GPU, torch elsewhere.

    Parameters
    ----------
    rule : {"token", "block", "greedy", "match"}
        ``greedy``: the first call of a generation; the debt it leaves is not kept, and without
        it the rule is not lossless. The fused kernels are ``token`` and ``block``; the other
        two run in torch on every device.
    target : torch.Tensor
        (B, gamma+1, V), float64, float32, bfloat16 or float16: probabilities whose rows sum
        to 1, or logits; row i follows ``draft_tokens[:, :i]``.
    draft : torch.Tensor or None
        (B, gamma, V), of the same dtype: the rows that the drafts were drawn from. ``match``
        does not read it and takes None.
    draft_tokens : torch.Tensor
        int64 (B, gamma), ids in 0..V-1.
    uniforms : torch.Tensor
        float64 (B, gamma+1) in [0, 1), one for each drafted token and one for the last token:
        :func:`simverify.backends.uniforms`.
    logits : bool
        Whether rows are logits; -inf where a probability is 0.
    check : bool
        Read all rows and tokens for values that no rule can take. That is another pass over
        the rows, and waits for the device: pass False where they are known to be right.

    Returns
    -------
    Verified
        ``tokens`` (B, gamma+1), padded with -1, and ``tau`` (B,), on the rows' device.

    Raises
    ------
    UsageError
        Shapes or dtypes that do not fit, several devices, and if ``check``: rows that do not
        sum to 1 or hold NaN, ids out of range, uniforms out of [0, 1).

    Notes
    -----
    Rows of lower precision are taken as they are and computed with in float32. Same uniforms,
    same tokens as the compiled kernels, but for ties: a threshold or a running sum may differ
    by ``simverify.backends.fused.TOLERANCE`` of the rows' dtype, and a uniform that falls into
    that gap may go to the neighbour. Running sums go by token id; the compiled Markov kernels
    draw the last token in ascending q/p, which on the GPU would take a sort of the row.
    """
    on_gpu = isinstance(target, torch.Tensor) and target.is_cuda
    if on_gpu and rule in fused.RULES and fused.installed():
        return fused.verify(rule, target, draft, draft_tokens, uniforms, logits=logits, check=check)
    return rules.verify(rule, target, draft, draft_tokens, uniforms, logits=logits, check=check)
