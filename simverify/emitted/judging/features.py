"""What the tests look at in an emitted token: scores, sets and places in an order, for each row."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.arrays import Floats
from simverify.simulators.kernels.rows.row_sums import RARE
from simverify.stats.scores.functions import SURPRISE_CAP

WIDTHS = {"-log p": SURPRISE_CAP, "min(1, q/p)": 1.0, "(q-p)/(q+p)": 2.0}
"""Range of each score."""


def score_tables(again: Floats, q: Floats | None) -> dict[str, Floats]:
    """Return each score of each token, float64 (n, V), by name."""
    tables = {"-log p": stats.surprise(again)}
    if q is not None:
        tables |= {"min(1, q/p)": stats.accept(again, q), "(q-p)/(q+p)": stats.contrast(again, q)}
    return tables


def member_tables(again: Floats, q: Floats | None) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which tokens belong to each set, bool (n, V), by name."""
    members = {f"p < {level:g}": stats.rare_token(again, below=level) for level in RARE}
    if q is not None:
        members["q > p"] = stats.q_above_p(again, q)
    return members


def orders(again: Floats, q: Floats | None) -> dict[str, Floats]:
    """Return keys by whose ascent tokens are ordered, float64 (n, V), by the name of the order."""
    keys = {
        "token": stats.order_key("index", again),
        "descending P": stats.order_key("descending", again),
    }
    return keys if q is None else keys | {"q/p": stats.order_key("ratio", again, q)}


def centred(again: Floats, p: Floats, q: Floats | None) -> Mapping[str, Floats]:
    """Return what each test sums up, less its mean under the rows p: float64 (n, V), by its name.

    Of a PIT it is the middle of the token's interval.
    """
    found: dict[str, Floats] = {f"score {n}": table for n, table in score_tables(again, q).items()}
    found |= {f"score {n}": table.astype(float) for n, table in member_tables(again, q).items()}
    for name, key in orders(again, q).items():
        places = np.argsort(key, axis=1, kind="stable")
        ranked = np.take_along_axis(p, places, axis=1)
        middles = np.empty_like(p)
        np.put_along_axis(middles, places, np.cumsum(ranked, axis=1) - ranked / 2.0, axis=1)
        found[f"PIT in {name} order"] = middles
    return {name: table - (p * table).sum(axis=1, keepdims=True) for name, table in found.items()}


def reached(again: Floats, p: Floats, q: Floats | None, rows: Floats) -> dict[str, Floats]:
    """Return the sup distance of the CDFs of ``rows`` and p in each order, float64 (n,)."""
    found = {}
    for name, key in orders(again, q).items():
        places = np.argsort(key, axis=1, kind="stable")
        off = np.cumsum(np.take_along_axis(rows - p, places, axis=1), axis=1)
        found[f"PIT in {name} order"] = np.abs(off).max(axis=1)
    return found
