"""The table of engines: ``python docs/engine_table.py [--from FOLDERS] [--jobs N] [FOLDER]``.

Every engine is fetched, as ``simverify table --list`` says: a package into a virtual environment of
its own that sees this one's packages behind it, whether or not it is installed here too; a
repository is cloned at the commit of its adapter. All rows are one table, written to
``reports/examples/engines`` or to FOLDER.

Some are taken as they are installed here: simverify's own rules, what runs on a GPU alone, which is
large, and engines whose adapter names no releases, as those that other distributions add: an index
may hold something else under their name. What cannot be fetched is taken from here as well, where
it is installed, and a line says so.

``--from``: folders of ready checkouts, comma-separated, as ``--engine-path`` takes them: what lies
there is not cloned. Packages are installed all the same. ``--work``: where environments and clones
are kept for the next time. ``--engines``: some of them by name, to try it out.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import msgspec

from simverify.engines import Engine, engine_names, unloaded_engine
from simverify.engines.base import locate_engine
from simverify.reports.present import write_reports
from simverify.results import TableMeta, TableRun
from simverify.results.reading import read_document
from simverify.simulators.run import default_threads
from simverify.surveying.bisect import CheckoutError, get_environment, pip_steps
from simverify.surveying.table import join_tables

FOLDER = Path(__file__).parents[1] / "reports" / "examples" / "engines"
COMMAND = "python docs/engine_table.py"

_LOCKS: dict[Path, Lock] = {}
"""One for each place where something is made: engines share repositories and their commits."""


def main() -> None:
    """Make the table, and write it."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--from", dest="ready", default="", help="folders of ready checkouts")
    parser.add_argument("--engines", help="names of engines, comma-separated; all if not given")
    parser.add_argument("--work", type=Path, help="a folder that keeps what is fetched")
    parser.add_argument("--jobs", type=int, default=default_threads())
    given = parser.parse_args()
    names = given.engines.split(",") if given.engines else None
    ready = [Path(folder).absolute() for folder in given.ready.split(",") if folder]
    with tempfile.TemporaryDirectory() as scratch:
        work = (given.work or Path(scratch)).absolute()
        run = fetched_table(names or engine_names(), work, given.jobs, ready)
    write_reports(fixed(run), given.folder)
    print(given.folder)
    print(run)


def say(line: str) -> None:
    """Show a line of progress."""
    print(line, file=sys.stderr, flush=True)


def fetched_table(
    names: Sequence[str], work: Path, jobs: int, ready: Sequence[Path] = ()
) -> TableRun:
    """Fetch every engine and audit each in its environment, so many at a time."""
    engines = [unloaded_engine(name) for name in names]
    with ThreadPoolExecutor(jobs) as pool:
        runs = list(pool.map(lambda engine: one_row(engine, work, ready), engines))
    return join_tables([run for run in runs if run is not None])


def one_row(engine: Engine, work: Path, ready: Sequence[Path] = ()) -> TableRun | None:
    """Return the table of one engine, which says so where it could not be fetched."""
    try:
        python, checkouts = fetch(engine, work, ready)
    except (subprocess.CalledProcessError, CheckoutError) as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        here = "" if engine.find() is None else "; taken as it is installed here"
        say(f"{engine.name}: not fetched: {said[-1]}{here}")
        python, checkouts = Path(sys.executable), None
    file = work / f"{engine.name}.json"
    words = ["table", "--engines", engine.name, "--jobs", "1", "--quiet", "--json", str(file)]
    if checkouts is not None:
        words += ["--engine-path", str(checkouts)]
    file.unlink(missing_ok=True)
    done = subprocess.run(
        [str(python), "-m", "simverify", *words], capture_output=True, text=True, check=False
    )
    if not file.exists():
        say(f"{engine.name}: no row: {done.stderr.strip()}")
        return None
    run = read_document(file)
    assert isinstance(run, TableRun)
    say(f"{engine.name}: {run.rows[0].verdict or run.rows[0].state}")
    return run


def fetch(engine: Engine, work: Path, ready: Sequence[Path] = ()) -> tuple[Path, Path | None]:
    """Return the interpreter of the engine's environment, and the folder of its checkout, if any.

    What is there from an earlier time is taken as it is. Raises ``CalledProcessError`` where git
    fails, and ``NotLaidOut`` where pip does.
    """
    if engine.repository:
        place = locate_engine(engine, ready)
        if place is not None and place.folder is not None:
            return Path(sys.executable), place.folder
        owner, _, name = engine.repository.removesuffix(".git").rpartition("/")
        pinned = f"{name}@{engine.commit[:7]}"
        top = work / "checkouts" / owner.rpartition("/")[2] / pinned
        kept(top, lambda folder: clone(engine, folder))
        return Path(sys.executable), work / "checkouts"
    if engine.package == "simverify" or engine.gpu or not engine.versions:
        return Path(sys.executable), None
    steps = pip_steps(engine.requirement, whole=engine.whole)
    return get_environment(steps, engine.name, root=work / "environments").python, None


def kept(place: Path, make: Callable[[Path], None]) -> None:
    """Let ``place`` be what ``make`` makes in a folder, whole or not at all, unless it is there."""
    with _LOCKS.setdefault(place, Lock()):
        if place.is_dir():
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=place.parent) as scratch:
            made = Path(scratch) / place.name
            make(made)
            try:
                made.rename(place)
            except OSError:
                if not place.is_dir():  # or another process was done first
                    raise


def clone(engine: Engine, folder: Path) -> None:
    """Clone the engine's repository into ``folder``, at the commit of its adapter."""
    called("git", "clone", "--quiet", engine.repository, str(folder))
    called("git", "-C", str(folder), "checkout", "--quiet", "--detach", engine.commit)


def called(*words: str) -> str:
    """Return what a command prints; raises ``CalledProcessError``."""
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def fixed(run: TableRun) -> TableRun:
    """Return ``run`` as if it were made at no time and on no machine."""
    meta = TableMeta(
        version="example", started="2026-01-01T00:00:00+00:00", seconds=0.0, machine="example",
        python="example", threads=1, timings=(), jobs=1,
        row_seconds=(None,) * len(run.rows),
    )  # fmt: skip
    return msgspec.structs.replace(run, meta=meta, reproduce=COMMAND)


if __name__ == "__main__":
    main()
