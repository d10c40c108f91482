"""What a fault and a control are, and the correct halves that faulty rules are built around."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from simverify.faults.emission_laws import EmissionLaw
from simverify.verifiers.base import Array, draw, excess

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
        (:mod:`simverify.faults.emission_laws` says why).
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


def acceptance(p: Any, q: Any) -> Any:
    """Return min(1, p / q), the token rule's; 1 where q = 0, which no honest draft reaches."""
    return min(1, p / q) if q > 0 else 1


def accepted(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> int:
    """Return tau by the token rule, one fresh uniform per judged token."""
    for i, x in enumerate(draft_tokens):
        if not rng.random() < acceptance(target_probs[i][x], draft_probs[i][x]):
            return i
    return len(draft_tokens)


def finish(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, tau: int, rng: Any
) -> list[int]:
    """Keep ``tau`` draft tokens and add the token rule's residual or bonus token."""
    p = target_probs[tau]
    law = excess(p, draft_probs[tau]) if tau < len(draft_tokens) else p
    return keep(draft_tokens, tau, draw(law, p, rng))


def token_rule(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
    """Token verification of whatever rows it is given, honest or not."""
    tau = accepted(target_probs, draft_probs, draft_tokens, rng)
    return finish(target_probs, draft_probs, draft_tokens, tau, rng)


def keep(draft_tokens: Array | list[int], tau: int, last: int) -> list[int]:
    """Return the first ``tau`` draft tokens and ``last``."""
    return [*map(int, draft_tokens[:tau]), last]


def invert(weights: Array, otherwise: Array, u: Any) -> int:
    """Draw by inverse CDF with the uniform ``u``; ``otherwise`` if the weights are zero."""
    row = weights if weights.sum() > 0 else otherwise
    last = int(np.flatnonzero(row)[-1])
    cdf = np.cumsum(row[:last]) / row.sum()
    return next((token for token, bound in enumerate(cdf) if u < bound), last)


def tempered(row: Array, temperature: float) -> Array:
    """Return the row (V,) at another temperature."""
    powers = row ** (1 / temperature)
    return np.asarray(powers / powers.sum())
