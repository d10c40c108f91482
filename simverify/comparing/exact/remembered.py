"""What was worked out of a Markov pair's rows, for whoever asks for the same once more.

A sweep judges one model at every seed and with every rule, and its exact curves are most of what
that takes. Rows are arrays that their owner may change, so that it is by their content that what
was found is kept.
"""

from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Any, TypeVar

from simverify.models.base import MarkovModel

KEPT = 256
"""Results kept, of a few kilobytes each; the oldest goes first."""

_Found = TypeVar("_Found")
_found: dict[Hashable, Any] = {}


def once(model: MarkovModel, what: Hashable, work: Callable[[], _Found]) -> _Found:
    """Return what ``work`` finds of ``model``, from memory where these rows were asked before.

    ``what`` tells it from all else that is asked of the same rows; the work is to follow from
    both alone.
    """
    key = what, model.rational, _digest(model)
    if key not in _found:
        found = work()
        if len(_found) >= KEPT:
            _found.pop(next(iter(_found)), None)
        _found[key] = found
    return _found[key]


def _digest(model: MarkovModel) -> bytes:
    digest = blake2b(digest_size=32)
    for rows in (model.target_start, model.target_rows, model.draft_start, model.draft_rows):
        digest.update(repr((rows.shape, rows.dtype.str)).encode())
        digest.update(rows.tobytes())
    return digest.digest()
