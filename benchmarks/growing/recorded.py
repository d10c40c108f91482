"""What audits are run on to see how their cost grows: recorded rows, and code to be sampled."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from simverify.models.trace import Manifest, TraceWriter
from simverify.results.compare import Decoding
from simverify.verifiers.token import verify as token_verify

SEED = 20261123
LANES = 4
APART = 0.5
"""Standard deviation of what is added to the target's logits for the draft's."""


def trace(folder: Path, *, vocab: int, gamma: int, blocks: int) -> Path:
    """Record blocks of token verification on random rows, each with rows of its own; once."""
    path = folder / f"trace-{vocab}-{gamma}-{blocks}"
    if path.exists():
        return path
    rng, verify = np.random.default_rng(SEED), token_verify
    none = dict.fromkeys(("top_k", "top_p"), None)
    decoding = Decoding(
        target="random", draft="random", prompts=None, prompts_sha256="0" * 64,
        tokens=2 * blocks, lanes=LANES, request_tokens=2 * blocks, temperature=1.0,
        device="cpu", dtype="float32", **none,
    )  # fmt: skip
    manifest = Manifest(
        version=1, kind="rows", name="random", gamma=gamma, vocab_size=vocab,
        seed=SEED, rules=(), decoding=decoding, versions={}, shards=(),
    )  # fmt: skip
    with TraceWriter(path, manifest) as writer:
        for block in range(blocks):
            target = rng.standard_normal((gamma + 1, vocab), np.float32)
            draft = target + np.float32(APART) * rng.standard_normal(target.shape, np.float32)
            p, q = rows(target), rows(draft)
            drafts = [int(rng.choice(vocab, p=row)) for row in q[:-1]]
            emitted = [int(token) for token in verify(p, q[:-1], np.array(drafts), rng)]
            writer.add(block % LANES, drafts, emitted, target, draft)
        writer.finish()
    return path


def rows(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Probabilities (n, V) of logits (n, V); every row sums to 1."""
    found = np.exp(logits.astype(np.float64))
    return found / found.sum(axis=1, keepdims=True)


def hidden(folder: Path) -> Path:
    """Write token verification whose draws the exact tier cannot follow; its path."""
    path = folder / "hidden.py"
    path.write_text(
        "def verify(p, q, drafts, rng):\n"
        "    coins = [float(str(rng.random())) for _ in range(len(drafts) + 1)]\n"
        "    for i, x in enumerate(drafts):\n"
        "        if coins[i] * q[i][x] >= p[i][x]:\n"
        "            return [*drafts[:i], _draw((p[i] - q[i]).clip(0), coins[-1])]\n"
        "    return [*drafts, _draw(p[-1], coins[-1])]\n"
        "\n"
        "def _draw(weights, coin):\n"
        "    left = coin * sum(weights)\n"
        "    for token, weight in enumerate(weights):\n"
        "        left -= weight\n"
        "        if left < 0:\n"
        "            return token\n"
        "    return token\n"
    )
    return path
