"""Draft trees as engines lay them out: flat and batched, by links between slots or a mask.

Slot 0 of a row is the root, the last token that is settled, and slot i+1 is node i.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.engines.adapting.adapt import Signature, unpadded
from simverify.errors import UsageError
from simverify.trees import DraftTree, Scheme, TreeShape

Tree = Callable[[Any, Any, Any, Any, Any], Any]
"""``tree(target_probs, draft_probs, tokens, parents, rng) -> tokens``."""

NONE = -1
"""No slot: what a link to nowhere holds."""


@dataclass(frozen=True, eq=False)
class TreeBatch:
    """Draft trees in the layouts of engines, as arrays of one kind and precision.

    A row of ``size`` slots for each of the B trees; what an engine takes is picked by name. Arrays
    are made anew for every call, so that they may be written into.

    Attributes
    ----------
    target_probs, draft_probs
        Floats (B, size, V), or their logarithms: row s follows slot s. ``draft_probs`` may be None.
    signature
        Whether the arrays are numpy's or torch's, their precision, and whether they are logits.
    """

    tokens: Ints
    shapes: tuple[TreeShape, ...]
    target: Floats
    draft: Floats | None
    signature: Signature

    @property
    def size(self) -> int:
        """Slots of a row: nodes and the root."""
        return int(self.tokens.shape[1]) + 1

    @cached_property
    def target_probs(self) -> Any:
        """The target's rows (B, size, V)."""
        return self.signature.rows(self.target)

    @cached_property
    def draft_probs(self) -> Any:
        """The draft's rows (B, size, V), or None."""
        return None if self.draft is None else self.signature.rows(self.draft)

    @cached_property
    def candidates(self) -> Any:
        """Tokens (B, size); 0 in slot 0, for a rule is not told the token before the tree."""
        return self._integers(np.pad(self.tokens, ((0, 0), (1, 0))))

    @cached_property
    def parents(self) -> Any:
        """Slot of the parent (B, size), -1 for the root."""
        return self._integers([[NONE, *(p + 1 for p in shape.parents)] for shape in self.shapes])

    @cached_property
    def depths(self) -> Any:
        """Depth of each slot (B, size), 0 for the root: positions behind the prefix."""
        return self._integers([[0, *shape.depths] for shape in self.shapes])

    @cached_property
    def retrieve_index(self) -> Any:
        """Number of each slot among all slots of the batch (B, size)."""
        return self._integers(np.arange(len(self.shapes) * self.size).reshape(-1, self.size))

    @cached_property
    def retrieve_next_token(self) -> Any:
        """Slot of the first child (B, size), -1 for a leaf."""
        return self._integers([_first_children(shape) for shape in self.shapes])

    @cached_property
    def retrieve_next_sibling(self) -> Any:
        """Slot of the next sibling (B, size), -1 for the last."""
        return self._integers([_next_siblings(shape) for shape in self.shapes])

    @cached_property
    def mask(self) -> Any:
        """Bool (B, size, size): whether slot i sees slot j, its ancestor or itself."""
        return self.signature.array([_mask(shape) for shape in self.shapes], "bool")

    def emitted(self, accept_index: Any, predicts: Any) -> list[list[int]]:
        """Return what kernels say by slots as rows of tokens.

        ``accept_index`` int (B, D): the kept slots by their number in the batch, the root first,
        -1 behind them; ``predicts`` int (B * size,): the token after each of them.
        """
        slots = accept_index.tolist() if hasattr(accept_index, "tolist") else accept_index
        return [[int(predicts[slot]) for slot in row if slot != NONE] for row in slots]

    def _integers(self, values: Any) -> Any:
        return self.signature.array(values, "int64")


def as_tree(function: Callable[..., Any], signature: Signature) -> Tree:
    """Return a rule for draft trees that calls ``function(batch[, source])`` on one tree.

    ``batch`` is a :class:`TreeBatch` of one, and ``source`` what ``signature.randomness`` passes,
    of coins (B, size). It returns tokens (B, depth + 1) padded with -1, lists of tokens, or
    (tokens, num_emitted). What it returns is only freed of its padding: a wrong result is the
    audit's to find.

    Raises ``UsageError`` for a signature without a batch axis.
    """
    if not signature.batched:
        raise UsageError("batched=False: draft trees come with a batch axis, of one tree")

    def tree(target_probs: Any, draft_probs: Any, tokens: Any, parents: Any, rng: Any) -> Any:
        batch = TreeBatch(
            np.array(tokens, dtype=np.int64)[None],
            (TreeShape(tuple(int(parent) for parent in parents)),),
            np.array(target_probs, dtype=np.float64)[None],
            None if draft_probs is None else np.array(draft_probs, dtype=np.float64)[None],
            signature,
        )
        return unpadded(function(batch, *signature.source(rng, (1, batch.size))), batched=True)

    tree.__name__ = getattr(function, "__name__", "tree")
    return tree


def tree_of_links(
    candidates: npt.ArrayLike,
    next_token: npt.ArrayLike,
    next_sibling: npt.ArrayLike,
    scheme: Scheme,
) -> DraftTree:
    """Return the tree that an engine's links between slots describe, int (size,) each.

    ``next_token``: the slot of the first child, ``next_sibling``: that of the next sibling, -1
    for none.

    Raises ``UsageError`` for links that make no tree: to no slot, in a circle, or past a slot.
    """
    tokens = _row("candidates", candidates)
    first, following = _row("next_token", next_token), _row("next_sibling", next_sibling)
    for name, links in (("next_token", first), ("next_sibling", following)):
        if len(links) != len(tokens):
            raise UsageError(
                f"{name} has {len(links)} slots: expected {len(tokens)}, as candidates"
            )
    parents: dict[int, int] = {}
    for slot in range(len(tokens)):
        child, before = first[slot], slot
        while child != NONE:
            if not before < child < len(tokens):
                raise UsageError(
                    f"slot {before} is linked to slot {child}: expected a later one, below "
                    f"{len(tokens)}, or -1"
                )
            if child in parents:
                raise UsageError(
                    f"slot {child} is a child of slot {parents[child]} and of slot {slot}: a tree "
                    "has one way to each slot"
                )
            parents[child] = slot
            child, before = following[child], child
    missing = [slot for slot in range(1, len(tokens)) if slot not in parents]
    if missing:
        raise UsageError(f"no link leads to slot {missing[0]}: expected one to every slot but 0")
    shape = TreeShape(tuple(parents[slot] - 1 for slot in range(1, len(tokens))))
    return DraftTree(shape, tuple(tokens[1:]), scheme)


def tree_of_mask(candidates: npt.ArrayLike, mask: npt.ArrayLike, scheme: Scheme) -> DraftTree:
    """Return the tree that an ancestor mask bool (size, size) describes.

    ``mask[i, j]``: whether slot i sees slot j, its ancestor or itself. Raises ``UsageError``
    where what a slot sees is not what its parent sees and itself.
    """
    tokens, seen = _row("candidates", candidates), np.asarray(mask) != 0
    if seen.shape != (len(tokens), len(tokens)):
        raise UsageError(
            f"the mask has shape {seen.shape}: expected {(len(tokens), len(tokens))}, as candidates"
        )
    parents = []
    for slot, row in enumerate(seen):
        above = np.flatnonzero(row[:slot])
        due = np.zeros(len(tokens), dtype=bool)
        if len(above):
            due |= seen[above[-1]]
        due[slot] = True
        if (row != due).any() or (slot > 0) != bool(len(above)):
            raise UsageError(
                f"slot {slot} sees the slots {np.flatnonzero(row).tolist()}: expected itself and "
                "what its parent, an earlier slot, sees"
            )
        if slot:
            parents.append(int(above[-1]) - 1)
    return DraftTree(TreeShape(tuple(parents)), tuple(tokens[1:]), scheme)


def _row(name: str, values: npt.ArrayLike) -> list[int]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) < 2:
        raise UsageError(
            f"{name} is {array.dtype} {array.shape}: expected integers (size,), the root and one "
            "node or more"
        )
    row: list[int] = array.tolist()
    return row


def _first_children(shape: TreeShape) -> list[int]:
    return [min(shape.children[node], default=NONE - 1) + 1 for node in range(-1, len(shape))]


def _next_siblings(shape: TreeShape) -> list[int]:
    links = [NONE] * (len(shape) + 1)
    for children in shape.children.values():
        for child, following in itertools.pairwise(children):
            links[child + 1] = following + 1
    return links


def _mask(shape: TreeShape) -> npt.NDArray[np.bool_]:
    mask = np.eye(len(shape) + 1, dtype=bool)
    mask[:, 0] = True
    for node in range(len(shape)):
        mask[node + 1, [above + 1 for above in shape.way(node)]] = True
    return mask
