"""``simverify.replay``: one failing path or trial of an audit again, alone."""

from collections.abc import Callable

from simverify.api.code import bridges
from simverify.api.code.subjects import again
from simverify.api.pairs import loader
from simverify.auditing.process.supervised import (
    supervised_breach,
    supervised_explain,
    supervised_line,
    supervised_trial,
)
from simverify.auditing.replay.text import render
from simverify.auditing.subject import Subject
from simverify.errors import UsageError
from simverify.results import AuditRun


class Replayed(str):
    """The text of a replay, which a Python prompt and a notebook show as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def replay(run: AuditRun, number: int = 0, *, name: str = "the run") -> Replayed:
    """Run one failing path or trial of an audit again, and show every draw and branch.

    Parameters
    ----------
    run
        What :func:`simverify.audit` or :func:`simverify.load` returned. Its code is called
        again: the callable itself in the session that audited it, else what its SPEC names.
    number
        Of the path, the heaviest first, from 0; a failing trial of sampled calls is 0.
    name
        What an error calls the run.

    Raises
    ------
    UsageError
        If nothing failed, or there is no path of that number.
    SimverifyError
        If the code cannot be loaded, or is not the code of the audit any more.
    """
    load = _loader(run)
    if run.counterexample is not None:
        explanation = supervised_explain(
            load,
            run.contract,
            run.counterexample,
            spec=run.spec,
            batch=run.batch,
            company=run.company,
        )
        count = len(explanation.trails)
        if count == number == 0:
            # The code never emits what is due: the rows and the two probabilities are all there is.
            return Replayed(render(explanation))
        if not 0 <= number < count:
            raise UsageError(
                f"{name} has {count} paths to the output, numbered from 0: got {number}"
            )
        return Replayed(render(explanation, only=number))
    if run.breach is not None:
        texts = supervised_breach(load, run)
        if not 0 <= number < len(texts):
            raise UsageError(
                f"{name} has {len(texts)} paths that break the contract, numbered from 0: "
                f"got {number}"
            )
        return Replayed(texts[number])
    if run.trial is None and (run.bridge is None or run.bridge.line is None):
        raise UsageError(
            f"{name}: the audit found no counterexample and no failing trial to replay"
        )
    if number != 0:
        raise UsageError(f"{name} has one failing trial, number 0: got {number}")
    return Replayed((supervised_line if run.trial is None else supervised_trial)(load, run))


def _loader(run: AuditRun) -> Callable[[], Subject]:
    """Return what loads the code of a run again."""
    if run.bridge is not None:
        return bridges.loader(run.bridge)
    return loader(run.pair, run.engine_path) if run.pair else again(run.spec, run.engine_path)
