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
    PROCESSING,
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
from simverify.options.served import DeclaredLaw

_SPEC = (
    "The verifier: a function, a class, or a SPEC (a built-in verifier or fault, module:attr, "
    "path/file.py:attr, or an engine)."
)
_CONTRACT = (
    "What the code does. verify (the default): judge a given block; step: draft and judge; tree: "
    "judge a given draft tree; draft: draft a block and report its distribution."
)


@dataclass(frozen=True, kw_only=True)
class SelfTestOptions(Sizes):
    """Of the audit on trial: every catalogued fault and every must-pass control."""

    title: ClassVar[str] = "the catalogue ({self_test})"


@dataclass(frozen=True, kw_only=True)
class EngineOptions(Options):
    """Where an engine is loaded from."""

    engine_path: PathName | None = option(
        "Checkout of an engine to use instead of the installed package."
    )

    @property
    def checkout(self) -> str | None:
        """The checkout that an engine is loaded from, if one was named."""
        return None if (path := self.engine_path) is None else str(path)


@dataclass(frozen=True, kw_only=True)
class SmallOptions(EngineOptions, Sizes):
    """Of whatever is called on small instances."""

    contract: Contract | None = option(_CONTRACT, SUBJECT)
    tolerance: float | None = option(
        "Largest deviation that counts as rounding; the default depends on the code's precision.",
        ADVANCED,
        Range(low=0, below=1),
    )


@dataclass(frozen=True, kw_only=True)
class _Strict(Options):
    """What fails an audit beside a wrong law."""

    strict_probes: bool = option(
        "Fail the audit on warnings of the edge probes too.", BUDGET, default=False
    )
    strict_coverage: bool = option(
        "Fail the audit if no call reached some line of the code. Every call is then watched.",
        BUDGET,
        default=False,
    )


@dataclass(frozen=True, kw_only=True)
class _Trees(Options):
    """Draft trees."""

    scheme: str | None = option(
        "How the siblings of draft trees are drafted: iid (the default), without-replacement, "
        "top-k, argmax-first or last-sampled. For a drafter, name the scheme that it declares.",
        INSTANCES,
    )
    tree: str | None = option(
        "Audit only one tree: its children per level, such as 3,2,1. By default, many trees are "
        "audited; real models use two drafts of gamma tokens.",
        INSTANCES,
    )


@dataclass(frozen=True, kw_only=True)
class TargetOptions(Options):
    """What the code does to the target's rows that it gets: the result is its target."""

    temperature: float | None = inherited(Law, "temperature", group=PROCESSING)
    top_k: int | None = inherited(Law, "top_k", group=PROCESSING)
    top_p: float | None = inherited(Law, "top_p", group=PROCESSING)
    min_p: float | None = inherited(DeclaredLaw, "min_p", group=PROCESSING)
    typical_p: float | None = inherited(DeclaredLaw, "typical_p", group=PROCESSING)
    repetition_penalty: float | None = inherited(
        DeclaredLaw, "repetition_penalty", group=PROCESSING
    )
    presence_penalty: float | None = inherited(DeclaredLaw, "presence_penalty", group=PROCESSING)
    frequency_penalty: float | None = inherited(DeclaredLaw, "frequency_penalty", group=PROCESSING)
    order: str | None = inherited(DeclaredLaw, "order", group=PROCESSING)


@dataclass(frozen=True)
class UsualOptions(SmallOptions):
    """What most audits of code need."""

    title: ClassVar[str] = "code on small instances"

    rule: Code | None = option(_SPEC, SUBJECT)


@dataclass(frozen=True, kw_only=True)
class _Batches(Options):
    """Batched code, and code that knows an end."""

    batch: int | None = option(
        "Blocks per call of batched code, which takes arrays with a batch axis and returns rows "
        "padded with -1. Catalogued faults of whole batches set their own.",
        INSTANCES,
        Range(low=2, high=1024),
    )
    batch_mix: str | None = option(
        "Kinds of requests that share the batch with the audited one, such as ragged,greedy, or "
        "all. The kinds are ragged, stale, placeholder, padded, unmasked, greedy, one-hot, mixed "
        "and seeds.",
        INSTANCES,
        old="company",
    )
    eos: int | None = option(
        "Token id that the code treats as the end of a sequence. Tokens that a call emits after "
        "it are ignored.",
        INSTANCES,
    )


@dataclass(frozen=True)
class AuditOptions(_Strict, _Trees, _Batches, TargetOptions, UsualOptions):
    """Of code that is called on small instances, whose paths are followed where they can be."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eos is not None and not 0 <= self.eos < self.vocab:
            raise UsageError(
                f"eos is {self.eos}: expected an id below the largest vocabulary, {self.vocab}"
            )


@dataclass(frozen=True, kw_only=True)
class PairOptions(_Strict, _Trees, TargetOptions, SmallOptions):
    """Of a drafter and a verifier that are audited together."""

    title: ClassVar[str] = "a pair ({drafter} and {verifier})"
    chosen_by: ClassVar[tuple[str, ...]] = ("drafter", "verifier")

    drafter: Code | None = option("A drafter, audited together with --verifier.", OTHERS)
    verifier: Code | None = option(
        "A verifier of the verify or tree contract, audited together with --drafter.", OTHERS
    )


@dataclass(frozen=True, kw_only=True)
class ProgramOptions(TargetOptions, Sizes):
    """Of a verifier in another language."""

    title: ClassVar[str] = "a program or a library ({command}, {library})"
    chosen_by: ClassVar[tuple[str, ...]] = ("command", "library")

    command: str | None = option(
        "A program in any language that answers each call with a line of JSON, such as ./harness. "
        "It is started once, without a shell, and kept running.",
        OTHERS,
    )
    library: PathName | None = option(
        "A function of a shared library with the C ABI, path.so:symbol.", OTHERS, verbatim=True
    )
    coins: int | None = option(
        "Coins that each call of a program or a library gets; gamma + 1 by default."
    )
    contract: Literal["verify"] | None = inherited(SmallOptions, "contract")
    tolerance: float | None = inherited(SmallOptions, "tolerance")
    strict_probes: bool = inherited(_Strict, "strict_probes", False)


@dataclass(frozen=True, kw_only=True)
class _OnRows(_Strict, EngineOptions):
    """Of code on the rows of real models."""

    seed: int = inherited(Sizes, "seed", 0)
    alpha: float = inherited(Sizes, "alpha", 1e-6)
    detect: float = option(
        "Deviation (mean one-token TV) to detect with power .9; .04 by default.",
        BUDGET,
        DETECT,
        default=0.04,
    )


@dataclass(frozen=True)
class TraceOptions(_OnRows):
    """Of code that is called on the blocks of a recorded trace."""

    title: ClassVar[str] = "a trace ({trace})"
    chosen_by: ClassVar[tuple[str, ...]] = ("trace",)

    rule: Code | None = option(_SPEC, SUBJECT)
    _: KW_ONLY
    trace: PathName | None = option(
        "Call the code on the blocks of this trace, which simverify capture wrote.", OTHERS
    )
    contract: Literal["verify"] | None = inherited(SmallOptions, "contract")


@dataclass(frozen=True, kw_only=True)
class _Decoding(_Trees, Models):
    gamma: int | None = option(
        "Draft length, 1 to 64; 4 by default.", INSTANCES, Range(low=1, high=64)
    )
    tokens: int | None = option(
        "Number of emitted tokens to judge, fixed beforehand; by default, as many as the promised "
        "power needs.",
        BUDGET,
    )
    contract: Literal["verify", "step", "tree"] | None = inherited(SmallOptions, "contract")


@dataclass(frozen=True)
class RealModelOptions(_OnRows, Drafting, Compute, Law, _Decoding):
    """Of code that decodes on a pair of real models."""

    title: ClassVar[str] = "real models ({target})"
    chosen_by: ClassVar[tuple[str, ...]] = ("target",)

    rule: Code | None = option(_SPEC, SUBJECT)
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
