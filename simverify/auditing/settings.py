"""How an audit is run: sizes, budgets, error rates, mixed batches."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from msgspec.structs import asdict

from simverify.auditing.comparison import TOLERANCE_BY_DTYPE, PrecisionCheck
from simverify.auditing.enumeration import takes_tree_arguments
from simverify.auditing.exact_tier import default_paths
from simverify.auditing.instances import MAX_TOP_K
from simverify.auditing.subject import Contract, Subject
from simverify.checks import pick_name
from simverify.errors import OptionError, UsageError
from simverify.models.distribution import Law, check_order
from simverify.options.audit import AuditOptions, TargetOptions
from simverify.options.option import MAX_GAMMA, inherited, words_of
from simverify.results import SCHEMA_VERSION, AuditRun, Bridge, Pair, Probe
from simverify.results.audit import TargetProcessing
from simverify.symbolic.engine import Budget
from simverify.trees import TreeShape, parse_levels

# The kinds of mixed batch that a request is judged in, and its slot in each.


BATCH_SIZE = 4
"""Requests of a batch: neighbours on either side of one in the middle, and both ends."""

SLOT_INDICES = (0, 1, 3)
"""First, in the middle, last."""

BATCH_MIXES = {
    "ragged": "draft lengths differ; -1 stands behind the shorter drafts",
    "stale": "draft lengths differ; ids of an earlier call stand behind the shorter drafts",
    "placeholder": "one length is told for all; a -1 ends a draft before it",
    "padded": "columns behind the vocabulary hold zeros",
    "unmasked": "columns behind the vocabulary hold numbers that are no probabilities",
    "greedy": "greedy requests and random ones in one batch",
    "one-hot": "no draft probabilities: each draft is certain",
    "mixed": "ragged, padded, and greedy neighbours at once",
    "seeds": "each request has a seed of its own",
}


def parse_batch_mixes(text: str) -> tuple[str, ...]:
    """Return the kinds that ``text`` names, such as "ragged,padded", or "all", in our order.

    Raises ``UsageError`` for a kind that does not exist, with the nearest.
    """
    named = [word.strip() for word in text.split(",") if word.strip()]
    if not named:
        raise UsageError(
            f"no kind of batch is named: pass some of {', '.join(BATCH_MIXES)}, or all"
        )
    if named == ["all"]:
        return tuple(BATCH_MIXES)
    for word in named:
        pick_name(word, BATCH_MIXES, "kind of company")
    return tuple(kind for kind in BATCH_MIXES if kind in named)


@dataclass(frozen=True)
class BatchSlot:
    """Where the request under test stands.

    ``request``: its index among :data:`BATCH_SIZE`. ``longer``: how many tokens more its longest
    neighbour drafts. ``greedy``: it is greedy itself; otherwise some of its neighbours are, in the
    kinds that have them.
    """

    kind: str
    request: int
    longer: int = 0
    greedy: bool = False

    @property
    def name(self) -> str:
        """The place in words, from which :func:`batch_slot_of` finds it again."""
        how = " (others draft more)" if self.longer else ""
        how += " (greedy itself)" if self.greedy else ""
        return f"{self.kind}{how}, request {self.request + 1} of {BATCH_SIZE}"


def batch_slots(kind: str) -> Iterator[BatchSlot]:
    """Yield the places of one kind; none of "seeds", which no law of one call shows."""
    longer = dict.fromkeys(("ragged", "stale", "mixed"), range(2))
    longer |= {"seeds": range(0), "placeholder": range(1, 2)}
    for request in SLOT_INDICES:
        for tokens in longer.get(kind, range(1)):
            yield BatchSlot(kind, request, tokens)
        if kind == "greedy":
            yield BatchSlot(kind, request, greedy=True)


_SLOT_BY_NAME = {place.name: place for kind in BATCH_MIXES for place in batch_slots(kind)}
FIRST_SLOT = BatchSlot("padded", 0)
SLOT_SEPARATOR = " among others: "


def batch_slot_of(instance: str) -> BatchSlot:
    """Return the place that an instance's name ends with."""
    return _SLOT_BY_NAME[instance.rpartition(SLOT_SEPARATOR)[2]]


_TREE_PATH_FACTOR = 3
"""Draft trees get so many times the paths: there are more of them than of blocks."""


def _is_factory(rule: Callable[..., Any]) -> bool:
    try:
        return not takes_tree_arguments(rule)
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class AuditSettings(AuditOptions):
    """How an audit is run: the options of its mode, and what became of them.

    ``coarser``: the values of ``detect`` for code that is too slow. ``pair``: the drafter and the
    verifier that were paired. ``bridge``: the program or library under audit. ``lost``: probes that
    ended the use of the GPU in an earlier process.
    """

    detect: float = inherited(AuditOptions, "detect", 0.01)
    coarser: tuple[float, ...] = ()
    pair: Pair | None = None
    bridge: Bridge | None = None
    lost: tuple[Probe, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_mix is not None:
            smallest = (self.gamma, self.vocab) == (1, 2)
            if parse_batch_mixes(self.batch_mix) != ("seeds",) and smallest:
                raise UsageError(
                    "--batch-mix with --gamma 1 --vocab 2: the smallest batch has --gamma 1 "
                    "--vocab 3, or --gamma 2 --vocab 2"
                )
            if self.batch is not None or self.eos is not None:
                raise UsageError("--batch-mix makes its own batches: leave --batch and --eos out")
        if self.top_k is not None and self.top_k > MAX_TOP_K:
            raise UsageError(
                f"top-k is {self.top_k}: expected 1 to {MAX_TOP_K}, since the instances are small; "
                "if the code takes it as a parameter, pass a smaller one"
            )
        if self.processing is not None and self.batch_mix is not None:
            raise OptionError(
                "{batch_mix} judges requests by the rows that the code gets: leave out "
                f"{self.target_options()}"
            )

    @property
    def processing(self) -> Law | None:
        """What the code does to the target's rows that it gets; None where it takes them as is.

        Raises ``UsageError`` for a value out of its range, and for an order that is none.
        """
        values = {name: getattr(self, name) for name in TargetOptions.names() if name != "order"}
        law = Law(**{name: value for name, value in values.items() if value is not None})
        if self.order is not None:
            law = replace(law, order=check_order(self.order))
        return law if law.acting or law.temperature == 0.0 else None

    def target_options(self) -> str:
        """Return the options that state the target, for an ``OptionError``."""
        names = (n for n in TargetOptions.names() if getattr(self, n) is not None)
        return ", ".join(f"{{{name}}}" for name in names)

    def document_fields(self) -> dict[str, Any]:
        """Return the fields of an ``AuditRun`` that are the same for every kind of audit."""
        fields = {"schema_version": SCHEMA_VERSION, "seed": self.seed, "pair": self.pair}
        return {
            **fields,
            "engine_path": self.checkout,
            "processing": processing_document(self.processing),
        }

    def budget_for(self, subject: Subject) -> Budget:
        """Budget of the exact tier; by default less for torch, whose paths are slow."""
        if self.max_paths is not None:
            return Budget(self.max_paths, self.seconds)
        paths = default_paths(subject.rule)
        # Each path of a factory's object takes several calls.
        if (self.scheme or subject.scheme) is not None and not _is_factory(subject.rule):
            paths *= _TREE_PATH_FACTOR
        return Budget(paths, self.seconds)

    def sampling(self) -> dict[str, Any]:
        """Return the options of the sampled tier, by name."""
        names = ("seed", "alpha", "detect", "coarser", "seconds")
        return {name: getattr(self, name) for name in names} | {"samples": self.max_samples}

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
        named, judged = self.pair or self.bridge, [spec, "--contract", contract]
        if named is not None:
            judged = [word for item in asdict(named).items() for word in words_of(*item)]
        return shlex.join(["simverify", "audit", *judged, *self.words(always=("seed",))])

    def document(
        self, spec: str, contract: Contract, held: PrecisionCheck | None, **fields: Any
    ) -> AuditRun:
        """Return the document of an audit; ``held``: what the exact law was held to, if it was."""
        usual = self.tolerance or TOLERANCE_BY_DTYPE["float64"]
        given = self.document_fields() | {
            "tolerance": held.tolerance if held else usual,
            "reproduce": self.command(spec, contract),
            "bridge": self.bridge,
            "gamma": self.gamma,
            "vocab_size": self.vocab,
            "dtype": held and held.dtype,
        }
        return AuditRun(spec=spec, contract=contract, **(given | fields))


def processing_document(law: Law | None) -> TargetProcessing | None:
    """Return what is done to the target's rows as the document has it."""
    if law is None:
        return None
    values = {name: getattr(law, name) for name in TargetProcessing.__struct_fields__}
    steps = law.acting | ({"temperature"} if law.temperature == 0.0 else set())
    return TargetProcessing(**values | {"order": tuple(x for x in law.order if x in steps)})
