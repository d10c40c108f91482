"""``simverify replay``."""

import re
from pathlib import Path
from textwrap import fill
from typing import Annotated

from cyclopts import Parameter

from simverify.errors import UsageError
from simverify.reports.terminal import WIDTH


def replay(run: Annotated[str, Parameter(show_env_var=False)], /) -> int:
    """Run one failing path or trial of an audit again, alone, and show every draw and branch.

    Parameters
    ----------
    run
        RUN.json#n: the n-th heaviest path to the output that deviates, from 0; or, where
        sampled calls failed, #0, the trial that shows it.
    """
    from simverify.api.replay import replay as replay_run
    from simverify.results.reading.document import read_audit

    name, hash_sign, number = run.rpartition("#")
    if not (name and hash_sign) or not re.fullmatch("[0-9]{1,18}", number):
        raise UsageError(f"{run!r}: expected RUN.json#n, such as run.json#0")
    text = replay_run(read_audit(Path(name)), int(number), name=name)
    for line in text.splitlines():
        print(fill(line, WIDTH, subsequent_indent=" " * 6))
    return 0
