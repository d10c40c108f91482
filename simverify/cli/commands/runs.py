"""``simverify runs``."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from simverify.cli.common import output_console, print_entries, print_lines
from simverify.errors import UsageError

_EXPECTED = {"list": "no more words", "init": "no more words", "add": "run files",
             "show": "the number of a run", "diff": "the numbers of two runs"}  # fmt: skip


def runs(
    action: Annotated[
        Literal["list", "show", "diff", "add", "init"], Parameter(show_env_var=False)
    ] = "list",
    /,
    *which: Annotated[str, Parameter(show_env_var=False)],
    store: Path | None = None,
    search: str | None = None,
    verdict: str | None = None,
    command: str | None = None,
    since: str | None = None,
    limit: int = 20,
    verbose: bool = False,
) -> int:
    """List recorded runs, show one, tell two apart, or record run files.

    Nothing is recorded until a store is there: simverify runs init makes one in this folder, and
    SIMVERIFY_RUNS names another. From then on every run that makes a document is in it.

    Parameters
    ----------
    action
        list, show, diff, add or init.
    which
        Numbers of runs, or run files to add.
    store
        The store's file; by default SIMVERIFY_RUNS, or .simverify/runs.db here.
    search
        List: those with this text in their title, command line, code, hashes, host, processor,
        system, or a version, as "torch 2.13".
    verdict
        List: PASS, FAIL or INCONCLUSIVE.
    command
        List: compare, audit and so on.
    since
        List: those that started on this day or later, as 2026-01-31.
    limit
        List: at most so many, the newest first.
    verbose
        Show and diff: print all.
    """
    from simverify.record import store as stores

    where = store or stores.store_path() or stores.STORE
    fits = {"list": not which, "init": not which, "add": bool(which),
            "show": len(which) == 1, "diff": len(which) == 2}  # fmt: skip
    if not fits[action]:
        given = " ".join(which) or "nothing"
        raise UsageError(f"simverify runs {action} got {given}: expected {_EXPECTED[action]}")
    if limit < 1:
        raise UsageError(f"--limit is {limit}: expected 1 or more")
    if action == "init":
        stores.init(where)
        print_lines([f"runs are recorded in {where}"])
    elif action == "add":
        if where == stores.store_path():
            stores.check_store(where)  # a store that the variable names is made, as by any run
        _add(where, which)
    elif action == "show":
        _show(where, _number(which[0]), verbose)
    elif action == "diff":
        _diff(where, _number(which[0]), _number(which[1]), verbose)
    else:
        found = stores.runs(
            where, search=search, verdict=verdict, command=command, since=since, limit=limit
        )
        print_entries(
            (
                f"{e.id}  {e.started[:16].replace('T', ' ')}  {e.verdict or '-'}  {e.command}",
                [e.title] if e.title else [],
            )
            for e in found
        )
        if not found:
            print("no runs", file=sys.stderr)
    return 0


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise UsageError(f"{text!r}: expected the number of a run, as simverify runs lists it")
    return int(text)


def _add(where: Path, files: tuple[str, ...]) -> None:
    from simverify.record.store import add
    from simverify.results.reading.document import read_document

    documents = [read_document(Path(file)) for file in files]
    for file, document in zip(files, documents, strict=True):
        print_lines([f"{file} is run {add(where, document)}"])


def _show(where: Path, number: int, verbose: bool) -> None:
    from simverify.record.store import get
    from simverify.reports.others.recorded import entry_lines
    from simverify.reports.present import print_run

    entry, document = get(where, number)
    print_lines(entry_lines(entry))
    print()
    print_run(document, output_console(), verbose=verbose)


def _diff(where: Path, old: int, new: int, verbose: bool) -> None:
    from simverify.record.differences import differences
    from simverify.record.store import get
    from simverify.reports.others.baselines import check_lines

    first, second = get(where, old), get(where, new)
    lines, check = differences(first, second, verbose=verbose)
    print_lines(lines)
    if verbose:
        print_lines([f"document of run {e.id}: {e.document_sha256}" for e, _ in (first, second)])
    if check is not None:
        print_lines(check_lines(check, f"run {new} against run {old}", verbose=verbose))
