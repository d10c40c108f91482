"""A drafting as the kernels read it: who follows whom, and which tokens are certain."""

import numpy as np

from simverify.arrays import Ints, Row
from simverify.simulators.kernels.tables.markov import MarkovTables
from simverify.simulators.kernels.trees.siblings import Drafts
from simverify.trees import ROOT, Drafting


def likeliest(q: Row, k: int) -> Ints:
    """Return the ``k`` likeliest tokens of q (V,), equal ones by id, as ``Scheme.fixed``.

    The same by numpy: a large vocabulary takes it seconds.
    """
    return np.argsort(-q, kind="stable")[:k]


def drafts_of(tables: MarkovTables, drafting: Drafting) -> Drafts:
    """Return the arrays of ``drafting`` on the rows of ``tables``."""
    shape, scheme = drafting.shape, drafting.scheme
    groups = [shape.children[node] for node in range(ROOT, len(shape))]
    certain = [max(scheme.certain(len(group)), 0) if group else 0 for group in groups]
    most = min(max(certain), tables.draft.shape[1])
    fixed = np.empty((len(tables.draft), most), np.int32)
    if most:
        for row, q in zip(fixed, tables.draft, strict=True):
            row[:] = likeliest(q, most)
    return Drafts(
        first=np.cumsum([0, *map(len, groups)]),
        child=np.array([child + 1 for group in groups for child in group], np.int64),
        parent=np.array([0, *(parent + 1 for parent in shape.parents)], np.int64),
        certain=np.array(certain, np.int64),
        fixed=fixed,
        replaced=scheme.replaced,
    )
