"""``simverify runs``, ``simverify replay`` and ``simverify baseline``."""

import os
import re
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from simverify import folders
from simverify.cli.common import output_console, print_entries, print_lines, wrap_line
from simverify.errors import UsageError
from simverify.results.common import EXIT_CODES

_EXPECTED_WORDS = {
    "list": ("no more words", 0),
    "init": ("no more words", 0),
    "add": ("run files", None),
    "show": ("the number of a run", 1),
    "diff": ("the numbers of two runs", 2),
}
"""What follows each action of ``runs``, and how many words that is; None for one or more."""


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
    """List recorded runs, show one, compare two, or record run files.

    Nothing is recorded until a store exists. simverify runs init makes one in this folder;
    SIMVERIFY_RUNS names another. From then on, it records every run that makes a document.

    Parameters
    ----------
    action
        list, show, diff, add or init.
    which
        Numbers of runs, or run files to add.
    store
        File of the store; by default, SIMVERIFY_RUNS, or .simverify/runs.db in this folder.
    search
        List: runs with this text in title, command line, code, hashes, host, processor or system.
        A version, such as "torch 2.13", is found too.
    verdict
        List: runs with this verdict (PASS, FAIL or INCONCLUSIVE).
    command
        List: runs of this command (compare, audit and so on).
    since
        List: runs that started on this day or later, such as 2026-01-31.
    limit
        List: maximum number of runs, the newest first.
    verbose
        Show and diff: print everything.
    """
    from simverify.history import record

    where = store or folders.store_path() or folders.DEFAULT_STORE
    expected, count = _EXPECTED_WORDS[action]
    if len(which) != count if count is not None else not which:
        given = " ".join(which) or "nothing"
        raise UsageError(f"simverify runs {action} got {given}: expected {expected}")
    if limit < 1:
        raise UsageError(f"--limit is {limit}: expected 1 or more")
    if action == "init":
        record.init_store(where)
        print_lines([f"runs are recorded in {where}"])
    elif action == "add":
        if where == folders.store_path():
            record.check_store(where)  # a store that the variable names is made, as by any run
        _add_files(where, which)
    elif action == "show":
        _show_run(where, _parse_number(which[0]), verbose)
    elif action == "diff":
        _diff_runs(where, _parse_number(which[0]), _parse_number(which[1]), verbose)
    else:
        found = record.runs(
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


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise UsageError(f"{text!r}: expected the number of a run, as simverify runs lists it")
    return int(text)


def _add_files(where: Path, files: tuple[str, ...]) -> None:
    from simverify.history.record import add_run
    from simverify.results.reading import read_document

    documents = [read_document(Path(file)) for file in files]
    for file, document in zip(files, documents, strict=True):
        print_lines([f"{file} is run {add_run(where, document)}"])


def _show_run(where: Path, number: int, verbose: bool) -> None:
    from simverify.history.record import get_run
    from simverify.reports.present import print_run
    from simverify.reports.surveys import entry_lines

    entry, document = get_run(where, number)
    print_lines(entry_lines(entry))
    print()
    print_run(document, output_console(), verbose=verbose)


def _diff_runs(where: Path, old: int, new: int, verbose: bool) -> None:
    from simverify.history.record import get_run, run_differences
    from simverify.reports.surveys import check_lines

    first, second = get_run(where, old), get_run(where, new)
    lines, check = run_differences(first, second, verbose=verbose)
    print_lines(lines)
    if verbose:
        print_lines([f"document of run {e.id}: {e.document_sha256}" for e, _ in (first, second)])
    if check is not None:
        print_lines(check_lines(check, f"run {new} against run {old}", verbose=verbose))


# ``simverify replay``.


def replay(run: Annotated[str, Parameter(show_env_var=False)], /) -> int:
    """Replay one failing path or trial of an audit, and show every draw and branch.

    Parameters
    ----------
    run
        RUN.json#n, with n from 0: the n-th heaviest path to the output that deviates.
        If sampled calls failed, #0 is the trial that shows it.
    """
    from simverify.api.audit import replay as replay_run
    from simverify.results.reading import read_audit

    name, hash_sign, number = run.rpartition("#")
    if not (name and hash_sign) or not re.fullmatch("[0-9]{1,18}", number):
        given = name if hash_sign else run
        if not Path(given).is_file():
            raise UsageError(
                f"{given}: no such file; expected RUN.json#n, where RUN.json is a file that audit "
                "--json wrote and n is a path, such as run.json#0"
            )
        raise UsageError(f"{run!r} names no path of the run: expected '{given}#0'")
    text = replay_run(read_audit(Path(name)), int(number), name=name)
    for line in text.splitlines():
        print(wrap_line(line, subsequent_indent=6))
    return 0


# ``simverify baseline``.


def baseline(
    action: Annotated[Literal["save", "check"], Parameter(show_env_var=False)],
    name: Annotated[str, Parameter(show_env_var=False)],
    run: Annotated[Path, Parameter(show_env_var=False)],
    /,
    *,
    folder: Path | None = None,
    alpha: float = 1e-6,
    detect: float = 0.02,
    verbose: bool = False,
) -> int:
    """Save a run as a baseline, or test a run against one.

    A check exits with 1 if something is worse, 3 if the run is too short to tell, and 2 if the two
    cannot be compared. It reports what is better, and exits with 0. In a GitHub job, it adds its
    result to the summary.

    Parameters
    ----------
    action
        save or check.
    name
        Name of the baseline: letters, digits, ".", "_" and "-".
    run
        A run file of compare or audit, which --json wrote.
    folder
        Folder of the baselines; by default, .simverify/baselines in this folder.
    alpha
        Probability of reporting something as worse or better when nothing changed.
    detect
        Relative drop of E[tau] to detect with power .9.
    verbose
        Print everything that was compared with the baseline.
    """
    from simverify.history.baseline import (
        BASELINE_FOLDER,
        baseline_path,
        read_baseline,
        save_baseline,
    )
    from simverify.results.reading import read_document

    where = BASELINE_FOLDER if folder is None else folder
    if action == "save":
        document = read_document(run)
        replaced = os.path.exists(baseline_path(name, where))
        path = save_baseline(name, document, where)
        verdict = getattr(document, "verdict", "")
        print_lines([f"{'replaced' if replaced else 'saved'} {path}, {verdict}"])
        if verdict == "INCONCLUSIVE":
            words = "a check says that a run is worse, or that it cannot tell"
            print_lines([f"the baseline is INCONCLUSIVE: {words}"])
        elif verdict != "PASS":
            print_lines([f"the baseline is {verdict}: a check says only what is worse than that"])
        return 0

    from simverify.history.baseline import check_baseline
    from simverify.reports.present import append_markdown
    from simverify.reports.surveys import check_lines, check_markdown

    kept, document = read_baseline(name, where), read_document(run)
    try:
        check = check_baseline(kept, document, alpha=alpha, detect=detect)
    except UsageError as error:
        raise UsageError(f"baseline {name}, {run}: {error}") from None
    append_markdown(check_markdown(check, name))
    print_lines(check_lines(check, name, verbose=verbose))
    return EXIT_CODES[check.verdict]
