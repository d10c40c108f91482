"""``simverify baseline``."""

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from simverify.cli.common import EXIT_CODES, print_lines
from simverify.errors import UsageError


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
    """Keep a run as a baseline, or hold a run against one, by tests.

    A check exits with 1 if something is worse, 3 if the run is too short to tell, and 2 if the two
    do not compare. What is better is said, and exits with 0. In a GitHub job it joins the summary.

    Parameters
    ----------
    action
        save or check.
    name
        The baseline's: letters, digits, ".", "_" and "-".
    run
        A run file of compare, or of audit, as --json wrote it.
    folder
        Where baselines are kept; by default .simverify/baselines here.
    alpha
        Probability that the tests call something worse or better where nothing changed.
    detect
        Relative drop of E[tau] that is found with power .9.
    verbose
        Print all that was held against the baseline.
    """
    from simverify.baselines.kept import FOLDER, place, read, save
    from simverify.results.reading.document import read_document

    where = FOLDER if folder is None else folder
    if action == "save":
        document = read_document(run)
        replaced = os.path.exists(place(name, where))
        path = save(name, document, where)
        verdict = getattr(document, "verdict", "")
        print_lines([f"{'replaced' if replaced else 'saved'} {path}, {verdict}"])
        if verdict == "INCONCLUSIVE":
            words = "a check says that a run is worse, or that it cannot tell"
            print_lines([f"the baseline is INCONCLUSIVE: {words}"])
        elif verdict != "PASS":
            print_lines([f"the baseline is {verdict}: a check says only what is worse than that"])
        return 0

    from simverify.baselines.check import check_baseline
    from simverify.reports.others.baselines import check_lines, check_markdown
    from simverify.reports.present import append_markdown

    kept, document = read(name, where), read_document(run)
    try:
        check = check_baseline(kept, document, alpha=alpha, detect=detect)
    except UsageError as error:
        raise UsageError(f"baseline {name}, {run}: {error}") from None
    append_markdown(check_markdown(check, name))
    print_lines(check_lines(check, name, verbose=verbose))
    return EXIT_CODES[check.verdict]
