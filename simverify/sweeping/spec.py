"""What a sweep is asked for: its lists, the cells they span, the shards of each."""

import hashlib
import itertools
import math
import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from simverify.checks import comparison_iv, ranges_iv
from simverify.errors import UsageError
from simverify.models import DEFAULT_DISTANCE
from simverify.verifiers import get_verifier

DEFAULT_BLOCKS = 1_000_000
"""The least that ``compare`` takes by itself."""

DEFAULT_SHARD = 1 << 18
"""Blocks of a shard: a second or so, which is what a killed worker loses."""

DETECT = 0.01
MIN_BLOCKS, MAX_BLOCKS = 2, 10**10
MAX_AUDIT_GAMMA = 4

PartName = Literal["run", "first calls"]


class Cell(msgspec.Struct, frozen=True):
    """One verifier on one model; ``temperature`` and ``distance`` are null but for markov-V.

    ``index``: its place in the sweep.
    """

    index: int
    model: str
    temperature: float | None
    distance: float | None
    gamma: int
    seed: int
    verifier: str

    @property
    def name(self) -> str:
        """What progress and a dashboard call it."""
        knobs = "" if self.temperature is None else f" T {self.temperature:g} d {self.distance:g}"
        return f"{self.verifier} on {self.model}{knobs} gamma {self.gamma} seed {self.seed}"


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


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lists whose product is a sweep, and the numbers that all of its cells share.

    ``audits``: SPECs as ``simverify audit`` takes them, each with each of ``audit_gamma`` and of
    ``seeds``. Raises ``UsageError`` that names the first value that does not fit.
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

    def __post_init__(self) -> None:
        lists = ("models", "verifiers", "gamma", "temperature", "distance", "seeds", "audits",
                 "audit_gamma")  # fmt: skip
        for name in lists:
            values = getattr(self, name)
            if len(set(values)) < len(values):
                twice = next(value for value in values if values.count(value) > 1)
                raise UsageError(f"{name} names {twice} twice: name each once")
        if not (self.models and self.verifiers) and not self.audits:
            raise UsageError("nothing to sweep: name models and verifiers, or audits")
        if self.models and not self.gamma:
            raise UsageError("gamma is missing: name draft lengths, such as 4 or a list of them")
        for gamma in self.gamma or (1,):
            for seed in {min(self.seeds, default=0), max(self.seeds, default=0)}:
                comparison_iv(
                    (), gamma=gamma, cost_ratio=0.1, alpha=self.alpha, detect=self.detect,
                    seed=seed,
                )  # fmt: skip
        for verifier in self.verifiers:
            get_verifier(verifier)
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
        if not self.seeds or not self.temperature or not self.distance:
            raise UsageError("seeds, temperature and distance need one value at least")

    def cells(self) -> Iterator[Cell]:
        """Yield every cell in order, models outermost, so that neighbours share their tables."""
        index = itertools.count()
        for model in self.models:
            knobs: Any = [(None, None)]
            if re.fullmatch(r"markov-\d+", model):
                knobs = itertools.product(self.temperature, self.distance)
            for (t, d), gamma, seed, verifier in itertools.product(
                knobs, self.gamma, self.seeds, self.verifiers
            ):
                yield Cell(next(index), model, t, d, gamma, seed, verifier)

    def audit_cells(self) -> Iterator[AuditCell]:
        """Yield every audit in order."""
        gammas = self.audit_gamma or (None,)
        combinations = itertools.product(self.audits, gammas, self.seeds)
        for index, (spec, gamma, seed) in enumerate(combinations, self.number_of_cells):
            yield AuditCell(index, spec, gamma, seed)

    @property
    def number_of_cells(self) -> int:
        """How many cells there are."""
        markov = sum(re.fullmatch(r"markov-\d+", model) is not None for model in self.models)
        knobs = markov * len(self.temperature) * len(self.distance) + len(self.models) - markov
        return knobs * len(self.gamma) * len(self.seeds) * len(self.verifiers)

    @property
    def number_of_shards(self) -> int:
        """How many shards there are in all; an audit is one."""
        of_cells = sum(len(parts_of(verifier)) for verifier in self.verifiers) * self.shards
        audits = len(self.audits) * max(len(self.audit_gamma), 1) * len(self.seeds)
        return self.number_of_cells // max(len(self.verifiers), 1) * of_cells + audits

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
        """Return the SHA-256 of every file that the sweep names; None where it cannot be read."""
        named = [name for name in self.models if name.endswith((".json", ".npz"))]
        named += [file for file in (spec.rpartition(":")[0] for spec in self.audits)
                  if file.endswith(".py")]  # fmt: skip
        return {name: _sha256(Path(name)) for name in dict.fromkeys(named)}

    def command(self) -> str:
        """Return the command that asks for this sweep."""
        default, words = Spec(audits=("x",)), ["simverify", "sweep"]
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value != getattr(default, name):
                shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words += [f"--{name.replace('_', '-')}", shown] if shown else []
        return shlex.join([*words, "--out", "FOLDER"])


@lru_cache(maxsize=256)
def parts_of(verifier: str) -> tuple[PartName, ...]:
    """Return what is counted of a verifier: of one with state its first calls besides."""
    return ("run", "first calls") if get_verifier(verifier).contract == "step" else ("run",)


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
