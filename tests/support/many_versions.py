"""Versions of a verifier as an index, as a git repository and as engines that are installed."""

import subprocess
import zipfile
from pathlib import Path

RULE = '''
"""Token verification, in plain numpy."""
import numpy as np


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[token] >= p[token]:
            residual = np.maximum(p - q, 0)
            return [*draft_tokens[:i], rng.choice(len(p), p=residual / residual.sum())]
    p = target_probs[len(draft_tokens)]
    return [*draft_tokens, rng.choice(len(p), p=p)]
'''

EDITED = RULE + "\n# nothing has changed\n"
"""Another file, with the same law."""

LOSSY = RULE.replace("np.maximum(p - q, 0)", "p")
"""It draws from the target where it should from the residual."""

SAMPLED = '''
"""The target alone: lossless, and no draft token is kept but by chance."""


def verify(target_probs, draft_probs, draft_tokens, rng):
    p = target_probs[0]
    return [rng.choice(len(p), p=p)]
'''

BROKEN = "raise RuntimeError('no such device')\n"

SMALL = ("--gamma", "1", "--vocab", "2")
"""Sizes that are judged in a second or two."""


def wheel(folder, version, text, name="fake-verifier", module="fake_verifier", needs=()):
    """Put a release with one module into a folder of wheels; ``needs``: what it asks for."""
    folder.mkdir(exist_ok=True)
    plain = name.replace("-", "_")
    about = f"{plain}-{version}.dist-info"
    files = {
        f"{module}/__init__.py": "",
        f"{module}/rule.py": text,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {need}\n" for need in needs),
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{about}/RECORD"))
    path = folder / f"{plain}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in (files | {f"{about}/RECORD": record}).items():
            archive.writestr(file, content)
    return path


def index(monkeypatch, folder, releases):
    """Let pip know these releases and no others: a text for each version."""
    for version, text in releases.items():
        wheel(folder, version, text)
    made = folder.parent / "environments"
    made.mkdir(parents=True, exist_ok=True)
    place = "simverify.surveying.bisect.cache_folder"
    monkeypatch.setattr(place, lambda name: made)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


def git(folder, *words):
    named = ("-c", "user.name=A", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *named, "-C", str(folder), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repository(folder, texts, file="rule.py"):
    """Make a git repository with a commit for each text of a file; return the commits."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    commits = []
    for n, text in enumerate(texts):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
        (folder / "number.txt").write_text(str(n))
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "-m", f"change {n}")
        commits.append(git(folder, "rev-parse", "HEAD"))
    return commits


def state(folder):
    """What a checkout looks like: its files, its index, its branches, its working trees."""
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }
    return files, *(git(folder, *w.split()) for w in ("status -s", "branch -a", "worktree list"))


def install(folder, engines):
    """Put a distribution with engines into a folder, as pip would; a text for each name."""
    points = []
    for name, text in engines.items():
        module = name.replace("-", "_")
        Path(folder, f"{module}.py").write_text(text)
        points.append(f"{name} = {module}:verify")
    about = Path(folder, "fake_engines-1.2.dist-info")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-engines\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text("\n".join(["[simverify.verifiers]", *points, ""]))


CRASH = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
HANG = "while True:\n    pass\n"
BROKEN = "raise RuntimeError('no such device')\n"
TEXTS = {"right": RULE, "lossy": LOSSY, "broken": BROKEN, "crash": CRASH, "hang": HANG}
