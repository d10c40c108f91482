"""Engines' functions that judge draft trees.

They draft no trees themselves, so the adapters do: most of them two tokens after the prefix and one
after each node, gamma deep.
"""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from simverify.engines.declare import LOGITS_OF_ONE, block_engine, step_engine
from simverify.engines.extract import load_function, load_pieces, torch
from simverify.engines.fake_models import (
    BOS_TOKEN,
    draw_token_tree,
    likeliest_paths,
    sample_with_replacement,
)


@step_engine(
    "eagle",
    "eagle/model/utils.py:evaluate_posterior",
    "SafeAILab/EAGLE@cb7e084",
    "logits candidates logits_processor",
)
def eagle(rule: Any, prefix: Any, target: Any, draft: Any, gamma: int, _: Any) -> list[int]:
    """EAGLE's, at a temperature, on its kind of tree.

    That is the draft's two likeliest tokens after every node, nothing drawn. The token drawn from
    what the function returns ends the step; in EAGLE it is the next root.
    """
    paths = likeliest_paths(draft, prefix, gamma, 2)
    rows = [[target((*prefix, *path[:i])) for i in range(gamma + 1)] for path in paths]
    best, count, last = rule(
        torch.tensor(np.array(rows)).log(),
        torch.tensor([(BOS_TOKEN, *path) for path in paths]),
        lambda _, logits: logits,
    )
    return [*paths[int(best)][: int(count)], int(torch.multinomial(last, 1))]


# economize: ``RejectionVerifier`` of its decoding, on a chain, a batch of one and a draft tree.
#
# Takes logits, computes in float32 and draws from torch's global generator. The stand-in for its
# selector samples from the logits as they are.


ECONOMIZE, ECONOMIZE_CLASS = "economize>=0.3.2,<0.4", "RejectionVerifier"
ECONOMIZE_PLACE = f"economize/decoding/verifiers.py:{ECONOMIZE_CLASS}"


def _load_economize(path: Path) -> Any:
    given: dict[str, Any] = {
        "Verifier": object,
        "selector_distribution": lambda _, logits, *__: logits.softmax(-1).float(),
        "selector_distributions": lambda _, logits: logits.softmax(-1).float(),
        "selector_generator": lambda *_: None,
        "device_tensor": lambda values, device: torch.tensor(values),
        "ConfigError": ValueError,
    }
    return load_function(path, ECONOMIZE_CLASS, without=("VERIFIERS.register",), **given)()


def _economize_drafts(tokens: Any, probs: Any, parents: Any = None) -> SimpleNamespace:
    """Return one row of drafts, as the engine's loop hands them over."""
    count = tokens.shape[1]
    links = None if parents is None else torch.tensor(parents)
    return SimpleNamespace(tokens=tokens, lengths=[count], width=count, probs=probs, parents=links)


@block_engine(
    "economize-chain",
    f"{ECONOMIZE_PLACE}.verify",
    ECONOMIZE,
    "logits drafts probs history end selector",
    load=_load_economize,
    signature=LOGITS_OF_ONE,
)
def economize_chain(rule: Any, draft_tokens: Any, target: Any, draft: Any) -> list[int]:
    """``verify``, on one block."""
    select = lambda logits, _: int(torch.multinomial(logits.softmax(-1), 1))  # noqa: E731
    tokens = draft_tokens.tolist()
    accepted, last = rule.verify(target, tokens, draft.exp(), select, draft_tokens, 0)
    return [*tokens[:accepted], last]


@block_engine(
    "economize-batch",
    f"{ECONOMIZE_PLACE}.verify_batch",
    ECONOMIZE,
    "logits draft seq ends selector",
    load=_load_economize,
)
def economize_batch(rule: Any, draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
    """``verify_batch``, on a batch of one."""
    given = _economize_drafts(draft_tokens, draft.exp())
    accepted, last = rule.verify_batch(target, given, None, None, [0])
    return [[*draft_tokens[0, : int(accepted[0])].tolist(), int(last[0])]]


@step_engine(
    "economize-tree",
    f"{ECONOMIZE_PLACE}.verify_tree",
    ECONOMIZE,
    "logits draft selector",
    load=_load_economize,
)
def economize_tree(rule: Any, prefix: Any, target: Any, draft: Any, gamma: int, _: Any) -> Any:
    """``verify_tree``, on a tree of independent tokens."""
    tree = draw_token_tree(draft, prefix, gamma, sample_with_replacement)
    tokens, above = tree.tokens, tree.parents[1:]
    # With the row that each was drawn from, and its parent's place; the root is no draft.
    links = [[node - 1 for node in above]]
    given = _economize_drafts(torch.tensor([tokens]), tree.rows(draft)[above][None], links)
    accepted, last = rule.verify_tree(tree.rows(target).log()[None], given, None)
    return [*(tokens[node] for node in accepted[0]), last[0]]


MEDUSA_OPTIONS = {"temperature": 1.0, "posterior_threshold": 0.09, "posterior_alpha": 0.3}
"""Its defaults: a token is typical above min(0.09, 0.3 exp(-entropy))."""


@step_engine(
    "medusa",
    "medusa/model/utils.py:evaluate_posterior",
    "FasterDecoding/Medusa@e2a5d20",
    f"logits candidates {' '.join(MEDUSA_OPTIONS)}",
    load=partial(
        load_pieces,
        names=["evaluate_posterior", "get_typical_one_token"],
        get_nucleus_posterior_mask=None,
    ),
)
def medusa(pieces: Any, prefix: Any, target: Any, draft: Any, gamma: int, _: Any) -> list[int]:
    """Medusa's by typical acceptance, lossy by design.

    The root is drawn by its ``get_typical_one_token``; behind it come the heads' likeliest tokens,
    of which one path is tried. A step is the root and what is kept of the path.
    """
    row = torch.tensor(target(prefix)).log()[None]
    tokens = [int(pieces.get_typical_one_token(row, **MEDUSA_OPTIONS))]
    for _ in range(gamma):
        tokens.append(int(np.argmax(draft((*prefix, *tokens)))))
    rows = [target((*prefix, *tokens[: i + 1])) for i in range(gamma + 1)]
    logits = torch.tensor(np.array([rows])).log()
    _, count = pieces.evaluate_posterior(logits, torch.tensor([tokens]), **MEDUSA_OPTIONS)
    return tokens[: 1 + int(count)]


# ``accept_step`` of Sequoia's repository: of its ``SpecTree``, whose tokens its own function draws
# without replacement, and of ``SpecInferTree``, whose tokens are drawn with replacement.


def _load_tree_class(name: str, path: Path) -> Any:
    utils = path.parents[1] / "utils.py"
    residual = load_function(utils, "get_residual")
    accept = load_function(path, f"{name}.accept_step", get_residual=residual)
    if name == "SpecInferTree":
        return accept, residual, sample_with_replacement
    draw = load_function(utils, "sampling_without_replacement")

    def children(row: Any, count: int) -> Any:
        row = torch.tensor(row)
        noise = torch.rand(len(row), dtype=row.dtype)
        # A draft that has fewer tokens than children would be asked for what it never says.
        return draw(row.log(), noise, min(count, int((row > 0).sum())), 1.0).tolist()

    return accept, residual, children


def _walk_tree(pieces: Any, prefix: Any, target: Any, draft: Any, gamma: int, _: Any) -> list[int]:
    """Call the method from node to node."""
    accept, residual, children = pieces
    drawn = draw_token_tree(draft, prefix, gamma, children)
    tree = SimpleNamespace(
        ground_truth_len=1,
        tokens=[BOS_TOKEN, *drawn.tokens],
        Successors=drawn.children,
        temperature=1.0,
        dtype=torch.float64,
        residual_graph=residual,
        target_logits=drawn.rows(target),
        draft_logits=drawn.rows(draft).log(),
        r=torch.rand(len(drawn.paths), dtype=torch.float64),
    )
    node, rest = 0, None
    while rest is None:
        child, rest = accept(tree, node)
        node = child if rest is None else node
    return [*drawn.paths[node], int(torch.multinomial(rest, 1))]


SEQUOIA_ENGINES = tuple(
    step_engine(
        name,
        f"Tree/{tree}.py:{tree}.accept_step",
        "Infini-AI-Lab/Sequoia@0ff3ff7",
        "parent_id",
        load=partial(_load_tree_class, tree),
    )(_walk_tree)
    for name, tree in (("sequoia", "SpecTree"), ("specinfer", "SpecInferTree"))
)
