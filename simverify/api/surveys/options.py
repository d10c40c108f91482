"""The options of ``table``, ``bisect`` and ``sweep``: names, types, defaults, explanations."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from simverify.surveying.settings import LIMIT


@dataclass(frozen=True, kw_only=True)
class SizeOptions:
    """What every audit of a survey is given; None: not given.

    Attributes
    ----------
    gamma
        Largest draft length of the instances, 1 to 4; the audit's own if not given, or the
        engine's.
    vocab
        Largest vocabulary of the instances, 2 to 12; likewise.
    seconds
        Limit of each tier of an audit, which only aborts, to INCONCLUSIVE.
    limit
        Seconds of wall clock after which an audit is stopped, without a verdict.
    seed
        Seed of every audit.
    """

    gamma: int | None = None
    vocab: int | None = None
    seconds: float | None = None
    limit: float = LIMIT
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class TableOptions(SizeOptions):
    """Options of a table; None: not given.

    Attributes
    ----------
    engines
        Names of engines, comma-separated; all that are known if not given.
    engine_path
        Checkouts, or folders of checkouts under their repositories' names, comma-separated; what is
        not there is taken from the installed packages.
    jobs
        Audits at a time; by default one a core.
    audits
        Keep each audit's own result file in this folder, as NAME.json.
    """

    engines: str | None = None
    engine_path: str | None = None
    jobs: int | None = None
    audits: Path | None = None


@dataclass(frozen=True, kw_only=True)
class BisectOptions(SizeOptions):
    """Options of a bisection; None: not given.

    Attributes
    ----------
    good
        A release, or a commit, that is known to be good.
    bad
        A later one, that is known to be bad.
    engine_path
        A checkout with its git history: its commits are searched, each in a clone. The package's
        releases if not given.
    package
        What pip calls the package whose releases are searched; by default the engine's, or the
        first part of a module's name.
    contract
        Of a module's or a file's attribute: verify (the default), step, tree or draft.
    what
        The change that is looked for: of the law, that is of the verdict, or of the deviation or
        E[tau] on any instance; or of the verdict alone.
    """

    good: str | None = None
    bad: str | None = None
    engine_path: Path | None = None
    package: str | None = None
    contract: Literal["verify", "step", "tree", "draft"] | None = None
    what: Literal["law", "verdict"] = "law"


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """What a sweep is of, each in the place of the key of that name in SPEC; None: not given.

    Attributes
    ----------
    models
        Comma-separated: toy, compact, markov-V for any V, ngram, or files (.json, .npz).
    verifiers
        Comma-separated: token, block, greedy, match, temperature-0.
    gamma
        Draft lengths, comma-separated, such as 2,4,8.
    temperature
        Temperatures of markov-V, comma-separated.
    distance
        Draft distances of markov-V, comma-separated, each 0 to 1.
    seeds
        Seeds, comma-separated; 0 if not given.
    blocks
        Simulated blocks of each cell; a million if not given.
    shard
        Blocks of a shard; a killed worker loses one, or half a second of shorter ones; 262,144 if
        not given.
    alpha
        False-alarm rate of all cells together; 1e-6 if not given.
    detect
        Deviation (mean one-token TV) to be found with power .9; .01 if not given.
    audits
        SPECs as simverify audit takes them, comma-separated.
    audit_gamma
        Largest draft lengths of the audits, comma-separated, each 1 to 4; the audit's own if not
        given.
    """

    models: str | None = None
    verifiers: str | None = None
    gamma: str | None = None
    temperature: str | None = None
    distance: str | None = None
    seeds: str | None = None
    blocks: int | None = None
    shard: int | None = None
    alpha: float | None = None
    detect: float | None = None
    audits: str | None = None
    audit_gamma: str | None = None
