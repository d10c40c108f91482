"""The findings' patches, run again: ``python docs/finding_patches.py --from FOLDERS [NAME ...]``.

A finding of ``docs/reference`` with a patch is followed as a reader would, in an empty folder: its
files are written, ``patched`` is a copy of the sources that its ``patch`` commands name, and every
command that has to do with the patch is run. What it prints has to hold the lines that stand below
it. Commands of other folders find those of ``--from`` under their last names.

``--from``: ready sources, comma-separated folders as ``--engine-path`` takes them; packages may be
installed instead. NAME: names of findings, as ``gpt-fast``, which stand in the page as
``<!-- story: gpt-fast -->``; all that have a patch if none is given.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from simverify.engines import ENGINES
from simverify.engines.base import locate_engine
from simverify.folders import find_package

PAGES = sorted((Path(__file__).parent / "reference").glob("findings*.md"))
STORY = re.compile(r"(?m)^<!-- story: (\S+) -->$")
FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PATCH = re.compile(r"^patch -p1 -d (patched\S*) < (\S+\.diff)$", re.MULTILINE)
PATCHED = re.compile(r"\bpatched\b|\bPATCHED=1 ")


def main() -> int:
    """Follow the findings; return 1 if one is not as it says."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("findings", nargs="*", metavar="NAME")
    parser.add_argument("--from", dest="ready", default="", help="folders, comma-separated")
    given = parser.parse_args()
    folders = [Path(folder).absolute() for folder in given.ready.split(",") if folder]
    texts = findings()
    if unknown := set(given.findings).difference(texts):
        parser.error(f"no finding {', '.join(sorted(unknown))}: choose from {', '.join(texts)}")
    wrong = 0
    for name in given.findings or [name for name, text in texts.items() if any(commands(text))]:
        with TemporaryDirectory() as scratch:
            problems = list(followed(texts[name], folders, Path(scratch)))
        print("\n".join([f"{name}: {'not ' if problems else ''}as it says", *problems]), flush=True)
        wrong += bool(problems)
    return int(wrong > 0)


def findings() -> dict[str, str]:
    """Return the text of each finding, by name."""
    texts: dict[str, str] = {}
    for page in PAGES:
        _, *parts = STORY.split(page.read_text(encoding="utf-8"))
        texts |= zip(parts[::2], parts[1::2], strict=True)
    return texts


def followed(text: str, folders: Sequence[Path], scratch: Path) -> Iterator[str]:
    """Yield what is not as the finding says, from its first command to its last."""
    files = dict(FILE.findall(text))
    for name, written in files.items():
        (scratch / name).write_text(written, encoding="utf-8")
    for folder in folders:
        (scratch / folder.name).symlink_to(folder)
    for place, name in PATCH.findall(text):
        # Beside the package, or in the checkout: that is where a diff names its files from.
        package = "" if "/" in place else files[name].removeprefix("--- a/").partition("/")[0]
        source = package_of(package, folders) if package else checkout_of(place, folders)
        if source is None:
            yield f"{package or place}: its source is neither installed nor in a folder of --from"
            return
        shutil.copytree(source, scratch / place / package, ignore=shutil.ignore_patterns(".git"))
    for command, expected in commands(text):
        printed = run(command, scratch)
        lines = iter(printed.splitlines())
        # In this order; the report has others between and behind them.
        if missing := [line for line in expected if line not in lines]:
            yield f"$ {command}\nexpected: {missing[0]}\n{printed}"


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands that have to do with the patch, and the lines that each should print."""
    for block in SHELL.findall(text):
        for part in re.split(r"(?m)^(?!#)", block):
            command, *printed = part.splitlines() or [""]
            if PATCHED.search(command):
                yield command, [line.removeprefix("# ") for line in printed]


def package_of(name: str, folders: Sequence[Path]) -> Path | None:
    """Return the folder of a package, of ``folders`` or installed."""
    tops = [folder / name for folder in folders]
    return next((top for top in tops if top.is_dir()), find_package(name))


def checkout_of(place: str, folders: Sequence[Path]) -> Path | None:
    """Return the checkout that ``patched/NAME`` is a copy of; NAME as ``--engine-path`` has it."""
    repository, _, commit = place.partition("/")[2].partition("@")
    for engine in ENGINES.values():
        if engine.repository.endswith(f"/{repository}") and engine.commit.startswith(commit):
            found = locate_engine(engine, folders)
            if found is not None:
                return found.folder
    return None


def run(command: str, folder: Path) -> str:
    """Return what a command prints, with this interpreter's ``python`` and ``simverify``."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, module in (("python", ""), ("simverify", "-m simverify")):
        shim = tools / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n', encoding="utf-8")
        shim.chmod(0o755)
    known = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "COLUMNS": "80"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=known, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
