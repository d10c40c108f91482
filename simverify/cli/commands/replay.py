"""``simverify replay``."""

import re
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Annotated

from cyclopts import Parameter

from simverify.cli.common import WIDTH
from simverify.errors import UsageError


def replay(run: Annotated[str, Parameter(show_env_var=False)], /) -> int:
    """Run one failing path or trial of an audit again, alone, and show every draw and branch.

    Parameters
    ----------
    run
        RUN.json#n: the n-th heaviest path to the output that deviates, from 0; or, where
        sampled calls failed, #0, the trial that shows it.
    """
    from simverify.auditing.process.supervised import (
        supervised_breach,
        supervised_explain,
        supervised_trial,
    )
    from simverify.auditing.replay.text import render
    from simverify.auditing.subject import load_subject
    from simverify.results.reading.document import read_audit

    name, hash_sign, number = run.rpartition("#")
    if not (name and hash_sign) or not re.fullmatch("[0-9]{1,18}", number):
        raise UsageError(f"{run!r}: expected RUN.json#n, such as run.json#0")
    document = read_audit(Path(name))
    load = partial(load_subject, document.spec, document.engine_path)
    if document.counterexample is not None:
        explanation = supervised_explain(
            load,
            document.contract,
            document.counterexample,
            spec=document.spec,
            batch=document.batch,
        )
        if int(number) >= len(explanation.trails):
            raise UsageError(
                f"{name} has {len(explanation.trails)} paths to the output, "
                f"numbered from 0: got {number}"
            )
        text = render(explanation, only=int(number))
    elif document.breach is not None:
        texts = supervised_breach(load, document)
        if int(number) >= len(texts):
            raise UsageError(
                f"{name} has {len(texts)} paths that break the contract, numbered from 0: "
                f"got {number}"
            )
        text = texts[int(number)]
    elif document.trial is not None:
        if int(number) != 0:
            raise UsageError(f"{name} has one failing trial, number 0: got {number}")
        text = supervised_trial(load, document)
    else:
        raise UsageError(
            f"{name}: the audit found no counterexample and no failing trial to replay"
        )
    for line in text.splitlines():
        print(fill(line, WIDTH, subsequent_indent=" " * 6))
    return 0
