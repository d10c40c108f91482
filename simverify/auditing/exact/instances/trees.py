"""Small instances for rules that judge draft trees: rows, shapes, and the scheme of the siblings.

A shape is small or has few drafts: V^n trees of n nodes are drafted where all are sampled. Every
tree that a shape can become is among them: equal siblings, ids 0 and V-1, siblings in any order.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.instances.rows import ROWS, Pair, large_rows, random_rows
from simverify.trees import ROOT, Drafting, Scheme, TreeShape, shape_of_levels

_LEVELS: dict[int, tuple[tuple[int, ...], ...]] = {
    2: ((1,), (2,), (1, 1), (1, 2), (2, 1), (3,), (2, 2), (3, 1), (2, 1, 1), (1, 1, 1, 1)),
    3: ((1,), (2,), (1, 1), (1, 2), (2, 1), (3,), (2, 2), (3, 1), (2, 1, 1), (1, 2, 2)),
    4: ((2,), (3,), (2, 1)),
    5: ((2,),),
}
"""Children per level, by vocabulary."""

_BENT = {
    "a leaf at the root": (ROOT, ROOT, 0),
    "a leaf first": (ROOT, ROOT, 1),
    "numbered by depth": (ROOT, 0, 1, ROOT, 3),
}
"""Shapes that are no levels: parents, by name."""

_OWN: dict[int, tuple[tuple[str, list[Pair]], ...]] = {
    3: (("thin residual", [((6, 3, 3), (5, 6, 1)), ((2, 5, 3), (5, 4, 1)),
                           ((3, 2, 5), (1, 5, 4))]),),
}  # fmt: skip
"""Rows for trees alone, by vocabulary: what a rejection leaves of p is below q at some token, so
that a coin is taken for the second sibling too. On others it is accepted, or not, for certain."""

_LARGE: tuple[tuple[int, tuple[int, ...], int], ...] = (
    (6, (1, 1), 3), (8, (2,), 4), (12, (1,), 12), (12, (2,), 4),
)  # fmt: skip
"""(V, children per level, tokens that a draft row holds) of the larger vocabularies.

Every id is drafted on one of them. Drafts of few tokens keep the trees few.
"""

_NODES = {"plain": 7, "wide residual": 4, "thin residual": 3}
"""Most nodes of a tree, by what its rows are for; others have three at most."""

_FEW_NODES = 3

_FEW_TREES = 30
"""Drafted at most on the instances that named faults are tried on."""

_FEW_LARGE = 64
"""Drafted at most where the vocabulary is large, for each has many outputs."""

_CORE = {(3, (2,)), (3, (1, 2)), (3, (2, 1)), (2, (2, 1)), (4, (2,))}
"""Vocabulary and levels of the instances that a verdict needs, on rich rows."""


def tree_instances(
    scheme: Scheme, max_gamma: int, max_vocab: int, seed: int, shape: TreeShape | None = None
) -> list[SmallModel]:
    """Return the battery of the tree contract, small instances first.

    ``shape``: the one tree that the code is made for; by default many. ``max_gamma``: largest
    depth.
    """
    rng = random.Random(seed)
    models = []
    for vocab, levels in _LEVELS.items():
        families: Sequence[tuple[str, list[Pair]]] = (
            *ROWS.get(vocab, ()),
            *_OWN.get(vocab, ()),
        ) or [(f"random {i + 1}", random_rows(rng, vocab, 5)) for i in range(4)]
        for name, tree, needed in _shapes(vocab, levels, shape):
            for family, pairs in families:
                rich = family in _NODES or vocab not in ROWS
                most = len(tree) if vocab not in ROWS else _NODES.get(family, _FEW_NODES)
                if len(tree) <= most or shape is not None:
                    model = _model(f"{family}, V={vocab}, {name}", pairs, Drafting(tree, scheme))
                    models.append(replace(model, core=needed and rich, family=family))
    models += _large(scheme, rng, shape)
    fitting = [m for m in models if m.gamma <= max_gamma and m.vocab_size <= max_vocab]
    return sorted(fitting, key=lambda m: (most_trees(m), m.gamma, m.name))


def most_trees(model: SmallModel) -> int:
    """Return how many trees can be drafted at most."""
    assert model.drafting is not None
    sampled = len(model.drafting.shape)
    for siblings in model.drafting.shape.children.values():
        sampled -= min(len(siblings), model.drafting.scheme.certain(len(siblings)))
    return int(model.vocab_size**sampled)


def telling_trees(models: Sequence[SmallModel]) -> list[SmallModel]:
    """Return the few of ``models`` on which the catalogued faults of draft trees show.

    Of the core, the smaller ones; where a rule takes no shape of the core, plain chains do.
    """
    small = [m for m in models if most_trees(m) <= _FEW_TREES]
    return [m for m in small if m.core] or [m for m in small if m.family == "plain"]


def _large(scheme: Scheme, rng: random.Random, shape: TreeShape | None) -> Iterator[SmallModel]:
    """Yield the larger vocabularies; for a shape that was named, the largest if trees are few."""
    cases = [(vocab, shape_of_levels(levels), most) for vocab, levels, most in _LARGE]
    if shape is not None:
        cases = [(_LARGE[-1][0], shape, 2)]
    for vocab, tree, most in cases:
        if most ** len(tree) <= _FEW_LARGE:
            name = f"large, V={vocab}, tree of {len(tree)}, drafts of {most}"
            model = _model(name, large_rows(rng, vocab, most), Drafting(tree, scheme))
            yield replace(model, family="large")


def _shapes(
    vocab: int, levels: Sequence[tuple[int, ...]], shape: TreeShape | None
) -> Iterator[tuple[str, TreeShape, bool]]:
    if shape is not None:
        yield f"tree of {len(shape)}", shape, vocab < 4
        return
    for children in levels:
        name = f"tree {','.join(map(str, children))}"
        yield name, shape_of_levels(children), (vocab, children) in _CORE
    if vocab in ROWS:
        for name, parents in _BENT.items():
            yield name, TreeShape(parents), False


def _model(name: str, pairs: Sequence[Pair], drafting: Drafting) -> SmallModel:
    targets, drafts = zip(*pairs, strict=True)
    return SmallModel(name, drafting.shape.depth, targets, drafts, drafting=drafting)
