"""``torch.vmap``, followed row by row.

What it promises is what a loop over the rows does, but for randomness: an error unless it is
allowed, one draw for all rows, or another for each. Draws of other libraries are made once for
all rows, as the function runs once, and are refused.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch import apis, vmap
from torch.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

from simverify.symbolic.enumeration.source import Source

OWNER: Any = apis
"""The module whose ``vmap_impl`` every vmapped function calls."""


def row_by_row(source: Source, drawn_by_torch: Callable[[], int]) -> Callable[..., Any]:
    """Return what stands for torch's ``vmap_impl``; ``drawn_by_torch`` counts torch's draws."""

    def run(
        func: Any, in_dims: Any, out_dims: Any, randomness: str, chunk_size: Any,
        *args: Any, **kwargs: Any,
    ) -> Any:  # fmt: skip
        size, dims, flat, spec = vmap._process_batched_inputs(in_dims, args, func)
        outputs = []
        for i in range(size):
            row = [x if d is None else x.select(d, i) for x, d in zip(flat, dims, strict=True)]
            before = len(source.draws), drawn_by_torch()
            outputs.append(func(*tree_unflatten(row, spec), **kwargs))
            drawn, torchs = len(source.draws) - before[0], drawn_by_torch() - before[1]
            if drawn > torchs:
                source.refuse("draws of other libraries inside torch.vmap (draw them before it)")
            if drawn and randomness == "error":
                raise RuntimeError(
                    "vmap: called random operation while in randomness error mode. Please either "
                    "use the 'same' or 'different' randomness flags on vmap or perform the "
                    "randomness operation out of vmap"
                )
            if drawn and randomness == "same":
                source.refuse("torch.vmap(randomness='same') (draw before it, or in a loop)")
        return _stacked(outputs, out_dims)

    return run


def _stacked(outputs: list[Any], out_dims: Any) -> Any:
    flat = [tree_flatten(output) for output in outputs]
    spec = flat[0][1]
    dims = _broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise ValueError(f"vmap: out_dims={out_dims} does not fit what the function returns")
    columns = zip(*(leaves for leaves, _ in flat), strict=True)
    return tree_unflatten(
        [
            leaves[0] if dim is None else torch.stack(list(leaves), dim)
            for leaves, dim in zip(columns, dims, strict=True)
        ],
        spec,
    )
