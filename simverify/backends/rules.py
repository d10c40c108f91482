"""The rules in torch, vectorised over the batch: the version to read, and the one without a GPU.

``verify`` chooses between them and the fused kernels. Rows are float64 (float32 where a lower
precision comes in); weights, thresholds and running sums are float64. Citations stand with the
readable rules in ``simverify.verifiers``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from simverify.backends import fused
from simverify.backends.batch import Verified, check_verify

MAX_WEIGHT = 1e100
"""Where greedy's weights are cut, as in ``simverify.verifiers.base``, which says why."""


def torch_verify(
    rule: str,
    target: torch.Tensor,
    draft: torch.Tensor | None,
    draft_tokens: torch.Tensor,
    uniforms: torch.Tensor,
    *,
    logits: bool = False,
    check: bool = True,
) -> Verified:
    """Verify a batch of drafted blocks in torch.

    Makes tensors of shape (B, gamma, V). Arguments, result and errors as
    :func:`simverify.backends.verify`.
    """
    check_verify(rule, target, draft, draft_tokens, uniforms, logits=logits, check=check)
    p = _probabilities(target, logits)
    u, coin = uniforms[:, :-1], uniforms[:, -1]
    if rule == "match":
        return _match_rule(p, draft_tokens, uniforms)
    assert draft is not None
    q = _probabilities(draft, logits)
    if rule == "token":
        tau = _leading_count(u < _ratios(p, q, draft_tokens))
        weight = torch.ones(len(tau), dtype=torch.float64, device=tau.device)
    else:
        weights = _weights(rule, p, q, draft_tokens)
        tau = _last_index_below(u, _thresholds(rule, p, q, weights))
        weight = weights.gather(1, tau[:, None])[:, 0]
    rows = torch.arange(len(tau), device=tau.device)
    last_p = p[rows, tau]
    # Nothing is taken off the bonus row.
    mask = (tau < draft_tokens.shape[1]).to(q.dtype)[:, None]
    last_q = q[rows, tau.clamp(max=draft_tokens.shape[1] - 1)] * mask
    weight = torch.where(mask[:, 0] > 0, weight, 1.0).to(p.dtype)
    law = (weight[:, None] * last_p - last_q).clamp(min=0)
    # Zero residual mass can only be rounding: the target row stands in.
    law = torch.where(law.sum(-1, keepdim=True) > 0, law, last_p)
    return _assemble_output(draft_tokens, tau, _inverse_cdf(law, coin))


def _probabilities(rows: torch.Tensor, logits: bool) -> torch.Tensor:
    exact = rows if rows.dtype == torch.float64 else rows.float()
    if not logits:
        return exact
    p = exact.softmax(dim=-1)
    if p.dtype == torch.float32 and not p.is_cuda:
        # On the CPU torch adds up the exponentials in so few sums that at V = 152,064 rows sum
        # to 1 within 2e-5 alone.
        p /= p.sum(dim=-1, keepdim=True, dtype=torch.float64).float()
    return p


def _ratios(p: torch.Tensor, q: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return p/q at the drafted tokens, float64 (B, gamma), cut at ``MAX_WEIGHT``; 0/0 is NaN."""
    place = tokens[..., None]
    p_x = p[:, :-1].gather(-1, place)[..., 0].double()
    return (p_x / q.gather(-1, place)[..., 0].double()).clamp(max=MAX_WEIGHT)


def _weights(rule: str, p: torch.Tensor, q: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return float64 (B, gamma+1): what each prefix is kept with at most; 1 for the empty one."""
    # A token that the draft cannot emit is not accepted either: 0/0 and p/0 count as 0.
    possible = q.gather(-1, tokens[..., None])[..., 0] > 0
    ratios = torch.where(possible, _ratios(p, q, tokens), 0.0)
    weights = [torch.ones_like(ratios[:, 0])]
    for ratio in ratios.unbind(1):
        weights.append((weights[-1] * ratio).clamp(max=1.0 if rule == "block" else MAX_WEIGHT))
    return torch.stack(weights, dim=1)


def _thresholds(rule: str, p: torch.Tensor, q: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return h, float64 (B, gamma): position i is kept where its uniform is below h_i."""
    inner = weights[:, 1:-1, None].to(p.dtype)
    difference = inner * p[:, 1:-1] - q[:, 1:]
    residual = difference.clamp(min=0).sum(-1, dtype=torch.float64)
    if rule == "block":
        room = residual + 1 - weights[:, 1:-1]
        inner_h = torch.where(room > 0, residual / room, 1.0)
    else:
        room = (-difference).clamp(min=0).sum(-1, dtype=torch.float64)
        inner_h = torch.where(residual < room, residual / room, 1.0)
    return torch.cat([inner_h, weights[:, -1:].clamp(max=1.0)], dim=1)


def _match_rule(p: torch.Tensor, tokens: torch.Tensor, uniforms: torch.Tensor) -> Verified:
    samples = _inverse_cdf(p, uniforms)
    tau = _leading_count(samples[:, :-1] == tokens)
    return _assemble_output(tokens, tau, samples.gather(1, tau[:, None])[:, 0])


def _leading_count(kept: torch.Tensor) -> torch.Tensor:
    """Count the True before the first False in each row."""
    return kept.long().cumprod(-1).sum(-1)


def _last_index_below(u: torch.Tensor, thresholds: torch.Tensor) -> torch.Tensor:
    numbers = torch.arange(1, u.shape[1] + 1, device=u.device)
    return ((u < thresholds).long() * numbers).amax(-1)


def _inverse_cdf(law: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Return the first token at which the running sum of ``law`` (..., V) exceeds u times all.

    Only tokens with mass are drawn, also where a parallel sum runs back by its last bit or the
    goal rounds up to all.
    """
    sums = law.cumsum(-1, dtype=torch.float64)
    goal = u * sums[..., -1]
    ids = torch.arange(law.shape[-1], device=law.device)
    first = torch.where((sums > goal[..., None]) & (law > 0), ids, law.shape[-1]).amin(-1)
    return torch.minimum(first, torch.where(law > 0, ids, 0).amax(-1))


def _assemble_output(tokens: torch.Tensor, tau: torch.Tensor, last: torch.Tensor) -> Verified:
    slots = torch.arange(tokens.shape[1] + 1, device=tokens.device)
    padded = torch.cat([tokens, last[:, None]], dim=1)
    padded = torch.where(slots < tau[:, None], padded, -1)
    return Verified(torch.where(slots == tau[:, None], last[:, None], padded), tau)


# The rules on tensors under the project's own contract, so that it can audit them.


Verify = Callable[[Any, Any, Any, Any], torch.Tensor]


def torch_rule(
    name: str,
    *,
    device: str = "cpu",
    dtype: str = "float64",
    launch: Callable[..., Verified] = torch_verify,
) -> Verify:
    """Return a rule in torch as ``verify(target_probs, draft_probs, draft_tokens, rng)``.

    ``launch``: what computes it, as :func:`simverify.backends.verify` is called. With or
    without a batch axis, so that ``simverify audit --batch`` takes it too; the rows are rounded to
    ``dtype``. It returns tokens, padded with -1 in a batch. The uniforms come from ``rng``, and the
    exact tier follows them.
    """
    kind = getattr(torch, dtype)

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> torch.Tensor:
        shape = np.shape(draft_tokens)
        coins = torch.as_tensor(rng.random((*shape[:-1], shape[-1] + 1)), device=device)
        rows = (torch.tensor(x, dtype=kind, device=device) for x in (target_probs, draft_probs))
        tokens = torch.tensor(draft_tokens, dtype=torch.int64, device=device)
        given = [x if len(shape) == 2 else x[None] for x in (*rows, tokens, coins)]
        # Probes bring rows that no rule can take, to see what comes of them.
        result = launch(name, *given, check=False)
        return result.tokens if len(shape) == 2 else result.tokens[0, : result.tau[0] + 1]

    verify.takes_batches = True  # type: ignore[attr-defined]
    return verify


def fused_coin_rule(name: str, *, device: str = "cuda", dtype: str = "float64") -> Verify:
    """Return a fused rule as ``f(target_probs, draft_probs, draft_tokens, coins)``.

    ``coins`` float64 (gamma+1,), the last for the residual or bonus token: what
    :func:`simverify.auditing.coins.compare_coins` takes. With or without a batch
    axis.
    """
    kind = getattr(torch, dtype)

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, coins: Any) -> torch.Tensor:
        kinds = (kind, kind, torch.int64, torch.float64)
        values = (target_probs, draft_probs, draft_tokens, coins)
        given = [
            torch.tensor(x, dtype=k, device=device) for x, k in zip(values, kinds, strict=True)
        ]
        batched = given[2].dim() == 2
        result = fused.verify(name, *(x if batched else x[None] for x in given), check=False)
        return result.tokens if batched else result.tokens[0, : result.tau[0] + 1]

    verify.takes_batches = True  # type: ignore[attr-defined]
    return verify


token = torch_rule("token")
block = torch_rule("block")
match = torch_rule("match")


# The choice of a version: fused kernels on a GPU, torch elsewhere.


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
    if on_gpu and rule in fused.FUSED_RULES and fused.has_triton():
        return fused.verify(rule, target, draft, draft_tokens, uniforms, logits=logits, check=check)
    return torch_verify(rule, target, draft, draft_tokens, uniforms, logits=logits, check=check)
