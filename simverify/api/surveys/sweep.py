"""``simverify.sweep``: a grid of comparisons, and audits, on anything that runs tasks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

from simverify.api.simulated import DEFAULT_MODELS, DEFAULT_VERIFIERS
from simverify.api.surveys.options import SweepOptions
from simverify.checks import pick, read_toml
from simverify.errors import UsageError
from simverify.results import SweepRun
from simverify.sweeping.spec import Spec, rules_on_all

Say = Callable[[str], None]
Values = Sequence[Any] | str | int | float

_WHOLE = ("gamma", "seeds", "audit_gamma", "drafts")
_NUMBERS = ("temperature", "distance")
_NAMES = ("models", "verifiers", "audits", "scheme")
_SINGLE: dict[str, type] = {"blocks": int, "shard": int, "alpha": float, "detect": float}
KEYS = tuple(Spec.__struct_fields__)


def sweep(
    spec: str | PathLike[str] | None = None,
    *,
    out: str | PathLike[str],
    executor: str | Executor = "processes",
    workers: int | None = None,
    models: Values | None = None,
    verifiers: Values | None = None,
    gamma: Values | None = None,
    temperature: Values | None = None,
    distance: Values | None = None,
    seeds: Values | None = None,
    blocks: int | None = None,
    shard: int | None = None,
    alpha: float | None = None,
    detect: float | None = None,
    audits: Values | None = None,
    audit_gamma: Values | None = None,
    drafts: Values | None = None,
    scheme: Values | None = None,
    progress: Say | None = None,
) -> SweepRun:
    """Compare every verifier on every model with every gamma, knob and seed; run audits likewise.

    What is finished is kept in ``out``: after a crash, or Ctrl-C, the same call goes on from there.

    Parameters
    ----------
    spec
        A TOML file with the lists; keywords take the place of its keys.
    out
        The folder of this sweep: ``sweep.json``, and the shards.
    executor
        "threads", "processes", "dask" for a cluster on this machine, "dask:tcp://HOST:PORT" for
        one that is there, or an executor of ``concurrent.futures``. It never changes a result.
        With "processes" and "dask" a script needs ``if __name__ == "__main__":``.
    workers
        Tasks at a time; by default one a core, of a cluster one a thread.
    models, verifiers
        As of :func:`simverify.compare`: names, and files for models; built-in verifiers. By
        default those of ``compare``, or none where only audits are named.
    gamma, temperature, distance, seeds
        One value or a list of each; ``temperature`` and draft ``distance`` are of markov-V alone.
    blocks, shard
        Simulated blocks of each cell, and of each of its shards.
    alpha, detect
        False-alarm rate of all cells together; deviation to be found with power .9.
    audits, audit_gamma
        SPECs as ``simverify audit`` takes them, and the gammas of their instances.
    drafts, scheme
        Numbers of drafts of gamma tokens, for rules that judge several; how they are drawn, as
        ``compare`` takes it: iid, without-replacement, ...
    progress
        Receives a line now and then.

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
    given = {
        "models": models, "verifiers": verifiers, "gamma": gamma, "temperature": temperature,
        "distance": distance, "seeds": seeds, "blocks": blocks, "shard": shard, "alpha": alpha,
        "detect": detect, "audits": audits, "audit_gamma": audit_gamma, "drafts": drafts,
        "scheme": scheme,
    }  # fmt: skip
    from simverify.sweeping.run import run_sweep

    asked = spec_of(None if spec is None else Path(spec), given)
    return run_sweep(asked, Path(out), executor=executor, workers=workers, progress=progress)


def given_by(options: SweepOptions) -> dict[str, Any]:
    """Return the values of the options that are keys of a spec."""
    return {field.name: getattr(options, field.name) for field in fields(options)}


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
