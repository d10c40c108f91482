"""A fast reference that is wrong proves nothing: each is checked before it is timed."""

from typing import Any

import numpy as np
import torch
from references import NUMPY, TORCH, TorchMarkov, numpy_run, torch_run

from simverify.models import MarkovModel
from simverify.simulators.exact.bounds import tree_bounds
from simverify.simulators.exact.laws import linear_curve, token_accepted_mass
from simverify.stats import empirical_bernstein

CONFIDENCE = 1 - 1e-9


def check_references(
    model: MarkovModel, gamma: int, blocks: int, batch: int, seed: int
) -> list[dict[str, Any]]:
    """Hold each reference's E[tau] to the exact one; the other rule's must be excluded.

    ``blocks`` is a multiple of ``batch``. Raises ``RuntimeError`` on a reference that is
    wrong, and on an interval so wide that it sees nothing.
    """
    exact = {rule: exact_expected(model, gamma, rule) for rule in NUMPY}
    found = []
    for rule, other in (("token", "block"), ("block", "token")):
        assert rule in TORCH
        generator = torch.Generator().manual_seed(seed)
        taus = {
            "numpy": numpy_run(model, rule, gamma, blocks, np.random.default_rng(seed)),
            "torch": torch_run(TorchMarkov(model), rule, gamma, blocks, batch, generator),
        }
        for library, tau in taus.items():
            low, high = empirical_bernstein(
                float(tau.mean()), float(tau.var(ddof=1)), len(tau),
                low=0, high=gamma, error=1.0 - CONFIDENCE,
            )  # fmt: skip
            here = f"{library} {rule} on {model.name}: E[tau] in [{low:.4f}, {high:.4f}]"
            if not low <= exact[rule] <= high:
                raise RuntimeError(f"{here}, exactly {exact[rule]:.4f}: the reference is wrong")
            if low <= exact[other] <= high:
                raise RuntimeError(
                    f"{here} does not exclude {other}'s {exact[other]:.4f}: use more blocks"
                )
            found.append(
                {
                    "reference": f"{library} {rule}",
                    "model": model.name,
                    "blocks": len(tau),
                    "interval": [low, high],
                    "exact": exact[rule],
                    "excluded": exact[other],
                }
            )
    return found


def exact_expected(model: MarkovModel, gamma: int, rule: str) -> float:
    """E[tau]; block's from bounds that lie much closer than any check here can tell."""
    if rule == "block":
        bounds = tree_bounds(model, gamma, "block")
        return (bounds.expected_lower + bounds.expected_upper) / 2
    start = token_accepted_mass(model.target_start, model.draft_start)
    rows = token_accepted_mass(model.target_rows, model.draft_rows)
    return float(linear_curve(start, rows, gamma).sum())
