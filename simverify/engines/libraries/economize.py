"""economize: ``RejectionVerifier`` of its decoding, on a chain and on a batch.

Takes logits, computes in float32 and draws from torch's global generator. What stands for its
selector samples from the logits as they are. :mod:`.economize_tree` is its rule on a draft tree.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
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


def load_batch(path: Path) -> Callable[..., Any]:
    """Return ``verify_batch`` on a batch of one."""
    rule = verifier(path)

    def sample(draft_tokens: Any, target: Any, draft: Any, draft_len: Any) -> Any:
        given = drafted(draft_tokens, draft.exp())
        accepted, last = rule.verify_batch(target, given, None, None, [0])
        return [[*draft_tokens[0, : int(accepted[0])].tolist(), int(last[0])]]

    return as_verify(sample, Signature(arrays="torch", logits=True))


def drafted(tokens: Any, probs: Any, parents: Any = None) -> SimpleNamespace:
    """Return one row of drafts, as the engine's loop hands them over."""
    count = tokens.shape[1]
    links = None if parents is None else torch.tensor(parents)
    return SimpleNamespace(tokens=tokens, lengths=[count], width=count, probs=probs, parents=links)


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
    engine("economize-batch", "verify_batch", load_batch, "draft", "seq", "ends", **BLOCK),
)
