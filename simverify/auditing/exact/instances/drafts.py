"""Small instances for drafters: rows of the draft model, and trees that are drafted call by call.

A call is asked for one to four siblings, and once for eight, more than a row has tokens on some;
the calls of a chain or a tree show what depends on an earlier one.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.instances.rows import Weights
from simverify.auditing.exact.instances.trees import most_trees
from simverify.trees import Drafting, Scheme, TreeShape, shape_of_levels

_ROWS: dict[int, tuple[tuple[str, tuple[Weights, ...]], ...]] = {
    2: (
        ("plain", ((2, 1), (1, 3), (4, 1))),
        ("one-hot", ((0, 1), (1, 0))),
        ("ties", ((1, 1), (2, 1))),
        ("skewed", ((1, 999), (99, 1), (1, 9))),
    ),
    3: (
        ("plain", ((6, 2, 4), (5, 6, 1), (2, 9, 1), (4, 6, 2), (8, 3, 1))),
        ("zeros", ((0, 1, 3), (2, 0, 1), (3, 1, 0), (1, 3, 1))),
        ("one-hot", ((1, 0, 0), (0, 0, 1), (0, 1, 0))),
        ("ties", ((1, 1, 1), (2, 1, 1), (1, 2, 2))),
        ("skewed", ((500, 499, 1), (98, 1, 1), (1, 40, 9))),
        ("rare", ((100, 99_999_899, 1), (1, 9, 999_990), (500_000, 499_999, 1))),
    ),
    4: (
        ("plain", ((5, 3, 1, 2), (1, 4, 6, 2), (2, 2, 7, 1))),
        ("zeros", ((0, 3, 0, 2), (1, 0, 0, 0), (4, 0, 1, 3))),
    ),
    5: (("plain", ((3, 1, 5, 2, 4), (1, 6, 2, 2, 1))),),
}  # fmt: skip
"""Weights of the draft's rows by vocabulary, and what they are for."""

_LEVELS = {
    2: (
        (1,), (2,), (3,), (1, 1), (2, 1), (1, 2), (1, 1, 1), (2, 2), (4,), (8,), (1, 1, 1, 1),
    ),
    3: ((1,), (2,), (3,), (1, 1), (2, 1), (1, 2), (1, 1, 1), (3, 1), (4,), (1, 1, 1, 1)),
    4: ((1,), (2,), (3,), (1, 1)),
    5: ((1,), (2,), (3,)),
}  # fmt: skip
"""Children per level, by vocabulary: eight siblings at most, and chains of four."""

_CORE = {(3, (1,)), (3, (2,)), (3, (3,)), (3, (1, 1)), (3, (2, 1)), (4, (2,))}
"""Vocabulary and levels of the plain instances that a verdict needs."""

_FEW = 300
"""Trees at most on rows that are not plain."""

_LARGEST, _SIBLINGS = 12, 2

_PROMPT = (0, 1, 2) * 4
"""More tokens than any other instance has before a call."""


def draft_instances(
    scheme: Scheme, max_gamma: int, max_vocab: int, seed: int, shape: TreeShape | None = None
) -> list[SmallModel]:
    """Return the battery of the draft contract, small instances first.

    ``shape``: the one tree that the code is made for; by default many. ``max_gamma``: largest
    depth.
    """
    models = [
        model
        for vocab, families in _ROWS.items()
        for family, rows in families
        for model in _models(scheme, vocab, family, rows, shape)
    ]
    rng = random.Random(seed)
    for vocab in (6, 8, _LARGEST):
        row = [rng.choice((0, 1, 2, 3, 5, 8)) for _ in range(vocab)]
        row[rng.randrange(vocab)] += 1
        wide = shape or shape_of_levels([_SIBLINGS])
        models.append(_model(scheme, f"large, V={vocab}", (tuple(row),), wide))
    if shape is None:
        name, (_, rows) = f"after a prompt of {len(_PROMPT)}, V=3, tree 2", _ROWS[3][0]
        after = _model(scheme, name, rows, shape_of_levels([_SIBLINGS]))
        models.append(replace(after, prompt=_PROMPT))
    fitting = [m for m in models if m.gamma <= max_gamma and m.vocab_size <= max_vocab]
    fitting = [m for m in fitting if m.core or most_trees(m) <= _FEW]
    # Those that are not plain come after those that are, for a failure on these says more.
    return sorted(fitting, key=lambda m: (most_trees(m), m.gamma, m.family != "plain", m.name))


def _models(
    scheme: Scheme, vocab: int, family: str, rows: tuple[Weights, ...], shape: TreeShape | None
) -> Iterator[SmallModel]:
    if shape is not None:
        model = _model(scheme, f"{family}, V={vocab}, tree of {len(shape)}", rows, shape)
        yield replace(model, core=vocab < 4, family=family)
        return
    for levels in _LEVELS[vocab]:
        name = f"{family}, V={vocab}, tree {','.join(map(str, levels))}"
        model = _model(scheme, name, rows, shape_of_levels(levels))
        needed = family == "plain" and (vocab, levels) in _CORE
        yield replace(model, core=needed, family=family)


def _model(scheme: Scheme, name: str, rows: tuple[Weights, ...], shape: TreeShape) -> SmallModel:
    # Nothing is verified, so that the target's rows, which have to be there, matter to nobody.
    targets = tuple(row[::-1] for row in rows)
    return SmallModel(name, shape.depth, targets, rows, drafting=Drafting(shape, scheme))
