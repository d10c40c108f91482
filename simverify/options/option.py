"""What an option is: a field of its mode's dataclass, with help, group and range."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from os import PathLike
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from simverify.checks import MAX_SECONDS, MIN_ALPHA, MIN_DETECT
from simverify.errors import OptionError, UsageError, escape_braces

Code = Callable[..., Any] | str
"""A function or a class, or a SPEC as the command line takes it."""

PathName = str | PathLike[str]
Contract = Literal["verify", "step", "tree", "draft"]
Dtype = Literal["float32", "bfloat16", "float16"]
ModelFormat = Literal["hf", "gguf", "openvino", "ort", "ctranslate2", "mlx"]

GROUPS = (
    SUBJECT := "What is audited",
    COMPARED := "What is compared",
    INSTANCES := "The instances",
    PROCESSING := "The target, where the code processes the rows that it gets",
    BUDGET := "Budget and error rates",
    OUTPUT := "Output",
    OTHERS := "Other audits",
    SPEED := "The predicted speed-up",
    ADVANCED := "Advanced",
    SIMULATED := "Advanced: simulated models",
    MODELS := "Advanced: real models",
    SERVED := "Advanced: emitted tokens, and servers",
)
"""Groups of options, in the order of ``--help``."""

Say = Callable[[str], None]

_KEY = "option"


@dataclass(frozen=True)
class Range:
    """Numbers that an option takes: ``low`` or more, or above it; ``high`` or less, or below it.

    ``words``: what is expected, where the numbers do not say it well.
    """

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    words: str | None = None

    def holds(self, value: float) -> bool:
        """Tell whether ``value`` is in the range; no range holds a NaN."""
        return (
            value == value
            and (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        if self.words is not None:
            return self.words
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}"
        if self.low is None and self.above is None:
            return f"{self.high:g} or less"
        first = f"more than {self.above:g}" if self.low is None else f"{self.low:g} or more"
        if self.below is not None:
            return f"{first}, below {self.below:g}"
        return first if self.high is None else f"{first}, {self.high:g} at most"


SEED = Range(low=0, high=2**64 - 1, words="0 to 2^64 - 1")


@dataclass(frozen=True)
class Option:
    """What the type and the default of a field do not say.

    ``old``: its name before this release, which is still understood. ``verbatim``: a text that may
    be an address or more than a path, and is kept as it was written.
    """

    help: str
    group: str
    range: Range | None = None
    old: str | None = None
    verbatim: bool = False


def option(
    help: str,  # noqa: A002 -- what cyclopts and argparse call it
    group: str = ADVANCED,
    range: Range | None = None,  # noqa: A002
    *,
    default: Any = None,
    old: str | None = None,
    verbatim: bool = False,
) -> Any:
    """Return a field with its option; ``help`` is one line of any length."""
    return field(default=default, metadata={_KEY: Option(help, group, range, old, verbatim)})


def inherited(
    mode: "type[Options]", name: str, default: Any = None, *, group: str | None = None
) -> Any:
    """Return the option ``name`` of another mode, with its own default."""
    known = option_of(mode.option(name))
    return field(default=default, metadata={_KEY: replace(known, group=group or known.group)})


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a mode. Raises ``UsageError`` for a value out of its range.

    ``title``: what the mode judges, in errors; ``chosen_by``: options any of which choose it.
    ``progress`` receives a line when something begins that may take a while.
    """

    title: ClassVar[str] = ""
    chosen_by: ClassVar[tuple[str, ...]] = ()

    progress: Say | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        hints = type(self).types()
        for one in type(self).options():
            value, limits = getattr(self, one.name), option_of(one).range
            if value is None:
                continue
            if limits is not None and not limits.holds(value):
                raise UsageError(f"{one.name.replace('_', ' ')} is {value}: expected {limits}")
            choices = choices_of(hints[one.name])
            if choices and value not in choices:
                known = " or ".join([", ".join(choices[:-1]), choices[-1]][len(choices) == 1 :])
                where = f" for {self.name()}" if self.title else ""
                raise OptionError(
                    f"{{{one.name}}} is {escape_braces(value)}: expected {known}{where}"
                )

    @classmethod
    def name(cls) -> str:
        """Return what the mode judges, without the options that choose it."""
        return cls.title.partition(" (")[0]

    @classmethod
    def is_asked_for(cls, given: Mapping[str, Any]) -> bool:
        """Tell whether one of the options that choose this mode is among those that were given."""
        return any(is_given(given.get(name)) for name in cls.chosen_by)

    @classmethod
    def options(cls) -> tuple[Field[Any], ...]:
        """Return the fields that are options, in order."""
        return tuple(one for one in fields(cls) if _KEY in one.metadata)

    @classmethod
    def option(cls, name: str) -> Field[Any]:
        """Return the field of an option; ``KeyError`` if there is none."""
        return {one.name: one for one in cls.options()}[name]

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of its options, in order."""
        return tuple(one.name for one in cls.options())

    @classmethod
    def types(cls) -> dict[str, Any]:
        """Return the type of each option."""
        return get_type_hints(cls)

    def words(self, *, always: Iterable[str] = (), without: Iterable[str] = ()) -> list[str]:
        """Return the options that are no defaults as the command line has them, in order.

        ``always``: those that are written though they are defaults; ``without``: left out.
        """
        words: list[str] = []
        for one in type(self).options():
            value = getattr(self, one.name)
            if one.name not in without and (value != one.default or one.name in always):
                words += words_of(one.name, value)
        return words

    def listed(self, name: str) -> list[str]:
        """Return the names that an option lists; none of None.

        Raises ``OptionError`` if one of a comma-separated text is empty.
        """
        value = getattr(self, name)
        if value is None:
            return []
        if not isinstance(value, str):
            return [str(one) for one in ([value] if isinstance(value, PathLike) else value)]
        names = [word.strip() for word in value.split(",")]
        if not all(names):
            raise OptionError(
                f"{{{name}}} is {escape_braces(value)}: expected names, comma-separated"
            )
        return names

    def say(self, line: str) -> None:
        """Tell a line of progress."""
        if self.progress is not None:
            self.progress(line)


def option_of(one: Field[Any]) -> Option:
    """Return what a field says of its option."""
    known: Option = one.metadata[_KEY]
    return known


def is_given(value: object) -> bool:
    """Tell a value from what stands for none: None, and False of a switch."""
    return value is not None and value is not False


def choices_of(hint: Any) -> tuple[str, ...]:
    """Return the names that a type allows, if it is one of few."""
    for kind in (hint, *get_args(hint)):
        if get_origin(kind) is Literal:
            return get_args(kind)
    return ()


def flag(name: str) -> str:
    """Return the name of an option on the command line."""
    return f"--{name.replace('_', '-')}"


def words_of(name: str, value: object) -> list[str]:
    """Return an option and its value as words of a command."""
    if value is None or value is False:
        return []
    if value is True:
        return [flag(name)]
    text = text_of(value, name)
    return [f"{flag(name)}={text}"] if text.startswith("-") else [flag(name), text]


def text_of(value: object, name: str) -> str:
    """Return a value as the command line has it: a function by its name, a mapping as JSON."""
    if callable(value):
        return str(getattr(value, "__qualname__", type(value).__name__))
    if isinstance(value, str | PathLike | int | float) or not isinstance(value, Mapping | Sequence):
        return str(value)
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} is {value!r}: expected what JSON can hold") from None


# Options that several modes share: rates, sizes, a pair of real models, the law of a request.


DrafterName = Literal["plain", "easyspec", "prompt-lookup", "ngram"]
DRAFTERS: tuple[str, ...] = get_args(DrafterName)
"""Ways in which real models draft."""

MAX_GAMMA, MAX_VOCAB = 4, 12
"""The largest of small instances, whose paths are followed."""

GAMMA = Range(low=1, high=MAX_GAMMA)
VOCAB = Range(low=2, high=MAX_VOCAB)
ALPHA = Range(low=MIN_ALPHA, below=1)
DETECT = Range(low=MIN_DETECT, below=1)
SECONDS = Range(above=0, high=MAX_SECONDS)


@dataclass(frozen=True, kw_only=True)
class Sizes(Options):
    """The instances of an audit, its budget and its error rates."""

    seed: int = option("Seed of all draws.", BUDGET, SEED, default=0)
    gamma: int = option(
        "Largest draft length of the instances, 1 to 4.", INSTANCES, GAMMA, default=4
    )
    vocab: int = option(
        "Largest vocabulary of the instances, 2 to 12.", INSTANCES, VOCAB, default=12
    )
    max_paths: int | None = option(
        "Budget of the exact tier, in paths; the default depends on the code.", BUDGET, Range(low=1)
    )
    max_samples: int = option(
        "Budget of the sampled tier.", BUDGET, Range(low=1), default=2_000_000
    )
    seconds: float = option(
        "Time limit of each tier: processor seconds, and seconds that the code sleeps. Reaching it "
        "never makes a FAIL. The verdict is INCONCLUSIVE, or a PASS whose first line says how many "
        "instances it covers.",
        BUDGET,
        SECONDS,
        default=60.0,
    )
    alpha: float = option("False-alarm rate of the tests.", BUDGET, ALPHA, default=1e-6)
    detect: float | None = option(
        "Deviation (mean one-token TV) that the sampled tier detects with power .9: .01 by "
        "default, or up to .2 if slow code leaves no time for less.",
        BUDGET,
        DETECT,
    )


@dataclass(frozen=True, kw_only=True)
class Models(Options):
    """A pair of real models, and prompts."""

    target: str | None = option(
        "The target model: a folder or a name that Transformers loads, or the bundled tiny-llama.",
        SUBJECT,
    )
    draft: str | None = option("The draft model; by default, tiny-llama uses its own.", MODELS)
    prompts: PathName | None = option(
        "Prompts: JSONL, or a text file with one per paragraph. By default, tiny-llama uses its "
        "own.",
        MODELS,
    )


@dataclass(frozen=True, kw_only=True)
class Law(Options):
    """The law that models sample, that an engine was asked for, or that code makes of its rows."""

    temperature: float | None = option(
        "Temperature that the models sample with, that the engine was asked for, or that the code "
        "under audit applies to the target's rows; 1 by default.",
        MODELS,
    )
    top_k: int | None = option(
        "Number of most likely tokens that sampling keeps; all by default.", MODELS
    )
    top_p: float | None = option(
        "Share of the probability that sampling keeps; all by default.", MODELS
    )


@dataclass(frozen=True, kw_only=True)
class Compute(Options):
    """Where real models compute, and in what."""

    device: str | None = option("Device that real models run on; cpu by default.", MODELS)
    dtype: Dtype | None = option(
        "Precision that real models compute in; float32 by default.", MODELS
    )
    threads: int | None = option("Number of torch threads.", MODELS)


@dataclass(frozen=True, kw_only=True)
class Drafting(Options):
    """How real models draft."""

    drafter: str | None = option(
        "How drafts are made: plain (the default) drafts token by token with the draft model, "
        "easyspec runs its layers in groups, prompt-lookup and ngram use the texts alone.",
        MODELS,
    )
    layer_parallel: int | str | None = option("Layers per group of easyspec, 4 by default.", MODELS)
    no_calibration: bool = option(
        "Leave the fuzzy entries of easyspec in the draft's cache.", MODELS, default=False
    )


@dataclass(frozen=True, kw_only=True)
class Server(Options):
    """What a server is asked, beside its prompts."""

    max_tokens: int | None = option(
        "Server: token limit of one completion; 128 by default.", SERVED
    )
    served_model: str | None = option(
        "Server: name of the model to ask for; by default, the first that the server lists.", SERVED
    )
    extra_body: Mapping[str, Any] | str | None = option(
        "Server: extra fields for every request, as JSON.", SERVED
    )
    timeout: float | None = option(
        "Server: seconds that one answer may take, 300 by default. A slower answer ends the run.",
        SERVED,
    )
