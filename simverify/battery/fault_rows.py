"""Catalogued faults against counted tokens: which of them a context tells apart, and their rows.

The law of a fault's slot (:mod:`simverify.faults.emission_laws`) may ask for rows and tokens
that came before. A context that holds the whole prefix serves all of them; one that holds the
last token serves those that read their own two rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.faults import FAULTS
from simverify.faults.base import Fault
from simverify.faults.catalogue import get_fault

MAX_TESTED = 15
"""Faults that are tested, each at five strengths: alpha pays for every one of them.

The others are named and refuted, which costs no alpha.
"""

_FIRST = (
    "target-residual", "reused-uniform", "inverted-ratio", "scaled-acceptance(1.1)",
    "wrong-bonus-row", "previous-row", "one-uniform", "draft-leak(1)", "draft-temperature(0.9)",
    "target-temperature(0.9)", "one-hot-residual", "double-chance", "unnormalised-residual",
    "softmax-residual", "truncated-draft-soft-q", "residual-row-zero", "top-k-residual(1)",
    "argmax-draft-soft-q", "typical-acceptance",
)  # fmt: skip
"""What is tested first. A leak of any share is draft-leak(1) at that strength."""

_ROUNDING = 1e-12

_ASKS_FOR_THE_PREFIX = frozenset(
    ("wrong-bonus-row", "previous-row", "one-uniform", "naive-block-stealth")
)
_ASKS_FOR_THE_FIRST_ROW = frozenset(("residual-row-zero",))


@cache
def known_faults(*, prefix: bool, first_row: bool) -> tuple[Fault, ...]:
    """Return the faults whose slots follow from what a context holds, those to test first.

    ``prefix``: all tokens before, and their rows; ``first_row``: the rows of the call's first
    slot. Every context holds the slot's own rows.
    """
    names = [*_FIRST, *(name for name in FAULTS if name not in (*_FIRST, "draft-leak(0.01)"))]
    missing = frozenset() if prefix else _ASKS_FOR_THE_PREFIX
    if not (prefix or first_row):
        missing |= _ASKS_FOR_THE_FIRST_ROW
    faults = [get_fault(name) for name in names if name not in missing]
    return tuple(fault for fault in faults if fault.law is not None)


@dataclass(frozen=True, eq=False)
class FaultCounts:
    """Tokens by context, and what each fault would emit there; slots are further contexts.

    ``counts`` int64 and ``target`` float64 (contexts, V); ``rows`` float64 (M, contexts, V),
    the laws of the M faults in ``names``; rows sum to 1.
    """

    names: tuple[str, ...]
    counts: Ints
    target: Floats
    rows: Floats

    @property
    def telling(self) -> tuple[int, ...]:
        """Indices of the faults that emit anything but the target in these contexts."""
        return tuple(m for m, rows in enumerate(self.rows) if (rows != self.target).any())

    def within(self, contexts: npt.NDArray[np.bool_]) -> "FaultCounts":
        """Return the counts and rows of some ``contexts``, bool (contexts,)."""
        return FaultCounts(
            self.names, self.counts[contexts], self.target[contexts], self.rows[:, contexts]
        )


def fault_counts(
    faults: Sequence[Fault], parts: Iterable[tuple[Ints, Floats, Floats]]
) -> FaultCounts:
    """Stack ``parts``: counts (contexts, V), target rows, and rows of the faults; drop the unseen.

    Likelihood ratios are conditional on the contexts' totals, so that one without a token
    says nothing.
    """
    counts, targets, laws = zip(*parts, strict=True)
    stacked = np.concatenate(counts)
    seen = stacked.any(axis=1)
    target, rows = np.concatenate(targets)[seen], np.concatenate(laws, axis=1)[:, seen]
    # A row that is the target's but for rounding is the target's: ratios of rounding are no
    # evidence, and their sums reach their maximum.
    same = np.abs(rows - target).max(axis=2, keepdims=True) < _ROUNDING
    names = tuple(fault.name for fault in faults)
    return FaultCounts(names, stacked[seen], target, np.where(same, target, rows))


def slot_rows(
    faults: Sequence[Fault],
    target_probs: Floats,
    draft_probs: Floats,
    prefixes: Sequence[Sequence[int]],
) -> Floats:
    """Rows of the faults (M, contexts, V) in slot len(prefix) of a call.

    ``target_probs`` (contexts, gamma+1, V), ``draft_probs`` (contexts, gamma, V); rows beyond
    the slot are not read. A prefix that a fault never emits gives the target's own row.
    """
    rows = np.empty((len(faults), len(prefixes), target_probs.shape[2]))
    with np.errstate(all="ignore"):
        for m, fault in enumerate(faults):
            assert fault.law is not None
            for c, prefix in enumerate(prefixes):
                row = np.maximum(fault.law(target_probs[c], draft_probs[c], prefix), 0.0)
                row /= row.sum()
                rows[m, c] = row if np.isfinite(row).all() else target_probs[c, len(prefix)]
    return rows


def judged_rows(faults: Sequence[Fault], target: Floats, draft: Floats) -> Floats:
    """Rows of faults that read their own slot's alone, ``target`` and ``draft`` (contexts, V)."""
    both = np.stack([target, target], axis=1)
    return slot_rows(faults, both, draft[:, None], [()] * len(target))
