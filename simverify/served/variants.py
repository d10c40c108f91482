"""What engines do instead of what a request asks for: variants of a law, each with its rows.

Each stands for faults of public engines: a parameter that is ignored, a cut that is off by one
token, stages in another order, a default that nobody asked for.
"""

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Literal

import numpy as np

from simverify import stats
from simverify.arrays import Floats
from simverify.models.distribution import TRUNCATION_STAGES, Law, RowContext, softmax
from simverify.models.rounding import COARSE_LOOKUPS, RowRounding, looked_up, to_bfloat16
from simverify.stats.evalues import BetSums

Rows = Callable[[Any, Sequence[int], Sequence[int], int], Floats]
"""Rows float64 (n, V) of logits (n, V), before each token of a request from a place on: given the
prompt, the tokens, and that place, as :meth:`Law.after` takes them."""

Cut = Callable[[Floats, Floats, float], Floats]
"""Scores (n, V) after a cut, from those before it, the logits, and the parameter's value."""


VariantOutcome = Literal["dropped", "wrong order", "other"]


@dataclass(frozen=True, eq=False)
class SamplingVariant:
    """A way to sample that is not what was asked for.

    ``words``: what the engine does. ``parameter``: the field of a law that it is about.
    ``outcome``: what the matrix calls it. ``of``: the rows of an engine that is asked for a law;
    None if the law leaves nothing to do wrong.
    """

    words: str
    parameter: str
    outcome: VariantOutcome
    of: Callable[[Law], Rows | None]

    def applies(self, law: Law) -> bool:
        """Whether the variant differs from a law, and leaves a token to draw in every row."""
        return self.rows_for(law) is not None

    def rows_for(self, law: Law) -> Rows | None:
        """Return the rows of an engine that is asked for ``law``, None if it does not apply."""
        return None if _bans_what_is_left(law) else self.of(law)

    def rows(
        self, law: Law, logits: Any, prompt: Sequence[int], tokens: Sequence[int], first: int = 0
    ) -> Floats:
        """Return rows (n, V) of an engine that is asked for ``law``, as :meth:`Law.after` does."""
        return (self.rows_for(law) or law.after)(logits, prompt, tokens, first)


def _bans_what_is_left(law: Law) -> bool:
    """Whether tokens are banned after others were cut off, so that another cut may leave none."""
    cut = min(law.order.index(stage) for stage in TRUNCATION_STAGES)
    return not law.acting.isdisjoint({"bad-words", "min-tokens", "mask"} & {*law.order[cut:]})


# Cuts that keep other tokens than they should.


def top_p_without_crossing(x: Floats, _: Floats, share: float) -> Floats:
    """Keep the likeliest tokens whose probabilities stay within ``share``, one at least."""
    return _nucleus(x, share, shift=1)


def top_p_with_one_more(x: Floats, _: Floats, share: float) -> Floats:
    """Keep one token more than reach ``share``."""
    return _nucleus(x, share, shift=-1)


def _nucleus(x: Floats, share: float, shift: int) -> Floats:
    """Keep the tokens of a nucleus but the last ``shift``; a negative one adds to them."""
    p = softmax(x)
    order = np.argsort(-p, axis=-1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=-1)
    size = (np.cumsum(ranked, axis=-1) - ranked < share).sum(axis=-1, keepdims=True) - shift
    keep = np.empty(p.shape, np.bool_)
    np.put_along_axis(keep, order, np.arange(p.shape[-1]) < np.maximum(size, 1), axis=-1)
    return np.where(keep, x, -np.inf)


def top_p_by_tail_bound(x: Floats, _: Floats, share: float) -> Floats:
    """Keep tokens until they reach ``share`` of their sum and a bound on the rest.

    All others count as if they were as likely as the last one kept. So does ``FindNucleus`` of
    ONNX Runtime GenAI where no top-k is set and the vocabulary has more than 64 tokens.
    """
    p = softmax(x)
    size = p.shape[-1]
    order = np.argsort(-p, axis=-1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=-1)
    sums = np.cumsum(ranked, axis=-1)
    bound = np.arange(size - 1, -1, -1) * ranked
    last = (sums >= share * (sums + bound)).argmax(axis=-1)
    keep = np.empty(p.shape, np.bool_)
    np.put_along_axis(keep, order, np.arange(size) <= last[..., None], axis=-1)
    return np.where(keep, x, -np.inf)


def min_p_of_one(x: Floats, _: Floats, share: float) -> Floats:
    """Keep what has the probability ``share``, whatever the likeliest has."""
    return _keep_above(x, softmax(x), np.full((len(x), 1), share))


def min_p_of_logits(x: Floats, _: Floats, share: float) -> Floats:
    """Keep what has ``share`` of the largest score, instead of its probability."""
    return _keep_above(x, x, share * x.max(axis=-1, keepdims=True))


def min_p_of_raw_maximum(x: Floats, logits: Floats, share: float) -> Floats:
    """Keep what has ``share`` of the largest probability that the model gives by itself."""
    return _keep_above(x, softmax(x), share * softmax(logits).max(axis=-1, keepdims=True))


def min_p_of_row_before(x: Floats, _: Floats, share: float) -> Floats:
    """Keep what has ``share`` of the largest probability of the row before."""
    p = softmax(x)
    largest = p.max(axis=-1, keepdims=True)
    return _keep_above(x, p, share * np.concatenate([largest[:1], largest[:-1]]))


def _keep_above(x: Floats, values: Floats, least: Floats) -> Floats:
    """Keep the scores whose values are ``least`` or more, and the largest of each row."""
    keep = (values >= least) | (x == x.max(axis=-1, keepdims=True))
    return np.where(keep, x, -np.inf)


def _cut_rows(law: Law, stage: str, cut: Cut) -> Rows:
    value = float(getattr(law, stage.replace("-", "_")))

    def rows(logits: Any, prompt: Sequence[int], tokens: Sequence[int], first: int) -> Floats:
        raw = np.array(logits, dtype=np.float64)
        before, x = RowContext(tuple(prompt), tokens, first), raw
        for name in law.order:
            x = cut(x, raw, value) if name == stage else law.scores_of(name, x, before)
        return softmax(x)

    return rows


def _miscut(words: str, stage: str, cut: Cut) -> SamplingVariant:
    def of(law: Law) -> Rows | None:
        acts = getattr(law, stage.replace("-", "_")) is not None and law.temperature > 0.0
        before = law.acting.intersection(law.order[: law.order.index(stage)])
        alike = cut is min_p_of_raw_maximum and not before  # the scores are the model's
        return _cut_rows(law, stage, cut) if acts and not alike else None

    return SamplingVariant(words, stage.replace("-", "_"), "other", of)


def _without_top_k(variant: SamplingVariant) -> SamplingVariant:
    """Return the variant in requests that set no top-k."""

    def of(law: Law) -> Rows | None:
        return variant.of(law) if law.top_k is None else None

    return replace(variant, of=of)


# Laws with another value, without a parameter, or in another order.


def _changed(
    words: str, parameter: str, change: Callable[[Law], Law], outcome: VariantOutcome = "other"
) -> SamplingVariant:
    def of(law: Law) -> Rows | None:
        other = change(law)
        return None if _stages_of(other) == _stages_of(law) else other.after

    return SamplingVariant(words, parameter, outcome, of)


def _stages_of(law: Law) -> list[tuple[Any, ...]]:
    """What acts in a law, first to last, with its values; at temperature 0 nothing is cut off."""
    greedy = law.temperature == 0.0
    acting = [
        name for name in law.order
        if name in law.acting and not (greedy and name in TRUNCATION_STAGES)
    ]  # fmt: skip
    return [("temperature", law.temperature), *((n, _values_of(law, n)) for n in acting)]


def asked_fields(law: Law) -> set[str]:
    """Return the fields of a law that were asked for and act."""
    stages = [stage for stage in _stages_of(law) if stage != ("temperature", 1.0)]
    names = {name: _STAGE_FIELDS.get(name, (name.replace("-", "_"),)) for name, _ in stages}
    plain = Law()
    return {
        field
        for fields in names.values()
        for field in fields
        if getattr(law, field) != getattr(plain, field)
    }


def _values_of(law: Law, stage: str) -> Any:
    fields = _STAGE_FIELDS.get(stage, (stage.replace("-", "_"),))
    return tuple(getattr(law, name) for name in fields)


_STAGE_FIELDS = {
    "repetition": ("repetition_penalty",),
    "presence": ("presence_penalty", "frequency_penalty"),
    "min-tokens": ("min_tokens", "ends"),
    "mask": ("mask", "allowed_token_ids"),
}
"""The fields of a law that a stage reads, where they have another name."""


def _ignored(parameter: str) -> SamplingVariant:
    neutral = {parameter: getattr(Law(), parameter)}
    words = f"{parameter.replace('_', '-')} ignored"
    return _changed(words, parameter, lambda law: replace(law, **neutral), "dropped")


def _other_temperature(words: str, of: Callable[[float], float]) -> SamplingVariant:
    def change(law: Law) -> Law:
        t = law.temperature
        # A temperature of 1 is "ignored".
        if t == 0.0 or math.isclose(of(t), 1.0) or not math.isfinite(of(t)):
            return law
        return replace(law, temperature=of(t))

    return _changed(words, "temperature", change)


def _other_k(words: str, of: Callable[[int], int]) -> SamplingVariant:
    def change(law: Law) -> Law:
        return law if law.top_k is None else replace(law, top_k=max(of(law.top_k), 1))

    return _changed(words, "top_k", change)


def _other_share(words: str, rest: float) -> SamplingVariant:
    def change(law: Law) -> Law:
        share = 1.0 if law.top_p is None else 1.0 - rest * (1.0 - law.top_p)
        return replace(law, top_p=share) if share > 0.0 else law

    return _changed(words, "top_p", change)


def _not_asked_for(parameter: str, value: float) -> SamplingVariant:
    default: dict[str, Any] = {parameter: value}

    def change(law: Law) -> Law:
        return law if getattr(law, parameter) is not None else replace(law, **default)

    name = parameter.replace("_", "-")
    return _changed(f"{name} {value:g}, which was not asked for", parameter, change)


def _reordered(
    words: str, moved: Sequence[str], beside: Sequence[str], after: bool, parameter: str
) -> SamplingVariant:
    """Put the stages ``moved`` behind the last of ``beside``, or else before the first."""

    def change(law: Law) -> Law:
        rest = [name for name in law.order if name not in moved]
        places = [rest.index(name) for name in beside if name in rest]
        at = max(places) + 1 if after else min(places)
        order = (*rest[:at], *(name for name in law.order if name in moved), *rest[at:])
        return replace(law, order=order)

    return _changed(words, parameter, change, "wrong order")


_PENALTIES = ("repetition", "presence")
_PENALTY_FIELDS = ("repetition_penalty", "presence_penalty", "frequency_penalty")
_CUT_FIELDS = ("temperature", "top_k", "top_p", "min_p", "typical_p")

DEFAULTS: dict[str, tuple[Any, ...]] = {
    "top_k": (20, 40, 50),
    "top_p": (0.8, 0.9, 0.95),
    "min_p": (0.05,),
}
"""Values that servers and generation configs put where a request names none."""

VARIANTS: tuple[SamplingVariant, ...] = (
    *(
        _ignored(name)
        for name in (
            "temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty",
            "presence_penalty", "frequency_penalty", "logit_bias", "bad_words", "min_tokens",
            "mask",
            "allowed_token_ids",
        )
    ),
    _miscut("top-p without the token that crosses p", "top-p", top_p_without_crossing),
    _miscut("top-p with one token more than reach p", "top-p", top_p_with_one_more),
    _without_top_k(
        _miscut(
            "top-p by a bound on the tail, as in ONNX Runtime GenAI (ort-tail-bound)",
            "top-p",
            top_p_by_tail_bound,
        )
    ),
    _other_share("top-p of twice the rest, 1 - 2 (1 - p)", 2.0),
    _other_share("top-p of half the rest, 1 - (1 - p) / 2", 0.5),
    _other_k("top-k of k - 1", lambda k: k - 1),
    _other_k("top-k of k + 1", lambda k: k + 1),
    _other_k("top-k of k / 2", lambda k: k // 2),
    _other_k("top-k of 2 k", lambda k: 2 * k),
    _miscut("min-p relative to 1, not to the largest probability", "min-p", min_p_of_one),
    _miscut("min-p relative to the largest score, not probability", "min-p", min_p_of_logits),
    _miscut(
        "min-p relative to the model's largest probability, before temperature",
        "min-p",
        min_p_of_raw_maximum,
    ),
    _miscut(
        "min-p relative to the largest probability of the row before", "min-p", min_p_of_row_before
    ),
    *(
        _other_temperature(f"{factor:g} times the temperature", partial(operator.mul, factor))
        for factor in (0.8, 0.9, 0.95, 1.05, 1.1, 1.25)
    ),
    _other_temperature("temperature applied twice", lambda t: t * t),
    _other_temperature("temperature multiplied with, not divided by", lambda t: 1.0 / t),
    _reordered(
        "temperature after the cuts", ("temperature",), TRUNCATION_STAGES, True, "temperature"
    ),
    _reordered(
        "temperature before the cuts", ("temperature",), TRUNCATION_STAGES, False, "temperature"
    ),
    _reordered("penalties after temperature", _PENALTIES, ("temperature",), True, "temperature"),
    _reordered("penalties before temperature", _PENALTIES, ("temperature",), False, "temperature"),
    _reordered("penalties after the cuts", _PENALTIES, TRUNCATION_STAGES, True, "top_p"),
    _reordered("top-p before top-k", ("top-p",), ("top-k",), False, "top_p"),
    _reordered("top-k before top-p", ("top-k",), ("top-p",), False, "top_k"),
    *(_not_asked_for(name, value) for name, values in DEFAULTS.items() for value in values),
)  # fmt: skip
"""All variants that are tried; each applies to the laws that ask for what it gets wrong."""


_ALONE = " in requests that ask for nothing else"


def _alone(variant: SamplingVariant) -> SamplingVariant:
    """Return the variant in requests that ask for nothing else, which a server may treat apart."""

    def of(law: Law) -> Rows | None:
        # Greedy requests go another way through most servers.
        return variant.of(law) if law.temperature > 0.0 and len(asked_fields(law)) == 1 else None

    return replace(variant, words=variant.words + _ALONE, of=of)


def _all_ignored(words: str, neutral: Mapping[str, Any]) -> SamplingVariant:
    """Ignore several parameters, where more than one of them was asked for."""

    def change(law: Law) -> Law:
        other = replace(law, **neutral)
        return other if len(asked_fields(law)) - len(asked_fields(other)) > 1 else law

    return _changed(words, "temperature", change, "dropped")


# Samplers of few digits: what a running sum loses is another token's in every row, so that it shows
# in no average over rows, and only bets on the very sampler see it.


def without_tail(p: Floats, least: float) -> Floats:
    """Return rows without the tokens below ``least``, but for the likeliest of each."""
    kept = np.where((p >= least) | (p == p.max(axis=-1, keepdims=True)), p, 0.0)
    rows: Floats = kept / kept.sum(axis=-1, keepdims=True)
    return rows


def _rounded_row(p: Floats) -> Floats:
    rounded = to_bfloat16(p)
    rows: Floats = rounded / rounded.sum(axis=-1, keepdims=True)
    return rows


def _coarse(words: str, rounded: RowRounding) -> SamplingVariant:
    def of(law: Law) -> Rows | None:
        if law.temperature == 0.0:
            return None

        def rows(logits: Any, prompt: Sequence[int], tokens: Sequence[int], first: int) -> Floats:
            return rounded(law.after(logits, prompt, tokens, first))

        return rows

    return SamplingVariant(words, "temperature", "other", of)


TAIL_BITS = range(4, 21)
"""Tokens of a probability below 2^-n are tried as ones that cannot come out."""

LOOKUP_VARIANTS: tuple[SamplingVariant, ...] = tuple(
    _coarse(words, rounded) for words, rounded in COARSE_LOOKUPS.items()
)

TAIL_VARIANTS: tuple[SamplingVariant, ...] = (
    _coarse("tokens looked up in a float32 running sum", partial(looked_up, rounding=np.array)),
    _coarse("probabilities rounded to bfloat16", _rounded_row),
    *(
        _coarse(
            f"half precision: no token below a probability of 2^-{bits} comes out",
            partial(without_tail, least=2.0**-bits),
        )
        for bits in TAIL_BITS
    ),
)
"""Those that other tests see, or that are too near to be seen: they explain, and are no bets."""


LOG_VARIANTS: tuple[SamplingVariant, ...] = (
    *VARIANTS,
    *(_alone(one) for one in VARIANTS if one.outcome == "dropped"),
    _all_ignored("penalties ignored", {name: getattr(Law(), name) for name in _PENALTY_FIELDS}),
    _all_ignored(
        "temperature and cuts ignored", {name: getattr(Law(), name) for name in _CUT_FIELDS}
    ),
    *LOOKUP_VARIANTS,
)
"""Those of a log, whose requests may ask for several parameters, and for different ones."""


def explaining_variants(laws: Collection[Law]) -> list[SamplingVariant]:
    """Return the variants that differ from what was asked for in some of ``laws``, each once."""
    every = (*LOG_VARIANTS, *TAIL_VARIANTS)
    applying = {one.words: [law for law in laws if one.applies(law)] for one in every}

    def says_more(one: SamplingVariant) -> bool:
        """Whether requests that ask for nothing else are not all that ask for it."""
        whole = one.words.removesuffix(_ALONE)
        return whole == one.words or applying[whole] != applying[one.words]

    return [one for one in every if applying[one.words] and says_more(one)]


TOO_NEAR = ("0.95 times the temperature", "1.05 times the temperature")
"""Variants that a cell of the matrix has too few tokens to tell from what was asked for."""


# Bets on the variants: the ratio of a variant's chance of an emitted token to the law's own.


_MIX_STRENGTHS = (1.0, 0.1)
"""Of a variant's rows in a mixture with the law's own."""

VARIANT_TOKENS = 8_192
"""Tokens that are bet on: enough for faults that change one token in a hundred."""

VARIANT_TOLERANCE = 5e-4
"""TV that rows may be off by on average, at least: a cache in half precision moves them by 2e-4,
and what it moves across the edge of a cut looks like a wider cut."""


def variant_ratios(
    law: Law, p: Floats, logits: Any, prompt: Sequence[int], tokens: Sequence[int]
) -> Floats:
    """Return ratios of each variant's rows to the rows p (n, V) of a law, float64 (M, 3, n).

    Of the emitted token, then the least and the largest of the row; all 1 where a variant does
    not apply.
    """
    ratios = np.ones((len(LOG_VARIANTS), 3, len(tokens)))
    for found, variant in zip(ratios, LOG_VARIANTS, strict=True):
        if (rows_of := variant.rows_for(law)) is not None:
            rows = rows_of(logits, prompt, tokens, 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                table = np.where(rows == p, 1.0, rows / p)
            found[:] = table[np.arange(len(rows)), np.array(tokens)], table.min(1), table.max(1)
    return ratios


def variant_bets(ratios: Floats, bet_on: int) -> BetSums | None:
    """Bet on the next tokens by their ``ratios``; ``bet_on``: tokens that were bet on so far."""
    seen = ratios[:, :, : max(VARIANT_TOKENS - bet_on, 0)]
    if not seen.shape[-1]:
        return None
    bets = [
        stats.bet_sums(variant.words, *each, shares=_MIX_STRENGTHS)
        for variant, each in zip(LOG_VARIANTS, seen, strict=True)
    ]
    return reduce(BetSums.beside, bets)
