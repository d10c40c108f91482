"""What a sweep is asked for: its lists, the cells they span, the shards of each."""

import itertools
import math
import re
import shlex
from collections.abc import Iterator
from typing import Any

import msgspec

from simverify.checks import comparison_iv, ranges_iv
from simverify.errors import UsageError
from simverify.folders import find_source
from simverify.models import DEFAULT_DISTANCE
from simverify.sweeping.cells import AuditCell, Cell, drafting_of, parts_of
from simverify.sweeping.versions import file_of_model, sha256
from simverify.verifiers import get_verifier

DEFAULT_BLOCKS = 1_000_000
"""The least that ``compare`` takes by itself."""

DEFAULT_SHARD = 1 << 18
"""Blocks of a shard: a second or so, which is what a killed worker loses."""

DETECT = 0.01
DEFAULT_SCHEME = "iid"
MIN_BLOCKS, MAX_BLOCKS = 2, 10**10
MAX_AUDIT_GAMMA = 4


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    detect: float = DETECT
    audits: tuple[str, ...] = ()
    audit_gamma: tuple[int, ...] = ()
    drafts: tuple[int, ...] = ()
    scheme: tuple[str, ...] = (DEFAULT_SCHEME,)

    def __post_init__(self) -> None:
        lists = ("models", "verifiers", "gamma", "temperature", "distance", "seeds", "audits",
                 "audit_gamma", "drafts", "scheme")  # fmt: skip
        for name in lists:
            values = getattr(self, name)
            if len(set(values)) < len(values):
                twice = next(value for value in values if values.count(value) > 1)
                raise UsageError(f"{name} names {twice} twice: name each once")
        if not (self.models and self.verifiers) and not self.audits:
            raise UsageError("nothing to sweep: name models and verifiers, or audits")
        self._idle_iv()
        if self.models and not self.gamma:
            raise UsageError("gamma is missing: name draft lengths, such as 4 or a list of them")
        for gamma in self.gamma or (1,):
            for seed in {min(self.seeds, default=0), max(self.seeds, default=0)}:
                comparison_iv(
                    (), gamma=gamma, cost_ratio=0.1, alpha=self.alpha, detect=self.detect,
                    seed=seed,
                )  # fmt: skip
        self._rules_iv()
        sizes = f"{MIN_BLOCKS} to {MAX_BLOCKS}"
        in_range = MIN_BLOCKS <= self.blocks <= MAX_BLOCKS
        ranges_iv(
            [("blocks", self.blocks, in_range, sizes),
             ("shard", self.shard, 1 <= self.shard <= MAX_BLOCKS, f"1 to {MAX_BLOCKS}")]
            + [("temperature", t, 0 <= t < math.inf, "a finite number, 0 or more")
               for t in self.temperature]
            + [("distance", d, 0 <= d <= 1, "0 to 1") for d in self.distance]
            + [("audit_gamma", g, 1 <= g <= MAX_AUDIT_GAMMA, f"1 to {MAX_AUDIT_GAMMA}")
               for g in self.audit_gamma]
        )  # fmt: skip
        for name in ("seeds", "temperature", "distance", "scheme"):
            if not getattr(self, name):
                raise UsageError(f"{name} is an empty list: name one value at least")

    def _idle_iv(self) -> None:
        """Refuse what would change nothing, since audits have none of it, or no model named."""
        if self.models and not any(map(_has_knobs, self.models)):
            whose = "markov-V: name one, such as markov-64"
            self._only("temperature", "distance", whose=whose)
        elif not self.models:
            rest = ("verifiers", "gamma", "temperature", "distance", "drafts", "scheme")
            self._only(*rest, whose="comparisons: name models too")

    def _only(self, *names: str, whose: str) -> None:
        """Refuse keys that are given, and are of something else alone."""
        for name in names:
            default = type(self).__struct_defaults__[self.__struct_fields__.index(name)]
            if getattr(self, name) != default:
                raise UsageError(f"{name} is for {whose}, or leave it out")

    def _rules_iv(self) -> None:
        if not self.drafts and self.scheme != (DEFAULT_SCHEME,):
            raise UsageError("scheme is for several drafts: name drafts, such as 2, too")
        for gamma, (drafts, scheme) in itertools.product(self.gamma, self.draftings):
            drafting = drafting_of(gamma, drafts, scheme)
            if drafting is not None:
                from simverify.comparing.trees.rules import tree_rules

                tree_rules(self.verifiers, drafting, {})
        if not self.drafts:
            for verifier in self.verifiers:
                get_verifier(verifier)

    @property
    def draftings(self) -> tuple[tuple[int | None, str | None], ...]:
        """Numbers of drafts with how they are drawn; None for a single draft."""
        return tuple(itertools.product(self.drafts, self.scheme)) or ((None, None),)

    def cells(self) -> Iterator[Cell]:
        """Yield every cell in order, models outermost, so that neighbours share their tables."""
        index = itertools.count()
        for model in self.models:
            knobs: Any = [(None, None)]
            if _has_knobs(model):
                knobs = itertools.product(self.temperature, self.distance)
            for (t, d), gamma, (drafts, scheme), seed, verifier in itertools.product(
                knobs, self.gamma, self.draftings, self.seeds, self.verifiers
            ):
                yield Cell(next(index), model, t, d, gamma, seed, verifier, drafts, scheme)

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
    def number_of_shards(self) -> int:
        """How many shards there are in all; an audit is one."""
        parts = sum(
            self._settings_of(model) * len(parts_of(verifier, model, bool(self.drafts)))
            for model, verifier in itertools.product(self.models, self.verifiers)
        )
        return parts * self.shards + len(self.audits) * max(len(self.audit_gamma), 1) * len(
            self.seeds
        )

    def _settings_of(self, model: str) -> int:
        """Return how many cells a verifier has on a model."""
        knobs = len(self.temperature) * len(self.distance) if _has_knobs(model) else 1
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
        named = {name: file_of_model(name) for name in self.models}
        named |= {spec.rpartition(":")[0]: find_source(spec) for spec in self.audits}
        return {name: sha256(path) for name, path in named.items() if path is not None}

    def command(self) -> str:
        """Return the command that asks for this sweep."""
        default, words = Spec(audits=("x",)), ["simverify", "sweep"]
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value != getattr(default, name):
                shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words += [f"--{name.replace('_', '-')}", shown] if shown else []
        return shlex.join([*words, "--out", "FOLDER"])


def _has_knobs(model: str) -> bool:
    """Whether temperature and draft distance make another model of one by that name."""
    return re.fullmatch(r"markov-\d+", model) is not None


def rules_on_all(spec: Spec) -> tuple[str, ...]:
    """Return the rules that are lossless on all draft trees of a sweep; none of a single draft."""
    if not spec.drafts:
        return ()
    from simverify.comparing.trees.rules import tree_rules

    asked = [drafting_of(gamma, *of) for gamma, of in itertools.product(spec.gamma, spec.draftings)]
    found = [tree_rules(None, drafting, {}) for drafting in asked if drafting is not None]
    return tuple(name for name in found[0] if all(name in rules for rules in found))
