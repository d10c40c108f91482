"""What a fault and a control are: their laws by slot, and the correct halves of faulty rules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simverify.verifiers.base import Array, draw, excess

# The law of a fault in a slot, in closed form: the alternatives of likelihood ratios.
#
# A call that judges its drafts one after another emits token j (from 0) only if it accepted the
# j before it, and the next draft is independent of how they were judged. So the law of token j,
# given the tokens before it and that the call emitted it, is
#
# s(y) a(y) + sum over x of s(x) (1 - a(x)) r_x(y),
#
# with s the row that drafts are sampled from, a(x) the chance to keep x and r_x the law of the
# token emitted otherwise (Leviathan et al. 2022, appendix A.1, where s = q, a = min(1, p/q) and
# r ~ max(p - q, 0) make it p). The functions of rows ``p``, ``q`` below are that law for the
# faults that break one of the three.
#
# Where the law of a slot asks for more than its own two rows, the fault's ``law`` reads it from
# the other rows and the tokens before: an earlier row, or the weight that the accepted tokens
# left behind (``one_uniform``, ``block_token_residual``). What asks for rows that were not
# reached has no such law: ``next_row`` judges a draft with the row that follows it, so it takes
# the rows after every token. Faults whose ``law`` is None: their slots depend on later drafts
# (count-all-accepts, naive-block, swapped-rows, next-row), on the prompt (one-sided-penalty), on
# earlier calls or other requests (greedy-no-state, repeated-stream, seeded-per-request,
# swapped-requests, ragged-offset), on the generator (seeded-per-call), on an integral
# (shared-noise), or are the target's own (zero-mass-accept, shared-request-uniforms); those of
# draft trees, whose slots depend on all siblings.


Row = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float64]
SlotLaw = Callable[[Row, Row], Row]
"""From target and draft row, float64 (V,), sums 1, to the emitted row (V,), sum 1."""

EmissionLaw = Callable[[Rows, Rows, Sequence[int]], Row]
"""Law of slot j = len(prefix) of a call: ``law(target_probs, draft_probs, prefix)``.

``target_probs`` float64 (gamma+1, V) and ``draft_probs`` float64 (gamma, V) are the rows along
``prefix``, the tokens that the call emitted before; rows sum to 1, those beyond j are not read
and draft rows are what ``draft`` returns, sampled from or not. Returns float64 (V,), sum 1.
"""


def ratio(p: Row, q: Row) -> Row:
    """Return min(1, p/q) (V,), 1 where q = 0."""
    return np.minimum(np.divide(p, q, out=np.ones_like(p), where=q > 0), 1)


def residual(p: Row, q: Row) -> Row:
    """Return max(p - q, 0) normalised (V,), or p where it has no mass."""
    return normalised(np.maximum(p - q, 0), p)


def normalised(weights: Row, otherwise: Row) -> Row:
    """Return ``weights`` (V,) divided by their sum, or ``otherwise`` if that is 0."""
    total = weights.sum()
    return np.asarray(weights / total) if total > 0 else otherwise


def mixture(sampled: Row, kept: Row, last: Row) -> Row:
    """Law of a slot whose corrected token does not depend on the rejected one.

    ``sampled`` s and ``last`` r (V,) sum to 1, ``kept`` a (V,) in [0, 1].
    """
    accepted = sampled * kept
    return np.asarray(accepted + (1 - accepted.sum()) * last)


# Wrong corrected token, right acceptance.


def target_residual(p: Row, q: Row) -> Row:
    """The target's own row after a rejection."""
    return mixture(q, ratio(p, q), p)


def one_hot_residual(p: Row, q: Row) -> Row:
    """After x is rejected, p without x: there q(x) > p(x) takes all of it."""
    missed = np.maximum(q - p, 0)
    shares = np.divide(missed, 1 - p, out=np.zeros_like(p), where=missed > 0)
    return np.asarray(np.minimum(p, q) + p * (shares.sum() - shares))


def softmax_residual(p: Row, q: Row) -> Row:
    """After a rejection a softmax of max(p - q, 0)."""
    weights = np.exp(np.maximum(p - q, 0))
    return mixture(q, ratio(p, q), weights / weights.sum())


def floored_residual(p: Row, q: Row, floor: float) -> Row:
    """After a rejection max(p - q, floor), normalised."""
    weights = np.maximum(p - q, floor)
    return mixture(q, ratio(p, q), weights / weights.sum())


def unnormalised_residual(p: Row, q: Row) -> Row:
    """Inverse CDF of max(p - q, 0) as it is: the last token takes what is missing from 1."""
    weights = np.maximum(p - q, 0)
    weights[-1] += 1 - weights.sum()
    return mixture(q, ratio(p, q), weights)


def top_k_residual(p: Row, q: Row, k: int) -> Row:
    """After a rejection the k likeliest tokens of the residual, ties by token id."""
    weights = residual(p, q).copy()
    weights[np.argsort(-weights, kind="stable")[k:]] = 0
    return mixture(q, ratio(p, q), weights / weights.sum())


def reused_uniform(p: Row, q: Row) -> Row:
    """The residual by inverse CDF at the uniform that rejected.

    That uniform exceeds u with density G(u) = sum of q(x) over a(x) <= u; a token takes the
    integral of G over its slice of the residual's CDF.
    """
    kept = ratio(p, q)
    order = np.argsort(kept, kind="stable")
    mass = np.concatenate([[0], np.cumsum(q[order])])
    moment = np.concatenate([[0], np.cumsum((q * kept)[order])])
    last = residual(p, q)
    ends = np.minimum(np.cumsum(last), 1)
    ends[np.flatnonzero(last)[-1] :] = 1
    below = np.searchsorted(kept[order], ends, side="right")
    rejected = np.diff(ends * mass[below] - moment[below], prepend=0)
    return np.asarray(q * kept + rejected)


# Wrong acceptance, right residual.


def inverted_ratio(p: Row, q: Row) -> Row:
    """Kept with min(1, q/p)."""
    return mixture(q, ratio(q, p), residual(p, q))


def scaled_acceptance(p: Row, q: Row, factor: float) -> Row:
    """Kept with min(1, factor p/q); lenience b is the factor 1/b."""
    return mixture(q, ratio(factor * p, q), residual(p, q))


def double_chance(p: Row, q: Row) -> Row:
    """Kept also when an independent target sample is the draft."""
    kept = ratio(p, q)
    return mixture(q, kept + (1 - kept) * p, residual(p, q))


def draft_leak(p: Row, q: Row, share: float) -> Row:
    """Kept unseen with probability ``share``: (1 - share) p + share q."""
    return (1 - share) * p + share * q


def typical_acceptance(p: Row, q: Row, threshold: float, alpha: float) -> Row:
    """Kept when p > min(threshold, alpha exp(-H(p))), else the argmax (Cai et al. 2024)."""
    positive = p[p > 0]
    entropy = -(positive * np.log(positive)).sum()
    kept = (p > min(threshold, alpha * np.exp(-entropy))).astype(np.float64)
    return mixture(q, kept, _one_hot_row(p))


def is_near_top(p: Row, most: int, delta: float) -> npt.NDArray[np.bool_]:
    """Whether each token (V,) is one of the ``most`` likeliest, ties by token id.

    And at most ``delta`` less likely than the first.
    """
    ranks = np.empty(len(p), dtype=np.int64)
    ranks[np.argsort(-p, kind="stable")] = np.arange(len(p))
    return np.asarray((ranks < most) & (p >= p.max() - delta))


def relaxed_acceptance(p: Row, q: Row, most: int, delta: float) -> Row:
    """Kept near the top of the target, else its argmax."""
    return mixture(q, is_near_top(p, most, delta).astype(np.float64), _one_hot_row(p))


def entropy_scaled(p: Row, q: Row, tolerance: float) -> Row:
    """Kept with min(1, p/q + tolerance (1 - max p))."""
    return mixture(q, np.minimum(ratio(p, q) + tolerance * (1 - p.max()), 1), residual(p, q))


def forced_top(p: Row, q: Row, most: int) -> Row:
    """Kept for sure among the ``most`` likeliest of the target."""
    return mixture(q, np.where(is_near_top(p, most, 1.0), 1.0, ratio(p, q)), residual(p, q))


# Wrong draft: sampled from one row, judged with another.


def misreported(p: Row, sampled: Row, reported: Row) -> Row:
    """Token verification with ``reported`` of a draft from ``sampled``."""
    return mixture(sampled, ratio(p, reported), residual(p, reported))


# Laws that need a weight or rows from elsewhere.


def one_uniform(p: Row, q: Row, weight: float) -> Row:
    """One uniform judges all slots: after acceptance down to ``weight`` it is U[0, weight)."""
    return mixture(q, np.minimum(ratio(p, q) / weight, 1), residual(p, q))


def block_token_residual(p: Row, q: Row, weight: float) -> Row:
    """Block acceptance from weight p_j, with the token residual.

    The accepted mass of y is min(p_j p(y), q(y)) / p_j (Sun et al. 2025, algorithm 2).
    """
    accepted = np.minimum(p, q / weight)
    return np.asarray(accepted + (1 - accepted.sum()) * residual(p, q))


def next_row(later: Rows, q: Row) -> Row:
    """Judge draft x, and correct it, with the target row ``later[x]`` that follows it.

    ``later`` float64 (V, V): the target's rows after the prefix and each token.
    """
    laws = [
        np.eye(len(q))[x] * a + (1 - a) * residual(row, q)
        for x, row in enumerate(later)
        for a in [ratio(row, q)[x]]
    ]
    return np.asarray(q @ np.array(laws))


# From a slot's law to a call's.


def slot_by_slot(slot: SlotLaw) -> EmissionLaw:
    """Law of a call whose judged slots follow ``slot`` of their own rows; the bonus is right."""

    def law(target_probs: Rows, draft_probs: Rows, prefix: Sequence[int]) -> Row:
        j = len(prefix)
        p: Row = target_probs[j]
        return slot(p, draft_probs[j]) if j < len(draft_probs) else p

    return law


def residual_row_zero(target_probs: Rows, draft_probs: Rows, prefix: Sequence[int]) -> Row:
    """Residual and bonus of slot 0 in every slot."""
    j, first = len(prefix), target_probs[0]
    if j == len(draft_probs):
        return np.asarray(first)
    kept = ratio(target_probs[j], draft_probs[j])
    return mixture(draft_probs[j], kept, residual(first, draft_probs[0]))


def wrong_bonus_row(target_probs: Rows, draft_probs: Rows, prefix: Sequence[int]) -> Row:
    """Right but for the bonus, from the row of the last judged slot."""
    return np.asarray(target_probs[min(len(prefix), len(draft_probs) - 1)])


def previous_row(target_probs: Rows, draft_probs: Rows, prefix: Sequence[int]) -> Row:
    """Token verification with every target row but the first one slot late."""
    j = len(prefix)
    p: Row = target_probs[max(j - 1, 0)]
    return misreported(p, draft_probs[j], draft_probs[j]) if j < len(draft_probs) else p


def processed_target_law(process: Callable[[Row], Row]) -> EmissionLaw:
    """Law of a correct rule that works on processed target rows."""

    def law(target_probs: Rows, draft_probs: Rows, prefix: Sequence[int]) -> Row:
        return process(target_probs[len(prefix)])

    return law


def weighted_slot_law(slot: Callable[[Row, Row, float], Row], *, capped: bool) -> EmissionLaw:
    """Law of a call whose slots depend on a weight that starts at 1.

    An accepted token multiplies it by p/q and cuts it at 1 if ``capped`` (block), or lowers it
    to min(1, p/q) (one uniform).
    """

    def law(target_probs: Rows, draft_probs: Rows, prefix: Sequence[int]) -> Row:
        j, weight = len(prefix), 1.0
        for p, q, x in zip(target_probs, draft_probs, prefix, strict=False):
            share = p[x] / q[x]
            weight = min(1.0, weight * share) if capped else min(weight, share)
        if j == len(draft_probs):
            bonus: Row = target_probs[j]
            return bonus
        return slot(target_probs[j], draft_probs[j], weight)

    return law


def _one_hot_row(row: Row) -> Row:
    return np.asarray(np.arange(len(row)) == row.argmax(), dtype=np.float64)


Contract = Literal["verify", "step", "tree", "draft"]


@dataclass(frozen=True)
class Fault:
    """A verifier with a known bug, kept to prove that audits can see it.

    Attributes
    ----------
    name, summary : str
        The name in the catalogue and the faulty rule in one line.
    contract : {"verify", "step", "tree", "draft"}
        What ``rule`` is: ``verify(target_probs, draft_probs, draft_tokens, rng)``,
        ``step(prefix, target, draft, gamma, rng)`` or a class with ``reset`` and ``step``,
        ``tree(target_probs, draft_probs, tokens, parents, rng)``, or
        ``draft(prefix, draft_row, k, rng)`` or a class with it.
    seen_in : str
        Where it was seen; "synthetic" for a deviation that is only there to measure power.
    caught_by : {"exact", "sampled", "probe"}
        Which part of an audit is expected to see it: the exact output law, the sampled one
        where the draws cannot be followed, or an edge probe.
    severity : {"violation", "warning"}
        A warning fails an audit only where probes are strict.
    law : callable or None
        ``law(target_probs, draft_probs, prefix)``: what the fault emits in slot len(prefix) of
        a call that emitted ``prefix``; None where those rows do not decide it
        (:mod:`simverify.faults.base` says why).
    batch : int or None
        Blocks per call of a rule with a batch axis, as ``audit --batch`` takes it.
    scheme : str or None
        How the siblings are drafted that a rule for draft trees is judged on: there the rule
        that it is a slip of is right. Of a drafter, what it declares.
    """

    name: str
    contract: Contract
    rule: Callable[..., Any]
    summary: str
    seen_in: str
    caught_by: Literal["exact", "sampled", "probe"] = "exact"
    severity: Literal["violation", "warning"] = "violation"
    law: EmissionLaw | None = None
    batch: int | None = None
    scheme: str | None = None


@dataclass(frozen=True)
class Control:
    """A correct verifier that every audit must pass; ``why`` says what makes it look wrong."""

    name: str
    contract: Contract
    rule: Callable[..., Any]
    summary: str
    why: str


def acceptance_ratio(p: Any, q: Any) -> Any:
    """Return min(1, p / q), the token rule's; 1 where q = 0, which no honest draft reaches."""
    return min(1, p / q) if q > 0 else 1


def accepted_count(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> int:
    """Return tau by the token rule, one fresh uniform per judged token."""
    for i, x in enumerate(draft_tokens):
        if not rng.random() < acceptance_ratio(target_probs[i][x], draft_probs[i][x]):
            return i
    return len(draft_tokens)


def emit_after(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, tau: int, rng: Any
) -> list[int]:
    """Keep ``tau`` draft tokens and add the token rule's residual or bonus token."""
    p = target_probs[tau]
    law = excess(p, draft_probs[tau]) if tau < len(draft_tokens) else p
    return prefix_and_last(draft_tokens, tau, draw(law, p, rng))


def token_rule(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
    """Token verification of whatever rows it is given, honest or not."""
    tau = accepted_count(target_probs, draft_probs, draft_tokens, rng)
    return emit_after(target_probs, draft_probs, draft_tokens, tau, rng)


def prefix_and_last(draft_tokens: Array | list[int], tau: int, last: int) -> list[int]:
    """Return the first ``tau`` draft tokens and ``last``."""
    return [*map(int, draft_tokens[:tau]), last]


def inverse_cdf(weights: Array, otherwise: Array, u: Any) -> int:
    """Draw by inverse CDF with the uniform ``u``; ``otherwise`` if the weights are zero."""
    row = weights if weights.sum() > 0 else otherwise
    last = int(np.flatnonzero(row)[-1])
    cdf = np.cumsum(row[:last]) / row.sum()
    return next((token for token, bound in enumerate(cdf) if u < bound), last)


def tempered(row: Array, temperature: float) -> Array:
    """Return the row (V,) at another temperature."""
    powers = row ** (1 / temperature)
    return np.asarray(powers / powers.sum())
