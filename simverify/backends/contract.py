"""The rules on tensors under the project's own contract, so that it can audit them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from simverify.backends import fused, rules
from simverify.backends.verified import Verified

Verify = Callable[[Any, Any, Any, Any], torch.Tensor]


def torch_rule(
    name: str,
    *,
    device: str = "cpu",
    dtype: str = "float64",
    launch: Callable[..., Verified] = rules.verify,
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


def fused_coins(name: str, *, device: str = "cuda", dtype: str = "float64") -> Verify:
    """Return a fused rule as ``f(target_probs, draft_probs, draft_tokens, coins)``.

    ``coins`` float64 (gamma+1,), the last for the residual or bonus token: what
    :func:`simverify.auditing.exact.coins.coin_blocks.compare_coins` takes. With or without a batch
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
