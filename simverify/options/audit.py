"""The options of an audit of code: on small instances, on real models, on a recorded trace."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

from simverify.errors import UsageError
from simverify.options.option import (
    ADVANCED,
    BUDGET,
    DETECT,
    DRAFTERS,
    INSTANCES,
    OTHERS,
    SUBJECT,
    Code,
    Compute,
    Contract,
    Drafting,
    Law,
    Models,
    Options,
    PathName,
    Range,
    Sizes,
    inherited,
    option,
)

_SPEC = (
    "The verifier: a function or a class, or a SPEC: a built-in verifier or fault, module:attr, "
    "path/file.py:attr, or an engine."
)
_CONTRACT = (
    "verify (a drafted block is given; the default), step (the code drafts itself), tree (a draft "
    "tree is given) or draft (it drafts, and says from which law)."
)


@dataclass(frozen=True, kw_only=True)
class SelfTestOptions(Sizes):
    """Of the audit on trial: every catalogued fault and every must-pass control."""

    title: ClassVar[str] = "the catalogue ({self_test})"


@dataclass(frozen=True, kw_only=True)
class SmallOptions(Sizes):
    """Of whatever is called on small instances."""

    contract: Contract | None = option(None, _CONTRACT, SUBJECT)
    engine_path: PathName | None = option(
        None, "Checkout of an engine, in the place of the installed package."
    )
    tolerance: float | None = option(
        None,
        "Largest deviation that is rounding; by the code's precision if not given.",
        ADVANCED,
        Range(low=0, below=1),
    )


@dataclass(frozen=True, kw_only=True)
class _Strict(Options):
    """What fails an audit beside a wrong law."""

    strict_probes: bool = option(False, "Warnings of the edge probes fail the audit too.", BUDGET)
    strict_coverage: bool = option(
        False,
        "Lines of the code that no call reached fail the audit; every call is then watched.",
        BUDGET,
    )


@dataclass(frozen=True, kw_only=True)
class _Trees(Options):
    """Draft trees."""

    scheme: str | None = option(
        None,
        "How the siblings of draft trees are drafted: iid, without-replacement, top-k, "
        "argmax-first or last-sampled. Of a drafter, what it declares; iid if not given.",
        INSTANCES,
    )
    tree: str | None = option(
        None,
        "Children per level of the one tree that the code takes, such as 3,2,1; many if not given, "
        "of real models two drafts of gamma tokens.",
        INSTANCES,
    )


@dataclass(frozen=True)
class UsualOptions(SmallOptions):
    """What most audits of code need."""

    title: ClassVar[str] = "code on small instances"

    rule: Code | None = option(None, _SPEC, SUBJECT)


@dataclass(frozen=True, kw_only=True)
class _Batches(Options):
    """Batched code, and code that knows an end."""

    batch: int | None = option(
        None,
        "Blocks per call of batched code: arrays with a batch axis in, rows padded with -1 out. "
        "A catalogued fault of whole batches has its own.",
        INSTANCES,
        Range(low=2, high=1024),
    )
    batch_mix: str | None = option(
        None,
        "Kinds of requests that batched code is judged among, such as ragged,greedy, or all: of "
        "ragged, stale, placeholder, padded, unmasked, greedy, one-hot, mixed, seeds.",
        INSTANCES,
        old="company",
    )
    eos: int | None = option(
        None,
        "Id that the code takes for end of sequence; what a call emits after it is dropped.",
        INSTANCES,
    )


@dataclass(frozen=True)
class AuditOptions(_Strict, _Trees, _Batches, UsualOptions):
    """Of code that is called on small instances, whose paths are followed where they can be."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eos is not None and not 0 <= self.eos < self.vocab:
            raise UsageError(
                f"eos is {self.eos}: expected an id below the largest vocabulary, {self.vocab}"
            )


@dataclass(frozen=True, kw_only=True)
class PairOptions(_Strict, _Trees, SmallOptions):
    """Of a drafter and a verifier that are audited together."""

    title: ClassVar[str] = "a pair ({drafter} and {verifier})"
    chosen_by: ClassVar[tuple[str, ...]] = ("drafter", "verifier")

    drafter: Code | None = option(
        None,
        "A drafter, audited together with --verifier.",
        OTHERS,
    )
    verifier: Code | None = option(
        None,
        "A verifier of the verify or the tree contract, with --drafter.",
        OTHERS,
    )


@dataclass(frozen=True, kw_only=True)
class ProgramOptions(Sizes):
    """Of a verifier in another language."""

    title: ClassVar[str] = "a program or a library ({command}, {library})"
    chosen_by: ClassVar[tuple[str, ...]] = ("command", "library")

    command: str | None = option(
        None,
        "A program in any language that answers a line of JSON for each call, "
        "such as ./harness. It is started once and kept; no shell is.",
        OTHERS,
    )
    library: PathName | None = option(
        None,
        "A function of a shared library with the C ABI, path.so:symbol.",
        OTHERS,
        verbatim=True,
    )
    coins: int | None = option(
        None, "Coins that a call of a program or a library is given; gamma + 1 if not given."
    )
    contract: Literal["verify"] | None = inherited(SmallOptions, "contract")
    tolerance: float | None = inherited(SmallOptions, "tolerance")
    strict_probes: bool = inherited(_Strict, "strict_probes", False)


@dataclass(frozen=True, kw_only=True)
class _OnRows(Options):
    """Of code on the rows of real models."""

    seed: int = inherited(Sizes, "seed", 0)
    alpha: float = inherited(Sizes, "alpha", 1e-6)
    detect: float = option(
        0.04, "Deviation (mean one-token TV) found with power .9; .04 if not given.", BUDGET, DETECT
    )
    engine_path: PathName | None = inherited(SmallOptions, "engine_path")
    strict_probes: bool = inherited(_Strict, "strict_probes", False)
    strict_coverage: bool = inherited(_Strict, "strict_coverage", False)


@dataclass(frozen=True)
class TraceOptions(_OnRows):
    """Of code that is called on the blocks of a recorded trace."""

    title: ClassVar[str] = "a trace ({trace})"
    chosen_by: ClassVar[tuple[str, ...]] = ("trace",)

    rule: Code | None = option(None, _SPEC, SUBJECT)
    _: KW_ONLY
    trace: PathName | None = option(
        None, "Call the code on the blocks of this trace, as simverify capture wrote it.", OTHERS
    )
    contract: Literal["verify"] | None = inherited(SmallOptions, "contract")


@dataclass(frozen=True, kw_only=True)
class _Decoding(_Trees, Models):
    gamma: int | None = option(
        None, "Draft length, 1 to 64; 4 if not given.", INSTANCES, Range(low=1, high=64)
    )
    tokens: int | None = option(
        None,
        "Emitted tokens that are judged, fixed beforehand; by default what the promised power "
        "needs.",
        BUDGET,
    )
    contract: Literal["verify", "step", "tree"] | None = inherited(SmallOptions, "contract")


@dataclass(frozen=True)
class RealModelOptions(_OnRows, Drafting, Compute, Law, _Decoding):
    """Of code that decodes on a pair of real models."""

    title: ClassVar[str] = "real models ({target})"
    chosen_by: ClassVar[tuple[str, ...]] = ("target",)

    rule: Code | None = option(None, _SPEC, SUBJECT)
    _: KW_ONLY
    target: str | None = inherited(Models, "target", group=OTHERS)

    @classmethod
    def is_asked_for(cls, given: Mapping[str, Any]) -> bool:
        """Tell whether a target is named, or a way in which real models alone draft."""
        return super().is_asked_for(given) or given.get("drafter") in DRAFTERS


CODE: tuple[type[Options], ...] = (
    AuditOptions,
    TraceOptions,
    RealModelOptions,
    ProgramOptions,
    PairOptions,
)
"""Audits of code, the usual one first: an option of a later one chooses it."""
