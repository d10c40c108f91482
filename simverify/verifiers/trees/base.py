"""What a rule for draft trees is, and the walk from the root that most of them take."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from simverify.trees import ROOT, TreeShape
from simverify.verifiers.base import Array, draw

OneStep = Callable[[Array, Any, list[int], Any], int]
"""``one_step(p, q, siblings, rng)``: the token that follows a node, from the target's row p (V,),
the draft's row q (V,), None where it is not read, and the tokens drafted there."""

Hits = Callable[[Array, Array, int], Array]
"""``hits(p, q, k)``: (V,), the probability that token y is emitted and is one of k siblings."""


@dataclass(frozen=True)
class TreeVerifier:
    """A rule for draft trees.

    ``rule(target_probs, draft_probs, tokens, parents, rng)`` takes float64 (n+1, V), float64
    (n+1, V) or None, int (n,) and int (n,): row 0 follows the prefix, row i+1 node i; parent
    -1 is the root. It returns the tokens of a way down the tree and one more.
    ``schemes``: those on which it is lossless. ``one_step``: what a rule that walks down the
    tree does at a node, and ``hits`` the closed form of that, by scheme, where one is known.
    ``fits(shape)`` says whether it can judge a shape, and ``needs`` the same in words.

    The other parts are for ``compare``; each may be named as ``"module:attribute"``, as those of
    :class:`~simverify.verifiers.base.Verifier`.

    ``kernel``: the compiled rule, a ``Family`` of ``simulators.kernels.trees``. None: the
    readable rule is called.
    ``curve(model, drafting, rows)``: bounds on Pr(tau >= l) where neither enumeration nor ``hits``
    reach; it returns None where it has none.
    ``tails(shape, tokens, p, q)``: Pr(tau >= l | tree), (trees, depth), from the tokens of each
    node (nodes, trees) and the rows by state (S+1, V); its mean over drawn trees stands in where
    there is no curve.
    ``block_on_chain``: whether it is block verification on a single draft.
    ``by_target``: whether its tokens are the target's own, whatever was drafted.
    ``rational``: whether rows of fractions have a law of fractions.
    ``slow``: whether ``hits`` takes a second at a thousand tokens.
    """

    contract: ClassVar[Literal["tree"]] = "tree"

    name: str
    rule: Callable[..., list[int]]
    schemes: tuple[str, ...]
    summary: str
    citation: str
    one_step: OneStep | None = None
    hits: Mapping[str, Hits] = field(default_factory=dict)
    fits: Callable[[TreeShape], bool] = lambda shape: True
    needs: str = "any tree"
    kernel: Any = None
    curve: str | Callable[..., Any] | None = None
    tails: str | Callable[..., Any] | None = None
    block_on_chain: bool = False
    by_target: bool = False
    rational: bool = True
    slow: bool = False


def walk_rule(one_step: OneStep) -> Callable[..., list[int]]:
    """Return the rule that takes ``one_step`` at each node, down to where no child has its token.

    What lies below a node was drafted without regard to its siblings, so it may go on below the
    first child that has the token, whichever of them the step had in mind.
    """

    def rule(
        target_probs: Array, draft_probs: Array | None, tokens: Any, parents: Any, rng: Any
    ) -> list[int]:
        children = TreeShape(tuple(map(int, parents))).children
        node = ROOT
        emitted: list[int] = []
        while True:
            p = target_probs[node + 1]
            siblings = {int(tokens[child]): child for child in reversed(children[node])}
            if not siblings:
                return [*emitted, draw(p, p, rng)]
            q = None if draft_probs is None else draft_probs[node + 1]
            drafted = [int(tokens[child]) for child in children[node]]
            emitted.append(one_step(p, q, drafted, rng))
            if emitted[-1] not in siblings:
                return emitted
            node = siblings[emitted[-1]]

    return rule


def normalised(weights: Array, otherwise: Array) -> Array:
    """Return ``weights`` (V,) divided by their sum, or ``otherwise`` where that is zero."""
    total = weights.sum()
    return weights / total if total > 0 else otherwise


def exclude_tokens(q: Array, tokens: Sequence[int]) -> Array:
    """Return q (V,) without ``tokens``, renormalised; all zeros where nothing is left."""
    left = q.copy()
    left[list(tokens)] = 0
    return normalised(left, left)


def max_children(shape: TreeShape) -> int:
    """Return the largest number of siblings in ``shape``."""
    return max(map(len, shape.children.values()))
