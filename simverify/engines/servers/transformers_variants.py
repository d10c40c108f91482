"""Transformers' function by its own option, as an ensemble of target and draft: lossy by design.

``hf-ensemble-0.9`` and ``hf-ensemble-0.99`` are so by a known amount.
With v = w p + (1-w) q its acceptance is min(1, v/q), and the residual (v - q)+ normalises to
(p - q)+: speculative sampling of v, and TV(v, p) = (1 - w) TV(p, q), a dose of known size.
"""

from functools import partial
from pathlib import Path

from simverify.engines.adapting.adapt import Verify
from simverify.engines.base import Engine
from simverify.engines.servers.transformers import (
    PARAMETERS,
    engine,
    original,
    speculative_sampling,
)


def load_ensemble(weight: float, path: Path) -> Verify:
    """Return its function with an ensemble weight."""
    return speculative_sampling(original(path), assistant_ensemble_weight=weight)


def _ensemble(weight: float) -> Engine:
    known = {"versions": ">=5.23,<6", "parameters": (*PARAMETERS, "assistant_ensemble_weight")}
    note = "called with the option assistant_ensemble_weight, which is lossy by design"
    return engine(f"hf-ensemble-{weight:g}", partial(load_ensemble, weight), note=note, **known)


ENGINES = (_ensemble(0.9), _ensemble(0.99))
