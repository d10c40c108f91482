"""What is run to see how cost grows, and how fast it may grow at most."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simverify.models.real.trace import Manifest
from simverify.models.real.trace_writer import TraceWriter
from simverify.results.comparison import Decoding
from simverify.verifiers.token import verify as token_verify

SEED = 20261123
GAMMA = 8
VOCABULARIES = (3, 16, 64, 256, 1024, 4096, 16_384, 65_536, 151_936)
TRACE_BLOCKS = 60
TRACE_GAMMA = 3
LANES = 4


@dataclass(frozen=True)
class Axis:
    """Commands that differ in one number; ``values`` ascend.

    ``time`` and ``memory`` are the largest powers of that number with which processor time and
    peak memory may grow; None where nothing is promised, since the work itself grows: an exact
    audit runs as many paths as there are, up to its budget.
    """

    name: str
    values: tuple[float, ...]
    command: Callable[[float, Path], Sequence[str]]
    time: float | None
    memory: float | None


def axes(quick: bool) -> Iterator[Axis]:
    """Yield what is measured, a few small sizes of each if ``quick``."""
    blocks = 1_000 if quick else 300_000

    def short(values: tuple[float, ...], few: int = 2) -> tuple[float, ...]:
        return values[:few] if quick else values

    def compare(models: str, *more: str) -> list[str]:
        return ["compare", "--models", models, "--threads", "1", "--seed", str(SEED), *more]

    def sized(model: str, rules: str, gamma: float, *more: str) -> list[str]:
        text = ("--gamma", f"{gamma:.0f}", "--blocks", str(blocks))
        return compare(model, "--verifiers", rules, *text, *more)

    yield Axis(
        "compare: blocks",
        (1_000, 4_000) if quick else (10**5, 10**6, 10**7, 10**8),
        lambda x, _: compare(
            "markov-64", "--verifiers", "block", "--gamma", str(GAMMA), "--blocks", f"{x:.0f}"
        ),
        time=1,
        memory=0,
    )
    yield Axis(
        "compare: vocabulary",
        short(VOCABULARIES, 3),
        lambda x, _: sized(f"markov-{x:.0f}", "token,block", GAMMA),
        time=1,
        memory=1,
    )
    yield Axis(
        "compare: gamma",
        short((1, 2, 4, 8, 16, 32, 64)),
        lambda x, _: sized("markov-64", "token,block", x),
        time=1,
        memory=1,
    )
    yield Axis(
        "compare: drafts",
        short((1, 2, 4, 8, 16)),
        lambda x, _: sized("markov-64", "recursive", 4, "--drafts", f"{x:.0f}"),
        time=1,
        memory=1,
    )
    yield Axis(
        "compare: models",
        short((1, 2, 4, 8, 16)),
        lambda x, _: sized(",".join(f"markov-{256 - i}" for i in range(int(x))), "token", GAMMA),
        time=1,
        memory=1,
    )
    yield Axis(
        "compare: threads",
        (1, 2),
        lambda x, _: [
            *("compare", "--models", "markov-64", "--verifiers", "block", "--seed", str(SEED)),
            *("--gamma", str(GAMMA), "--blocks", str(100 * blocks), "--threads", f"{x:.0f}"),
        ],
        time=0,
        memory=0,
    )
    yield Axis(
        "sweep: workers",
        (1, 2),
        lambda x, folder: [
            *("sweep", "--models", "markov-64", "--verifiers", "token,block", "--gamma", "4,8"),
            *("--blocks", str(50 * blocks), "--workers", f"{x:.0f}"),
            *("--out", str(folder / "sweep")),
        ],
        time=None,  # each worker takes a second or two to start
        memory=0,
    )
    yield Axis(
        "audit, exact: vocabulary",
        short((2, 3, 4, 6, 8, 12), 3),
        lambda x, _: ["audit", "token", "--gamma", "3", "--vocab", f"{x:.0f}"],
        time=None,
        memory=None,
    )
    yield Axis(
        "audit, exact: gamma",
        short((1, 2, 3, 4), 3),
        lambda x, _: ["audit", "token", "--gamma", f"{x:.0f}", "--vocab", "4"],
        time=None,
        memory=None,
    )
    yield Axis(
        "audit, sampled: 1 / deviation to find",
        (5, 10) if quick else (12.5, 25, 50, 100, 200),
        lambda x, folder: [
            "audit", f"{hidden(folder)}:verify", "--gamma", "2", "--vocab", "4", "--seconds", "600",
            "--detect", f"{1 / x:g}",
        ],
        time=2,
        memory=2,
    )  # fmt: skip
    yield Axis(
        "audit, recorded rows: vocabulary",
        short(VOCABULARIES[1:], 3),
        lambda x, folder: [
            "audit", "token", "--trace", str(trace(folder, int(x))), "--detect", ".99",
        ],
        time=1,
        memory=1,
    )  # fmt: skip


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


def trace(folder: Path, vocab_size: int) -> Path:
    """Record blocks of token verification on random rows, each with rows of its own."""
    path = folder / f"trace-{vocab_size}"
    rng, verify = np.random.default_rng(SEED), token_verify
    none = dict.fromkeys(("top_k", "top_p"), None)
    decoding = Decoding(
        target="random", draft="random", prompts=None, prompts_sha256="0" * 64,
        tokens=TRACE_BLOCKS, lanes=LANES, request_tokens=TRACE_BLOCKS, temperature=1.0,
        device="cpu", dtype="float32", **none,
    )  # fmt: skip
    manifest = Manifest(
        version=1, kind="rows", name="random", gamma=TRACE_GAMMA, vocab_size=vocab_size,
        seed=SEED, rules=(), decoding=decoding, versions={}, shards=(),
    )  # fmt: skip
    with TraceWriter(path, manifest) as writer:
        for block in range(TRACE_BLOCKS):
            target = rng.standard_normal((TRACE_GAMMA + 1, vocab_size)).astype(np.float32)
            draft = target + rng.standard_normal(target.shape).astype(np.float32) / 2
            p, q = _rows(target), _rows(draft)
            drafts = [int(rng.choice(vocab_size, p=row)) for row in q[:-1]]
            emitted = [int(token) for token in verify(p, q[:-1], np.array(drafts), rng)]
            writer.add(block % LANES, drafts, emitted, target, draft)
        writer.finish()
    return path


def _rows(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    rows = np.exp(logits.astype(np.float64))
    return rows / rows.sum(axis=1, keepdims=True)
