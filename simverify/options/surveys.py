"""The options of ``table``, ``bisect`` and ``sweep``."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from simverify.options.audit import EngineOptions, SmallOptions
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
        "Largest draft length of the instances, 1 to 4; by default, that of the audit or of the "
        "engine.",
        INSTANCES,
        GAMMA,
    )
    vocab: int | None = option(
        "Largest vocabulary of the instances, 2 to 12; by default, that of the audit or of the "
        "engine.",
        INSTANCES,
        VOCAB,
    )
    seconds: float | None = option(
        "Time limit of each tier of an audit. Reaching it never makes a FAIL.",
        BUDGET,
        SECONDS,
    )
    limit: float = option(
        "Wall-clock seconds after which an audit is stopped without a verdict.",
        BUDGET,
        SECONDS,
        default=LIMIT,
    )
    seed: int = option("Seed of every audit.", BUDGET, SEED, default=0)


@dataclass(frozen=True)
class TableOptions(SizeOptions):
    """Of a table of engines."""

    engines: Sequence[str] | str | None = option(
        "Names of engines, comma-separated; by default, all known engines. A named engine that "
        "is missing counts as not loaded.",
        SUBJECT,
    )
    _: KW_ONLY
    engine_path: Sequence[PathName] | PathName | None = option(
        "Checkouts, or folders that hold checkouts named like their repositories, "
        "comma-separated. Other engines are taken from the installed packages.",
        SUBJECT,
        verbatim=True,
    )
    jobs: int | None = option(
        "Number of audits that run at once; by default, one per core.", ADVANCED
    )
    audits: PathName | None = option(
        "Keep each audit's own result file in this folder, as NAME.json.", OUTPUT
    )

    def checkouts(self) -> list[str]:
        """Return the checkouts, and the folders of checkouts, that were named."""
        return self.listed("engine_path")


@dataclass(frozen=True)
class BisectOptions(EngineOptions, SizeOptions):
    """Of a bisection."""

    spec: str | None = option(
        "An engine, module:attr, or path/file.py:attr of a checkout.", SUBJECT
    )
    good: str | None = option("A release or a commit that is known to be good.", SUBJECT)
    bad: str | None = option("A later release or commit that is known to be bad.", SUBJECT)
    _: KW_ONLY
    engine_path: PathName | None = option(
        "A checkout with its git history. Its commits are searched, each in a clone. By default, "
        "the package's releases are searched.",
        SUBJECT,
    )
    package: str | None = option(
        "The pip name of the package whose releases are searched; by default, the engine's "
        "package, or the first part of the module's name.",
        SUBJECT,
    )
    contract: Contract | None = inherited(SmallOptions, "contract")
    what: Literal["law", "verdict"] = option(
        "What counts as a change: law (the verdict, or the deviation or E[tau] on any instance) "
        "or verdict (the verdict alone).",
        SUBJECT,
        default="law",
    )


@dataclass(frozen=True, kw_only=True)
class SweepKeys(Options):
    """What a sweep is of: keys of its file, in whose place they stand."""

    models: Values | None = option(
        "Comma-separated: toy, compact, markov-V for any V, ngram, or files (.json, .npz).", SUBJECT
    )
    verifiers: Values | None = option(
        "Comma-separated: token, block, greedy, match, temperature-0. With drafts, the names of "
        "compare --drafts; by default, all that are lossless there.",
        SUBJECT,
    )
    gamma: Values | None = option("Draft lengths, comma-separated, such as 2,4,8.", SUBJECT)
    temperature: Values | None = option("Temperatures of markov-V, comma-separated.", SUBJECT)
    distance: Values | None = option(
        "Draft distances of markov-V, comma-separated, each 0 to 1.", SUBJECT
    )
    seeds: Values | None = option("Seeds, comma-separated; 0 by default.", SUBJECT)
    blocks: int | None = option("Simulated blocks per cell; a million by default.", BUDGET)
    shard: int | None = option(
        "Blocks per shard; 262,144 by default. A killed worker loses one shard, or half a second "
        "of shorter ones."
    )
    alpha: float | None = option("False-alarm rate of all cells together; 1e-6 by default.", BUDGET)
    detect: float | None = option(
        "Deviation (mean one-token TV) to detect with power .9; .01 by default.", BUDGET
    )
    audits: Values | None = option(
        "SPECs to audit, as simverify audit takes them, comma-separated.", SUBJECT
    )
    audit_gamma: Values | None = option(
        "Largest draft lengths of the audits, comma-separated, each 1 to 4; by default, the "
        "audit's own.",
        SUBJECT,
    )
    drafts: Values | None = option(
        "Numbers of drafts of gamma tokens, comma-separated, for rules that judge several; one "
        "draft by default.",
        SUBJECT,
    )
    scheme: Values | None = option(
        "How several drafts are drawn, comma-separated: iid (the default), without-replacement, "
        "top-k, argmax-first or last-sampled.",
        SUBJECT,
    )


@dataclass(frozen=True)
class SweepOptions(SweepKeys):
    """Of a sweep."""

    spec: PathName | None = option(
        "A TOML file whose keys are named like the options. An option overrides its key.", SUBJECT
    )
    _: KW_ONLY
    out: PathName | None = option("Folder for this sweep.", OUTPUT)
    executor: str | Executor = option(
        "threads, processes, dask (a cluster on this machine, for this run) or "
        "dask:tcp://HOST:PORT (an existing cluster). The choice never changes a result.",
        default="processes",
    )
    workers: int | None = option(
        "Number of tasks that run at once; by default, one per core, or one per thread of a "
        "cluster."
    )
