"""The rules in torch, vectorised over the batch: the version to read, and the one without a GPU.

Rows are float64 (float32 where a lower precision comes in); weights, thresholds and running sums
are float64. Citations stand with the readable rules in ``simverify.verifiers``.
"""

import torch

from simverify.backends.verified import Verified, verify_iv

LARGEST = 1e100
"""Where greedy's weights are cut, as in ``simverify.verifiers.base``, which says why."""


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
    """Verify a batch of drafted blocks in torch.

    Makes tensors of shape (B, gamma, V). Arguments, result and errors as
    :func:`simverify.backends.verify`.
    """
    verify_iv(rule, target, draft, draft_tokens, uniforms, logits=logits, check=check)
    p = _probabilities(target, logits)
    u, coin = uniforms[:, :-1], uniforms[:, -1]
    if rule == "match":
        return _match(p, draft_tokens, uniforms)
    assert draft is not None
    q = _probabilities(draft, logits)
    if rule == "token":
        tau = _leading(u < _ratios(p, q, draft_tokens))
        weight = torch.ones(len(tau), dtype=torch.float64, device=tau.device)
    else:
        weights = _weights(rule, p, q, draft_tokens)
        tau = _last_below(u, _thresholds(rule, p, q, weights))
        weight = weights.gather(1, tau[:, None])[:, 0]
    rows = torch.arange(len(tau), device=tau.device)
    last_p = p[rows, tau]
    # Nothing is taken off the bonus row.
    kept = (tau < draft_tokens.shape[1]).to(q.dtype)[:, None]
    last_q = q[rows, tau.clamp(max=draft_tokens.shape[1] - 1)] * kept
    weight = torch.where(kept[:, 0] > 0, weight, 1.0).to(p.dtype)
    law = (weight[:, None] * last_p - last_q).clamp(min=0)
    # Zero residual mass can only be rounding: the target row stands in.
    law = torch.where(law.sum(-1, keepdim=True) > 0, law, last_p)
    return _emitted(draft_tokens, tau, _draw(law, coin))


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
    """Return p/q at the drafted tokens, float64 (B, gamma), cut at ``LARGEST``; 0/0 is NaN."""
    place = tokens[..., None]
    p_x = p[:, :-1].gather(-1, place)[..., 0].double()
    return (p_x / q.gather(-1, place)[..., 0].double()).clamp(max=LARGEST)


def _weights(rule: str, p: torch.Tensor, q: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return float64 (B, gamma+1): what each prefix is kept with at most; 1 for the empty one."""
    # A token that the draft cannot emit is not accepted either: 0/0 and p/0 count as 0.
    possible = q.gather(-1, tokens[..., None])[..., 0] > 0
    ratios = torch.where(possible, _ratios(p, q, tokens), 0.0)
    weights = [torch.ones_like(ratios[:, 0])]
    for ratio in ratios.unbind(1):
        weights.append((weights[-1] * ratio).clamp(max=1.0 if rule == "block" else LARGEST))
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


def _match(p: torch.Tensor, tokens: torch.Tensor, uniforms: torch.Tensor) -> Verified:
    own = _draw(p, uniforms)
    tau = _leading(own[:, :-1] == tokens)
    return _emitted(tokens, tau, own.gather(1, tau[:, None])[:, 0])


def _leading(kept: torch.Tensor) -> torch.Tensor:
    """Count the True before the first False in each row."""
    return kept.long().cumprod(-1).sum(-1)


def _last_below(u: torch.Tensor, thresholds: torch.Tensor) -> torch.Tensor:
    numbers = torch.arange(1, u.shape[1] + 1, device=u.device)
    return ((u < thresholds).long() * numbers).amax(-1)


def _draw(law: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Return the first token at which the running sum of ``law`` (..., V) exceeds u times all.

    Only tokens with mass are drawn, also where a parallel sum runs back by its last bit or the
    goal rounds up to all.
    """
    sums = law.cumsum(-1, dtype=torch.float64)
    goal = u * sums[..., -1]
    ids = torch.arange(law.shape[-1], device=law.device)
    first = torch.where((sums > goal[..., None]) & (law > 0), ids, law.shape[-1]).amin(-1)
    return torch.minimum(first, torch.where(law > 0, ids, 0).amax(-1))


def _emitted(tokens: torch.Tensor, tau: torch.Tensor, last: torch.Tensor) -> Verified:
    slots = torch.arange(tokens.shape[1] + 1, device=tokens.device)
    padded = torch.cat([tokens, last[:, None]], dim=1)
    padded = torch.where(slots < tau[:, None], padded, -1)
    return Verified(torch.where(slots == tau[:, None], last[:, None], padded), tau)
