"""The examples of README and docs, run as a reader would; run this file to write outputs anew.

All pages, or those that are named.

The blocks of a page run from top to bottom in one empty folder. ``<!-- story: NAME -->`` begins
a new story in the page: what follows runs in another empty folder, with no names defined.

- ``<!-- file: NAME -->`` above a block: the block is that file.
- ``console``: after ``$ `` a command, below it what it prints (on standard error if there is
  nothing on standard output). A simverify command by itself, or with ``| head -N`` or
  ``| tail -N``, runs in a fork of this process, all others in a shell.
- ``python``: run here; a ``text`` block right below it is what it prints.
- ``sh``: too long, or in need of a network: read, not run. Its simverify commands must parse.

Only timings, and the folder's own name, may differ.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from simverify.cli import main

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
HOME = "/home/you"
"""What stands in a page for the folder in which its commands run."""

_BLOCK = re.compile(
    r"(?:^<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_ALONE = re.compile(r"simverify (?P<words>[^|;&<>$`]*?)(?: \| (?P<end>head|tail) -(?P<n>\d+))?")
"""A command that asks nothing of a shell."""

STORY = re.compile(r"(?m)^(?=<!-- story: ([\w-]+) -->$)")
"""Where a page begins a new story."""

_TIMINGS = (
    (r"(?m)(?<=x) +<?\d+(\.\d+)? *$", " SPEED"),  # the last column of a comparison
    (r"\bin \d+\.\d+s\b", "in TIME"),  # pytest's summary
)


@dataclass(frozen=True)
class Block:
    """A fenced block: the file it is, if any, its language and its text; where the text lies."""

    file: str | None
    language: str
    text: str
    start: int
    end: int


@dataclass
class Story:
    """What running a story came to: the text with outputs as they are, and what went wrong."""

    page: str
    problems: list[str] = field(default_factory=list)


def stories(text: str) -> dict[str, str]:
    """Return the stories of a page, in order, by name; what comes before the first mark is ""."""
    first, *rest = STORY.split(text)
    return {"": first} | dict(zip(rest[::2], rest[1::2], strict=True))


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return [
        Block(m["file"], m["language"], m["text"], m.start("text"), m.end("text"))
        for m in _BLOCK.finditer(text)
    ]


def tell(text: str) -> Story:
    """Run a story; a block of a kind that nothing runs is a problem."""
    story = Story(text)
    names: dict[str, object] = {}
    replaced: list[tuple[Block, str]] = []
    with TemporaryDirectory() as folder, TemporaryDirectory() as tools, contextlib.chdir(folder):
        run = _shell(Path(folder), Path(tools))
        printed: str | None = None
        for block in blocks(text):
            previous, printed = printed, None
            if block.file is not None:
                path = Path(block.file)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
            elif block.language == "console":
                replaced.append((block, _console(block.text, run)))
            elif block.language == "python":
                printed = _python(block.text, names)
            elif block.language == "text" and previous is not None:
                replaced.append((block, previous))
            elif block.language != "sh":
                story.problems.append(f"no one runs this {block.language} block:\n{block.text}")
            if previous and (block.language != "text" or block.file):
                story.problems.append(f"printed, and not on the page:\n{previous}")
        if printed:
            story.problems.append(f"printed, and not on the page:\n{printed}")
    for block, new in reversed(replaced):
        if alike(block.text) != alike(new):
            story.problems.append(f"the page says\n{block.text}\nbut it is\n{new}")
            story.page = story.page[: block.start] + new + story.page[block.end :]
    return story


def alike(text: str) -> str:
    """Return ``text`` without what may differ: timings, blanks at ends, folds around paths."""
    for pattern, mask in _TIMINGS:
        text = re.sub(pattern, mask, text)
    text = re.sub(r"(?m) +$", "", text)
    return " ".join(text.split()) if HOME in text else text


def _shell(folder: Path, tools: Path) -> Callable[[str], str]:
    """Return what runs a command in ``folder``, with this interpreter's simverify and pytest."""
    for name, module in (("python", ""), ("simverify", "-m simverify"), ("pytest", "-m pytest")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        (tools / name).chmod(0o755)
    # pytest and the reports say more where a CI runs them.
    ours = r"SIMVERIFY_(?!CACHE)|PYTEST_|GITHUB_|CI$|BUILD_NUMBER$"
    kept = {k: v for k, v in os.environ.items() if not re.match(ours, k)}
    environment = kept | {"PATH": f"{tools}:{os.environ['PATH']}", "COLUMNS": "80"}
    code = 0

    def run(command: str) -> str:
        nonlocal code
        if alone := _ALONE.fullmatch(command):
            code, said, complaint = _forked(shlex.split(alone["words"]), folder, environment)
            if alone["end"]:
                ends = (
                    slice(int(alone["n"]))
                    if alone["end"] == "head"
                    else slice(-int(alone["n"]), None)
                )
                code, said = 0, "".join(said.splitlines(keepends=True)[ends])
            return (said or complaint).replace(str(folder), HOME)
        done = subprocess.run(
            ["bash", "-c", f"(exit {code}); {command}"],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        code = done.returncode
        return (done.stdout or done.stderr).replace(str(folder), HOME)

    return run


def _forked(
    arguments: list[str], folder: Path, environment: dict[str, str]
) -> tuple[int, str, str]:
    """Run the command line in a fork of this process; its exit code and both streams.

    It is what ``simverify`` runs, but for the imports, half of what a short audit takes.
    """
    with TemporaryFile() as out, TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            code = 70
            try:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                sys.stdout = sys.__stdout__ = io.TextIOWrapper(os.fdopen(1, "wb"))
                sys.stderr = sys.__stderr__ = io.TextIOWrapper(os.fdopen(2, "wb"))
                warnings.resetwarnings()
                warnings.simplefilter("ignore")
                os.chdir(folder)
                os.environ.clear()
                os.environ.update(environment)
                sys.argv = ["simverify", *arguments]
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 70
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        said, complaint = (file.read().decode() for file in (out, err))
        return os.waitstatus_to_exitcode(status), said, complaint


def _console(text: str, run: Callable[[str], str]) -> str:
    commands = re.findall(r"(?m)^\$ (.*)$", text)
    return "".join(f"$ {command}\n{run(command)}" for command in commands)


def _python(code: str, names: dict[str, object]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "the page", "exec"), names)
    return output.getvalue()


if __name__ == "__main__":
    chosen = [Path(name).absolute() for name in sys.argv[1:]] or PAGES
    for page in chosen:
        told = [tell(story) for story in stories(page.read_text(encoding="utf-8")).values()]
        page.write_text("".join(story.page for story in told), encoding="utf-8")
        written = sum(len(story.problems) for story in told)
        print(f"{page.relative_to(ROOT)}: {written} outputs written anew")
