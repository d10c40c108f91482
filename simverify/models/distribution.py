"""The distribution that a request asks for: its parameters, their order, and its rows."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify import results as doc
from simverify.arrays import Floats
from simverify.errors import UsageError
from simverify.models.transformer import Sampling, TransformerPair

# Structured output: the tokens that may come next, as a function of all before.


@dataclass(frozen=True)
class Mask:
    """A mask function; two of the same ``name`` are taken for the same.

    ``allowed`` is called with two tuples of ids, the prompt and what was emitted after it. It
    returns the ids that may come next, or None where all may.
    """

    name: str
    allowed: Callable[[tuple[int, ...], tuple[int, ...]], Any] = field(compare=False, repr=False)

    def banned(
        self, prompt: tuple[int, ...], tokens: Sequence[int], vocab_size: int
    ) -> npt.NDArray[np.bool_]:
        """Return which tokens may not follow, bool (V,); ``UsageError`` for a wrong function."""
        where = f"mask {self.name} after {len(tokens)} tokens"
        try:
            given = self.allowed(prompt, tuple(tokens))
            ids = None if given is None else np.asarray(list(given))
        except Exception as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise UsageError(f"{where} raises {words}") from None
        if ids is None:
            return np.zeros(vocab_size, np.bool_)
        if not ids.size:
            raise UsageError(f"{where} allows nothing: expected one id or more, or None for all")
        if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
            raise UsageError(f"{where} returns {ids.dtype} values: expected a list of token ids")
        if ids.min() < 0 or ids.max() >= vocab_size:
            bad = int(ids.min() if ids.min() < 0 else ids.max())
            raise UsageError(f"{where} allows the id {bad}: expected 0 to {vocab_size - 1}")
        mask = np.ones(vocab_size, np.bool_)
        mask[ids] = False
        return mask


# What each parameter does to scores, row by row, as Transformers' processors and warpers do it.
#
# A stage takes scores float64 (n, V), -inf for what is cut off already, and returns new ones. Row i
# stands before the token ``first + i`` of a request.


@dataclass(frozen=True)
class RowContext:
    """What stands before the rows: ``prompt``, and of ``tokens`` those up to ``first + i``."""

    prompt: tuple[int, ...]
    tokens: Sequence[int]
    first: int = 0

    def counts(self, rows: int, vocab_size: int) -> npt.NDArray[np.int32]:
        """How often each token was emitted before each row, int32 (rows, V), without the prompt."""
        earlier = np.asarray(self.tokens[: self.first], np.int64)
        counts = np.tile(np.bincount(earlier, minlength=vocab_size).astype(np.int32), (rows, 1))
        for i, token in enumerate(self.tokens[self.first : self.first + rows - 1], 1):
            counts[i:, token] += 1
        return counts

    def ends_with(self, words: tuple[int, ...], row: int) -> bool:
        """Whether the prompt and the tokens before ``row`` end with ``words``."""
        whole = (*self.prompt[-len(words) :], *self.tokens[: self.first + row])
        return not words or tuple(whole[-len(words) :]) == words


_EMPTY_CONTEXT = RowContext((), ())


def apply_repetition_penalty(x: Floats, before: RowContext, penalty: float) -> Floats:
    """Divide positive scores of all tokens before, and multiply negative ones (Keskar 2019)."""
    seen = before.counts(*x.shape) > 0
    seen[:, list(before.prompt)] = True
    return np.where(seen, np.where(x < 0.0, x * penalty, x / penalty), x)


def apply_count_penalties(
    x: Floats, before: RowContext, presence: float, frequency: float
) -> Floats:
    """Subtract from tokens that were emitted, once and for each time, without the prompt."""
    counts = before.counts(*x.shape)
    return np.asarray(x - frequency * counts - presence * (counts > 0))


def apply_logit_bias(x: Floats, bias: Sequence[tuple[int, float]]) -> Floats:
    """Add to the scores of single tokens."""
    logits = x.copy()
    for token, value in bias:
        logits[:, token] += value
    return logits


def ban_words(x: Floats, before: RowContext, words: Sequence[tuple[int, ...]]) -> Floats:
    """Ban the last token of each word where the others stand before it."""
    logits = x.copy()
    for word in words:
        for row in range(len(x)):
            if before.ends_with(word[:-1], row):
                logits[row, word[-1]] = -np.inf
    return logits


def ban_early_end(x: Floats, before: RowContext, least: int, ends: Sequence[int]) -> Floats:
    """Ban the tokens that end a request until ``least`` tokens were emitted."""
    logits = x.copy()
    logits[: max(least - before.first, 0), list(ends)] = -np.inf
    return logits


def ban_masked(
    x: Floats, before: RowContext, mask: Mask | None, allowed: Sequence[int] = ()
) -> Floats:
    """Ban the tokens that a mask function does not allow, and all but the ``allowed``, if any."""
    logits = np.array(x)
    if allowed:
        logits = np.full_like(logits, -np.inf)
        logits[:, list(allowed)] = x[:, list(allowed)]
    for row in range(0 if mask is None else len(x)):
        assert mask is not None
        out = before.tokens[: before.first + row]
        logits[row, mask.banned(before.prompt, out, x.shape[-1])] = -np.inf
    return logits


def top_k(x: Floats, k: int) -> Floats:
    """Keep the k largest and their equals."""
    if k >= x.shape[-1]:
        return x
    least = -np.partition(-x, k - 1, axis=-1)[..., k - 1, None]
    return np.where(x < least, -np.inf, x)


def top_p(x: Floats, share: float) -> Floats:
    """Keep the fewest tokens, likeliest first, whose probability reaches ``share``."""
    p = softmax(x)
    order = np.argsort(-p, axis=-1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=-1)
    keep = np.empty(p.shape, np.bool_)
    np.put_along_axis(keep, order, np.cumsum(ranked, axis=-1) - ranked < share, axis=-1)
    return np.where(keep, x, -np.inf)


def min_p(x: Floats, share: float) -> Floats:
    """Keep what is at least ``share`` times as likely as the likeliest."""
    with np.errstate(divide="ignore"):
        return np.where(x < x.max(axis=-1, keepdims=True) + np.log(share), -np.inf, x)


def typical_p(x: Floats, share: float) -> Floats:
    """Keep the tokens whose surprise is nearest to the entropy (Meister 2022)."""
    p = softmax(x)
    far, order = surprise_deviations(p)
    ranked = np.take_along_axis(p, order, axis=-1)
    last = np.minimum((np.cumsum(ranked, axis=-1) < share).sum(axis=-1), x.shape[-1] - 1)
    limit = np.take_along_axis(far, np.take_along_axis(order, last[..., None], axis=-1), axis=-1)
    return np.where(far > limit, -np.inf, x)


def surprise_deviations(p: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    """How far each token's surprise is from its row's entropy, and the order by that."""
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = -np.log(p)
        entropy = np.where(p > 0.0, p * surprise, 0.0).sum(axis=-1, keepdims=True)
    far = np.abs(surprise - entropy)
    return far, np.argsort(far, axis=-1, kind="stable")


def _divide_by_temperature(x: Floats, temperature: float) -> Floats:
    """Divide what each score is below its row's largest, so that no small temperature overflows."""
    with np.errstate(over="ignore"):
        return np.asarray((x - x.max(axis=-1, keepdims=True)) / temperature)


def softmax(x: Floats) -> Floats:
    """Rows that sum to 1."""
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


ORDERS: dict[str, tuple[str, ...]] = {
    engine: tuple(stages.split())
    for engine, stages in {
        "transformers": "logit-bias repetition presence bad-words min-tokens mask "
        "temperature top-k top-p min-p typical-p",
        "vllm": "mask bad-words min-tokens logit-bias repetition presence "
        "temperature min-p top-k top-p typical-p",
        "sglang": "repetition presence logit-bias bad-words min-tokens mask "
        "temperature top-p top-k min-p typical-p",
        "llamacpp": "logit-bias bad-words min-tokens mask repetition presence "
        "top-k typical-p top-p min-p temperature",
        "mlx-lm": "logit-bias repetition presence bad-words min-tokens mask "
        "top-p min-p top-k typical-p temperature",
    }.items()
}
"""The order in which public engines apply their stages; "presence" is the frequency penalty too."""

STAGES = ORDERS["transformers"]
TRUNCATION_STAGES = ("top-k", "top-p", "min-p", "typical-p")


@dataclass(frozen=True)
class Law(Sampling):
    """The parameters of a request, each as Transformers' class of that name defines it.

    ``repetition_penalty`` counts the prompt and what was emitted; ``presence_penalty`` and
    ``frequency_penalty`` count only what was emitted (the definition of OpenAI and vLLM;
    Transformers has none). ``logit_bias``: pairs of id and addend. ``bad_words``: ids of each; what
    stands before a word's last token may be in the prompt. ``min_tokens``: tokens that come before
    one of ``ends``. ``allowed_token_ids``: the only ids that may come, empty for all; they are
    applied where the mask is. ``order``: names of :data:`STAGES`, first to last. A value that
    changes nothing becomes None. ``UsageError`` if a value is out of its range.
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
    allowed_token_ids: tuple[int, ...] = ()
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
        for name, neutral in NEUTRAL_VALUES.items():
            if getattr(self, name) == neutral:
                object.__setattr__(self, name, None)

    @cached_property
    def plain(self) -> bool:
        """Whether a row depends on its logits alone, by temperature, top-k and top-p in order."""
        active = [stage for stage in self.order if stage in self.acting]
        return set(active) <= {"temperature", "top-k", "top-p"} and active == [
            stage for stage in STAGES if stage in active
        ]

    @cached_property
    def acting(self) -> frozenset[str]:
        """The stages that change anything."""
        return frozenset(name for name in STAGES if self._stage(name, _EMPTY_CONTEXT) is not None)

    def after(
        self, logits: npt.ArrayLike, prompt: Sequence[int], tokens: Sequence[int], first: int = 0
    ) -> Floats:
        """Return float64 rows (n, V) that sum to 1, from logits (n, V).

        Row i stands before ``tokens[first + i]``, after ``prompt`` and the tokens before it.
        ``UsageError`` if nothing is left to be drawn, or the mask function fails.
        """
        if self.plain:
            return self.rows(logits)
        before = RowContext(tuple(prompt), tokens, first)
        x = self.scores(logits, before)
        top = x.max(axis=-1)
        if not np.isfinite(top).all():
            row = int(np.flatnonzero(~np.isfinite(top))[0])
            raise UsageError(
                f"after {len(prompt)} + {first + row} tokens no token is left to draw: bad words, "
                f"min-tokens, allowed tokens and the mask together ban all of them"
            )
        if self.temperature == 0.0:
            one = np.arange(x.shape[-1]) == x.argmax(axis=-1)[..., None]
            return np.asarray(one, np.float64)
        return softmax(x)

    def scores(self, logits: npt.ArrayLike, before: RowContext) -> Floats:
        """Return scores (n, V) after all stages; at temperature 0 nothing is truncated."""
        x = np.array(logits, dtype=np.float64)
        if not np.isfinite(x.max(axis=-1)).all():
            raise ValueError("logits hold NaN or +inf, or a row is -inf throughout")
        for name in self.order:
            if not (self.temperature == 0.0 and name in TRUNCATION_STAGES):
                x = self.scores_of(name, x, before)
        return x

    def scores_of(self, name: str, x: Floats, before: RowContext) -> Floats:
        """Return scores (n, V) after the stage ``name`` alone."""
        stage = self._stage(name, before)
        return x if stage is None else stage(x)

    def _stage(self, name: str, before: RowContext) -> Callable[[Floats], Floats] | None:
        if name == "repetition" and (penalty := self.repetition_penalty) is not None:
            return lambda x: apply_repetition_penalty(x, before, penalty)
        truncations = {"top-k": top_k, "top-p": top_p, "min-p": min_p, "typical-p": typical_p}
        if name in truncations:
            value = getattr(self, name.replace("-", "_"))
            return None if value is None else lambda x: truncations[name](x, value)
        if name == "temperature" and self.temperature not in (0.0, 1.0):
            return lambda x: _divide_by_temperature(x, self.temperature)
        presence, frequency = self.presence_penalty or 0.0, self.frequency_penalty or 0.0
        if name == "presence" and (presence or frequency):
            return lambda x: apply_count_penalties(x, before, presence, frequency)
        if name == "logit-bias" and self.logit_bias:
            return lambda x: apply_logit_bias(x, self.logit_bias)
        if name == "bad-words" and self.bad_words:
            return lambda x: ban_words(x, before, self.bad_words)
        if name == "min-tokens" and self.min_tokens and self.ends:
            return lambda x: ban_early_end(x, before, self.min_tokens, self.ends)
        if name == "mask" and (self.mask is not None or self.allowed_token_ids):
            return lambda x: ban_masked(x, before, self.mask, self.allowed_token_ids)
        return None


NEUTRAL_VALUES = {
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Values that change nothing."""


def as_law(sampling: Sampling) -> Law:
    """Return ``sampling`` as a law; one that is a law already stays as it is."""
    return sampling if isinstance(sampling, Law) else Law(**sampling_fields(sampling))


def sampling_fields(sampling: Sampling) -> dict[str, Any]:
    """Return temperature, top-k and top-p by their names."""
    return {field.name: getattr(sampling, field.name) for field in fields(Sampling)}


def processing_document(law: Law) -> doc.Processing | None:
    """Return what a law has beside temperature, top-k and top-p; None where it has nothing."""
    if law.plain:
        return None
    values: dict[str, Any] = {name: getattr(law, name) for name in doc.Processing.__struct_fields__}
    values["mask"] = None if law.mask is None else law.mask.name
    values["order"] = None if law.order == STAGES else law.order
    return doc.Processing(**values)


# The smallest error of logits with which a law would keep a token that it cuts off.


_BISECTION_STEPS = 40


def min_logit_error(x: Floats, token: int, law: Law, before: RowContext = _EMPTY_CONTEXT) -> float:
    """Return the least M with which ``law`` may keep ``token``, of logits x (V,); inf if none.

    Each logit may be off by M/2. So any token that is at most M above this one may be below it,
    and every probability may be too small by a factor of exp(M / temperature). No rounding keeps
    what is banned.
    """
    scores, least, scale = np.array(x[None], dtype=np.float64), 0.0, 1.0
    whole, cuts = scores, set[str]()
    stretch = law.repetition_penalty or 1.0
    stretch = max(stretch, 1.0 / stretch)
    for name in law.order:
        value = getattr(law, name.replace("-", "_")) if name in TRUNCATION_STAGES else None
        if name not in TRUNCATION_STAGES:
            scores, whole = (law.scores_of(name, rows, before) for rows in (scores, whole))
            if not np.isfinite(whole[0, token]):
                return np.inf
        elif value is not None and law.temperature > 0.0:
            score = float(whole[0, token])
            seen = [scores[0][np.isfinite(scores[0])]]
            if cuts - {"top-k"} or name == "typical-p":
                # What was cut off before may be kept as well, where logits are off.
                seen.append(whole[0])
            needed = [_STAGE_ERRORS[name](one, score, value) for one in seen]
            if not (cuts and "typical-p" in {name, *cuts}):  # which all that is cut before moves
                least = max(least, scale * min(needed))
            cuts.add(name)
            scores = law.scores_of(name, scores, before)
        if name == "temperature":
            if law.temperature == 0.0:
                return max(float(whole[0].max() - whole[0, token]), 0.0) / stretch
            scale = law.temperature
    return least / stretch


def _top_k_error(x: Floats, score: float, k: int) -> float:
    above = np.sort(x[x > score] - score)
    return float(above[-k]) if k <= len(above) else 0.0


def _top_p_error(x: Floats, score: float, share: float) -> float:
    logits = np.sort(x[np.isfinite(x)])
    places = logits[logits > score] - score
    if not len(places):
        return 0.0
    p = np.exp(logits - logits[-1])
    # Mass of the tokens that are ahead for sure at M = 0, and from the place of each above on.
    ahead = np.append(np.cumsum(p[::-1])[::-1][-len(places) :], 0.0) / p.sum()
    begins, ends = np.append(0.0, places), np.append(places, np.inf)
    with np.errstate(divide="ignore"):
        needed = np.maximum(begins, np.log(ahead / share))
    return float(needed[needed < ends].min())


def _min_p_error(x: Floats, score: float, share: float) -> float:
    return max(float(x.max()) + float(np.log(share)) - score, 0.0) if share else 0.0


def _typical_error(x: Floats, score: float, share: float) -> float:
    """By halving: a surprise is off by M, a probability by exp(M), the entropy by what is far."""
    p = softmax(x[None])
    far, _ = surprise_deviations(p)
    entropy = float(-(p[p > 0.0] * np.log(p[p > 0.0])).sum())
    top, spread = float(x.max()), float((p[p > 0.0] * far[p > 0.0]).sum())
    low, high = 0.0, abs(top + float(np.log(np.exp(x - top).sum())) - score - entropy)
    limit = high

    def keeps(m: float) -> bool:
        nearer = far[0] < limit - m * (2.0 + spread * float(np.exp(m)))
        return float(p[0, nearer].sum()) * float(np.exp(-m)) < share

    if keeps(low):
        return 0.0
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


_STAGE_ERRORS = {
    "top-k": _top_k_error,
    "top-p": _top_p_error,
    "min-p": _min_p_error,
    "typical-p": _typical_error,
}


# The parameters of requests and options, read into the fields of a law.


PARAMETER_ALIASES = {"repeat_penalty": "repetition_penalty", "min_new_tokens": "min_tokens"}
"""Other names that servers have for a parameter."""

NUMBER_PARAMETERS = (
    "temperature",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)
INTEGER_PARAMETERS = ("top_k", "min_tokens")
PARAMETER_NAMES = (
    *NUMBER_PARAMETERS,
    *INTEGER_PARAMETERS,
    "logit_bias",
    "bad_words",
    "allowed_token_ids",
)
"""The parameters of a law, by their names in requests."""

_NESTED_PARAMETERS = ("sampling_params", "parameters")
"""Fields of a request that hold its parameters: SGLang's, Text Generation Inference's."""

_WINDOWS = {
    "repeat_last_n": NUMBER_PARAMETERS[-3:],
    "repetition_context_size": ("repetition_penalty",),
    "presence_context_size": ("presence_penalty",),
    "frequency_context_size": ("frequency_penalty",),
}
"""Fields that say how many last tokens a penalty counts: llama.cpp's, mlx-lm's."""

FULL_WINDOW = 1 << 17
"""Last tokens that llama.cpp is told to count: more than any request has. Its newer servers refuse
-1, which used to stand for all of them."""

_MIN_FULL_WINDOW = 1 << 16  # a window of so many tokens is taken for all of them

_UNKNOWN_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "repetition_range": (0,),
    "dry_multiplier": (0,),
    "xtc_probability": (0,),
    "mirostat": (0,),
    "mirostat_mode": (0,),
    "dynatemp_range": (0,),
    "smoothing_factor": (0,),
    "top_n_sigma": (0, -1),
    "top_a": (0,),
    "tfs": (1,),
    "tfs_z": (1,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
    "guidance_scale": (1,),
    "best_of": (1,),
    "num_beams": (1,),
    "use_beam_search": (False,),
    "watermark": (False,),
}
"""Parameters that change what is drawn and that no law has, with the values that change nothing."""

_STRUCTURED_OUTPUT = (
    "response_format",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "grammar",
    "json_schema",
    "regex",
    "ebnf",
    "structural_tag",
)
"""Fields that ask for structured output, which only a mask can judge."""

_FREE_FORMATS: tuple[Any, ...] = ({"type": "text"}, "", {}, [])


def flat_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request with its nested parameters beside its other fields."""
    flat = dict(request)
    for name in _NESTED_PARAMETERS:
        if isinstance(nested := request.get(name), Mapping):
            flat = {**nested, **{key: x for key, x in flat.items() if x is not None}}
    return flat


def request_parameters(
    request: Mapping[str, Any], where: str, *, masked: bool = False
) -> dict[str, Any]:
    """Return the parameters that a request names, by their names here.

    ``masked``: whether a mask stands for its structured output. ``UsageError`` for one that is
    given twice, for a penalty that counts a window of tokens, and for what no law has.
    """
    request = flat_request(request)
    parameters: dict[str, Any] = {}
    for name in (*PARAMETER_NAMES, *PARAMETER_ALIASES):
        value, canonical = request.get(name), PARAMETER_ALIASES.get(name, name)
        if value is None:
            continue
        if canonical in parameters and parameters[canonical] != value:
            raise UsageError(f"{where} says {canonical} twice, as {name} too: expected one of them")
        if name == "repeat_penalty" and "repeat_last_n" not in request and value != 1:
            raise UsageError(
                f"{where} was asked with {name} {json.dumps(value)[:40]}, which counts only the "
                f"last 64 tokens: ask with repeat_last_n {FULL_WINDOW}, which counts all of them"
            )
        parameters[canonical] = value
    for window, penalties in _WINDOWS.items():
        size = request.get(window)
        acting = [n for n in penalties if parameters.get(n, NEUTRAL_VALUES[n]) != NEUTRAL_VALUES[n]]
        full = size is None or (type(size) is int and (size == -1 or size >= _MIN_FULL_WINDOW))
        if acting and not full:
            raise UsageError(
                f"{where} was asked with {acting[0]} and {window} {json.dumps(size)[:40]}, which "
                f"counts only the last tokens: ask with {window} {FULL_WINDOW}, which counts all"
            )
    for name, neutral in _UNKNOWN_PARAMETERS.items():
        if request.get(name) not in (None, *neutral):
            raise UsageError(
                f"{where} was asked with {name} {json.dumps(request[name])[:40]}, which is not "
                f"among the parameters that can be judged: ask without it"
            )
    for name in () if masked else _STRUCTURED_OUTPUT:
        if request.get(name) not in (None, *_FREE_FORMATS):
            raise UsageError(
                f"{where} was asked for structured output, {name} "
                f"{json.dumps(request[name])[:40]}: give a --mask that allows the same tokens"
            )
    return parameters


def request_seed(request: Mapping[str, Any], where: str) -> int | None:
    """Return the seed that a request names; None for none, or for -1, a random one."""
    request = flat_request(request)
    seed = request.get("seed", request.get("sampling_seed"))
    if seed is None or seed == -1:
        return None
    if type(seed) is not int:
        raise UsageError(f"{where} says seed {json.dumps(seed)[:40]}: expected a whole number")
    return seed


def law_fields(parameters: Mapping[str, Any], where: str, pair: TransformerPair) -> dict[str, Any]:
    """Return the fields of a :class:`Law` for parameters by name, each checked.

    Raises ``UsageError`` for what is no number, and for a bias or a word of no token.
    """
    fields: dict[str, Any] = {}
    for name in (*NUMBER_PARAMETERS, *INTEGER_PARAMETERS):
        value = parameters.get(name)
        if value is None:
            continue
        kinds = (int,) if name in INTEGER_PARAMETERS else (int, float)
        if type(value) not in kinds or not _is_finite(value):
            kind = "a whole number" if name in INTEGER_PARAMETERS else "a number"
            raise UsageError(f"{where} says {name} {json.dumps(value)[:40]}: expected {kind}")
        fields[name] = value if name in INTEGER_PARAMETERS else float(value)
    if fields.get("top_k", 1) < -1:
        raise UsageError(
            f"{where} says top_k {fields['top_k']}: expected 1 or more, or 0 or -1 for all tokens"
        )
    if fields.get("top_k", 1) <= 0:
        fields["top_k"] = None  # servers take 0 or -1 for all tokens
    if fields.get("top_p") == 1.0:
        fields["top_p"] = None
    if parameters.get("logit_bias") is not None:
        fields["logit_bias"] = _check_bias(parameters["logit_bias"], where, pair)
    if parameters.get("bad_words") is not None:
        fields["bad_words"] = _check_bad_words(parameters["bad_words"], where, pair)
    if parameters.get("allowed_token_ids") is not None:
        ids = parameters["allowed_token_ids"]
        fields["allowed_token_ids"] = _check_allowed(ids, where, pair)
    if fields.get("min_tokens"):
        fields["ends"] = tuple(sorted(pair.eos))
    return fields


def _is_finite(value: float) -> bool:
    """Whether a number fits into a float; JSON has integers of any length."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_order(text: str) -> tuple[str, ...]:
    """Return all stages in order; ``text``: an engine, or stages that swap among themselves."""
    if text in ORDERS:
        return ORDERS[text]
    named = [part.strip().replace("_", "-") for part in text.split(",")]
    if not (set(named) <= set(STAGES) and len(set(named)) == len(named) >= 2):
        raise UsageError(
            f"order is {text!r}: expected one of {', '.join(ORDERS)}, or two or more of "
            f"{', '.join(STAGES)}, first to last"
        )
    rest = iter(named)
    return tuple(next(rest) if stage in named else stage for stage in STAGES)


def check_json_option(text: str, name: str, kind: type[Any]) -> Any:
    """Return the JSON of an option that holds an object or a list."""
    shape = '{"5": -100}' if kind is dict else '["word", [5, 6]]'
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise UsageError(f"{name} is {text[:40]!r}: expected JSON such as {shape}")
    return value


def _check_bias(value: Any, where: str, pair: TransformerPair) -> tuple[tuple[int, float], ...]:
    pairs = list(value.items()) if isinstance(value, dict) else value
    entries: list[Any] = pairs if isinstance(pairs, list) else [None]
    if not all(isinstance(entry, (list, tuple)) and len(entry) == 2 for entry in entries):
        raise UsageError(
            f'{where} says logit_bias {json.dumps(value)[:40]}: expected {{"id": addend}}'
        )
    biases: dict[int, float] = {}
    for token, addend in entries:
        try:
            number = int(token)
        except (TypeError, ValueError):
            number = -1
        if not 0 <= number < pair.vocab_size or isinstance(token, (bool, float)):
            raise UsageError(
                f"{where} says logit_bias of {json.dumps(token)[:40]}: expected an id of "
                f"{pair.target_name}, 0 to {pair.vocab_size - 1}"
            )
        if type(addend) not in (int, float) or not _is_finite(addend):
            raise UsageError(
                f"{where} says logit_bias {json.dumps(addend)[:40]} of {number}: expected a number"
            )
        biases[number] = biases.get(number, 0.0) + float(addend)
    return tuple(sorted((token, bias) for token, bias in biases.items() if bias))


def _check_allowed(value: Any, where: str, pair: TransformerPair) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise UsageError(
            f"{where} says allowed_token_ids {json.dumps(value)[:40]}: expected a list of one id "
            f"or more"
        )
    for token in value:
        if type(token) is not int or not 0 <= token < pair.vocab_size:
            raise UsageError(
                f"{where} says allowed_token_ids with {json.dumps(token)[:40]}: expected an id of "
                f"{pair.target_name}, 0 to {pair.vocab_size - 1}"
            )
    return tuple(sorted(set(value)))


def _check_bad_words(value: Any, where: str, pair: TransformerPair) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list):
        raise UsageError(f"{where} says bad_words {json.dumps(value)[:40]}: expected a list")
    words: set[tuple[int, ...]] = set()
    for word in value:
        if isinstance(word, str) and word.strip():
            bare, spaced = (
                tuple(pair.tokenizer(text, add_special_tokens=False).input_ids)
                for text in (word.lstrip(), " " + word.lstrip())
            )
            words.add(bare)
            if spaced[0] != bare[0] and len(spaced) == len(bare):  # another first token
                words.add(spaced)
        elif (
            isinstance(word, list)
            and word
            and all(type(t) is int and 0 <= t < pair.vocab_size for t in word)
        ):
            words.add(tuple(word))
        else:
            raise UsageError(
                f"{where} says the bad word {json.dumps(word)[:40]}: expected text, or ids of "
                f"{pair.target_name}"
            )
    return tuple(sorted(words))
