"""Rules for draft trees in the exact tier: the law of a call on one tree, and as a step rule."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simverify.arrays import Row
from simverify.auditing.exact.generations.enumerate import MAX_PATHS, SECONDS, checked_call
from simverify.symbolic import Enumeration, ExactLaw
from simverify.symbolic.enumeration.endings import Tokens
from simverify.trees import Drafting, DraftTree, draw_tree


def law_of_tree(
    enumeration: Enumeration,
    rule: Callable[..., Any],
    tree: DraftTree,
    target: Callable[[Tokens], Row],
    draft: Callable[[Tokens], Row],
    *,
    max_paths: int = MAX_PATHS,
    seconds: float | None = SECONDS,
    enough: float | None = None,
) -> ExactLaw:
    """Exact law of the tokens that ``rule`` emits for one drafted tree.

    ``rule(target_probs, draft_probs, tokens, parents, rng)``. Raises as
    :func:`~.enumerate.enumerate_verify`.
    """
    ways = {tree.text(node) for node in range(-1, len(tree.tokens))}

    def wrong(tokens: Tokens) -> str:
        if tokens[:-1] in ways:
            return ""
        return (
            f"returned {tokens} for the tree {tree.drawn()}: all but the last token must be a way "
            "from its root"
        )

    given = arguments_of(tree, target, draft)
    call = checked_call(enumeration, rule, given, tree.shape.depth, wrong)
    return enumeration.run(call, max_paths=max_paths, seconds=seconds, enough=enough)


def arguments_of(
    tree: DraftTree, target: Callable[[Tokens], Row], draft: Callable[[Tokens], Row]
) -> dict[str, Any]:
    """Return what a rule is called with for ``tree``, by name; the generator comes after."""
    return {
        "target_probs": tree.rows(target),
        "draft_probs": tree.rows(draft),
        "tokens": np.array(tree.tokens, dtype=np.int64),
        "parents": np.array(tree.shape.parents, dtype=np.int64),
    }


def tree_as_step(rule: Callable[..., Any], drafting: Drafting) -> Callable[..., Any]:
    """Return ``rule`` as a step rule that drafts its trees itself."""

    def step(
        prefix: Sequence[int],
        target: Callable[[Tokens], Row],
        draft: Callable[[Tokens], Row],
        gamma: int,
        rng: Any,
    ) -> Any:
        context = tuple(prefix)
        tree = draw_tree(drafting, lambda text: draft(context + text), rng)
        given = arguments_of(
            tree, lambda text: target(context + text), lambda text: draft(context + text)
        )
        return rule(*given.values(), rng)

    # Errors name the code's own module, and its globals are where its generators are found.
    step.__wrapped__ = rule  # type: ignore[attr-defined]
    return step
