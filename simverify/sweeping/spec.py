"""The spec of a sweep: its lists, the cells they span, the shards of each."""

import hashlib
import itertools
import math
import os
import platform
import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from simverify.checks import check_comparison, check_ranges
from simverify.errors import UsageError
from simverify.folders import find_source, simverify_sources_sha256
from simverify.models import DEFAULT_DISTANCE
from simverify.options.option import Range
from simverify.results import SweepVersions
from simverify.verifiers import get_verifier

if TYPE_CHECKING:
    from simverify.trees import Drafting


# Cells: a comparison of one rule on one model each, or an audit.


PartName = Literal["run", "first calls"]

NGRAM_MODEL = "ngram"
"""The model whose rows no kernel on draft trees has."""


class ComparisonCell(msgspec.Struct, frozen=True):
    """One verifier on one model; ``temperature`` and ``distance`` are null but for markov-V.

    ``index``: its place in the sweep. ``drafts``, ``scheme``: so many drafts of ``gamma`` tokens
    and how they are drawn, of a rule for draft trees; null for a single draft.
    """

    index: int
    model: str
    temperature: float | None
    distance: float | None
    gamma: int
    seed: int
    verifier: str
    drafts: int | None = None
    scheme: str | None = None

    @property
    def name(self) -> str:
        """What progress and a dashboard call it."""
        knobs = "" if self.temperature is None else f" T {self.temperature:g} d {self.distance:g}"
        drafts = "" if self.drafts is None else f" drafts {self.drafts} {self.scheme}"
        return f"{self.verifier} on {self.model}{knobs} gamma {self.gamma}{drafts} seed {self.seed}"

    @property
    def drafting(self) -> "Drafting | None":
        """The draft trees; None: a single draft."""
        return cell_drafting(self.gamma, self.drafts, self.scheme)

    @property
    def one_draft(self) -> bool:
        """Whether the rule judges a single draft, beside rules for draft trees or not."""
        return is_single_draft(self.verifier, self.drafts is not None)

    @property
    def parts(self) -> tuple[PartName, ...]:
        """What is counted before the cell is judged."""
        return counted_parts(self.verifier, self.model, self.drafts is not None)


class AuditCell(msgspec.Struct, frozen=True):
    """One SPEC with one gamma and one seed; ``index`` goes on behind the cells."""

    index: int
    spec: str
    gamma: int | None
    seed: int

    @property
    def name(self) -> str:
        """What progress and a dashboard call it."""
        sized = "" if self.gamma is None else f" gamma {self.gamma}"
        return f"audit of {self.spec}{sized} seed {self.seed}"


def cell_drafting(gamma: int, drafts: int | None, scheme: str | None) -> "Drafting | None":
    """Return the trees of so many drafts. Raises ``UsageError`` where they are none."""
    if drafts is None:
        return None
    from simverify.comparing.trees import parse_drafting

    return parse_drafting(drafts, None, scheme, gamma)


def is_single_draft(verifier: str, on_trees: bool) -> bool:
    """Whether a rule judges a single draft; ``on_trees``: beside rules for draft trees."""
    if not on_trees:
        return True
    from simverify.comparing.trees import SINGLE_DRAFT_RULES

    return verifier in SINGLE_DRAFT_RULES


@lru_cache(maxsize=256)
def counted_parts(verifier: str, model: str, on_trees: bool) -> tuple[PartName, ...]:
    """Return what is counted of a verifier: of one with state its first calls besides.

    Nothing of a readable rule on draft trees, which is called where the cell is judged.
    """
    if is_single_draft(verifier, on_trees):
        step = get_verifier(verifier).contract == "step"
        return ("run", "first calls") if step else ("run",)
    from simverify.verifiers.trees import get_tree_verifier

    return (
        ("run",) if get_tree_verifier(verifier).kernel is not None and model != NGRAM_MODEL else ()
    )


def check_spec_exists(spec: str) -> None:
    """Raise ``UsageError`` for a SPEC whose name nobody knows, or whose file is not there.

    No code is loaded, so that its module and its attribute may still turn out to be none.
    """
    from simverify.auditing.subject import check_known

    place, colon, attribute = spec.rpartition(":")
    if not colon:
        check_known(spec)
    elif not place or not attribute:
        raise UsageError(f"{spec!r}: expected module:attribute or path/file.py:attribute")
    elif place.endswith(".py") and not Path(place).is_file():
        raise UsageError(f"no file {place}")


# Sources of a sweep's numbers: versions, and the files that cells name.
#
# A sweep does not resume with others, and no worker may have others.


@lru_cache(maxsize=1)
def current_versions() -> SweepVersions:
    """Return the versions in use here."""
    return SweepVersions(
        simverify=version("simverify"),
        code=simverify_sources_sha256(),
        python=".".join(platform.python_version_tuple()[:2]),
        numpy=version("numpy"),
        numba=version("numba"),
        scipy=version("scipy"),
    )


def version_difference(there: SweepVersions, here: SweepVersions) -> str:
    """Return in words what differs first of two that are not the same."""
    for name in SweepVersions.__struct_fields__:
        one, other = getattr(there, name), getattr(here, name)
        if one != other and name != "code":
            return f"{name} {one} there, {other} here"
    return "other code of simverify there"


def referenced_name(cell: ComparisonCell | AuditCell) -> str:
    """Return what a cell names its model, or the file or module of its SPEC, by."""
    return cell.spec.rpartition(":")[0] if isinstance(cell, AuditCell) else cell.model


def model_file(name: str) -> Path | None:
    """Return the file that a model is; None for one that is none."""
    return Path(name) if name.endswith((".json", ".npz")) else None


def sha256_or_none(path: Path) -> str | None:
    """Return the SHA-256 of a file; None where it cannot be read."""
    try:
        status = os.stat(path)
        return _file_sha256(path.resolve(), status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError:
        return None


@lru_cache(maxsize=64)
def _file_sha256(path: Path, *_told: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_same_file(cell: ComparisonCell | AuditCell, expected: str | None) -> None:
    """Raise ``UsageError`` unless the cell's file is the one with the SHA-256 ``expected``.

    A worker on another machine has a file of its own by that name, and files change meanwhile.
    """
    if expected is None:
        return
    file = find_source(cell.spec) if isinstance(cell, AuditCell) else model_file(cell.model)
    actual = None if file is None else sha256_or_none(file)
    if actual == expected:
        return
    there = "none that can be read" if actual is None else f"one with SHA-256 {actual[:12]}"
    raise UsageError(
        f"{referenced_name(cell)}: the sweep began with a file with SHA-256 {expected[:12]}, and "
        "a worker "
        f"has {there}: give every worker the same file, and let it be while they work"
    )


DEFAULT_BLOCKS = 1_000_000
"""The least that ``compare`` takes by itself."""

DEFAULT_SHARD = 1 << 18
"""Blocks of a shard: a second or so, which is what a killed worker loses."""

DEFAULT_DETECT = 0.01
DEFAULT_SCHEME = "iid"
MIN_BLOCKS, MAX_BLOCKS = 2, 10**10
MAX_AUDIT_GAMMA = 4


class SweepSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lists whose product is a sweep, and the numbers that all of its cells share.

    ``audits``: SPECs as ``simverify audit`` takes them, each with each of ``audit_gamma`` and of
    ``seeds``. ``drafts``: numbers of drafts of gamma tokens, each drawn by each ``scheme``; none
    for a single draft. Raises ``UsageError`` that names the first value that does not fit.
    """

    models: tuple[str, ...] = ()
    verifiers: tuple[str, ...] = ()
    gamma: tuple[int, ...] = ()
    temperature: tuple[float, ...] = (1.0,)
    distance: tuple[float, ...] = (DEFAULT_DISTANCE,)
    seeds: tuple[int, ...] = (0,)
    blocks: int = DEFAULT_BLOCKS
    shard: int = DEFAULT_SHARD
    alpha: float = 1e-6
    detect: float = DEFAULT_DETECT
    audits: tuple[str, ...] = ()
    audit_gamma: tuple[int, ...] = ()
    drafts: tuple[int, ...] = ()
    scheme: tuple[str, ...] = (DEFAULT_SCHEME,)

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            values = getattr(self, name)
            if isinstance(values, tuple) and len(set(values)) < len(values):
                twice = next(value for value in values if values.count(value) > 1)
                raise UsageError(f"{name} names {twice} twice: name each once")
        if not (self.models and self.verifiers) and not self.audits:
            raise UsageError("nothing to sweep: name models and verifiers, or audits")
        self._check_idle()
        if self.models and not self.gamma:
            raise UsageError("gamma is missing: name draft lengths, such as 4 or a list of them")
        for gamma in self.gamma or (1,):
            for seed in {min(self.seeds, default=0), max(self.seeds, default=0)}:
                check_comparison(
                    (), gamma=gamma, cost_ratio=0.1, alpha=self.alpha, detect=self.detect, seed=seed
                )
        self._check_rules()
        ranges = {
            "blocks": Range(MIN_BLOCKS, MAX_BLOCKS, words=f"{MIN_BLOCKS} to {MAX_BLOCKS}"),
            "shard": Range(1, MAX_BLOCKS, words=f"1 to {MAX_BLOCKS}"),
            "temperature": Range(0, below=math.inf, words="a finite number, 0 or more"),
            "distance": Range(0, 1),
            "audit_gamma": Range(1, MAX_AUDIT_GAMMA),
        }
        for name, limits in ranges.items():
            values = getattr(self, name)
            for value in values if isinstance(values, tuple) else (values,):
                check_ranges([(name, value, limits.holds(value), str(limits))])
        for name in ("seeds", "temperature", "distance", "scheme"):
            if not getattr(self, name):
                raise UsageError(f"{name} is an empty list: name one value at least")

    def _check_idle(self) -> None:
        """Refuse what would change nothing, since audits have none of it, or no model named."""
        if self.models and not any(map(_takes_knobs, self.models)):
            owner = "markov-V: name one, such as markov-64"
            self._only("temperature", "distance", whose=owner)
        elif not self.models:
            rest = ("verifiers", "gamma", "temperature", "distance", "drafts", "scheme")
            self._only(*rest, whose="comparisons: name models too")

    def _only(self, *names: str, whose: str) -> None:
        """Refuse keys that are given, and are of something else alone."""
        for name in names:
            default = type(self).__struct_defaults__[self.__struct_fields__.index(name)]
            if getattr(self, name) != default:
                raise UsageError(f"{name} is for {whose}, or leave it out")

    def _check_rules(self) -> None:
        if not self.drafts and self.scheme != (DEFAULT_SCHEME,):
            raise UsageError("scheme is for several drafts: name drafts, such as 2, too")
        for gamma, (drafts, scheme) in itertools.product(self.gamma, self.draftings):
            drafting = cell_drafting(gamma, drafts, scheme)
            if drafting is not None:
                from simverify.comparing.trees import tree_rules

                tree_rules(self.verifiers, drafting, {})
        if not self.drafts:
            for verifier in self.verifiers:
                get_verifier(verifier)

    @property
    def draftings(self) -> tuple[tuple[int | None, str | None], ...]:
        """Numbers of drafts with how they are drawn; None for a single draft."""
        return tuple(itertools.product(self.drafts, self.scheme)) or ((None, None),)

    def cells(self) -> Iterator[ComparisonCell]:
        """Yield every cell in order, models outermost, so that neighbours share their tables."""
        index = itertools.count()
        for model in self.models:
            knobs: Any = [(None, None)]
            if _takes_knobs(model):
                knobs = itertools.product(self.temperature, self.distance)
            for (t, d), gamma, (drafts, scheme), seed, verifier in itertools.product(
                knobs, self.gamma, self.draftings, self.seeds, self.verifiers
            ):
                yield ComparisonCell(
                    next(index), model, t, d, gamma, seed, verifier, drafts, scheme
                )

    def audit_cells(self) -> Iterator[AuditCell]:
        """Yield every audit in order."""
        gammas = self.audit_gamma or (None,)
        combinations = itertools.product(self.audits, gammas, self.seeds)
        for index, (spec, gamma, seed) in enumerate(combinations, self.number_of_cells):
            yield AuditCell(index, spec, gamma, seed)

    @property
    def number_of_cells(self) -> int:
        """How many cells there are."""
        return sum(map(self._settings_of, self.models)) * len(self.verifiers)

    @property
    def number_of_audits(self) -> int:
        """How many audits there are."""
        return len(self.audits) * max(len(self.audit_gamma), 1) * len(self.seeds)

    @property
    def number_of_shards(self) -> int:
        """How many shards there are in all; an audit is one."""
        parts = sum(
            self._settings_of(model) * len(counted_parts(verifier, model, bool(self.drafts)))
            for model, verifier in itertools.product(self.models, self.verifiers)
        )
        return parts * self.shards + self.number_of_audits

    def _settings_of(self, model: str) -> int:
        """Return how many cells a verifier has on a model."""
        knobs = len(self.temperature) * len(self.distance) if _takes_knobs(model) else 1
        return knobs * len(self.gamma) * len(self.draftings) * len(self.seeds)

    @property
    def shards(self) -> int:
        """How many shards a part of a cell has."""
        return -(-self.blocks // self.shard)

    @property
    def alpha_each(self) -> float | None:
        """Share of each cell; None if there are no cells."""
        return self.alpha / self.number_of_cells if self.number_of_cells else None

    def trials(self, first: int, end: int) -> tuple[int, int]:
        """Return the first trial of the shards [first, end), and how many they have."""
        return first * self.shard, min(end * self.shard, self.blocks) - first * self.shard

    def files(self) -> dict[str, str | None]:
        """Return the SHA-256 of every file that the sweep names; None where it cannot be read.

        A module under audit names the file that it is, and has its own name.
        """
        named = {name: model_file(name) for name in self.models}
        named |= {spec.rpartition(":")[0]: find_source(spec) for spec in self.audits}
        return {name: sha256_or_none(path) for name, path in named.items() if path is not None}

    def command(self) -> str:
        """Return the command that asks for this sweep."""
        default, words = SweepSpec(audits=("x",)), ["simverify", "sweep"]
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value != getattr(default, name):
                shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words += [f"--{name.replace('_', '-')}", shown] if shown else []
        return shlex.join([*words, "--out", "FOLDER"])


def _takes_knobs(model: str) -> bool:
    """Whether temperature and draft distance make another model of one by that name."""
    return re.fullmatch(r"markov-\d+", model) is not None


def rules_for_all_trees(spec: SweepSpec) -> tuple[str, ...]:
    """Return the rules that are lossless on all draft trees of a sweep; none of a single draft."""
    if not spec.drafts:
        return ()
    from simverify.comparing.trees import tree_rules

    draftings = [
        cell_drafting(gamma, *of) for gamma, of in itertools.product(spec.gamma, spec.draftings)
    ]
    rule_sets = [tree_rules(None, drafting, {}) for drafting in draftings if drafting is not None]
    return tuple(name for name in rule_sets[0] if all(name in rules for rules in rule_sets))
