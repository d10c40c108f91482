"""SGLang: ``blockwise_rejection_torch``, the reference of its DSpark verification.

Takes logits and computes in float32. It seeds a generator from a key and a step counter:
``sglang-dspark-as-is`` draws the counter, ``sglang-dspark`` hands it torch's global generator,
which the exact tier follows.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.stubs import torch, unseeded

FUNCTION = "blockwise_rejection_torch"
KEY, COUNTERS = 7, 1 << 30
"""Of the server's seed, which is one for all its steps; and steps that a server may be at."""


def load(path: Path, *, seeded: bool) -> Verify:
    """Return the function as a ``verify`` callable, with its seeds or with none."""
    given: dict[str, Any] = {} if seeded else {"torch": unseeded()}
    rule = load_function(path, FUNCTION, **given)

    def sample(draft_tokens: Any, target: Any, draft: Any, draft_len: Any, rng: Any) -> Any:
        counter = int(rng.integers(COUNTERS)) if seeded else 0
        accepted, last, _ = rule(
            candidates=torch.nn.functional.pad(draft_tokens, (1, 0)),
            target_logits=target[0],
            draft_logits=draft,
            target_temperatures=torch.ones(1),
            draft_temperatures=torch.ones(1),
            noise=SimpleNamespace(key=KEY, counter=torch.tensor([counter])),
        )
        return [[*draft_tokens[0, : int(accepted[0])].tolist(), int(last[0])]]

    return as_verify(sample, Signature(arrays="torch", logits=True, randomness="numpy"))


EXACT = Engine(
    name="sglang-dspark",
    package="sglang",
    source="kernels/ops/speculative/dspark/blockwise_rejection.py",
    function=FUNCTION,
    **BLOCK,
    loader=partial(load, seeded=False),
    note="the adapter replaces the generator that it seeds itself: see sglang-dspark-as-is",
    versions=">=0.5.23,<0.6",
    parameters=("candidates", "target_logits", "draft_logits", "target_temperatures",
                "draft_temperatures", "noise"),
)  # fmt: skip
AS_IS: dict[str, Any] = {
    "name": "sglang-dspark-as-is", "tier": "sampled", "gamma": 2, "vocab": 4, "note": "",
}  # fmt: skip
ENGINES = (EXACT, replace(EXACT, **AS_IS, loader=partial(load, seeded=True)))
