"""A recording that was killed: the blocks of its shards, up to the last round that is whole."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.errors import UsageError

BEGUN = ".begun.json"
"""File that says how a recording is made while it is not finished."""


@dataclass(frozen=True, eq=False)
class Begun:
    """A shard that is there: its file, its bytes, and its arrays."""

    path: Path
    data: bytes
    arrays: dict[str, npt.NDArray[Any]]

    @property
    def emitted(self) -> list[tuple[int, ...]]:
        """Tokens of each block."""
        return [tuple(own[own >= 0].tolist()) for own in self.arrays["emitted"]]


def begun_shards(folder: Path) -> list[Begun]:
    """Return the shards of a recording that was killed, in order.

    Raises ``UsageError`` if one cannot be read.
    """
    from safetensors.numpy import load

    found = []
    for path in sorted(folder.glob("shard-*.safetensors")):
        try:
            data = path.read_bytes()
            found.append(Begun(path, data, load(data)))
        except Exception as error:
            raise UsageError(
                f"trace: {path} of an unfinished recording cannot be read ({error}): delete the "
                f"folder to begin anew"
            ) from None
    return found


def rounds_of(shards: Sequence[Begun], lanes: int, lane_tokens: int) -> tuple[int, int]:
    """Return how many rounds are whole, and how many blocks stand behind the last of them.

    In a round each lane that has not emitted its tokens yet adds a block.
    """
    counts: Counter[int] = Counter()
    emitted: Counter[int] = Counter()
    order: list[tuple[int, int]] = []
    for shard in shards:
        for lane, own in zip(shard.arrays["lane"].tolist(), shard.emitted, strict=True):
            order.append((lane, counts[lane]))
            counts[lane] += 1
            emitted[lane] += len(own)
    going = [counts[lane] for lane in range(lanes) if emitted[lane] < lane_tokens]
    rounds = min(going, default=max(counts.values(), default=0))
    return rounds, sum(number >= rounds for _, number in order)


def waiting_blocks(shard: Begun, most: int) -> list[tuple[Any, ...]]:
    """Return the first blocks of a shard as a writer holds them."""
    arrays = shard.arrays
    return [
        (
            int(arrays["lane"][i]), tuple(arrays["drafts"][i].tolist()), shard.emitted[i],
            np.array(arrays["target"][i]), np.array(arrays["draft"][i]),
        )
        for i in range(most)
    ]  # fmt: skip
