"""Rules for draft trees in the exact tier: the law of a call on one tree, and as a step rule.

A rule is a function, or a class or factory whose object has a method ``tree``. Such an object may
carry state, and so it is judged over whole generations, in which it drafts its trees itself.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simverify.arrays import Row
from simverify.auditing.coverage.watch import watched
from simverify.auditing.exact.generations.drafts import takes
from simverify.auditing.exact.generations.enumerate import (
    MAX_PATHS,
    SECONDS,
    checked_call,
    read_tokens,
)
from simverify.symbolic import Enumeration, ExactLaw
from simverify.symbolic.enumeration.endings import BadTokens, Tokens
from simverify.trees import ROOT, Drafting, DraftTree, draw_tree


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

    def wrong(tokens: Tokens) -> str:
        return _no_way(tree, tokens)

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


def takes_tree_arguments(rule: Callable[..., Any]) -> bool:
    """Tell a rule for draft trees from what builds an object with one, by how it can be called.

    Raises ``ValueError`` for what is neither.
    """
    if not callable(rule):
        raise ValueError(
            f"a tree rule is a function, class or factory, got {type(rule).__name__}: an instance "
            "cannot be built anew for every path"
        )
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):
        return not inspect.isclass(rule)
    if inspect.isclass(rule) or not takes(signature, 5):
        if not takes(signature, 0):
            raise ValueError(
                f"{signature} is neither tree(target_probs, draft_probs, tokens, parents, rng) nor "
                "a class or factory without arguments"
            )
        return False
    return True


def built_tree(rule: Callable[..., Any]) -> Any:
    """Build the object of ``rule`` anew: what has a method ``tree``."""
    built = watched(rule)
    if not callable(getattr(built, "tree", None)):
        kind = type(built).__name__
        method = "tree(target_probs, draft_probs, tokens, parents, rng)"
        raise BadTokens("no-tree", f"a {kind} has no method {method}")
    return built


def reset_of(built: Any) -> None:
    """Reset an object; one without ``reset`` keeps no state of a generation."""
    reset = getattr(built, "reset", None)
    if callable(reset):
        watched(reset)


def tree_as_step(rule: Callable[..., Any], drafting: Drafting) -> Callable[..., Any]:
    """Return ``rule`` as a step rule that drafts its trees itself; what builds one builds that."""

    def one(
        judge: Callable[..., Any],
        prefix: Sequence[int],
        target: Callable[[Tokens], Row],
        draft: Callable[[Tokens], Row],
        rng: Any,
    ) -> Any:
        context = tuple(prefix)
        tree = draw_tree(drafting, lambda text: draft(context + text), rng)
        given = arguments_of(
            tree, lambda text: target(context + text), lambda text: draft(context + text)
        )
        images = {name: (x.shape, x.tobytes()) for name, x in given.items()}
        tokens = read_tokens(watched(judge, *given.values(), rng))
        for name, x in given.items():
            if (x.shape, x.tobytes()) != images[name]:
                raise BadTokens("inputs-modified", f"changes its argument {name} in place")
        if why := _no_way(tree, tokens):
            raise BadTokens("not-a-prefix", why)
        return tokens

    def step(
        prefix: Sequence[int],
        target: Callable[[Tokens], Row],
        draft: Callable[[Tokens], Row],
        gamma: int,
        rng: Any,
    ) -> Any:
        return one(rule, prefix, target, draft, rng)

    class Step:
        """The rule's object for one generation."""

        def __init__(self) -> None:
            self._built = built_tree(rule)

        def step(
            self,
            prefix: Sequence[int],
            target: Callable[[Tokens], Row],
            draft: Callable[[Tokens], Row],
            gamma: int,
            rng: Any,
        ) -> Any:
            return one(self._built.tree, prefix, target, draft, rng)

        def reset(self) -> None:
            reset_of(self._built)

    def factory() -> Step:
        return Step()

    whole: Callable[..., Any] = step if takes_tree_arguments(rule) else factory
    # Errors name the code's own module, and its globals are where its generators are found.
    vars(whole).update(__signature__=inspect.signature(whole), __wrapped__=rule)
    return whole


def first_call(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return as a tree function what the object that ``rule`` builds does in its first call."""

    def tree(target_probs: Row, draft_probs: Row, tokens: Any, parents: Any, rng: Any) -> Any:
        built = built_tree(rule)
        reset_of(built)
        return watched(built.tree, target_probs, draft_probs, tokens, parents, rng)

    tree.__signature__ = inspect.signature(tree)  # type: ignore[attr-defined]
    tree.__wrapped__ = rule  # type: ignore[attr-defined]
    return tree


def as_judged(
    rule: Callable[..., Any], contract: Any, drafting: Drafting | None
) -> tuple[Callable[..., Any], Any]:
    """Return ``rule`` and the contract by which its law is found.

    An object for draft trees is a step rule that drafts them; all other code is what it says.
    """
    if contract != "tree" or drafting is None or takes_tree_arguments(rule):
        return rule, contract
    return tree_as_step(rule, drafting), "step"


def _no_way(tree: DraftTree, tokens: Tokens) -> str:
    """Say that ``tokens`` but the last are no way down ``tree``; "" if they are."""
    if any(tree.text(node) == tokens[:-1] for node in range(ROOT, len(tree.tokens))):
        return ""
    return (
        f"returned {tokens} for the tree {tree.drawn()}: all but the last token must be a way "
        "from its root"
    )
