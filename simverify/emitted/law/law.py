"""The law of a request as a value: each parameter, the order in which they act, rows of it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats
from simverify.emitted.law import stages
from simverify.emitted.law.masks import Mask
from simverify.emitted.law.stages import Before
from simverify.errors import UsageError
from simverify.models.real.sampling import Sampling

STAGES = (
    "logit-bias", "repetition", "presence", "bad-words", "min-tokens", "mask", "temperature",
    "top-k", "top-p", "min-p", "typical-p",
)  # fmt: skip
"""What acts on a row, in Transformers' order; "presence" is the frequency penalty too."""

ORDERS = {
    "transformers": STAGES,
    "vllm": (
        "mask", "bad-words", "min-tokens", "logit-bias", "repetition", "presence", "temperature",
        "min-p", "top-k", "top-p", "typical-p",
    ),
    "sglang": (
        "repetition", "presence", "logit-bias", "bad-words", "min-tokens", "mask", "temperature",
        "top-p", "top-k", "min-p", "typical-p",
    ),
    "llamacpp": (
        "logit-bias", "bad-words", "min-tokens", "mask", "repetition", "presence", "top-k",
        "typical-p", "top-p", "min-p", "temperature",
    ),
    "mlx-lm": (
        "logit-bias", "repetition", "presence", "bad-words", "min-tokens", "mask", "top-p",
        "min-p", "top-k", "typical-p", "temperature",
    ),
}  # fmt: skip
"""The order in which public engines apply what they have."""

CUTS = ("top-k", "top-p", "min-p", "typical-p")


@dataclass(frozen=True)
class Law(Sampling):
    """What a request was asked for; each parameter as Transformers' class of that name has it.

    ``repetition_penalty`` counts the prompt and what was emitted, ``presence_penalty`` and
    ``frequency_penalty`` what was emitted alone (OpenAI's and vLLM's definition; Transformers has
    none). ``logit_bias``: pairs of id and addend. ``bad_words``: ids of each; the prompt counts for
    what stands before a word's last token. ``min_tokens``: as many come before one of ``ends``.
    ``order``: names of :data:`STAGES`, first to last. Values that change nothing become None.

    Raises
    ------
    UsageError
        If a value is out of its range.
    """

    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    min_tokens: int = 0
    ends: tuple[int, ...] = ()
    mask: Mask | None = None
    order: tuple[str, ...] = STAGES

    def __post_init__(self) -> None:
        super().__post_init__()
        rules: tuple[tuple[str, float | None, Callable[[float], bool], str], ...] = (
            ("min_p", self.min_p, lambda v: 0.0 <= v <= 1.0, "0 to 1"),
            ("typical_p", self.typical_p, lambda v: 0.0 < v <= 1.0, "more than 0, 1 at most"),
            ("repetition_penalty", self.repetition_penalty, lambda v: v > 0.0, "more than 0"),
            ("presence_penalty", self.presence_penalty, lambda v: True, "a number"),
            ("frequency_penalty", self.frequency_penalty, lambda v: True, "a number"),
            ("min_tokens", self.min_tokens, lambda v: v >= 0, "0 or more"),
        )
        for name, value, fits, expected in rules:
            if value is not None and not (math.isfinite(value) and fits(value)):
                raise UsageError(f"{name.replace('_', '-')} is {value:g}, expected {expected}")
        for token, value in self.logit_bias:
            if not math.isfinite(value):
                raise UsageError(f"logit-bias of {token} is {value:g}, expected a number")
        if sorted(self.order) != sorted(STAGES):
            raise UsageError(f"order is {self.order}, expected each of {', '.join(STAGES)} once")
        for name, neutral in NEUTRAL.items():
            if getattr(self, name) == neutral:
                object.__setattr__(self, name, None)

    @property
    def plain(self) -> bool:
        """Whether a row depends on its logits alone, by temperature, top-k and top-p in order."""
        own = [stage for stage in self.order if stage in self.acting]
        return set(own) <= _PLAIN and own == [stage for stage in STAGES if stage in own]

    @property
    def acting(self) -> frozenset[str]:
        """The stages that do anything."""
        return frozenset(name for name in STAGES if self._stage(name, Before((), ())) is not None)

    def after(
        self, logits: npt.ArrayLike, prompt: Sequence[int], tokens: Sequence[int], first: int = 0
    ) -> Floats:
        """Return float64 rows (n, V) that sum to 1, from logits (n, V).

        Row i stands before ``tokens[first + i]``, after ``prompt`` and the tokens before it.

        Raises
        ------
        UsageError
            If nothing is left to be drawn, or the mask function fails.
        """
        if self.plain:
            return self.rows(logits)
        before = Before(tuple(prompt), tokens, first)
        x = self.scores(logits, before)
        top = x.max(axis=-1)
        if not np.isfinite(top).all():
            row = int(np.flatnonzero(~np.isfinite(top))[0])
            raise UsageError(
                f"after {len(prompt)} + {first + row} tokens the law leaves nothing to draw: bad "
                f"words, min-tokens and the mask ban all together"
            )
        if self.temperature == 0.0:
            one: Floats = (np.arange(x.shape[-1]) == x.argmax(axis=-1)[..., None]).astype(float)
            return one
        return stages.softmax(x)

    def scores(self, logits: npt.ArrayLike, before: Before) -> Floats:
        """Return scores (n, V) after all stages; at temperature 0 nothing is cut off."""
        x = np.array(logits, dtype=np.float64)
        if not np.isfinite(x.max(axis=-1)).all():
            raise ValueError("logits hold NaN or +inf, or a row is -inf throughout")
        for name in self.order:
            if not (self.temperature == 0.0 and name in CUTS):
                x = self.scores_of(name, x, before)
        return x

    def scores_of(self, name: str, x: Floats, before: Before) -> Floats:
        """Return scores (n, V) after the stage ``name`` alone."""
        stage = self._stage(name, before)
        return x if stage is None else stage(x)

    def _stage(self, name: str, before: Before) -> Callable[[Floats], Floats] | None:
        """What a stage does to scores; None where it does nothing."""
        if name == "repetition" and (penalty := self.repetition_penalty) is not None:
            return lambda x: stages.repeated(x, before, penalty)
        if name == "top-k" and (k := self.top_k) is not None:
            return lambda x: stages.top_k(x, k)
        if name == "top-p" and (nucleus := self.top_p) is not None:
            return lambda x: stages.top_p(x, nucleus)
        if name == "min-p" and (least := self.min_p) is not None:
            return lambda x: stages.min_p(x, least)
        if name == "typical-p" and (mass := self.typical_p) is not None:
            return lambda x: stages.typical(x, mass)
        if name == "temperature" and self.temperature not in (0.0, 1.0):
            return lambda x: x / self.temperature
        presence, frequency = self.presence_penalty or 0.0, self.frequency_penalty or 0.0
        if name == "presence" and (presence or frequency):
            return lambda x: stages.counted(x, before, presence, frequency)
        if name == "logit-bias" and self.logit_bias:
            return lambda x: stages.biased(x, self.logit_bias)
        if name == "bad-words" and self.bad_words:
            return lambda x: stages.without_words(x, before, self.bad_words)
        if name == "min-tokens" and self.min_tokens and self.ends:
            return lambda x: stages.not_ending(x, before, self.min_tokens, self.ends)
        if name == "mask" and (mask := self.mask) is not None:
            return lambda x: _masked(x, before, mask)
        return None


NEUTRAL = {
    "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0, "repetition_penalty": 1.0,
    "presence_penalty": 0.0, "frequency_penalty": 0.0,
}  # fmt: skip
"""Values that change nothing."""

_PLAIN = {"temperature", "top-k", "top-p"}


def as_law(sampling: Sampling) -> Law:
    """Return the law of temperature, top-k and top-p; one that is whole as it is."""
    if isinstance(sampling, Law):
        return sampling
    return Law(**{field.name: getattr(sampling, field.name) for field in fields(Sampling)})


def _masked(x: Floats, before: Before, mask: Mask) -> Floats:
    found = x.copy()
    for row in range(len(x)):
        out = before.tokens[: before.first + row]
        found[row, mask.banned(before.prompt, out, x.shape[-1])] = -np.inf
    return found
