"""``simverify.sweep``: a grid of comparisons, and audits, on anything that runs tasks."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simverify.api.simulated import DEFAULT_MODELS, DEFAULT_VERIFIERS
from simverify.checks import pick, read_toml
from simverify.errors import OptionError, UsageError
from simverify.options.modes import keywords
from simverify.options.surveys import SweepKeys, SweepOptions
from simverify.results import SweepRun
from simverify.sweeping.spec import Spec, rules_on_all

_WHOLE = ("gamma", "seeds", "audit_gamma", "drafts")
_NUMBERS = ("temperature", "distance")
_NAMES = ("models", "verifiers", "audits", "scheme")
_SINGLE: dict[str, type] = {"blocks": int, "shard": int, "alpha": float, "detect": float}
KEYS = tuple(Spec.__struct_fields__)


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
    asked = spec_of(None if options.spec is None else Path(options.spec), keys_of(options))
    return run_sweep(
        asked,
        Path(options.out),
        executor=options.executor,
        workers=options.workers,
        progress=options.progress,
        **more,
    )


def keys_of(options: SweepKeys) -> dict[str, Any]:
    """Return the values of the options that are keys of a spec."""
    return {name: getattr(options, name) for name in SweepKeys.names()}


def spec_of(file: Path | None, given: Mapping[str, Any]) -> Spec:
    """Return what is asked for: the keys of a file, and in their place what is ``given``.

    Raises ``UsageError`` for an unknown key, with the nearest one, and for a value that does not
    fit.
    """
    values: dict[str, Any] = {}
    if file is not None:
        for key, value in read_toml(file).items():
            name = pick(key.replace("-", "_"), KEYS, f"key in {file}")
            values[name] = _value(name, value, f"{file}: {key}")
    values |= {
        name: _value(name, value, name.replace("_", "-"))
        for name, value in given.items()
        if value is not None
    }
    if not values.get("audits") or any(name in values for name in ("models", "verifiers", "gamma")):
        values.setdefault("models", DEFAULT_MODELS)
        if "verifiers" not in values:
            on_trees = rules_on_all(Spec(verifiers=("block",), **values))
            values["verifiers"] = on_trees or DEFAULT_VERIFIERS
    return Spec(**values)


def _value(name: str, value: Any, where: str) -> Any:
    """Return the value of a key as a spec has it; one value stands for a list of one."""
    if name in _SINGLE:
        kinds: tuple[type, ...] = (int,) if _SINGLE[name] is int else (int, float)
        if not isinstance(value, kinds) or isinstance(value, bool):
            expected = "a whole number" if kinds == (int,) else "a number"
            raise UsageError(f"{where} is {value!r}: expected {expected}")
        return _SINGLE[name](value)
    if isinstance(value, str):
        parts: Iterable[Any] = [word.strip() for word in value.split(",")]
    else:
        parts = value if isinstance(value, Sequence) else (value,)
    kind, expected = (
        (int, "whole numbers") if name in _WHOLE else
        (float, "numbers") if name in _NUMBERS else (str, "names")
    )  # fmt: skip
    try:
        return tuple(_one(part, kind, text=isinstance(value, str)) for part in parts)
    except ValueError:
        raise UsageError(f"{where} is {value!r}: expected {expected}, one or a list") from None


def _one(part: Any, kind: type, *, text: bool) -> Any:
    fits: dict[type, tuple[type, ...]] = {int: (int,), float: (int, float), str: (str,)}
    if text and kind is not str:
        return kind(part)
    if not isinstance(part, fits[kind]) or isinstance(part, bool) or part == "":
        raise ValueError
    return kind(part)
