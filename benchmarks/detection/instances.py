"""The instances: seeded rows p and q, kept beside the figures that were measured on them.

``python benchmarks/detection/instances.py`` writes ``instances.json``. Small rows stand there
whole; large ones as a seed and the SHA-256 of what it must give, because 152k columns would
fill megabytes. A file that does not fit the code is refused.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float64]
Prefix = tuple[int, ...]

FILE = Path(__file__).with_name("instances.json")
SMALL = "V = 8, gamma = 2"
LARGE = "V = 151,936"
DISTINCT = "V = 5,000, distinct contexts"

SEEDS = {SMALL: 8, LARGE: 151_936, DISTINCT: 5_000}
SHAPES = {LARGE: (2, 151_936), DISTINCT: (1_024, 5_000)}
SPREAD = {LARGE: (2.5, 0.6), DISTINCT: (2.0, 1.0)}
"""Standard deviations of the target's logits, and of what the draft's logits add to them."""


@dataclass(frozen=True, eq=False)
class Tables:
    """Target and draft rows after every prefix of up to ``gamma`` tokens.

    ``target`` and ``draft``: float64 (contexts, V), rows sum to 1; contexts are the prefixes in
    the order of ``prefixes``: none, one token, two tokens. The draft's row after gamma tokens
    is never sampled from; tests may order by it.
    """

    gamma: int
    target: Rows
    draft: Rows

    @property
    def vocab_size(self) -> int:
        return self.target.shape[1]

    def index(self, prefix: Prefix) -> int:
        """Row of ``prefix``."""
        below = sum(self.vocab_size**depth for depth in range(len(prefix)))
        rank = 0
        for token in prefix:
            rank = rank * self.vocab_size + token
        return below + rank

    def along(self, block: Prefix) -> tuple[Rows, Rows]:
        """Target rows (len+1, V) and draft rows (len, V) along a drafted block."""
        at = [self.index(block[:i]) for i in range(len(block) + 1)]
        return self.target[at], self.draft[at[:-1]]

    def flat(self) -> "Tables":
        """Return the first row after every prefix, as tests with one row for all see it."""
        shape = self.target.shape
        return Tables(
            self.gamma,
            np.broadcast_to(self.target[0], shape).copy(),
            np.broadcast_to(self.draft[0], shape).copy(),
        )


def small() -> Tables:
    """Rows that depend on the whole prefix, each Dirichlet(1) on its own."""
    gamma, vocab = 2, 8
    rng = np.random.Generator(np.random.PCG64(SEEDS[SMALL]))
    contexts = sum(vocab**depth for depth in range(gamma + 1))
    return Tables(gamma, *(rng.dirichlet(np.ones(vocab), contexts) for _ in range(2)))


def large(name: str) -> tuple[Rows, Rows]:
    """Target and draft rows (contexts, V): softmax of normal logits, the draft's with noise."""
    rng = np.random.Generator(np.random.PCG64(SEEDS[name]))
    wide, narrow = SPREAD[name]
    logits = wide * rng.standard_normal(SHAPES[name])
    noisy = logits + narrow * rng.standard_normal(SHAPES[name])
    return _softmax(logits), _softmax(noisy)


def load_small() -> Tables:
    """Read the small instance."""
    kept = json.loads(FILE.read_text())[SMALL]
    return Tables(kept["gamma"], np.array(kept["target"]), np.array(kept["draft"]))


def load_large(name: str) -> tuple[Rows, Rows]:
    """Make a large instance; ``RuntimeError`` if it is not the one that the file names."""
    kept, rows = json.loads(FILE.read_text())[name], large(name)
    if (digest := _digest(*rows)) != kept["sha256"]:
        raise RuntimeError(
            f"{name}: the seed gives rows {digest}, instances.json has {kept['sha256']}: use "
            "the numpy that wrote it, or write it again"
        )
    return rows


def document() -> dict[str, Any]:
    """What ``instances.json`` holds."""
    tables = small()
    large_ones = {
        name: {"seed": SEEDS[name], "shape": SHAPES[name], "sha256": _digest(*large(name))}
        for name in SHAPES
    }
    return {
        SMALL: {
            "seed": SEEDS[SMALL],
            "gamma": tables.gamma,
            "prefixes": "none, then one token, then two tokens, in the order of their ids",
            "target": tables.target.tolist(),
            "draft": tables.draft.tolist(),
        },
        **large_ones,
    }


def _softmax(logits: Rows) -> Rows:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    rows: Rows = weights / weights.sum(axis=1, keepdims=True)
    return rows


def _digest(*rows: Rows) -> str:
    # Of rounded logs: the last bits of exp differ between machines.
    hashed = hashlib.sha256()
    for array in rows:
        hashed.update(np.round(np.log(array), 3).astype("<f4").tobytes())
    return hashed.hexdigest()


if __name__ == "__main__":
    FILE.write_text(json.dumps(document()) + "\n")
