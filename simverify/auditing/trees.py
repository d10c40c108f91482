"""Rules for draft trees in the exact tier: the law of a call on one tree, and as a step rule.

A rule is a function, or a class or factory whose object has a method ``tree``. Such an object may
carry state, and so it is judged over whole generations, in which it drafts its trees itself.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from simverify.arrays import Row
from simverify.auditing.comparison import Comparison, compare_laws
from simverify.auditing.coverage import call_monitored
from simverify.auditing.drafters import DraftedTree, DraftFunction, build_drafter, draft_tree
from simverify.auditing.enumeration import (
    DEFAULT_BUDGET,
    TargetAndDraft,
    make_checked_call,
    read_tokens,
    takes_draft_arguments,
    takes_tree_arguments,
)
from simverify.symbolic import Enumeration, ExactLaw
from simverify.symbolic.engine import Budget, Spending
from simverify.symbolic.outcomes import InvalidTokens, Tokens
from simverify.trees import (
    ROOT,
    Drafting,
    DraftTree,
    Scheme,
    TreeShape,
    draw_tree,
    enumerate_trees,
    shape_of_levels,
)

RowFunction = Callable[[Tokens], Row]


def enumerate_tree(
    enumeration: Enumeration,
    rule: Callable[..., Any],
    tree: DraftTree,
    target: RowFunction,
    draft: RowFunction,
    budget: Budget = DEFAULT_BUDGET,
) -> ExactLaw:
    """Exact law of what ``rule`` emits for one drafted tree; raises as ``enumerate_verify``."""
    given, wrong = tree_arguments(tree, target, draft), partial(_invalid_path_message, tree)
    call = make_checked_call(enumeration, rule, given, tree.shape.depth, wrong)
    return enumeration.run(call, budget)


def tree_arguments(tree: DraftTree, target: RowFunction, draft: RowFunction) -> dict[str, Any]:
    """Return what a rule is called with for ``tree``, by name; the generator comes after."""
    return {
        "target_probs": tree.rows(target),
        "draft_probs": tree.rows(draft),
        "tokens": np.array(tree.tokens, dtype=np.int64),
        "parents": np.array(tree.shape.parents, dtype=np.int64),
    }


def build_tree_rule(rule: Callable[..., Any]) -> Any:
    """Build the object of ``rule`` anew: what has a method ``tree``."""
    built = call_monitored(rule)
    if not callable(getattr(built, "tree", None)):
        kind = type(built).__name__
        method = "tree(target_probs, draft_probs, tokens, parents, rng)"
        raise InvalidTokens("no-tree", f"a {kind} has no method {method}")
    return built


def reset_tree_rule(built: Any) -> None:
    """Reset an object; one without ``reset`` keeps no state of a generation."""
    reset = getattr(built, "reset", None)
    if callable(reset):
        call_monitored(reset)


def _make_step_rule(
    call: Callable[..., Any],
    parts: tuple[Callable[..., Any], ...],
    build: Callable[[], Any] | None,
    reset: Callable[[Any], None],
) -> Callable[..., Any]:
    """Return a step rule that calls ``call(built, prefix, target, draft, gamma, rng)``.

    ``build``: builds an object for each generation, which ``reset`` resets; None where ``parts``,
    the code under audit, are functions, and ``built`` is None.
    """

    def step(*arguments: Any) -> Any:
        return call(None, *arguments)

    class Step:
        def __init__(self) -> None:
            self._built = None if build is None else build()

        def step(self, *arguments: Any) -> Any:
            return call(self._built, *arguments)

        def reset(self) -> None:
            reset(self._built)

    def factory() -> Step:  # what wraps others cannot be a class
        return Step()

    rule: Any = step if build is None else factory
    # Errors name the code's own modules, and their globals are where its generators are found.
    rule.__signature__, rule.__wrapped__ = inspect.signature(rule), parts[0]
    rule.__parts__ = parts
    return rule  # type: ignore[no-any-return]


def tree_as_step(rule: Callable[..., Any], drafting: Drafting) -> Callable[..., Any]:
    """Return ``rule`` as a step rule that drafts its trees itself; what builds one builds that."""

    def call(built: Any, prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> Any:
        p, q = (lambda text, row=row: row((*prefix, *text)) for row in (target, draft))
        tree = draw_tree(drafting, q, rng)
        given = tree_arguments(tree, p, q)
        images = {name: (x.shape, x.tobytes()) for name, x in given.items()}
        judge: Callable[..., Any] = rule if built is None else built.tree
        tokens = read_tokens(call_monitored(judge, *given.values(), rng))
        for name, x in given.items():
            if (x.shape, x.tobytes()) != images[name]:
                raise InvalidTokens("inputs-modified", f"changes its argument {name} in place")
        if why := _invalid_path_message(tree, tokens):
            raise InvalidTokens("not-a-prefix", why)
        return tokens

    build = None if takes_tree_arguments(rule) else partial(build_tree_rule, rule)
    return _make_step_rule(call, (rule,), build, reset_tree_rule)


def first_call_as_tree_rule(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return as a tree function what the object that ``rule`` builds does in its first call."""

    def tree(target_probs: Row, draft_probs: Row, tokens: Any, parents: Any, rng: Any) -> Any:
        built = build_tree_rule(rule)
        reset_tree_rule(built)
        return call_monitored(built.tree, target_probs, draft_probs, tokens, parents, rng)

    tree.__signature__ = inspect.signature(tree)  # type: ignore[attr-defined]
    tree.__wrapped__ = rule  # type: ignore[attr-defined]
    return tree


def as_enumerable(
    rule: Callable[..., Any], contract: Any, drafting: Drafting | None
) -> tuple[Callable[..., Any], Any]:
    """Return ``rule`` and its contract; an object for trees is a step rule that drafts them."""
    if contract != "tree" or drafting is None or takes_tree_arguments(rule):
        return rule, contract
    return tree_as_step(rule, drafting), "step"


def _invalid_path_message(tree: DraftTree, tokens: Tokens) -> str:
    """Say that ``tokens`` but the last are no way down ``tree``; "" if they are."""
    if any(tree.text(node) == tokens[:-1] for node in range(ROOT, len(tree.tokens))):
        return ""
    return (
        f"returned {tokens} for the tree {tree.drawn()}: all but the last token must be a "
        "path from its root"
    )


# A drafter and the verifier of its tokens, as one step rule: any verifier, or the right one.
#
# The verifier reads the rows that the drafter reports, and both draw from the one generator that
# the pair is handed, or from generators of their own. Anything that they share by mistake is then
# on the paths of the pair.


TreeVerifier = Callable[[Any, DraftedTree, Row, Any], Any]
"""``judge(built, grown, target_rows, rng)``: the tokens out of a tree, target_rows (n+1, V) as in
it; ``built``: the object that judges, where the verifier is one."""

_TIE_TOLERANCE = 1e-12


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

    def judge(built: Any, grown: DraftedTree, target_rows: Row, rng: Any) -> Any:
        tokens = np.array(grown.tokens, dtype=np.int64)
        if contract == "verify":
            return call_monitored(verifier, target_rows, grown.reported[:-1], tokens, rng)
        parents = np.array(grown.parents, dtype=np.int64)
        rule = built.tree if keeps else verifier
        return call_monitored(rule, target_rows, grown.reported, tokens, parents, rng)

    build = partial(build_tree_rule, verifier) if keeps else None
    return _drafted_step_rule(drafter, judge, drafting, (drafter, verifier), build)


def drafter_as_step(drafter: Callable[..., Any], drafting: Drafting) -> Callable[..., Any]:
    """Return a step rule: ``drafter`` drafts trees, and recursive rejection judges them.

    The law of its tokens is the target's if the siblings are what the scheme draws from the rows
    reported.
    """
    judge = partial(_recursive_rejection, drafting.scheme)
    return _drafted_step_rule(drafter, judge, drafting, (drafter,))


def _drafted_step_rule(
    drafter: Callable[..., Any],
    judge: TreeVerifier,
    drafting: Drafting | None,
    parts: tuple[Callable[..., Any], ...],
    build_judge: Callable[[], Any] | None = None,
) -> Callable[..., Any]:
    """Return the step rule of a drafter and a judge; ``build_judge`` builds one with state."""

    def call(built: Any, prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> Any:
        drafting_code, judging_object = built or (drafter, None)
        before = tuple(prefix)
        shape = shape_of_levels([1] * gamma) if drafting is None else drafting.shape
        grown = draft_tree(drafting_code, shape, draft, rng, before)
        if not grown.tokens:
            p = target(before)
            return [int(rng.choice(len(p), p=p))]
        target_rows = np.array([target(text) for text in (before, *grown.texts)])
        return judge(judging_object, grown, target_rows, rng)

    def build() -> tuple[DraftFunction, Any]:
        return build_drafter(drafter), None if build_judge is None else build_judge()

    def reset(built: tuple[DraftFunction, Any]) -> None:
        # A drafter that keeps no state of a generation is the same in the next one.
        for part in (built[1], getattr(built[0], "__self__", None)):
            reset_tree_rule(part)

    is_function = takes_draft_arguments(drafter) and build_judge is None
    return _make_step_rule(call, parts, None if is_function else build, reset)


def _recursive_rejection(
    scheme: Scheme, _: Any, grown: DraftedTree, target_rows: Row, rng: Any
) -> list[int]:
    """Judge siblings one by one, each by the law that the scheme draws it from after the others.

    Right for every scheme: a certain token is a sample of the law that has nothing else.
    Miao et al. 2023 (SpecInfer) for independent siblings, Chen et al. 2024 (Sequoia) for others.
    """
    shape = TreeShape(grown.parents)
    node, accepted = ROOT, []
    while True:
        p = target_rows[node + 1]
        children = shape.children[node]
        siblings = tuple(grown.tokens[child] for child in children)
        for place, (child, token) in enumerate(zip(children, siblings, strict=True)):
            q = _sibling_law(grown.reported[node + 1], siblings, place, scheme)
            if rng.random() * q[token] < p[token]:
                accepted.append(token)
                node = child
                break
            left = np.maximum(p - q, 0)
            p = left / left.sum() if left.sum() > 0 else p
        else:
            return [*accepted, int(rng.choice(len(p), p=p))]


def _sibling_law(row: Row, siblings: Tokens, place: int, scheme: Scheme) -> Row:
    """Return the law (V,) from which ``scheme`` draws sibling number ``place``."""
    before = siblings[:place]
    if place >= scheme.certain(len(siblings)):
        left = scheme.next_row(row, before)
        return row if left is None else left
    others = np.where(np.isin(np.arange(len(row)), before), -1.0, row)
    likeliest = siblings[place]
    if others[likeliest] < others.max() - _TIE_TOLERANCE:
        likeliest = int(others.argmax())
    certain: Row = np.eye(len(row))[likeliest]
    return certain


# The joint law of a call over all draft trees, completed by the target, against the target's.


def compare_trees(
    enumeration: Enumeration,
    rule: Callable[..., Any],
    model: TargetAndDraft,
    drafting: Drafting,
    *,
    expected: RowFunction | None = None,
    tolerance: float | None = None,
    budget: Budget,
) -> Comparison:
    """Compare as ``compare_blocks`` does, with every tree that can be drafted in place of a block.

    What a tree emits is completed to one token more than its depth. ``expected``: the target's
    rows that the output follows, where the code gets others.
    """
    spending = Spending(budget)
    trees = enumerate_trees(drafting, model.draft, max_trees=budget.paths)
    laws: list[tuple[Tokens, float, ExactLaw]] = []
    for tree, mass in trees:
        run = partial(enumerate_tree, enumeration, rule, tree, model.target, model.draft)
        law = spending.take(run, parts=len(trees))
        laws.append((tree.tokens, float(mass), law))
        if not law.complete:
            break
    rows = expected or model.target
    comparison = compare_laws(laws, rows, drafting.shape.depth, tolerance)
    for (tree, _), (*_, law) in zip(trees, laws, strict=False):
        if any(finding.severity == "violation" for finding in law.findings):
            return replace(comparison, broken_parents=tree.shape.parents)
    return comparison
