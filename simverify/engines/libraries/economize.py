"""economize: ``RejectionVerifier`` of its decoding, on a chain.

Takes logits, computes in float32 and draws from torch's global generator. What stands for its
selector samples from the logits as they are. Its rules on a batch and on a draft tree are
:mod:`.economize_batch` and :mod:`.economize_tree`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Signature, as_verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.stubs import torch

CLASS = "RejectionVerifier"


def verifier(path: Path) -> Any:
    """Return an instance of the class, which keeps nothing, and of what selects its tokens."""
    given: dict[str, Any] = {
        "Verifier": object,
        "selector_distribution": lambda _, logits, *__: logits.softmax(-1).float(),
        "selector_distributions": lambda _, logits: logits.softmax(-1).float(),
        "selector_generator": lambda *_: None,
        "device_tensor": lambda values, device: torch.tensor(values),
        "ConfigError": ValueError,
    }
    return load_function(path, CLASS, without=("VERIFIERS.register",), **given)()


def load_chain(path: Path) -> Callable[..., Any]:
    """Return ``verify`` on one block."""
    rule = verifier(path)
    select = lambda logits, _: int(torch.multinomial(logits.softmax(-1), 1))  # noqa: E731

    def sample(draft_tokens: Any, target: Any, draft: Any) -> list[int]:
        tokens = draft_tokens.tolist()
        accepted, last = rule.verify(target, tokens, draft.exp(), select, draft_tokens, 0)
        return [*tokens[:accepted], last]

    return as_verify(sample, Signature(arrays="torch", logits=True, batched=False))


def engine(name: str, method: str, loader: Any, *parameters: str, **fields: Any) -> Engine:
    """Return an engine of a method; ``fields``: what an engine on one block or on a loop has."""
    return Engine(
        name=name,
        package="economize",
        source="decoding/verifiers.py",
        function=f"{CLASS}.{method}",
        loader=loader,
        versions=">=0.3.2,<0.4",
        parameters=("logits", *parameters, "selector"),
        **fields,
    )


ENGINES = (
    engine("economize-chain", "verify", load_chain, "drafts", "probs", "history", "end", **BLOCK),
)
