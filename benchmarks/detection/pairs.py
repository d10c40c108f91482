"""Rows of a batch that share a random stream: pairs of calls, each of them right by itself.

Two rows draft, judge and correct their first token with the same three uniforms. With the
same prompt their outputs are equal; with different prompts only correlated. Tests of one row
at a time, the peers' among them, see nothing.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from battery import ALPHA, levels
from instances import SMALL, Rows, Tables
from lines import Found, Line
from power import needed

from simverify import stats
from simverify.faults.base import ratio, residual

SAME = Line(SMALL, "pairs of rows sharing a stream, same prompt", "shared stream", 2.0)
DIFFERENT = Line(SMALL, "pairs of rows sharing a stream, two prompts", "shared stream", 2.0)


def tokens(p: Rows, q: Rows, uniforms: Rows) -> npt.NDArray[np.int64]:
    """First tokens (n,) of token verification with rows (V,) from uniforms (n, 3)."""
    kept, corrected = ratio(p, q), residual(p, q)
    x = _inverse(q, uniforms[:, 0])
    last = _inverse(corrected, uniforms[:, 2])
    return np.where(uniforms[:, 1] < kept[x], x, last)


def measure_pairs(line: Line, tables: Tables, runs: int, *, shared: bool = True) -> Found:
    """Pairs that find the shared stream; with ``shared`` false there is nothing to find."""
    contexts = (0, 0) if line == SAME else (1, 2)
    laws = [(tables.target[c], tables.draft[c]) for c in contexts]
    rng = np.random.default_rng(list(line.label.encode()))
    sizes = np.unique(np.geomspace(3, 60, 20).astype(int) if line == SAME
                      else np.geomspace(100, 1_500, 14).astype(int))  # fmt: skip
    logs: dict[str, Any] = {}
    for run in range(runs):
        u = rng.random((sizes[-1], 3))
        v = u if shared else rng.random(u.shape)
        drawn = [tokens(*law, w) for law, w in zip(laws, (u, v), strict=True)]
        pits = [_pits(law[0], x, rng) for law, x in zip(laws, drawn, strict=True)]
        for k, n in enumerate(sizes):
            for name, log_p in _tests(laws, drawn, pits, int(n)).items():
                logs.setdefault(name, np.zeros((runs, len(sizes))))[run, k] = log_p
    level = levels(tables.gamma)["rest"]
    alone = {name: needed(sizes, found < math.log(ALPHA)) for name, found in logs.items()}
    best = min(alone, key=lambda name: alone[name].n)
    # The rest's share for independence is one; its tests split it.
    any_of = np.any([found < math.log(level / len(logs)) for found in logs.values()], axis=0)
    return Found(line, best, alone[best], needed(sizes, any_of), runs, tuple(logs))


def _tests(laws: list[Any], drawn: list[Any], pits: list[Any], n: int) -> dict[str, float]:
    (p, _), (other, _) = laws
    a, b = drawn[0][:n], drawn[1][:n]
    found = {}
    equal = float(p @ other)
    duplicates = stats.duplicates_test(int((a == b).sum()), n, equal, alpha=0.5)
    found["equal tokens"] = duplicates.log_pvalue
    joint = np.outer(p, other).ravel()
    table = np.bincount(a * len(p) + b, minlength=joint.size)
    g2 = stats.transition_g2(table[None], joint[None])
    found["G2 of token pairs"] = stats.g2_test(g2, alpha=0.5).log_pvalue if g2.df else 0.0
    found["G2 of PIT pairs"] = 0.0
    if n >= 640:
        cells = stats.pit_table(pits[0][:n], pits[1][:n])
        found["G2 of PIT pairs"] = stats.g2_test(stats.pit_table_g2(cells), alpha=0.5).log_pvalue
    return found


def _pits(p: Rows, x: npt.NDArray[np.int64], rng: np.random.Generator) -> Rows:
    below = np.cumsum(p) - p
    return np.minimum(below[x] + rng.random(len(x)) * p[x], 1.0)


def _inverse(row: Rows, u: Rows) -> npt.NDArray[np.int64]:
    return np.minimum(np.searchsorted(np.cumsum(row), u, side="right"), len(row) - 1)
