"""economize: ``RejectionVerifier`` of its decoding, on a chain, on a batch and on a draft tree.

Takes logits, computes in float32 and draws from torch's global generator. What stands for its
selector samples from the logits as they are. The tree is drafted here: two independent tokens
after the prefix, and one after each node.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from simverify.engines.adapting.adapt import Signature, as_verify
from simverify.engines.base import Engine
from simverify.engines.loading.drawn_tree import drawn_tree
from simverify.engines.loading.pieces import load_function

CLASS = "RejectionVerifier"


def verifier(path: Path) -> Any:
    """Return an instance of the class, which keeps nothing, and of what selects its tokens."""
    torch = importlib.import_module("torch")
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
    torch, rule = importlib.import_module("torch"), verifier(path)

    def select(logits: Any, history: Any) -> int:
        return int(torch.multinomial(logits.softmax(-1), 1))

    def sample(draft_tokens: Any, target: Any, draft: Any) -> list[int]:
        tokens = draft_tokens.tolist()
        accepted, last = rule.verify(target, tokens, draft.exp(), select, draft_tokens, 0)
        return [*tokens[:accepted], last]

    return as_verify(sample, Signature(arrays="torch", logits=True, batched=False))


def load_batch(path: Path) -> Callable[..., Any]:
    """Return ``verify_batch`` on a batch of one."""
    rule = verifier(path)

    def sample(draft_tokens: Any, target: Any, draft: Any, draft_len: Any) -> Any:
        accepted, last = rule.verify_batch(
            target, _draft(draft_tokens, draft.exp()), None, None, [0]
        )
        return [[*draft_tokens[0, : int(accepted[0])].tolist(), int(last[0])]]

    return as_verify(sample, Signature(arrays="torch", logits=True))


def load_tree(path: Path) -> Callable[..., Any]:
    """Return ``verify_tree`` as a ``step`` callable that drafts its tree, gamma deep."""
    torch, rule = importlib.import_module("torch"), verifier(path)

    def children(row: Any, count: int) -> Any:
        return torch.multinomial(torch.tensor(row), count, replacement=True).tolist()

    def step(prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> list[int]:
        paths, parents = drawn_tree(draft, prefix, gamma, children)
        tokens = [path[-1] for path in paths[1:]]
        rows, q = (
            torch.tensor(np.array([of((*prefix, *path)) for path in some]))
            for of, some in ((target, paths), (draft, [path[:-1] for path in paths[1:]]))
        )
        above = [node - 1 for node in parents[1:]]
        drafted = _draft(torch.tensor([tokens]), q[None], [above])
        kept, last = rule.verify_tree(rows.log()[None], drafted, None)
        return [*(tokens[node] for node in kept[0]), last[0]]

    return step


def _draft(tokens: Any, probs: Any, parents: Any = None) -> SimpleNamespace:
    """Return one row of drafts, as the engine's loop hands them over."""
    torch = importlib.import_module("torch")
    count = tokens.shape[1]
    links = None if parents is None else torch.tensor(parents)
    return SimpleNamespace(tokens=tokens, lengths=[count], width=count, probs=probs, parents=links)


def _engine(name: str, method: str, loader: Any, *parameters: str, small: bool = False) -> Engine:
    return Engine(
        name=name,
        package="economize",
        source="decoding/verifiers.py",
        function=f"{CLASS}.{method}",
        contract="step" if small else "verify",
        tier="exact",
        loader=loader,
        needs=("torch",),
        versions=">=0.3.2,<0.4",
        parameters=("logits", *parameters, "selector"),
        gamma=2 if small else None,
        vocab=4 if small else None,
    )


ENGINES = (
    _engine("economize-chain", "verify", load_chain, "drafts", "probs", "history", "end"),
    _engine("economize-batch", "verify_batch", load_batch, "draft", "seq", "ends"),
    _engine("economize-tree", "verify_tree", load_tree, "draft", small=True),
)
