"""The options of ``table``, ``bisect`` and ``sweep``."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from simverify.options.audit import SmallOptions
from simverify.options.option import (
    ADVANCED,
    BUDGET,
    GAMMA,
    INSTANCES,
    OUTPUT,
    SECONDS,
    SEED,
    SUBJECT,
    VOCAB,
    Contract,
    Options,
    PathName,
    inherited,
    option,
)

Values = Sequence[Any] | str | int | float

LIMIT = 600.0
"""Seconds of wall clock for one audit: ten times what one should take."""


@dataclass(frozen=True, kw_only=True)
class SizeOptions(Options):
    """What every audit of a survey is given."""

    gamma: int | None = option(
        None,
        "Largest draft length of the instances, 1 to 4; the audit's own if not given, or the "
        "engine's.",
        INSTANCES,
        GAMMA,
    )
    vocab: int | None = option(
        None,
        "Largest vocabulary of the instances, 2 to 12; likewise.",
        INSTANCES,
        VOCAB,
    )
    seconds: float | None = option(
        None,
        "Limit of each tier of an audit, which only aborts, to INCONCLUSIVE.",
        BUDGET,
        SECONDS,
    )
    limit: float = option(
        LIMIT,
        "Seconds of wall clock after which an audit is stopped, without a verdict.",
        BUDGET,
        SECONDS,
    )
    seed: int = option(0, "Seed of every audit.", BUDGET, SEED)


@dataclass(frozen=True)
class TableOptions(SizeOptions):
    """Of a table of engines."""

    engines: Sequence[str] | str | None = option(
        None,
        "Names of engines, comma-separated; all that are known if not given. One that is named and "
        "is not here counts as not loaded.",
        SUBJECT,
    )
    _: KW_ONLY
    engine_path: Sequence[PathName] | PathName | None = option(
        None,
        "Checkouts, or folders of checkouts under their repositories' names, comma-separated; what "
        "is not there is taken from the installed packages.",
        SUBJECT,
        verbatim=True,
    )
    jobs: int | None = option(None, "Audits at a time; by default one a core.", ADVANCED)
    audits: PathName | None = option(
        None, "Keep each audit's own result file in this folder, as NAME.json.", OUTPUT
    )


@dataclass(frozen=True)
class BisectOptions(SizeOptions):
    """Of a bisection."""

    spec: str | None = option(
        None, "An engine, module:attr, or path/file.py:attr of a checkout.", SUBJECT
    )
    good: str | None = option(None, "A release, or a commit, that is known to be good.", SUBJECT)
    bad: str | None = option(None, "A later one, that is known to be bad.", SUBJECT)
    _: KW_ONLY
    engine_path: PathName | None = option(
        None,
        "A checkout with its git history: its commits are searched, each in a clone. The package's "
        "releases if not given.",
        SUBJECT,
    )
    package: str | None = option(
        None,
        "What pip calls the package whose releases are searched; by default the engine's, or the "
        "first part of a module's name.",
        SUBJECT,
    )
    contract: Contract | None = inherited(SmallOptions, "contract")
    what: Literal["law", "verdict"] = option(
        "law",
        "The change that is looked for: of the law, that is of the verdict, or of the deviation or "
        "E[tau] on any instance; or of the verdict alone.",
        SUBJECT,
    )


@dataclass(frozen=True, kw_only=True)
class SweepKeys(Options):
    """What a sweep is of: keys of its file, in whose place they stand."""

    models: Values | None = option(
        None,
        "Comma-separated: toy, compact, markov-V for any V, ngram, or files (.json, .npz).",
        SUBJECT,
    )
    verifiers: Values | None = option(
        None,
        "Comma-separated: token, block, greedy, match, temperature-0; with drafts those of compare "
        "--drafts, all that are lossless there if not given.",
        SUBJECT,
    )
    gamma: Values | None = option(None, "Draft lengths, comma-separated, such as 2,4,8.", SUBJECT)
    temperature: Values | None = option(None, "Temperatures of markov-V, comma-separated.", SUBJECT)
    distance: Values | None = option(
        None, "Draft distances of markov-V, comma-separated, each 0 to 1.", SUBJECT
    )
    seeds: Values | None = option(None, "Seeds, comma-separated; 0 if not given.", SUBJECT)
    blocks: int | None = option(
        None, "Simulated blocks of each cell; a million if not given.", BUDGET
    )
    shard: int | None = option(
        None,
        "Blocks of a shard; a killed worker loses one, or half a second of shorter ones; 262,144 "
        "if not given.",
    )
    alpha: float | None = option(
        None, "False-alarm rate of all cells together; 1e-6 if not given.", BUDGET
    )
    detect: float | None = option(
        None, "Deviation (mean one-token TV) to be found with power .9; .01 if not given.", BUDGET
    )
    audits: Values | None = option(
        None, "SPECs as simverify audit takes them, comma-separated.", SUBJECT
    )
    audit_gamma: Values | None = option(
        None,
        "Largest draft lengths of the audits, comma-separated, each 1 to 4; the audit's own if not "
        "given.",
        SUBJECT,
    )
    drafts: Values | None = option(
        None,
        "Numbers of drafts of gamma tokens, comma-separated, for rules that judge several; a "
        "single draft if not given.",
        SUBJECT,
    )
    scheme: Values | None = option(
        None,
        "How several drafts are drawn, comma-separated: iid (the default), without-replacement, "
        "top-k, argmax-first or last-sampled.",
        SUBJECT,
    )


@dataclass(frozen=True)
class SweepOptions(SweepKeys):
    """Of a sweep."""

    spec: PathName | None = option(
        None,
        "A TOML file with keys named as the options; an option takes the place of its key.",
        SUBJECT,
    )
    _: KW_ONLY
    out: PathName | None = option(None, "The folder of this sweep.", OUTPUT)
    executor: str | Executor = option(
        "processes",
        "threads, processes, dask (a cluster on this machine, for the run) or dask:tcp://HOST:PORT "
        "(one that is there). It never changes a result.",
    )
    workers: int | None = option(
        None, "Tasks at a time; by default one a core, of a cluster one a thread."
    )
