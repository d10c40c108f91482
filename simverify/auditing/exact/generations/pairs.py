"""A drafter and what judges its tokens, as one step rule: with any verifier, or with the right one.

The verifier reads the rows that the drafter reports, and both draw from the one generator that
the pair is handed, or from generators of their own. What they share, and should not, is then on
the paths of the pair.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from simverify.arrays import Row
from simverify.auditing.coverage.watch import watched
from simverify.auditing.exact.generations.drafts import (
    Drafter,
    Grown,
    built_drafter,
    grow,
    takes_draft_arguments,
)
from simverify.auditing.exact.generations.trees import built_tree, reset_of, takes_tree_arguments
from simverify.symbolic.enumeration.endings import Tokens
from simverify.trees import ROOT, Drafting, Scheme, TreeShape, shape_of_levels

Law = Callable[[Tokens], Row]

Judge = Callable[[Any, Grown, Row, Any], Any]
"""``judge(built, grown, target_rows, rng)``: the tokens out of a tree, target_rows (n+1, V) as in
it; ``built``: the object that judges, where the verifier is one."""

_TIE = 1e-12


def pair_as_step(
    drafter: Callable[..., Any],
    verifier: Callable[..., Any],
    contract: Literal["verify", "tree"],
    drafting: Drafting | None,
) -> Callable[..., Any]:
    """Return a step rule: ``drafter`` drafts, and ``verifier`` judges by the rows reported.

    ``drafting``: the trees of the tree contract; None under verify, of chains of gamma tokens.
    """
    keeps = contract == "tree" and not takes_tree_arguments(verifier)

    def judge(built: Any, grown: Grown, target_rows: Row, rng: Any) -> Any:
        tokens = np.array(grown.tokens, dtype=np.int64)
        if contract == "verify":
            return watched(verifier, target_rows, grown.reported[:-1], tokens, rng)
        parents = np.array(grown.parents, dtype=np.int64)
        rule = built.tree if keeps else verifier
        return watched(rule, target_rows, grown.reported, tokens, parents, rng)

    build = partial(built_tree, verifier) if keeps else None
    return _as_step(drafter, judge, drafting, (drafter, verifier), build)


def drafter_as_step(drafter: Callable[..., Any], drafting: Drafting) -> Callable[..., Any]:
    """Return a step rule: ``drafter`` drafts trees, and recursive rejection judges them.

    The law of its tokens is the target's if the siblings are what the scheme draws from the rows
    reported.
    """

    def judge(_: Any, grown: Grown, target_rows: Row, rng: Any) -> Any:
        return recursive_rejection(grown, target_rows, drafting.scheme, rng)

    return _as_step(drafter, judge, drafting, (drafter,))


def _as_step(
    drafter: Callable[..., Any],
    judge: Judge,
    drafting: Drafting | None,
    parts: tuple[Callable[..., Any], ...],
    build: Callable[[], Any] | None = None,
) -> Callable[..., Any]:
    """Return the step rule of a drafter and a judge.

    ``build``: builds the object that judges, which may keep something, if there is one.
    """

    def one(
        drafting_code: Drafter,
        built: Any,
        prefix: Sequence[int],
        target: Law,
        draft: Law,
        gamma: int,
        rng: Any,
    ) -> Any:
        before = tuple(prefix)
        shape = shape_of_levels([1] * gamma) if drafting is None else drafting.shape
        grown = grow(drafting_code, shape, draft, rng, before)
        if not grown.tokens:
            p = target(before)
            return [int(rng.choice(len(p), p=p))]
        return judge(built, grown, np.array([target(text) for text in (before, *grown.texts)]), rng)

    def step(prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any) -> Any:
        return one(drafter, None, prefix, target, draft, gamma, rng)

    class Step:
        """The pair for one generation, of code that is built anew for it."""

        def __init__(self) -> None:
            self._drafter = built_drafter(drafter)
            self._judge = None if build is None else build()

        def step(self, prefix: Sequence[int], target: Law, draft: Law, gamma: int, rng: Any) -> Any:
            return one(self._drafter, self._judge, prefix, target, draft, gamma, rng)

        def reset(self) -> None:
            reset_of(self._judge)
            # A drafter that keeps no state of a generation is the same in the next one.
            reset = getattr(getattr(self._drafter, "__self__", None), "reset", None)
            if callable(reset):
                watched(reset)

    rule: Any = step if takes_draft_arguments(drafter) and build is None else _factory(Step)
    # Errors name the code's own modules, and their globals are where its generators are found.
    rule.__signature__ = inspect.signature(rule)
    rule.__wrapped__ = parts[0]
    rule.__parts__ = parts
    return rule  # type: ignore[no-any-return]


def _factory(build: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that builds: what wraps others cannot be a class."""

    def factory() -> Any:
        return build()

    return factory


def recursive_rejection(grown: Grown, target_rows: Row, scheme: Scheme, rng: Any) -> list[int]:
    """Judge siblings one by one, each by the law that the scheme draws it from after the others.

    Right for every scheme: a certain token is a sample of the law that has nothing else.
    Miao et al. 2023 (SpecInfer) for independent siblings, Chen et al. 2024 (Sequoia) for others.
    """
    shape = TreeShape(grown.parents)
    node, kept = ROOT, []
    while True:
        p = target_rows[node + 1]
        children = shape.children[node]
        siblings = tuple(grown.tokens[child] for child in children)
        for place, (child, token) in enumerate(zip(children, siblings, strict=True)):
            q = _law_of_sibling(grown.reported[node + 1], siblings, place, scheme)
            if rng.random() * q[token] < p[token]:
                kept.append(token)
                node = child
                break
            left = np.maximum(p - q, 0)
            p = left / left.sum() if left.sum() > 0 else p
        else:
            return [*kept, int(rng.choice(len(p), p=p))]


def _law_of_sibling(row: Row, siblings: Tokens, place: int, scheme: Scheme) -> Row:
    """Return the law (V,) from which ``scheme`` draws sibling number ``place``."""
    before = siblings[:place]
    if place >= scheme.certain(len(siblings)):
        left = scheme.next_row(row, before)
        return row if left is None else left
    others = np.where(np.isin(np.arange(len(row)), before), -1.0, row)
    likeliest = siblings[place]
    if others[likeliest] < others.max() - _TIE:
        likeliest = int(others.argmax())
    certain: Row = np.eye(len(row))[likeliest]
    return certain
