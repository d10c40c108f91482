"""Instances of draft trees, and for drafters, on either side of the numbers in the code.

A literal 7 may be a limit of the vocabulary, of a token's id, of the children of a node, of the
nodes of a tree, of its depth or, for a drafter, of the prefix. Rows of few tokens keep the trees
few.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from simverify.auditing.exact.instances.hinted import Hints, of_part
from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.instances.rows import Weights
from simverify.trees import ROOT, Drafting, Scheme, TreeShape, shape_of_levels

Drafts = Literal["tree", "draft"]

MOST_TREES = 600
"""Trees of an instance at most, where each of them has a probability."""

_USUAL = (2, 3, 4)
"""Children of the root beside those that a number asks for, where the vocabulary is what it is."""

_DEPTHS = 8

_SMALL = 4
"""Nodes of a tree, at most, for rows around a fraction, which are many."""


def hinted_trees(
    hints: Hints, scheme: Scheme, contract: Drafts, shape: TreeShape | None = None
) -> list[SmallModel]:
    """Return the instances; ``shape``: the one tree that the code is made for."""
    found: dict[tuple[object, ...], SmallModel] = {}
    for model in _instances(hints, scheme, contract, shape):
        found.setdefault((model.targets, model.drafts, model.drafting, model.prompt), model)
    return list(found.values())


def _instances(
    hints: Hints, scheme: Scheme, contract: Drafts, shape: TreeShape | None
) -> Iterator[SmallModel]:
    shapes = [shape] if shape is not None else _shapes(hints)
    for tree in shapes:
        yield from _of_shape(tree, scheme)
    for vocab, near in _vocabularies(hints):
        wide = dict.fromkeys((*_USUAL, *hints.counts))
        few = [shape] if shape is not None else [shape_of_levels([k]) for k in wide if k < vocab]
        for tree in few:
            yield from _of_vocabulary(vocab, near, Drafting(tree, scheme))
    pair = shape or shape_of_levels([2])
    if len(pair) <= _SMALL:
        for row in (row for x in hints.parts for row in of_part(x)):
            yield replace(row, gamma=pair.depth, drafting=Drafting(pair, scheme))
    if contract == "draft":
        for k in hints.lengths:
            after = _model(f"after {k} tokens", (((2, 3), (3, 1)),), _chain(1), scheme)
            yield replace(after, prompt=tuple(x % 2 for x in range(k)))


def _vocabularies(hints: Hints) -> Iterator[tuple[int, int]]:
    """Yield V with the id that rows are put around: below, at and above each number."""
    for k in hints.counts:
        yield k, k - 1
        yield k + 1, k
    for k in hints.sizes:
        yield k + 2, k


def _shapes(hints: Hints) -> list[TreeShape]:
    """Return chains, siblings, and two chains of so many nodes, for each number and the next."""
    found: list[TreeShape] = []
    for k in sorted({near for count in hints.counts for near in (count, count + 1)}):
        found += [_chain(k)] if k <= _DEPTHS else []
        found.append(shape_of_levels([k]))
        # Node i follows the one two before: two chains, and a node more of the first if odd.
        found.append(TreeShape(tuple(ROOT if i < 2 else i - 2 for i in range(k))))
        found.append(TreeShape((ROOT, *(0,) * k)))
    return list(dict.fromkeys(found))


def _chain(depth: int) -> TreeShape:
    return shape_of_levels([1] * depth)


def _of_shape(shape: TreeShape, scheme: Scheme) -> Iterator[SmallModel]:
    """Yield rows of two tokens, certain ones where trees are many; of more where they differ."""
    widest = max(len(children) for children in shape.children.values())
    name = f"around {len(shape)} nodes"
    if scheme.replaced or widest < 3:
        plain = (((1, 2), (2, 1)), ((3, 1), (1, 3)), ((2, 3), (3, 1)))
        sparse = (((2, 1), (0, 1)), ((1, 3), (1, 1)), ((3, 2), (1, 0)))
        few = 2 ** len(shape) <= MOST_TREES
        yield _model(name, plain if few else sparse, shape, scheme)
        return
    row = tuple(1 + (3 * x) % 4 for x in range(widest))
    if _trees(shape, scheme, widest) <= MOST_TREES:
        yield _model(name, ((row[::-1], row),), shape, scheme)


def _of_vocabulary(vocab: int, near: int, drafting: Drafting) -> Iterator[SmallModel]:
    """Yield rows on a few ids around one, more where siblings have to differ."""
    shape, scheme = drafting.shape, drafting.scheme
    most = max(len(children) for children in shape.children.values())
    ids = {0, near, max(near - 1, 0), vocab - 1}
    if not scheme.replaced:
        ids |= set(range(min(vocab, most)))
    p, q = [0] * vocab, [0] * vocab
    for place, token in enumerate(sorted(ids)):
        p[token], q[token] = 1 + (3 * place) % 5, 1 + (2 * place + 1) % 4
    pairs = ((tuple(p), tuple(q)), (tuple(q), tuple(p)))
    if _trees(shape, scheme, len(ids)) <= MOST_TREES:
        yield _model(f"around {near}, V={vocab}", pairs, shape, scheme)


def _trees(shape: TreeShape, scheme: Scheme, tokens: int) -> int:
    """Return how many trees there are at most where a row of the draft holds so many tokens."""
    count = 1
    for children in shape.children.values():
        sampled = len(children) - min(len(children), scheme.certain(len(children)))
        sampled = min(sampled, tokens) if not scheme.replaced else sampled
        count *= tokens**sampled if scheme.replaced else math.perm(tokens, sampled)
    return count


def _model(
    name: str, pairs: tuple[tuple[Weights, Weights], ...], shape: TreeShape, scheme: Scheme
) -> SmallModel:
    targets, drafts = zip(*pairs, strict=True)
    vocab = len(targets[0])
    name = f"{name}, V={vocab}, {shape.words()}" if "V=" not in name else f"{name}, {shape.words()}"
    return SmallModel(name, shape.depth, targets, drafts, drafting=Drafting(shape, scheme))
