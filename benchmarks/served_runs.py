"""Seven kinds of runs that ask a server that runs, as a user would.

    python benchmarks/served_runs.py http://localhost:8000 --target DIR --out FOLDER
    python benchmarks/served_runs.py URL --against URL2 --runs against,greedy --expect FAIL

Without ``--runs`` all are made but ``chat``, which takes a chat template, and ``against``, which
takes ``--against`` and asks most. Where ``--detect`` or ``--tokens`` is not given, each command has
its own default.

Each run is a command of its own; its answers and its document stay in FOLDER, and the same command
goes on with them. One line of a table a run: the verdict, the tokens, what it says first, seconds.
``--expect``: the exit code is 1 if a verdict is another. Results: docs/reference/servers.md.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PROMPTS = Path(__file__).parents[1] / "simverify/models/tiny_llama/prompts.jsonl"
ALL = ("plain", "cool", "chat", "greedy", "against", "watch", "matrix")
CODES = {0: "PASS", 1: "FAIL", 2: "refused", 3: "INCONCLUSIVE", 4: "adapter"}


def conversations(prompts: Path, folder: Path) -> Path:
    """Write each prompt as a conversation of one message."""
    lines = [json.loads(line) for line in prompts.read_text().splitlines() if line.strip()]
    texts = [line.get("prompt") or line.get("text") for line in lines]
    talks = [{"messages": [{"role": "user", "content": text}]} for text in texts]
    path = folder / "talks.jsonl"
    path.write_text("".join(json.dumps(talk) + "\n" for talk in talks))
    return path


def command_of(run: str, own: argparse.Namespace, folder: Path) -> list[str]:
    """Return the words of a run after ``simverify``."""
    other = own.against or own.url
    prompts = conversations(own.prompts, folder) if run == "chat" else own.prompts
    body = ["--extra-body", own.extra_body] if own.extra_body else []
    order = ["--order", own.order] if own.order else []
    tokens = ["--tokens", str(own.tokens)] if own.tokens else []
    draft = ["--draft", own.draft] if own.draft else []
    detect = ["--detect", str(own.detect)] if own.detect else []
    target = ["--target", own.target, *draft, "--dtype", own.dtype, "--threads", "1"]
    audit = ["audit", "--endpoint", own.url, "--prompts", str(prompts), *body, *detect]
    kept = ["--keep", str(folder / f"{run}.jsonl")]
    if run in ("plain", "chat"):
        return [*audit, *target, *tokens, *kept]
    if run == "cool":
        return [*audit, *target, *order, *tokens, *kept, "--temperature", ".7", "--top-p", ".9"]
    if run == "against":
        return [*audit, *kept, "--against", other]
    kept = ["--keep", str(folder / run)]
    if run == "greedy":
        return ["triage", own.url, other, "--prompts", str(prompts), *target, *body, *kept]
    if run == "watch":
        state = ["--state", str(folder / "canary"), "--once", "--every", ".01"]
        asked = ["watch", "--endpoint", own.url, "--prompts", str(prompts), *target, *body]
        return [*asked, *detect, *state]
    asked = ["matrix", "--endpoint", own.url, "--prompts", str(prompts), *target, *order, *body]
    return [*asked, *kept, *tokens]


def tokens_of(document: dict[str, Any]) -> int:
    """Tokens that a document is about, of all its cells or both its sides."""
    if "cells" in document:
        return sum(cell["tokens"] for cell in document["cells"])
    found = document.get("tokens", 0)
    return sum(found) if isinstance(found, list) else found


def row_of(run: str, own: argparse.Namespace, folder: Path) -> tuple[str, str]:
    """Make a run; return its line of the table, and its verdict."""
    document = folder / f"{run}.json"
    words = command_of(run, own, folder)
    began = time.monotonic()
    whole = [sys.executable, "-m", "simverify", *words, "--quiet", "--json", str(document)]
    done = subprocess.run(whole, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    (folder / f"{run}.txt").write_text(done.stdout + done.stderr)
    verdict = CODES.get(done.returncode, str(done.returncode))
    told = (done.stdout or done.stderr).strip().splitlines()
    first = " ".join(told[1:3] if done.stdout else told[:2])
    tokens = tokens_of(json.loads(document.read_text())) if done.returncode in (0, 1, 3) else 0
    return (
        f"| {own.name or own.url} | {run} | {verdict} | {tokens:,} | {first} | {seconds:.0f} |",
        verdict,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--against", help="another server, for the runs that compare two")
    parser.add_argument("--target", default="tiny-llama")
    parser.add_argument("--draft")
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--extra-body")
    parser.add_argument("--order")
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--detect", type=float, help="of audits and of the watch")
    parser.add_argument("--runs", default="plain,cool,greedy,watch,matrix")
    parser.add_argument("--expect", choices=sorted(CODES.values()))
    parser.add_argument("--name", help="what the table calls the server")
    parser.add_argument("--out", type=Path, required=True)
    own = parser.parse_args()
    runs = own.runs.split(",")
    if unknown := [run for run in runs if run not in ALL]:
        parser.error(f"{unknown[0]!r} is no run: expected some of {', '.join(ALL)}")
    own.out.mkdir(parents=True, exist_ok=True)
    print(
        "| server | run | verdict | tokens | what it says | s |\n|---|---|---|---|---|---|",
        flush=True,
    )
    wrong = 0
    for run in runs:
        line, verdict = row_of(run, own, own.out)
        print(line, flush=True)
        wrong += own.expect is not None and verdict != own.expect
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
