"""Transformers' function called in ways that are not lossless, each by a known amount or known why.

``hf-ensemble-0.9`` and ``hf-ensemble-0.99``: by its own option, an ensemble of target and draft.
With v = w p + (1-w) q its acceptance is min(1, v/q), and the residual (v - q)+ normalises to
(p - q)+: speculative sampling of v, and TV(v, p) = (1 - w) TV(p, q), a dose of known size.
``hf-argmax-raw-q``: on greedy drafts, as if they were sampled.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from simverify.engines.adapting.adapt import Verify
from simverify.engines.base import Engine
from simverify.engines.servers.transformers import (
    PARAMETERS,
    engine,
    load,
    original,
    speculative_sampling,
)


def load_ensemble(weight: float, path: Path) -> Verify:
    """Return its function with an ensemble weight."""
    return speculative_sampling(original(path), assistant_ensemble_weight=weight)


def load_argmax(path: Path) -> Callable[..., Any]:
    """Return a ``step`` whose drafts are greedy, and whose reported rows are those not sampled."""
    verify = load(path)

    def step(prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> Any:
        tokens: list[int] = []
        for _ in range(gamma):
            tokens.append(int(np.argmax(draft((*prefix, *tokens)))))
        paths = [(*prefix, *tokens[:i]) for i in range(gamma + 1)]
        p, q = (np.array([rows(path) for path in paths]) for rows in (target, draft))
        return verify(p, q[:-1], tokens, rng)

    return step


def _ensemble(weight: float) -> Engine:
    known = {"versions": ">=5.23,<6", "parameters": (*PARAMETERS, "assistant_ensemble_weight")}
    note = "called with the option assistant_ensemble_weight, which is lossy by design"
    return engine(f"hf-ensemble-{weight:g}", partial(load_ensemble, weight), note=note, **known)


_NOTE = (
    "the adapter drafts, as candidate_generator.py does for Gemma 4: the mistake is that file's, "
    "and the rule at the line named here is right: docs/findings/transformers.md"
)
ENGINES = (
    _ensemble(0.9),
    _ensemble(0.99),
    engine("hf-argmax-raw-q", load_argmax, contract="step", note=_NOTE),
)
