"""How the cost of comparisons and sweeps may grow."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

from growing.axis import Axis
from growing.recorded import SEED

GAMMA = 8
VOCABULARIES = (3, 256, 4096, 32_768, 151_936)


def compared(quick: bool) -> Iterator[Axis]:
    """Yield what is measured of compare and sweep, two small sizes of each if ``quick``."""
    blocks = 1_000 if quick else 300_000

    def compare(models: str, rules: str, gamma: float, *more: str, threads: float = 1) -> list[str]:
        return [
            *("compare", "--models", models, "--verifiers", rules, "--gamma", f"{gamma:.0f}"),
            *("--threads", f"{threads:.0f}", "--seed", str(SEED)),
            *(more if "--blocks" in more else ("--blocks", str(blocks), *more)),
        ]

    def sweep(folder: Path, workers: float, executor: str = "processes") -> list[str]:
        return [
            *("sweep", "--models", "markov-64", "--verifiers", "token,block", "--gamma", "4,8"),
            *("--blocks", str(10 * blocks), "--workers", f"{workers:.0f}"),
            *("--executor", executor, "--out", mkdtemp(dir=folder)),
        ]

    yield Axis(
        "compare: blocks",
        (1_000, 4_000) if quick else (10**5, 10**6, 10**7, 4 * 10**7),
        lambda x, _: compare("markov-64", "block", GAMMA, "--blocks", f"{x:.0f}"),
        time=1, memory=0, why="blocks are counted, and counts stay",
    )  # fmt: skip
    yield Axis(
        "compare: vocabulary",
        VOCABULARIES,
        lambda x, _: compare(f"markov-{x:.0f}", "block", GAMMA),
        time=1, memory=1, why="rows and their tables have V entries",
    )  # fmt: skip
    yield Axis(
        "compare: gamma",
        (1, 2, 8, 32),
        lambda x, _: compare("markov-64", "token,block", x),
        time=1, memory=1, why="a block drafts gamma tokens, and positions are counted apart",
    )  # fmt: skip
    yield Axis(
        "compare: drafts",
        (1, 2, 4, 16),
        lambda x, _: compare("markov-64", "recursive", 4, "--drafts", f"{x:.0f}"),
        time=1, memory=1, why="a tree drafts that many tokens a level",
    )  # fmt: skip
    yield Axis(
        "compare: models",
        (1, 2, 4),
        lambda x, _: compare(",".join(f"markov-{256 - i}" for i in range(int(x))), "token", GAMMA),
        time=1, memory=0, why="one after the other; of each a row of the document stays",
    )  # fmt: skip
    yield Axis(
        "compare: threads",
        (1, 2, 4),
        lambda x, _: compare(
            "markov-64", "block", GAMMA, "--blocks", str(50 * blocks), threads=x
        ),
        time=0, memory=0, why="threads share the blocks and the tables",
    )  # fmt: skip
    yield Axis(
        "sweep: workers, processes",
        (1, 2, 8),
        lambda x, folder: sweep(folder, x),
        time=1, memory=1, largest=0, why="each worker starts, and has tables of its own",
    )  # fmt: skip
    yield Axis(
        "sweep: workers, Dask",
        (1, 2) if quick else (1, 2, 8),
        lambda x, folder: sweep(folder, x, "dask"),
        time=1, memory=1, largest=0, why="each worker starts, and has tables of its own",
    )  # fmt: skip
