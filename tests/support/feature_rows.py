"""Rows to take features of, and the features again in plain numpy: an oracle for the kernels."""

from dataclasses import fields

import numpy as np

from simverify import stats
from simverify.faults import get_fault
from simverify.simulators.kernels import features as kernel
from simverify.stats.evalues import log_factors, safe_log_product
from simverify.stats.pits import order_key, pit_bounds

TOTAL = 2**20
"""Entries are whole multiples of 1/TOTAL: exact in float32 and float64, and so are their sums."""


def dyadic_rows(rng, n, vocab_size):
    """Rows (n, V) with zeros and ties; every fourth of sum 1 at one token."""
    rows = np.array(
        [rng.multinomial(TOTAL, rng.dirichlet(np.full(vocab_size, 0.5))) for _ in range(n)]
    )
    moved = rows[:, 0] // 2 * (rng.random(n) < 0.5).astype(int)
    rows[:, 0] -= moved
    rows[:, -1] += moved
    rows[1::3] = np.round(rows[1::3] / TOTAL * 8).astype(int) * (TOTAL // 8)  # many ties
    rows[::4] = TOTAL * np.eye(vocab_size, dtype=int)[rng.integers(vocab_size, size=len(rows[::4]))]
    rows[np.arange(n), rows.argmax(axis=1)] += TOTAL - rows.sum(axis=1)
    assert rows.min() >= 0
    return rows / TOTAL


def pairs_of_rows(seed, n, vocab_size):
    """Target and draft rows (n, V): apart, equal, disjoint, one-hot on either side or both."""
    rng = np.random.default_rng([seed, vocab_size])
    p, q = dyadic_rows(rng, n, vocab_size), np.roll(dyadic_rows(rng, n, vocab_size), 1, axis=0)
    q[2::7] = p[2::7]
    for row in range(3, n, 7):
        q[row] = np.eye(vocab_size)[p[row].argmin()]
    return p, q


def drawn(rng, rows):
    """One token from each row (n, V)."""
    cdf = np.cumsum(rows, axis=1)
    u = rng.random((len(rows), 1)) * cdf[:, -1:]
    return (cdf <= u).sum(axis=1)


def due_pits(p, q, tokens, uniforms):
    """PITs (3, n) by the orders of ``stats.pit_orders``."""
    found = []
    for order in ("ratio", "index", "descending"):
        below, above = pit_bounds(p, order_key(order, p, q), tokens)
        found.append(below + uniforms * (above - below))
    return np.array(found)


def due_scores(p, q):
    """Scores of all tokens by name, each (n, V)."""
    return {
        "accept": stats.accept(p, q),
        "contrast": stats.contrast(p, q),
        "surprise": stats.surprise(p),
    }


def due_ratios(p, q, tokens, judged):
    """P_m/P (n, M) by the laws of the catalogue; a bonus is the first token of a call without
    drafts."""
    index = np.arange(len(tokens))
    own = p[index, tokens]
    columns = []
    for name in kernel.FAULTS:
        law = get_fault(name).law
        laws = np.array(
            [law(a[None], b[None] if j else b[None][:0], ())
             for a, b, j in zip(p, q, judged, strict=True)]
        )  # fmt: skip
        fault = np.where(np.abs(laws[index, tokens]) < 1e-14, 0.0, laws[index, tokens])
        ratio = fault / np.where(own > 0.0, own, 1.0)
        columns.append(np.where(own > 0.0, ratio, np.where(fault > 0.0, np.inf, 1.0)))
    return np.stack(columns, axis=1)


def due_ratio_sums(logs):
    """Sums of ln P_m/P (n, M) of each token, mixed at every strength."""
    shape = (len(kernel.FAULTS), len(stats.STRENGTHS))
    forward, backward = np.empty(shape), np.empty(shape)
    for s, strength in enumerate(stats.STRENGTHS):
        mixed, inverse = log_factors(logs, strength, 0.0)
        forward[:, s], backward[:, s] = safe_log_product(mixed), safe_log_product(inverse)
    return stats.RatioSums(
        names=kernel.FAULTS, n=len(logs), log_evalues=forward, log_refutations=backward,
        growth=np.full(shape, np.nan), ball=0.0,
    )  # fmt: skip


def numbers(value):
    """All numbers of a result, in one array."""
    if value is None or isinstance(value, str):
        return np.empty(0)
    if isinstance(value, tuple):
        return np.concatenate([np.empty(0), *map(numbers, value)])
    if hasattr(value, "__dataclass_fields__"):
        return np.concatenate([numbers(getattr(value, f.name)) for f in fields(value)])
    return np.ravel(np.asarray(value, dtype=np.float64))


def assert_same(found, due, rtol=1e-7, atol=1e-6):
    """Compare two results of one kind, field by field."""
    for field in fields(due):
        parts = (numbers(getattr(x, field.name)) for x in (found, due))
        np.testing.assert_allclose(*parts, rtol=rtol, atol=atol, err_msg=field.name)
