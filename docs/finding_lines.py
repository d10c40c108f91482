"""Do FAIL rows name the mistake? ``python docs/finding_lines.py --from FOLDERS [ENGINE ...]``.

The lines that each failing row of ``reports/examples/engines`` names are looked up among those that
the finding's diff changes, or, where there is none or it lies outside of what runs, those that the
finding calls wrong. A line is named if its statement is; the sources say which
statement that is. Where no line is, the row's note has to name the function.
"""

import argparse
import ast
import re
import sys
from pathlib import Path

from simverify.auditing.dependence import parse_module
from simverify.engines import get_engine
from simverify.engines.base import locate_engine
from simverify.reports.audit import likeliest_lines
from simverify.results import TableRun
from simverify.results.reading import read_document

TABLE = Path(__file__).parents[1] / "reports" / "examples" / "engines" / "run.json"

DIFFS = {
    "ascend-block": "182b75e.diff",
    "ascend-block-fix": "2f4d55e.diff",
    "rotalabs": "rotalabs.diff",
    "rotalabs-core": "rotalabs.diff",
    "seqspec-capped": "seqspec.diff",
    "tightwad": "tightwad.diff",
    "hsd-clever": "hsd.diff",
    "medusa": "medusa.diff",
    "superconductor": "superconductor.diff",
    "feifeibear-as-is": "LLMSpeculativeSampling.diff",
    "gpt-fast-as-is": "gpt-fast.diff",
    "gptfast-eager": "GPTFast.diff",
    "gptfast-kv": "GPTFast.diff",
    "shreyansh-new": "shreyansh-new.diff",
}
"""By engine, the diff of a finding that makes it lossless."""

NAMED = {
    "hf-argmax-raw-q": {"transformers/generation/candidate_generator.py": {1344, 1354, 1348, 1358}},
    "transformers-universal": {"transformers/generation/candidate_generator.py": {833, 837}},
    "hf-ensemble-0.9": {"transformers/generation/utils.py": {4465, 4479}},
    "hf-ensemble-0.99": {"transformers/generation/utils.py": {4465, 4479}},
    "toyllm-as-is": {"toyllm/sps/generate.py": {17, 20}},
}
"""By engine, the lines that its finding calls wrong, in two releases where there are two numbers.

An option has no diff; of a seed that is set in one line and used in another the diff changes the
first, which no call runs; and a draft that is greedy in one line is reported as sampled in another.
"""

FILE = re.compile(r"^<!-- file: (\S+\.diff) -->\n```diff\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HUNK = re.compile(r"@@ -(\d+)")


def mistakes() -> dict[str, dict[str, set[int]]]:
    """Return by engine the wrong lines of each file."""
    pages = sorted((Path(__file__).parent / "reference").glob("findings*.md"))
    texts = dict(found for page in pages for found in FILE.findall(page.read_text("utf-8")))
    return {name: changed(texts[diff]) for name, diff in DIFFS.items()} | NAMED


def changed(diff: str) -> dict[str, set[int]]:
    """Return by file the lines, as they were, that a diff takes away or puts something behind."""
    found: dict[str, set[int]] = {}
    for line in diff.splitlines():
        if line.startswith("--- a/"):
            own = found.setdefault(line.removeprefix("--- a/"), set())
            taken = False
        elif hunk := HUNK.match(line):
            number, taken = int(hunk[1]), False
        elif line.startswith("-"):
            own.add(number)
            number, taken = number + 1, True
        elif line.startswith("+") and not line.startswith("+++"):
            # Where nothing was taken away the hunk begins at the line before what is new.
            own.update(() if taken else {number})
        elif not line.startswith("+++"):
            number, taken = number + 1, False
    return found


def main() -> int:
    """Print a line for each engine; return 1 if the mistake of one is not named."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("engines", nargs="*", metavar="ENGINE")
    parser.add_argument("--from", dest="ready", default="", help="folders, comma-separated")
    given = parser.parse_args()
    folders = [Path(folder).absolute() for folder in given.ready.split(",") if folder]
    run = read_document(TABLE)
    assert isinstance(run, TableRun)
    rows = {row.engine: row for row in run.rows}
    missed = by_note = 0
    wrong = mistakes()
    for name in given.engines or wrong:
        place = locate_engine(get_engine(name), folders)
        if place is None:
            print(f"{name}: its source is neither installed nor in a folder of --from")
            missed += 1
            continue
        row = rows[name]
        named = list(dict.fromkeys([*row.lines, *likeliest_lines(row.findings, row.localisation)]))
        first = rank_of(wrong[name], list(row.lines), place.top)
        rank = rank_of(wrong[name], named, place.top)
        noted = "" if rank or not row.note else function_in(row.note, wrong[name], place.top)
        missed += not rank and not noted
        by_note += bool(noted)
        print(f"{name}: {first or 'not'} of {len(row.lines)} that decide or raise; "
              f"{rank or 'not'} of {len(named)} named" + f"; the note names {noted}" * bool(noted),
              flush=True)  # fmt: skip
        print("  " + "\n  ".join(line.rpartition("/")[2] for line in named))
    print(f"by the audit: {len(given.engines or wrong) - missed - by_note}; by a note that was "
          f"written by hand: {by_note}; by neither: {missed}")  # fmt: skip
    return int(missed > 0)


def rank_of(mistakes: dict[str, set[int]], lines: list[str], top: Path) -> int:
    """Return the place in ``lines`` of the first that a wrong line belongs to, from 1; else 0."""
    by_name = {Path(file).name: wrong for file, wrong in mistakes.items()}
    for rank, line in enumerate(lines, 1):
        named, _, number = line.rpartition(":")
        statement = statement_of(resolved(named, top), int(number))
        if statement.intersection(by_name.get(Path(named).name, ())):
            return rank
    return 0


def function_in(note: str, mistakes: dict[str, set[int]], top: Path) -> str:
    """Return the function that a wrong line belongs to, if ``note`` names it; "" if not."""
    for file, wrong in mistakes.items():
        for node in ast.walk(parse_module(resolved(file, top).read_text(encoding="utf-8"))):
            inside = isinstance(node, ast.FunctionDef) and any(
                node.lineno <= line <= (node.end_lineno or 0) for line in wrong
            )
            if inside and node.name in re.findall(r"\w+", note):
                return node.name
    return ""


def resolved(named: str, top: Path) -> Path:
    """Return the file that an audit names, below a checkout or where packages are installed."""
    places = [Path(named), top / named, *(Path(entry) / named for entry in sys.path)]
    return next(place for place in places if place.is_file())


def statement_of(file: Path, line: int) -> set[int]:
    """Return the lines of the innermost statement at ``line``; of one with a body, its head."""
    found = {line}
    for node in ast.walk(parse_module(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            inner = [x.lineno for x in ast.walk(node) if isinstance(x, ast.stmt) and x is not node]
            last = min(inner, default=(node.end_lineno or 0) + 1) - 1
            if line <= last:
                found = set(range(node.lineno, last + 1))
    return found


if __name__ == "__main__":
    sys.exit(main())
