"""The exact acceptance curve of a rule on draft trees, by the best method that reaches it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from simverify.comparing.exact.curves import (
    AcceptanceCurve,
    Method,
    acceptance_curves,
    enclosed_floats,
    enclosed_fractions,
    enclosed_sum,
    printable,
    sampled_curve,
)
from simverify.comparing.trees.rao_blackwell import tree_sample
from simverify.comparing.trees.rows import StateRows
from simverify.comparing.trees.walk import closed_form, written_out
from simverify.comparing.trees.whole import whole_law
from simverify.models.base import MarkovModel
from simverify.results import ExactCheck
from simverify.simulators.exact.traversal_chains import traversal_bounds
from simverify.trees import ROOT, Drafting
from simverify.verifiers import VERIFIERS
from simverify.verifiers.base import part
from simverify.verifiers.trees import TreeVerifier
from simverify.verifiers.trees.gbv import GBV, ranks

_ADDITIONS = 1 << 14
"""Roundings of a level: differences of powers in a closed form lose a few digits."""

MAX_BEGINNINGS = 100_000
"""Most texts V^depth of which a law is written out."""


@dataclass(frozen=True, eq=False)
class TreeCurve:
    """What is known of a rule on a model: each None where it is not.

    ``nodes``: Pr(the way kept goes through it), for each node. ``check``: its own law against
    the target's.
    """

    curve: AcceptanceCurve | None = None
    nodes: tuple[float, ...] | None = None
    check: ExactCheck | None = None


def tree_curve(
    rule: TreeVerifier, drafting: Drafting, model: MarkovModel, rows: StateRows, *, seed: int = 0
) -> TreeCurve:
    """Return the exact law of ``rule`` as far as it can be had.

    All trees and coins are enumerated where they are few. The steps of a rule that walks are
    written out, or come as a closed form. Rules that are block verification on a chain have
    its law there, and some a ``curve`` of their own; else the trees of ``seed`` give the means of
    those that have ``tails``.
    """
    whole = whole_law(rule, drafting, rows)
    if whole is not None:
        scope = f"every completed output of a call, {drafting.shape.depth + 1} tokens"
        check = _check("paths", rows, scope, whole.deviation, whole.tv)
        curve = curve_of(_levels(rule, whole.curve), "enumeration")
        return TreeCurve(curve, _floats(whole.nodes), check)
    steps = written_out(rule, drafting, rows)
    if steps is not None:
        scope = "every step down the tree that can be taken"
        check = _check("steps", rows, scope, steps.deviation, steps.tv)
        curve = curve_of(_levels(rule, steps.curve), "enumeration")
        return TreeCurve(curve, _floats(steps.nodes), check)
    if (closed := closed_form(rule, drafting, rows)) is not None:
        return TreeCurve(curve_of(_levels(rule, closed.curve), "closed-form"))
    if rule.block_on_chain and drafting.shape.is_chain:
        return TreeCurve(block_curve(model, drafting.shape.depth))
    curve_by = part(rule.curve)
    if curve_by is not None and (found := curve_by(model, drafting, rows)) is not None:
        return TreeCurve(found)
    if (sample := tree_sample(rule, drafting, rows, seed)) is not None:
        return TreeCurve(sampled_curve(sample, drafting.shape.depth))
    return TreeCurve()


def block_curve(model: MarkovModel, gamma: int) -> AcceptanceCurve:
    """Return the curve of block verification on one draft of ``gamma`` tokens."""
    rules = {"block": VERIFIERS["block"]}
    return acceptance_curves(model, rules, gamma, seed=0, threads=2)["block"]


def curve_of(levels: Sequence[Any], method: Method) -> AcceptanceCurve:
    """Enclose a curve, which is exact where its levels are fractions."""
    if all(isinstance(level, int | Fraction) for level in levels):
        total = Fraction(sum(levels))
        bounds = enclosed_fractions(levels)
        return AcceptanceCurve(method, *bounds, *enclosed_sum(*bounds, total), printable(total))
    bounds = enclosed_floats([float(x) for x in levels], certain=0, additions=_ADDITIONS)
    return AcceptanceCurve(method, *bounds, *enclosed_sum(*bounds))


def _levels(rule: TreeVerifier, levels: Sequence[Any]) -> Sequence[Any]:
    # A fraction of a rounded root would look exact, and is not.
    return levels if rule.rational else [float(level) for level in levels]


def gbv_curve(model: MarkovModel, drafting: Drafting, rows: StateRows) -> AcceptanceCurve | None:
    """Return the curve of greedy multi-path block: block's, against the law of the chosen chain.

    f(x^l) = min(f(x^(l-1)) p(x_l), (A + Q)^K - A^K), Q the draft's mass of x^l and A that of
    all beginnings ranked below; a level is the sum of f. None where the texts are too many.
    """
    if rows.vocab_size**drafting.shape.depth > MAX_BEGINNINGS:
        return None
    count = len(drafting.shape.children[-1])
    curve = [0 * rows.target[0, 0]] * drafting.shape.depth
    one = 1 + curve[0]

    def below(state: int, kept: Any, under: Any, mass: Any, level: int) -> None:
        if level == len(curve):
            return
        p, q = rows.target[state], rows.draft[state]
        for x in ranks(p, q):
            joint = (under + mass * q[x]) ** count - under**count
            f = min(kept * p[x], joint)
            curve[level] = curve[level] + f
            if f > 0:
                below(x % rows.states, f, under, mass * q[x], level + 1)
            under = under + mass * q[x]

    below(-1, one, 0 * one, one, 0)
    return curve_of(curve, "enumeration")


def traversal_curve(
    model: MarkovModel, drafting: Drafting, rows: StateRows
) -> AcceptanceCurve | None:
    """Return the curve of traversal on chains from the root, a mixture of block's curves.

    None on other shapes, or where siblings are not independent.
    """
    shape = drafting.shape
    if drafting.scheme.name != "iid" or not GBV.fits(shape):
        return None
    found = traversal_bounds(model, len(shape.children[ROOT]), shape.depth)
    return AcceptanceCurve("dp", found.lower, found.upper, *enclosed_sum(found.lower, found.upper))


def _check(method: Any, rows: StateRows, scope: str, deviation: Any, tv: Any) -> ExactCheck | None:
    # The sum, for a maximum may pass over what is no number: that is no fault of the rule.
    if not math.isfinite(tv):
        return None
    return ExactCheck(
        method=method,
        arithmetic="rational" if rows.rational else "float64",
        scope=scope,
        max_abs_deviation=float(deviation),
        tv=float(tv),
    )


def _floats(values: Sequence[Any] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(float(value) for value in values)
