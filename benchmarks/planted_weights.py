"""Engines with rounded weights that no bet is on: what they round by depends on what they read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from simverify.models import rounding
from simverify.models.rounding import _weight_matrices
from simverify.models.transformer import TransformerPair

GROUP = 128


class Read:
    """What each matrix of the layers reads of some prompts: mean magnitudes, and products."""

    def __init__(self, pair: TransformerPair, texts: list[list[int]]) -> None:
        self.sizes: dict[Any, Any] = {}
        self.products: dict[Any, Any] = {}

        def seen(module: Any, inputs: Any) -> None:
            x = inputs[0].reshape(-1, inputs[0].shape[-1])
            self.sizes[module] = self.sizes.get(module, 0) + x.abs().sum(dim=0)
            self.products[module] = self.products.get(module, 0) + x.T @ x

        model = pair.target_model
        hooks = [m.register_forward_pre_hook(seen) for m in _weight_matrices(model, whole=False)]
        with torch.no_grad():
            for text in texts:
                model(torch.tensor([text]))
        for hook in hooks:
            hook.remove()


def awq(read: Read, module: Any) -> Any:
    """Columns scaled by a power of what they read, the one of the least error, then groups."""
    weight, size = module.weight.data, read.sizes[module]
    best, least = weight, np.inf
    for step in range(20):
        scale = size.pow(step / 20.0).clamp(min=1e-4)
        scale = scale / (scale.max() * scale.min()).sqrt()
        found = rounding.asymmetric_groups(GROUP)(weight * scale) / scale
        off = found - weight
        error = float(((off @ read.products[module]) * off).sum())
        if error < least:
            best, least = found, error
    return best


def gptq(read: Read, module: Any) -> Any:
    """Column after column, the error of each made up for by those behind it."""
    weight, products = module.weight.data.clone(), read.products[module].clone()
    n = weight.shape[1]
    products += 0.01 * products.diagonal().mean() * torch.eye(n)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(products))
    upper = torch.linalg.cholesky(inverse, upper=True)
    found = torch.zeros_like(weight)
    for i in range(n):
        if i % GROUP == 0:
            own = weight[:, i : i + GROUP]
            low, high = own.amin(dim=1).clamp(max=0.0), own.amax(dim=1).clamp(min=0.0)
            scale = ((high - low) / 15.0).clamp(min=1e-12)
            zero = torch.round(-low / scale)
        found[:, i] = (torch.clamp(torch.round(weight[:, i] / scale) + zero, 0, 15) - zero) * scale
        off = (weight[:, i] - found[:, i]) / upper[i, i]
        weight[:, i + 1 :] -= off[:, None] * upper[i, i + 1 :]
    return found


@contextmanager
def planted(pair: TransformerPair, rule: Any) -> Iterator[None]:
    """Let the layers of the target have the matrices that ``rule`` makes of them."""
    kept = {
        module: module.weight.data for module in _weight_matrices(pair.target_model, whole=False)
    }
    for number, module in enumerate(kept):
        module.weight.data = rule(number, module)
    try:
        yield
    finally:
        for module, weight in kept.items():
            module.weight.data = weight
