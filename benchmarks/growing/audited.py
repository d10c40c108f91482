"""How the cost of audits may grow."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

from growing.axis import Axis
from growing.compared import VOCABULARIES
from growing.recorded import hidden, trace

BLOCKS = 60
LIVE_TOKENS = 500


def audited(quick: bool) -> Iterator[Axis]:
    """Yield what is measured of audit, two small sizes of each if ``quick``."""

    def recorded(folder: Path, vocab: float, gamma: float = 3, blocks: float = BLOCKS) -> list[str]:
        path = trace(folder, vocab=int(vocab), gamma=int(gamma), blocks=int(blocks))
        return ["audit", "token", "--trace", str(path), "--detect", ".99"]

    def live(spec: str, tokens: int, *more: str) -> list[str]:
        few = tokens // 10 if quick else tokens
        return [
            *("audit", spec, "--target", "tiny-llama", "--tokens", str(few)),
            *("--threads", "1", *more),
        ]

    exact = "paths are followed up to a budget, on instances whose number is fixed"
    yield Axis(
        "audit, exact: vocabulary",
        (2, 3, 12),
        lambda x, _: ["audit", "token", "--gamma", "3", "--vocab", f"{x:.0f}"],
        time=1, memory=0, why=exact,
    )  # fmt: skip
    yield Axis(
        "audit, exact: gamma",
        (1, 2, 4),
        lambda x, _: ["audit", "token", "--gamma", f"{x:.0f}", "--vocab", "4"],
        time=1, memory=0, why=exact,
    )  # fmt: skip
    yield Axis(
        "audit, exact: drafts",
        (1, 2, 4),
        lambda x, _: ["audit", "k-seq", "--tree", f"{x:.0f},1", "--vocab", "2"],
        time=1, memory=0, why=exact,
    )  # fmt: skip
    yield Axis(
        "audit, sampled: 1 / deviation to find",
        (5, 10) if quick else (12.5, 25, 50, 200),
        lambda x, folder: [
            "audit", f"{hidden(folder)}:verify", "--gamma", "2", "--vocab", "4", "--seconds", "600",
            "--detect", f"{1 / x:g}",
        ],
        time=2, memory=2, why="calls grow with the square, and their tokens are kept",
    )  # fmt: skip
    yield Axis(
        "audit, recorded rows: vocabulary",
        VOCABULARIES,
        lambda x, folder: recorded(folder, x),
        time=1, memory=1, why="every row is read; those of a few blocks are there at a time",
    )  # fmt: skip
    yield Axis(
        "audit, recorded rows: gamma",
        (1, 2, 8, 32),
        lambda x, folder: recorded(folder, 64 if quick else 65_536, x),
        time=1, memory=1, why="a block has gamma + 1 rows of the target",
    )  # fmt: skip
    yield Axis(
        "audit, recorded rows: blocks",
        (60, 120) if quick else (4_000, 8_000, 32_000),  # each more than a shard
        lambda x, folder: recorded(folder, 16 if quick else 1_024, blocks=x),
        time=1, memory=0, why="a shard of 64 MB is read at a time, and sums stay",
    )  # fmt: skip
    yield Axis(
        "audit, real models: gamma",
        (1, 8, 32),
        lambda x, _: live("token", LIVE_TOKENS, "--gamma", f"{x:.0f}"),
        time=1, memory=1, why="a call drafts gamma tokens, whose rows it holds",
    )  # fmt: skip
    yield Axis(
        "audit, real models: drafts",
        (1, 4, 16),
        lambda x, _: live("k-seq", LIVE_TOKENS, "--tree", f"{x:.0f},1,1"),
        time=1, memory=1, why="every node of the tree is drafted and has rows",
    )  # fmt: skip
    yield Axis(
        "sweep: audits",
        (1, 2, 4),
        lambda x, folder: [
            *("sweep", "--audits", "token", "--audit-gamma", "1", "--workers", "1"),
            *("--seeds", ",".join(map(str, range(int(x)))), "--out", mkdtemp(dir=folder)),
        ],
        time=1, memory=0, why="each is a process of its own, one after the other",
    )  # fmt: skip
