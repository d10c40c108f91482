"""The README's samples beside what the commands print; run it to write them anew.

A sample is a ``text`` block after a line ``<!-- prints: COMMAND -->``. Only timings may differ.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

README = Path(__file__).parents[2] / "README.md"
SAMPLE = re.compile(r"<!-- prints: (simverify [^\n]*) -->\n```text\n(.*?)```\n", re.DOTALL)

MY_SAMPLER = """
import numpy as np

def verify(target_probs, draft_probs, draft_tokens, rng):
    tokens = []
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        u = rng.random()
        if u * q[token] < p[token]:
            tokens.append(int(token))
            continue
        residual = np.maximum(p - q, 0)
        cdf = np.cumsum(residual / residual.sum())
        return [*tokens, int(np.searchsorted(cdf, u, side="right"))]
    cdf = np.cumsum(target_probs[len(draft_tokens)])
    return [*tokens, int(np.searchsorted(cdf, rng.random(), side="right"))]
"""
"""The sampler of the README: its residual is drawn with the uniform that has just rejected."""


def printed(command: str) -> str:
    """Standard output of ``command``, run beside my_sampler.py."""
    words = [sys.executable, "-m", *shlex.split(command)]
    with TemporaryDirectory() as folder:
        (Path(folder) / "my_sampler.py").write_text(MY_SAMPLER)
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
    return done.stdout or done.stderr


def without_timings(text: str) -> str:
    """``text`` with the speeds at the end of a comparison's rows masked, and no end blanks."""
    return re.sub(r"(?m)(?<=x) +\d+(\.\d+)? *$", " SPEED", re.sub(r"(?m) +$", "", text))


if __name__ == "__main__":
    README.write_text(
        SAMPLE.sub(
            lambda m: f"<!-- prints: {m[1]} -->\n```text\n{printed(m[1])}```\n",
            README.read_text(encoding="utf-8"),
        ),
        encoding="utf-8",
    )
