"""economize: ``RejectionVerifier`` of its decoding, on a chain, a batch and a draft tree.

Takes logits, computes in float32 and draws from torch's global generator. The stand-in for its
selector samples from the logits as they are.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapt import Signature, as_verify
from simverify.engines.base import BLOCK_DEFAULTS, LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function, torch
from simverify.engines.fake_models import draw_token_tree, sample_with_replacement

VERIFIER_CLASS = "RejectionVerifier"


def load_verifier(path: Path) -> Any:
    """Return an instance of the class, which keeps nothing, and of what selects its tokens."""
    given: dict[str, Any] = {
        "Verifier": object,
        "selector_distribution": lambda _, logits, *__: logits.softmax(-1).float(),
        "selector_distributions": lambda _, logits: logits.softmax(-1).float(),
        "selector_generator": lambda *_: None,
        "device_tensor": lambda values, device: torch.tensor(values),
        "ConfigError": ValueError,
    }
    return load_function(path, VERIFIER_CLASS, without=("VERIFIERS.register",), **given)()


def load_chain(path: Path) -> Callable[..., Any]:
    """Return ``verify`` on one block."""
    rule = load_verifier(path)
    select = lambda logits, _: int(torch.multinomial(logits.softmax(-1), 1))  # noqa: E731

    def sample(draft_tokens: Any, target: Any, draft: Any) -> list[int]:
        tokens = draft_tokens.tolist()
        accepted, last = rule.verify(target, tokens, draft.exp(), select, draft_tokens, 0)
        return [*tokens[:accepted], last]

    return as_verify(sample, Signature(arrays="torch", logits=True, batched=False))


def make_engine(name: str, method: str, loader: Any, *parameters: str, **fields: Any) -> Engine:
    """Return an engine of a method; ``fields``: what an engine on one block or on a loop has."""
    return Engine(
        name=name,
        package="economize",
        source="decoding/verifiers.py",
        function=f"{VERIFIER_CLASS}.{method}",
        loader=loader,
        versions=">=0.3.2,<0.4",
        parameters=("logits", *parameters, "selector"),
        **fields,
    )


ENGINES: tuple[Engine, ...] = (
    make_engine(
        "economize-chain",
        "verify",
        load_chain,
        "drafts",
        "probs",
        "history",
        "end",
        **BLOCK_DEFAULTS,
    ),
)


# ``verify_batch``, on a batch of one.


def load_batch(path: Path) -> Callable[..., Any]:
    """Return ``verify_batch`` on a batch of one."""
    rule = load_verifier(path)

    def sample(draft_tokens: Any, target: Any, draft: Any, draft_len: Any) -> Any:
        given = draft_row(draft_tokens, draft.exp())
        accepted, last = rule.verify_batch(target, given, None, None, [0])
        return [[*draft_tokens[0, : int(accepted[0])].tolist(), int(last[0])]]

    return as_verify(sample, Signature(arrays="torch", logits=True))


def draft_row(tokens: Any, probs: Any, parents: Any = None) -> SimpleNamespace:
    """Return one row of drafts, as the engine's loop hands them over."""
    count = tokens.shape[1]
    links = None if parents is None else torch.tensor(parents)
    return SimpleNamespace(tokens=tokens, lengths=[count], width=count, probs=probs, parents=links)


ENGINES += (
    make_engine(
        "economize-batch",
        "verify_batch",
        load_batch,
        "draft",
        "seq",
        "ends",
        **BLOCK_DEFAULTS,
    ),
)


# ``verify_tree``, on a draft tree.
#
# The tree is drafted here: two independent tokens after the prefix, and one after each node.


def load_tree(path: Path) -> Callable[..., Any]:
    """Return ``verify_tree`` as a ``step`` callable that drafts its tree, gamma deep."""
    rule = load_verifier(path)

    def step(prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> list[int]:
        tree = draw_token_tree(draft, prefix, gamma, sample_with_replacement)
        tokens, above = tree.tokens, tree.parents[1:]
        # With the row that each was drawn from, and its parent's place; the root is no draft.
        links = [[node - 1 for node in above]]
        given = draft_row(torch.tensor([tokens]), tree.rows(draft)[above][None], links)
        accepted, last = rule.verify_tree(tree.rows(target).log()[None], given, None)
        return [*(tokens[node] for node in accepted[0]), last[0]]

    return step


ENGINES += (make_engine("economize-tree", "verify_tree", load_tree, "draft", **LOOP_DEFAULTS),)
