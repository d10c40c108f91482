"""Do FAIL rows name the mistake? ``python docs/finding_lines.py --from FOLDERS [ENGINE ...]``.

The lines that each failing row of ``reports/examples/engines`` names are looked up among those that
the patch on the finding's page changes, or that the page names where no patch can be. A line is
named if its statement is; the sources say which statement that is.
"""

import argparse
import ast
import sys
from pathlib import Path

from simverify.auditing.replay.blame.statements import parsed
from simverify.engines import get_engine
from simverify.engines.places import find_place
from simverify.reports.audit.lines import likeliest
from simverify.results import TableRun
from simverify.results.reading.document import read_document

TABLE = Path(__file__).parents[1] / "reports" / "examples" / "engines" / "run.json"

MISTAKES = {
    "hf-ensemble-0.9": ("transformers/generation/utils.py", (4465,)),
    "hf-ensemble-0.99": ("transformers/generation/utils.py", (4465,)),
    "hf-argmax-raw-q": ("transformers/generation/utils.py", (4465,)),
    "ascend-block": ("vllm_ascend/sample/rejection_sampler.py", (1560, 1561, 1574)),
    "ascend-block-fix": ("vllm_ascend/sample/rejection_sampler.py", (786, 787)),
    "rotalabs": ("rotalabs_accel/speculative/sampling.py", (309, 321)),
    "rotalabs-core": ("rotalabs_accel/speculative/core.py", (225, 235, 260, 267)),
    "seqspec-capped": ("seqspecdecod/capped_hsd.py", (138, 140, 210, 223, 245, 253)),
    "tightwad": ("tightwad/speculation.py", (117, 118, 119, 120, 133, 134)),
    "hsd-clever": ("transformers/generation/utils.py", (5519,)),
    "medusa": ("medusa/model/utils.py", (254, 280, *range(476, 502))),
    "superconductor": ("superconductor/models/speculative_decoder.py", (194, 238, 239)),
    "feifeibear-as-is": ("sampling/utils.py", (52, 53)),
    "gpt-fast-as-is": ("generate.py", (116, 124)),
    "gptfast-eager": ("GPTFast/Core/Decode/SpeculativeDecode.py", (48,)),
    "gptfast-kv": ("GPTFast/Core/Decode/SpeculativeDecode.py", (95,)),
    "toyllm-as-is": ("toyllm/sps/generate.py", (70,)),
    "shreyansh-new": ("common/verification.py", (482,)),
}
"""By engine: the file with the mistake, and the lines that its patch changes."""


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
    missed = 0
    for name in given.engines or MISTAKES:
        place = find_place(get_engine(name), folders)
        if place is None:
            print(f"{name}: its source is neither installed nor in a folder of --from")
            missed += 1
            continue
        row = rows[name]
        named = list(dict.fromkeys([*row.lines, *likeliest(row.findings, row.localisation)]))
        first = rank_of(name, list(row.lines), place.top)
        rank = rank_of(name, named, place.top)
        missed += not rank
        print(f"{name}: {first or 'not'} of {len(row.lines)} that decide or raise; "
              f"{rank or 'not'} of {len(named)} named", flush=True)  # fmt: skip
        print("  " + "\n  ".join(line.rpartition("/")[2] for line in named))
    return int(missed > 0)


def rank_of(name: str, lines: list[str], top: Path) -> int:
    """Return the place in ``lines`` of the first that a patch's line belongs to, from 1; else 0."""
    file, wrong = MISTAKES[name]
    for rank, line in enumerate(lines, 1):
        named, _, number = line.rpartition(":")
        statement = statement_of(resolved(named, top), int(number))
        if Path(named).name == Path(file).name and statement.intersection(wrong):
            return rank
    return 0


def resolved(named: str, top: Path) -> Path:
    """Return the file that an audit names, below a checkout or where packages are installed."""
    places = [Path(named), top / named, *(Path(entry) / named for entry in sys.path)]
    return next(place for place in places if place.is_file())


def statement_of(file: Path, line: int) -> set[int]:
    """Return the lines of the innermost statement at ``line``; of one with a body, its head."""
    found = {line}
    for node in ast.walk(parsed(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            inner = [x.lineno for x in ast.walk(node) if isinstance(x, ast.stmt) and x is not node]
            last = min(inner, default=(node.end_lineno or 0) + 1) - 1
            if line <= last:
                found = set(range(node.lineno, last + 1))
    return found


if __name__ == "__main__":
    sys.exit(main())
