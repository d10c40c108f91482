"""What is timed: our kernels as compare runs them and bare, and the references."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from measure import Case
from references import NUMPY, TORCH, TorchMarkov, numpy_run, torch_run

from simverify.models import MarkovModel, Model
from simverify.simulators.run import model_tables, simulate

THREADS = (1, 2)


def our_cases(
    model: Model, rules: tuple[str, ...], gamma: int, blocks: int, seed: int
) -> list[Case]:
    """Our kernels on ``model``: each rule with nothing counted and counted as compare does.

    Compare counts transitions by slot where contexts repeat and randomised PITs elsewhere.
    """
    tables = model_tables(model)
    if isinstance(model, MarkovModel):
        shape = (gamma + 1, model.states + 1, model.vocab_size)
        counted: dict[str, Any] = {"transition_shape": shape}
    else:
        counted = {"pit_positions": gamma + 1}
    return [
        Case(
            name=f"{model.name} {rule} {label}, {threads} thread{'s' * (threads > 1)}",
            model=model.name,
            rule=rule,
            threads=threads,
            blocks=blocks * threads,
            run=partial(
                simulate, tables, rule, gamma, blocks * threads,
                seed=seed, threads=threads, **counting,
            ),
        )
        for rule in rules
        for label, counting in (("counted", counted), ("bare", {}))
        for threads in THREADS
    ]  # fmt: skip


def numpy_cases(model: MarkovModel, gamma: int, blocks: int, seed: int) -> list[Case]:
    """One block at a time."""
    rng = np.random.default_rng(seed)
    return [
        Case(
            name=f"numpy {rule}",
            model=model.name,
            rule=rule,
            threads=1,
            blocks=blocks,
            run=partial(numpy_run, model, rule, gamma, blocks, rng),
        )
        for rule in NUMPY
    ]


def torch_cases(
    model: MarkovModel, gamma: int, batches: Sequence[int], blocks: int, seed: int
) -> list[Case]:
    """Whole batches, at each batch size, ``blocks`` blocks or one batch at least."""
    tensors = TorchMarkov(model)
    generator = torch.Generator().manual_seed(seed)
    cases = []
    for rule in TORCH:
        for batch in batches:
            count = max(blocks // batch, 1) * batch
            run = partial(torch_run, tensors, rule, gamma, count, batch, generator)
            cases.append(Case(f"torch {rule} B = {batch}", model.name, rule, 1, count, run))
    return cases
