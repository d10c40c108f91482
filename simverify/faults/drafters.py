"""Faulty drafters: their tokens do not come from the law that they report.

A verifier reads that law as q, and the scheme says how the siblings come from it; where either is
not so, every rule that reads q is lossy.

References
----------
.. [1] Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023: what is
   drafted is a sample of the q that it is judged by.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.faults.base import Fault, inverse_cdf, tempered
from simverify.faults.chains import bfloat16, mode, top_two
from simverify.trees import SCHEMES
from simverify.verifiers.base import Array

Process = Callable[[Array], Array]
"""From the row that a drafter is handed to the one that it draws from, or reports."""

_UNLIKELY = 0.3
"""Below this probability a token is taken to be no good draft."""


def unchanged_row(row: Array) -> Array:
    """Return the row."""
    return row


def colder(row: Array) -> Array:
    """Return the row at temperature 1/2."""
    return tempered(row, 0.5)


def hotter(row: Array) -> Array:
    """Return the row at temperature 2."""
    return tempered(row, 2.0)


def weights(row: Array) -> Array:
    """Return the row relative to its likeliest token, which is no law."""
    return np.asarray(row / row.max())


def misreported(
    sampled: Process, reported: Process, scheme: str = "iid"
) -> Callable[..., tuple[list[int], Array]]:
    """Return a drafter that draws by ``scheme`` from one row and reports another."""

    def draft(prefix: Any, row: Array, k: int, rng: Any) -> tuple[list[int], Array]:
        return list(SCHEMES[scheme].draw(sampled(row), k, rng)), reported(row)

    return draft


def until_unlikely(prefix: Any, row: Array, k: int, rng: Any) -> tuple[list[int], Array]:
    """Stop before the first token that is unlikely, which is dropped."""
    tokens: list[int] = []
    for token in SCHEMES["iid"].draw(row, k, rng):
        if row[token] < _UNLIKELY:
            break
        tokens.append(token)
    return tokens, row


def pruned(prefix: Any, row: Array, k: int, rng: Any) -> tuple[list[int], Array]:
    """Draw one sibling too many, and drop the one that is the least likely."""
    tokens = list(SCHEMES["iid"].draw(row, k + 1, rng))
    tokens.pop(int(np.argmin(row[tokens])))
    return tokens, row


def without_equals(prefix: Any, row: Array, k: int, rng: Any) -> tuple[list[int], Array]:
    """Keep a token that was drawn twice once."""
    return list(dict.fromkeys(SCHEMES["iid"].draw(row, k, rng))), row


def systematic(prefix: Any, row: Array, k: int, rng: Any) -> tuple[list[int], Array]:
    """Draw all siblings with one uniform, a k-th of the way apart."""
    u = rng.random()
    return [inverse_cdf(row, row, _rotate_uniform(u, place / k)) for place in range(k)], row


def _rotate_uniform(u: Any, by: float) -> Any:
    return u + by if u < 1 - by else u + by - 1


def likeliest_first(prefix: Any, row: Array, k: int, rng: Any) -> tuple[list[int], Array]:
    """Put the siblings, which were drawn one off the other, in the order of their probability."""
    tokens = SCHEMES["without-replacement"].draw(row, k, rng)
    return sorted(tokens, key=lambda x: (-row[x], x)), row


def certain_and_all(prefix: Any, row: Array, k: int, rng: Any) -> tuple[list[int], Array]:
    """Draw the last sibling from the whole row, the certain ones in it."""
    last = SCHEMES["iid"].draw(row, 1, rng)
    return [*SCHEMES["top-k"].draw(row, k - 1, rng), *last], row


class OneUniform:
    """Draws one uniform for a whole tree, as where a generator's offset stands still."""

    def __init__(self) -> None:
        self._u: Any = None

    def draft(self, prefix: Any, row: Array, k: int, rng: Any) -> tuple[list[int], Array]:
        """Draw siblings of the first call by that uniform, of later ones by the same again."""
        if self._u is None:
            self._u = rng.random()
        return [inverse_cdf(row, row, self._u)], row


class StaleReport:
    """Reports the row of the call before, as where its buffer is filled too late."""

    def __init__(self) -> None:
        self._before: Array | None = None

    def draft(self, prefix: Any, row: Array, k: int, rng: Any) -> tuple[list[int], Array]:
        """Draw from the row and report the one before it."""
        reported = row if self._before is None else self._before
        self._before = row.copy()
        return list(SCHEMES["iid"].draw(row, k, rng)), reported


DRAFTER_FAULTS = tuple(
    Fault(name, "draft", rule, summary, seen_in, scheme=scheme)
    for name, rule, scheme, summary, seen_in in (
        (
            "raw-row-report",
            misreported(colder, unchanged_row),
            "iid",
            "tokens are drawn from the processed row, and the raw one is reported",
            "Transformers #47932",
        ),
        (
            "unused-temperature-report",
            misreported(unchanged_row, hotter),
            "iid",
            "a temperature is reported that the draw does not have",
            "synthetic",
        ),
        (
            "argmax-soft-report",
            misreported(lambda row: mode(row, ()), unchanged_row),
            "iid",
            "the likeliest token is drafted, and the softmax is reported",
            "Transformers #32867; jaymody/speculative-sampling #3",
        ),
        (
            "bfloat16-report",
            misreported(unchanged_row, lambda row: bfloat16(row, ())),
            "iid",
            "tokens are drawn in full precision and reported in bfloat16",
            "deepseek-ai/DeepSpec #31, there drawn in bfloat16 and judged in float32",
        ),
        (
            "truncated-soft-report",
            misreported(lambda row: top_two(row, ()), unchanged_row),
            "iid",
            "tokens are drawn from the two likeliest, and the whole softmax is reported",
            "mlx-node #11, in review; Transformers #47932",
        ),
        (
            "late-top-k-report",
            misreported(unchanged_row, lambda row: top_two(row, ())),
            "iid",
            "top-k is applied to the report, after tokens were drawn from the whole row",
            "synthetic",
        ),
        (
            "unnormalised-report",
            misreported(unchanged_row, weights),
            "iid",
            "what is reported does not sum to 1",
            "synthetic",
        ),
        (
            "stale-row-report",
            StaleReport,
            "iid",
            "the row of the call before is reported",
            "synthetic",
        ),
        (
            "stop-at-unlikely-token",
            until_unlikely,
            "iid",
            "the draft ends before a token whose own probability is low",
            "llama.cpp #22506 and ik_llama.cpp #1820, right there for drafts that are no samples",
        ),
        (
            "unlikely-sibling-pruned",
            pruned,
            "iid",
            "of the siblings drawn the least likely is dropped",
            "synthetic; EAGLE-2's choice of nodes by q, taken for samples",
        ),
        (
            "equal-siblings-merged",
            without_equals,
            "iid",
            "a token that was drawn twice comes once",
            "synthetic",
        ),
        (
            "distinct-siblings",
            misreported(unchanged_row, unchanged_row, "without-replacement"),
            "iid",
            "siblings are drawn one off the other and declared independent",
            "synthetic; what torch.multinomial does by default",
        ),
        (
            "systematic-siblings",
            systematic,
            "iid",
            "one uniform draws all siblings, a step apart",
            "synthetic",
        ),
        (
            "one-uniform-for-a-tree",
            OneUniform,
            "iid",
            "one uniform draws a token of every level",
            "synthetic; a Philox offset that stands still",
        ),
        (
            "independent-siblings",
            misreported(unchanged_row, unchanged_row),
            "without-replacement",
            "siblings are independent and declared without replacement",
            "synthetic",
        ),
        (
            "siblings-sorted-by-draft",
            likeliest_first,
            "without-replacement",
            "siblings are drawn one off the other, then sorted by probability",
            "synthetic",
        ),
        (
            "sampled-top-k",
            misreported(unchanged_row, unchanged_row, "without-replacement"),
            "top-k",
            "siblings declared the likeliest are samples",
            "synthetic",
        ),
        (
            "sampled-hub",
            misreported(unchanged_row, unchanged_row, "without-replacement"),
            "argmax-first",
            "the first sibling, declared the likeliest, is a sample",
            "synthetic",
        ),
        (
            "last-sibling-of-full-row",
            certain_and_all,
            "last-sampled",
            "the last sibling is drawn from a row that has the certain ones still",
            "synthetic",
        ),
    )
)
