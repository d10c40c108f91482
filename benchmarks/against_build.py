"""Times two installed builds of simverify side by side, whole processes, in pairs A B A B.

``python benchmarks/against_build.py OLD NEW``: the ``bin`` folders of two environments, each with
a build of simverify installed. Both run the same commands on an idle machine. Every ratio is taken
within a pair, so a slower moment of the machine falls on both. ``--only NAME`` runs some of the
commands; ``--help`` lists them. Only the standard library is needed.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TOKEN_RULE = '''
import numpy as np


def verify(target_probs, draft_probs, draft_tokens, rng):
    """Token verification."""
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[token] >= p[token]:
            residual = np.maximum(p - q, 0)
            row = residual / residual.sum()
            return [*draft_tokens[:i], rng.choice(len(row), p=row)]
    return [*draft_tokens, rng.choice(len(target_probs[-1]), p=target_probs[-1])]


def stale(target_probs, draft_probs, draft_tokens, rng):
    """The residual of the row before: wrong."""
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[token] >= p[token]:
            residual = np.maximum(target_probs[i - 1 if i else 0] - draft_probs[0], 0)
            row = residual / residual.sum() if residual.sum() > 0 else p
            return [*draft_tokens[:i], rng.choice(len(row), p=row)]
    return [*draft_tokens, rng.choice(len(target_probs[-1]), p=target_probs[-1])]
'''

TORCH_RULE = '''
import torch


def verify(target_probs, draft_probs, draft_tokens, rng):
    """Token verification in torch."""
    p, q = torch.as_tensor(target_probs), torch.as_tensor(draft_probs)
    tokens = torch.as_tensor(draft_tokens)
    places = torch.arange(len(tokens))
    below = torch.rand(len(tokens), dtype=torch.float64) * q[places, tokens] < p[places, tokens]
    kept = int(below.long().cumprod(0).sum())
    row = p[-1] if kept == len(tokens) else (p[kept] - q[kept]).clamp(min=0)
    return [*tokens[:kept].tolist(), int(torch.multinomial(row / row.sum(), 1))]
'''

HASHED_RULE = '''
import hashlib
import numpy as np
from my_rule import verify as right


def verify(target_probs, draft_probs, draft_tokens, rng):
    """Token verification whose draws pass through a hash, which no audit can follow."""
    seed = hashlib.sha256(str(float(rng.random())).encode()).digest()
    own = np.random.default_rng(int.from_bytes(seed[:8], "big"))
    return right(target_probs, draft_probs, draft_tokens, own)
'''

FIXTURE = """
import my_rule


def test_first(simverify_audit):
    simverify_audit(my_rule.verify, gamma=2, vocab=4)


def test_second(simverify_audit):
    simverify_audit(my_rule.verify, gamma=2, vocab=4)


def test_third(simverify_audit):
    simverify_audit(my_rule.verify, gamma=2, vocab=3)
"""


@dataclass(frozen=True)
class Work:
    """One command and the exit code that it has to have.

    ``cold``: each run begins with an empty cache of compiled kernels. ``kept``: a build that keeps
    verdicts may give one of them; it audits anew elsewhere.
    """

    command: tuple[str, ...]
    code: int = 0
    cold: bool = False
    kept: bool = False


AUDIT = ("--gamma", "2", "--vocab", "4", "--seed", "5", "--quiet")
WORKS = {
    "help": Work(("simverify", "--help")),
    "import": Work(("python", "-c", "import simverify")),
    "audit-numpy": Work(("simverify", "audit", "my_rule.py:verify", "--quiet")),
    "audit-again": Work(("simverify", "audit", "my_rule.py:verify", "--quiet"), kept=True),
    "audit-wrong": Work(("simverify", "audit", "my_rule.py:stale", "--quiet"), code=1),
    "audit-small": Work(("simverify", "audit", "my_rule.py:verify", *AUDIT)),
    "audit-torch": Work(("simverify", "audit", "torch_rule.py:verify", *AUDIT)),
    "audit-tree": Work(("simverify", "audit", "traversal", "--contract", "tree", *AUDIT)),
    "audit-sampled": Work(("simverify", "audit", "hashed_rule.py:verify", *AUDIT)),
    "audit-transformers": Work(("simverify", "audit", "transformers", *AUDIT)),
    "pytest-fixture": Work(("python", "-m", "pytest", "-q", "test_rules.py")),
    "compare": Work(("simverify", "compare", "--gamma", "8", "--quiet")),
    "compare-cold": Work(("simverify", "compare", "--gamma", "8", "--quiet"), cold=True),
    "compare-tree": Work(
        ("simverify", "compare", "--models", "compact", "--tree", "2,1", "--quiet")
    ),
}


@dataclass(frozen=True)
class Cost:
    """What one run took, in seconds by the clock and in seconds of processor time."""

    wall: float
    processor: float


def main() -> int:
    """Run the pairs, print a table, and write the figures as JSON if asked to."""
    parser = argparse.ArgumentParser(description="Time two builds of simverify side by side.")
    parser.add_argument("old", type=Path, help="bin folder of the environment with the old build")
    parser.add_argument("new", type=Path, help="bin folder of the environment with the new build")
    parser.add_argument("--only", action="append", choices=WORKS, help="a work; repeatable")
    parser.add_argument("--pairs", type=int, default=7, help="pairs of runs of each work")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    options = parser.parse_args()
    builds = [options.old.absolute(), options.new.absolute()]
    for build in builds:
        if not (build / "simverify").exists():
            parser.error(f"{build} has no simverify: name the bin folder of an environment")
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'work':20}{'old':>9}{'new':>9}{'clock':>8}{'least':>7}{'most':>7}{'processor':>11}")
    figures = {}
    for name in options.only or WORKS:
        pairs = paired(WORKS[name], builds, options.pairs)
        figures[name] = row = summary(pairs)
        print(
            f"{name:20}{row['old']:8.2f}s{row['new']:8.2f}s{row['wall']:8.2f}{row['least']:7.2f}"
            f"{row['most']:7.2f}{row['processor']:11.2f}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def paired(work: Work, builds: Sequence[Path], pairs: int) -> list[tuple[Cost, Cost]]:
    """Run ``work`` with each build in turn; a first run of each is not counted, unless cold."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in (
            ("my_rule.py", TOKEN_RULE),
            ("torch_rule.py", TORCH_RULE),
            ("hashed_rule.py", HASHED_RULE),
            ("test_rules.py", FIXTURE),
        ):
            (folder / file).write_text(text)
        runs = [runner(work, build, folder / f"cache-{i}") for i, build in enumerate(builds)]
        if not work.cold:
            for run in runs:
                run()
        return [(runs[0](), runs[1]()) for _ in range(pairs)]


def runner(work: Work, build: Path, cache: Path) -> Callable[[], Cost]:
    """Return a function that runs the command of ``work`` once with ``build``."""

    extra = []
    if "audit" in work.command and not work.kept:
        shown = subprocess.run(
            [build / "simverify", "audit", "--help"], capture_output=True, text=True, check=True
        )
        extra = ["--no-cache"] * ("--no-cache" in shown.stdout)

    def run() -> Cost:
        kernels = Path(tempfile.mkdtemp(dir=cache.parent)) if work.cold else cache
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [build / work.command[0], *work.command[1:], *extra],
            cwd=cache.parent,
            env=os.environ | {"SIMVERIFY_CACHE_DIR": str(kernels)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if done.returncode != work.code:
            command = " ".join(map(str, done.args))
            sys.exit(f"{command} ends with {done.returncode}: expected {work.code}")
        return Cost(wall, used)

    return run


def summary(pairs: Sequence[tuple[Cost, Cost]]) -> dict[str, float]:
    """Return median seconds of both, and the ratios new to old: median, least and most."""
    walls = [new.wall / old.wall for old, new in pairs]
    return {
        "old": statistics.median(old.wall for old, _ in pairs),
        "new": statistics.median(new.wall for _, new in pairs),
        "wall": statistics.median(walls),
        "least": min(walls),
        "most": max(walls),
        "processor": statistics.median(new.processor / old.processor for old, new in pairs),
    }


if __name__ == "__main__":
    sys.exit(main())
