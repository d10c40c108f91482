"""economize: ``RejectionVerifier.verify_batch`` of its decoding, on a batch of one."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapting.adapt import Signature, as_verify
from simverify.engines.base import BLOCK
from simverify.engines.libraries.economize import engine, verifier
from simverify.engines.loading.stubs import torch


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


ENGINES = (engine("economize-batch", "verify_batch", load_batch, "draft", "seq", "ends", **BLOCK),)
