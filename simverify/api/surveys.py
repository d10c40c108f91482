"""``simverify.sweep``, ``table`` and ``bisect``: many comparisons or audits in one call."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simverify.api.compare import DEFAULT_MODELS, DEFAULT_VERIFIERS
from simverify.checks import pick_name, read_toml
from simverify.errors import OptionError, UsageError
from simverify.options.modes import keywords
from simverify.options.surveys import (
    BisectOptions,
    SizeOptions,
    SweepKeys,
    SweepOptions,
    TableOptions,
)
from simverify.results import BisectRun, SweepRun, TableRun
from simverify.surveying.bisect import Commits, Releases, resolve_code
from simverify.surveying.bisect import bisect as bisect_versions
from simverify.surveying.table import TableSettings, make_table, size_words
from simverify.sweeping.spec import SweepSpec, rules_for_all_trees

# ``simverify.bisect``: which release, or which commit, changed the law.


@keywords(BisectOptions)
def bisect(options: BisectOptions) -> BisectRun:
    """Find the first release, or commit, after ``good`` whose law differs from its.

    Every version is audited in an environment of its own, with the same seed: pip installs a
    release there, or what a commit asks for, which is checked out in a clone. One that cannot be
    installed is ``untestable``, and gone around.

    Returns
    -------
    BisectRun
        ``run.outcome``, ``run.first``, ``run.how``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A version that is unknown or cannot be judged, or ``good`` is not good.
    """
    if options.good is None or options.bad is None:
        raise OptionError("{good} and {bad} are both needed: two releases, or two commits")
    if options.checkout is not None and options.package is not None:
        raise OptionError("{package} is for releases, not for the commits of a checkout")
    code = resolve_code(str(options.spec))
    if code.engine is not None and options.contract is not None:
        raise OptionError("{contract} is not for an engine, which has its own")
    source = (
        Releases(code, options.package)
        if options.checkout is None
        else Commits(code, Path(options.checkout))
    )
    command = _bisect_command(options)
    return bisect_versions(code, source, options.good, options.bad, options, command)


def _bisect_command(options: BisectOptions) -> str:
    words = ["--good", str(options.good), "--bad", str(options.bad)]
    words += options.words(without=("spec", "good", "bad", *SizeOptions.names()))
    return shlex.join(["simverify", "bisect", str(options.spec), *words, *size_words(options)])


_LISTED: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("gamma", "seeds", "audit_gamma", "drafts"), (int, "whole numbers")),
    **dict.fromkeys(("temperature", "distance"), (float, "numbers")),
}
"""Keys whose values are lists of numbers; those of the others are lists of names."""

_SCALAR_KEYS: dict[str, type] = {"blocks": int, "shard": int, "alpha": float, "detect": float}
_FITS: dict[type, tuple[type, ...]] = {int: (int,), float: (int, float), str: (str,)}
SPEC_KEYS = tuple(SweepSpec.__struct_fields__)


# ``simverify.sweep``: a grid of comparisons, and audits, on anything that runs tasks.


@keywords(SweepOptions)
def sweep(options: SweepOptions) -> SweepRun:
    """Compare every verifier on every model with every gamma, knob and seed; run audits likewise.

    What is finished is kept in ``out``: after a crash, or Ctrl-C, the same call goes on from there.
    With the executors "processes" and "dask" a script needs ``if __name__ == "__main__":``.

    Returns
    -------
    SweepRun
        ``run.verdict``, ``run.cells``, ``run.audits``; ``print(run)`` shows the table.

    Raises
    ------
    UsageError
        An unknown key or name, a value out of range, a folder of another sweep or in use, a disk
        that is full.
    SimverifyError
        Workers that are gone.
    """
    return run_spec(options)


def run_spec(options: SweepOptions, **more: Any) -> SweepRun:
    """Run what the options ask for; ``more``: as ``run_sweep`` takes it."""
    from simverify.sweeping.run import run_sweep

    if options.out is None:
        raise OptionError("{out} is missing: name the folder of this sweep")
    keys = {name: getattr(options, name) for name in SweepKeys.names()}
    return run_sweep(
        build_spec(None if options.spec is None else Path(options.spec), keys),
        Path(options.out),
        executor=options.executor,
        workers=options.workers,
        progress=options.progress,
        **more,
    )


def build_spec(file: Path | None, given: Mapping[str, Any]) -> SweepSpec:
    """Return what is asked for: the keys of a file, and in their place what is ``given``.

    Raises ``UsageError`` for an unknown key, with the nearest one, and for a value that does not
    fit.
    """
    values: dict[str, Any] = {}
    if file is not None:
        for key, value in read_toml(file).items():
            name = pick_name(key.replace("-", "_"), SPEC_KEYS, f"key in {file}")
            values[name] = _parse_value(name, value, f"{file}: {key}")
    values |= {
        name: _parse_value(name, value, name.replace("_", "-"))
        for name, value in given.items()
        if value is not None
    }
    if not values.get("audits") or any(name in values for name in ("models", "verifiers", "gamma")):
        values.setdefault("models", DEFAULT_MODELS)
        if "verifiers" not in values:
            on_trees = rules_for_all_trees(SweepSpec(verifiers=("block",), **values))
            values["verifiers"] = on_trees or DEFAULT_VERIFIERS
    return SweepSpec(**values)


def _parse_value(name: str, value: Any, where: str) -> Any:
    """Return the value of a key as a spec has it; one value stands for a list of one."""
    if name in _SCALAR_KEYS:
        kinds = _FITS[_SCALAR_KEYS[name]]
        if not isinstance(value, kinds) or isinstance(value, bool):
            expected = "a whole number" if kinds == (int,) else "a number"
            raise UsageError(f"{where} is {value!r}: expected {expected}")
        return _SCALAR_KEYS[name](value)
    if isinstance(value, str):
        parts: Iterable[Any] = [word.strip() for word in value.split(",")]
    else:
        parts = value if isinstance(value, Sequence) else (value,)
    kind, expected = _LISTED.get(name, (str, "names"))
    try:
        return tuple(_parse_item(part, kind, text=isinstance(value, str)) for part in parts)
    except ValueError:
        raise UsageError(f"{where} is {value!r}: expected {expected}, one or a list") from None


def _parse_item(part: Any, kind: type, *, text: bool) -> Any:
    if text and kind is not str:
        return kind(part)
    if not isinstance(part, _FITS[kind]) or isinstance(part, bool) or part == "":
        raise ValueError
    return kind(part)


# ``simverify.table``: every installed engine audited, side by side.


@keywords(TableOptions)
def table(options: TableOptions) -> TableRun:
    """Audit every engine that is installed or has a checkout, in parallel processes.

    An engine that does not load, crashes or takes too long has a row that says so.

    Returns
    -------
    TableRun
        ``run.rows``, ``run.verdict``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A name that is unknown, a folder that does not exist, a value out of range, no engine.
    """
    return make_table(table_settings(options), progress=options.progress)


def table_settings(options: TableOptions) -> TableSettings:
    """Return the settings of a table.

    Raises ``UsageError`` for a value out of range, or a folder that does not exist.
    """
    return TableSettings(
        sizes=options,
        engines=None if options.engines is None else tuple(options.listed("engines")),
        folders=tuple(Path(name) for name in options.checkouts()),
        jobs=options.jobs,
        audits=None if options.audits is None else Path(options.audits),
    )
