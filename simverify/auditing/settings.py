"""How an audit is run: sizes, budgets, error rates."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec.structs import asdict

from simverify.auditing.exact.company.places import kinds_of
from simverify.auditing.exact.generations.trees import takes_tree_arguments
from simverify.auditing.exact.tier import usual_paths
from simverify.auditing.subject import Contract, Subject
from simverify.errors import UsageError
from simverify.options.audit import AuditOptions
from simverify.options.option import inherited, words_of
from simverify.options.parts import MAX_GAMMA
from simverify.results import Bridge, Pair, Probe
from simverify.trees import TreeShape, parse_levels

_TREES = 3
"""So many times the paths are for draft trees, of which there are more than of blocks."""


def _builds(rule: Callable[..., Any]) -> bool:
    try:
        return not takes_tree_arguments(rule)
    except ValueError:
        return False


def _words(judged: msgspec.Struct) -> list[str]:
    return [word for name, value in asdict(judged).items() for word in words_of(name, value)]


@dataclass(frozen=True, kw_only=True)
class AuditSettings(AuditOptions):
    """How an audit is run: the options of its mode, and what became of them.

    ``coarser``: what ``detect`` becomes where the code is too slow for it. ``pair``: the drafter
    and the verifier of which the code is made, if it is. ``bridge``: the program or the library
    that it is, where it is no Python. ``lost``: what came of probes that ended the use of the GPU
    in a process before.
    """

    detect: float = inherited(AuditOptions, "detect", 0.01)
    coarser: tuple[float, ...] = ()
    pair: Pair | None = None
    bridge: Bridge | None = None
    lost: tuple[Probe, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_mix is not None:
            if kinds_of(self.batch_mix) != ("seeds",) and (self.gamma, self.vocab) == (1, 2):
                raise UsageError(
                    "--batch-mix with --gamma 1 --vocab 2: the smallest batch has --gamma 1 "
                    "--vocab 3, or --gamma 2 --vocab 2"
                )
            if self.batch is not None or self.eos is not None:
                raise UsageError("--batch-mix makes its own batches: leave --batch and --eos out")

    @property
    def checkout(self) -> str | None:
        """The checkout that an engine is loaded from, if one was named."""
        return None if self.engine_path is None else str(self.engine_path)

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
        if self.batch_mix is None and subject.company is not None:
            return replace(self, batch_mix=subject.company)
        if self.batch is not None or self.batch_mix is not None:
            return self
        return replace(self, batch=subject.batch)

    def command(self, spec: str, contract: Contract) -> str:
        """Return the command that repeats the audit: every setting that is no default is on it."""
        if self.pair is not None:
            judged = _words(self.pair)
        elif self.bridge is not None:
            judged = _words(self.bridge)
        else:
            judged = [spec, "--contract", contract]
        return shlex.join(["simverify", "audit", *judged, *self.words(always=("seed",))])
