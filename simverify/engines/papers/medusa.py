"""Medusa: ``evaluate_posterior`` by typical acceptance, lossy by design.

The root is drawn by its ``get_typical_one_token``; behind it come the heads' likeliest tokens, of
which one path is tried. A step is the root and what is kept of the path.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.pieces import load_pieces
from simverify.engines.loading.rows_model import Rows
from simverify.engines.loading.stubs import torch

RULE, ROOT = "evaluate_posterior", "get_typical_one_token"
TYPICAL = {"temperature": 1.0, "posterior_threshold": 0.09, "posterior_alpha": 0.3}
"""Its defaults: a token is typical above min(0.09, 0.3 exp(-entropy))."""


def load(path: Path) -> Callable[..., Any]:
    """Return the two functions in a row as a ``step`` callable."""
    pieces = load_pieces(path, [RULE, ROOT], get_nucleus_posterior_mask=None)
    rule, draw = getattr(pieces, RULE), getattr(pieces, ROOT)

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        row = torch.tensor(target(prefix)).log()[None]
        tokens = [int(draw(row, **TYPICAL))]
        for _ in range(gamma):
            tokens.append(int(np.argmax(draft((*prefix, *tokens)))))
        rows = [target((*prefix, *tokens[: i + 1])) for i in range(gamma + 1)]
        logits = torch.tensor(np.array([rows])).log()
        _, kept = rule(logits, torch.tensor([tokens]), **TYPICAL)
        return tokens[: 1 + int(kept)]

    return step


ENGINES = (
    Engine(
        name="medusa",
        package="medusa",
        source="model/utils.py",
        function=RULE,
        **LOOP,
        loader=load,
        repository="https://github.com/FasterDecoding/Medusa",
        commit="e2a5d20",
        parameters=("logits", "candidates", *TYPICAL),
    ),
)
