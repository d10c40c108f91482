"""Medusa: ``evaluate_posterior`` by typical acceptance, lossy by design.

The root is drawn by its ``get_typical_one_token``; behind it come the heads' likeliest tokens, of
which one path is tried. A step is the root and what is kept of the path.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_pieces, torch
from simverify.engines.fake_models import RowFunction

MEDUSA_RULE_NAME, MEDUSA_ROOT_FUNCTION = "evaluate_posterior", "get_typical_one_token"
MEDUSA_OPTIONS = {"temperature": 1.0, "posterior_threshold": 0.09, "posterior_alpha": 0.3}
"""Its defaults: a token is typical above min(0.09, 0.3 exp(-entropy))."""


def load_medusa(path: Path) -> Callable[..., Any]:
    """Return the two functions in a row as a ``step`` callable."""
    pieces = load_pieces(
        path, [MEDUSA_RULE_NAME, MEDUSA_ROOT_FUNCTION], get_nucleus_posterior_mask=None
    )
    rule, draw = getattr(pieces, MEDUSA_RULE_NAME), getattr(pieces, MEDUSA_ROOT_FUNCTION)

    def step(prefix: Any, target: RowFunction, draft: RowFunction, gamma: int, rng: Any) -> Any:
        row = torch.tensor(target(prefix)).log()[None]
        tokens = [int(draw(row, **MEDUSA_OPTIONS))]
        for _ in range(gamma):
            tokens.append(int(np.argmax(draft((*prefix, *tokens)))))
        rows = [target((*prefix, *tokens[: i + 1])) for i in range(gamma + 1)]
        logits = torch.tensor(np.array([rows])).log()
        _, count = rule(logits, torch.tensor([tokens]), **MEDUSA_OPTIONS)
        return tokens[: 1 + int(count)]

    return step


ENGINES = (
    Engine(
        name="medusa",
        package="medusa",
        source="model/utils.py",
        function=MEDUSA_RULE_NAME,
        **LOOP_DEFAULTS,
        loader=load_medusa,
        repository="https://github.com/FasterDecoding/Medusa",
        commit="e2a5d20",
        parameters=("logits", "candidates", *MEDUSA_OPTIONS),
    ),
)
