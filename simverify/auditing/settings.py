"""How an audit is run: sizes, budgets, error rates."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from simverify.auditing.exact.company.places import kinds_of
from simverify.auditing.exact.generations.trees import takes_tree_arguments
from simverify.auditing.exact.judging.examiner import SECONDS
from simverify.auditing.exact.tier import usual_paths
from simverify.auditing.sampled.tier import MAX_SAMPLES
from simverify.auditing.subject import Contract, Subject
from simverify.checks import MAX_SECONDS, MIN_ALPHA, MIN_DETECT, ranges_iv
from simverify.errors import UsageError
from simverify.results import Bridge, Pair, Probe
from simverify.trees import TreeShape, parse_levels

_FLAGS = {
    "gamma": "--gamma",
    "vocab_size": "--vocab",
    "engine_path": "--engine-path",
    "tolerance": "--tolerance",
    "max_paths": "--max-paths",
    "max_samples": "--max-samples",
    "seconds": "--seconds",
    "alpha": "--alpha",
    "detect": "--detect",
    "batch": "--batch",
    "company": "--company",
    "eos": "--eos",
    "scheme": "--scheme",
    "tree": "--tree",
}

_TREES = 3
"""So many times the paths are for draft trees, of which there are more than of blocks."""

MAX_GAMMA = 4
MAX_VOCAB = 12


def _builds(rule: Callable[..., Any]) -> bool:
    try:
        return not takes_tree_arguments(rule)
    except ValueError:
        return False


def _bridge_words(bridge: Bridge) -> list[str]:
    ways = {"--command": bridge.command, "--library": bridge.library, "--coins": bridge.coins}
    return [word for way, value in ways.items() if value is not None for word in (way, str(value))]


@dataclass(frozen=True)
class AuditSettings:
    """How an audit is run.

    ``gamma``, ``vocab_size``: the largest of the instances. ``engine_path``: the checkout that
    an engine was loaded from, if one was named. ``tolerance``: largest deviation
    that is rounding; None: by the precision of the code. ``max_paths``, ``max_samples``:
    budgets. ``seconds``: limit of each tier, which can only abort it: processor seconds in the
    exact tier, the wall clock in the sampled one. ``batch``: blocks per call of batched code,
    which is enumerated a block at a time and sampled in whole batches, whose rows must not
    depend on each other. ``company``: kinds of requests that batched code is judged among.
    ``coarser``: what ``detect`` becomes where the code is too slow for it.
    ``scheme``: how the siblings of draft trees are drafted. ``tree``: children per level, "2,1",
    of the one shape that the code takes. ``eos``: the id that the code takes for end of sequence,
    where it knows one: what a call emits after it is dropped. ``strict_coverage``: lines of the
    code that were not reached fail the audit, and every call is watched for that. ``pair``: the
    drafter and the verifier of which the code is made, if it is. ``bridge``: the program or the
    library that it is, where it is no Python. ``lost``: what came of probes that ended the use of
    the GPU in a process before.
    """

    gamma: int = 4
    vocab_size: int = MAX_VOCAB
    tolerance: float | None = None
    max_paths: int | None = None
    max_samples: int = MAX_SAMPLES
    seconds: float = SECONDS
    alpha: float = 1e-6
    detect: float = 0.01
    coarser: tuple[float, ...] = ()
    seed: int = 0
    engine_path: str | None = None
    strict_probes: bool = False
    strict_coverage: bool = False
    batch: int | None = None
    company: str | None = None
    eos: int | None = None
    scheme: str | None = None
    tree: str | None = None
    pair: Pair | None = None
    bridge: Bridge | None = None
    lost: tuple[Probe, ...] = ()

    def __post_init__(self) -> None:
        rules = (
            ("gamma", self.gamma, 1 <= self.gamma <= MAX_GAMMA, f"1 to {MAX_GAMMA}"),
            ("vocab", self.vocab_size, 2 <= self.vocab_size <= MAX_VOCAB, f"2 to {MAX_VOCAB}"),
            ("tolerance", self.tolerance, self.tolerance is None or 0 <= self.tolerance < 1,
             "0 or more, below 1"),
            ("max paths", self.max_paths, self.max_paths is None or self.max_paths >= 1,
             "1 or more"),
            ("max samples", self.max_samples, self.max_samples >= 1, "1 or more"),
            ("seconds", self.seconds, 0 < self.seconds <= MAX_SECONDS,
             f"more than 0, {MAX_SECONDS:g} at most"),
            ("alpha", self.alpha, MIN_ALPHA <= self.alpha < 1, f"{MIN_ALPHA:g} or more, below 1"),
            ("detect", self.detect, MIN_DETECT <= self.detect < 1,
             f"{MIN_DETECT:g} or more, below 1"),
            ("batch", self.batch, self.batch is None or 2 <= self.batch <= 1024, "2 to 1024"),
            ("eos", self.eos, self.eos is None or 0 <= self.eos < self.vocab_size,
             f"an id below the largest vocabulary, {self.vocab_size}"),
            ("seed", self.seed, 0 <= self.seed < 2**64, "0 to 2^64 - 1"),
        )  # fmt: skip
        ranges_iv(rules)
        if self.company is not None:
            if kinds_of(self.company) != ("seeds",) and (self.gamma, self.vocab_size) == (1, 2):
                raise UsageError(
                    "--company with --gamma 1 --vocab 2: the smallest batch has --gamma 1 "
                    "--vocab 3, or --gamma 2 --vocab 2"
                )
            if self.batch is not None or self.eos is not None:
                raise UsageError("--company makes its own batches: leave --batch and --eos out")

    def paths_for(self, subject: Subject) -> int:
        """Budget of the exact tier; by default less for torch, whose paths are slow."""
        if self.max_paths is not None:
            return self.max_paths
        most = usual_paths(subject.rule)
        if self.scheme is None and subject.scheme is None:
            return most
        # What builds an object takes no arguments, and each of its paths several calls.
        return most if _builds(subject.rule) else _TREES * most

    @property
    def shape(self) -> TreeShape | None:
        """The one shape of draft trees, if it was named.

        Raises ``UsageError`` if it is none, or deeper than ``gamma``.
        """
        if self.tree is None:
            return None
        shape = parse_levels(self.tree)
        if shape.depth > self.gamma:
            raise UsageError(
                f"the tree has a depth of {shape.depth}, above gamma {self.gamma}: cut it, or "
                f"raise gamma, which is {MAX_GAMMA} at most"
            )
        return shape

    def for_subject(self, subject: Subject) -> "AuditSettings":
        """Return the settings with the batch of a subject that is known to take one."""
        if self.company is None and subject.company is not None:
            return replace(self, company=subject.company)
        if self.batch is not None or self.company is not None:
            return self
        return replace(self, batch=subject.batch)

    def command(self, spec: str, contract: Contract) -> str:
        """Return the command that repeats the audit: every setting that is no default is on it."""
        words = ["simverify", "audit", spec, "--contract", contract]
        if (pair := self.pair) is not None:
            words = ["simverify", "audit", "--drafter", pair.drafter, "--verifier", pair.verifier]
            words += ["--contract", pair.contract]
            words += ["--scheme", pair.scheme] if pair.scheme is not None else []
            words += ["--tree", pair.tree] if pair.tree is not None else []
        if self.bridge is not None:
            words = ["simverify", "audit", *_bridge_words(self.bridge)]
        words += ["--seed", str(self.seed)]
        for field, flag in _FLAGS.items():
            value = getattr(self, field)
            if value != getattr(AuditSettings, field):
                words += [flag, str(value)]
        words += ["--strict-probes"] * self.strict_probes
        return shlex.join(words + ["--strict-coverage"] * self.strict_coverage)
