"""Answers of two engines: read, paired, and turned into features that their difference shows in.

An answer is a sequence of units: token ids, the texts of tokens, or pieces of text. Units are only
compared for equality, so no tokenizer is needed.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse

from simverify import stats
from simverify.arrays import Floats
from simverify.checks import MIN_ALPHA, MIN_DETECT, check_ranges
from simverify.errors import UsageError
from simverify.served.distribution import NEUTRAL_VALUES, PARAMETER_ALIASES, PARAMETER_NAMES
from simverify.served.requests import (
    CHAT_FIELDS,
    STOP_REASONS,
    check_finish_reason,
    expand_choices,
    normalize_text,
    read_objects,
)

Unit = int | str
UnitKind = Literal["ids", "token texts", "text"]

END_UNIT = ""  # The unit of an answer that ended by itself: no token's text is empty
_TEXT_PIECES = re.compile(r"\s?\w+|\s?[^\w\s]|\s")
_UNIT_FIELDS: dict[UnitKind, str] = {"ids": "tokens", "token texts": "pieces", "text": "text"}


@dataclass(frozen=True)
class Answer:
    """What an engine said: its ``units`` by kind of unit, as many as it gave.

    ``prompt``: as it was asked. ``ended``: by itself, not by a limit. ``asked``: what it was
    asked for beside the prompt, as far as it is said, and ``whole`` whether that is all of it.
    ``spelt``: whether the texts of its tokens make up its text, if it has both.
    """

    prompt: str
    units: dict[UnitKind, tuple[Unit, ...]]
    ended: bool
    asked: Mapping[str, Any]
    whole: bool
    spelt: bool


@dataclass(frozen=True)
class AnswerPairs:
    """Answers of two engines to the same prompt at the same place, by prompt.

    ``groups``: for each prompt its pairs (first, second), each a sequence of units, in the order
    in which they were asked. ``kind``: of the units. ``left_out``: answers without another.
    """

    groups: tuple[tuple[tuple[tuple[Unit, ...], tuple[Unit, ...]], ...], ...]
    prompts: tuple[str, ...]
    kind: UnitKind
    left_out: int = 0

    @property
    def n(self) -> int:
        """Pairs in all."""
        return sum(map(len, self.groups))

    def units(self, side: int) -> int:
        """Units of all answers of one side."""
        return sum(len(pair[side]) for group in self.groups for pair in group)


def read_answers(path: Path, kind: str) -> list[Answer]:
    """Read a JSONL file of answers: ``prompt``, and ``tokens``, ``pieces`` or ``text``.

    ``messages`` may stand in the place of ``prompt``; or a line is a server's answer as it came,
    with the request beside it (:func:`expand_choices`).

    Raises
    ------
    UsageError
        If the file cannot be read, holds no answer, or a line is none.
    """
    answers = [
        check_answer(own, at)
        for where, value in read_objects(path, kind)
        for at, own in expand_choices(value, where, None)
    ]
    if not answers:
        raise UsageError(f"{kind}: {path} holds no answer: expected one JSON object a line")
    return answers


def check_answer(value: Any, where: str) -> Answer:
    """Return the answer of an object; ``UsageError`` if it is none."""
    if not isinstance(value, dict) or not ("prompt" in value or "messages" in value):
        raise UsageError(f"{where} has no prompt: expected an object with prompt, and an answer")
    units: dict[UnitKind, tuple[Unit, ...]] = {}
    if (ids := value.get("tokens")) is not None:
        if not _all_of_kind(ids, int) or min(ids, default=0) < 0:
            raise UsageError(f"{where}: tokens is no list of token ids")
        units["ids"] = tuple(ids)
    if (pieces := value.get("pieces")) is not None:
        if not _all_of_kind(pieces, str):
            raise UsageError(f"{where}: pieces is no list of texts")
        # A token that is part of a character may have no text of its own.
        units["token texts"] = tuple(piece for piece in pieces if piece)
    if (text := value.get("text")) is not None:
        if not isinstance(text, str):
            raise UsageError(f"{where}: text is {type(text).__name__}: expected a string")
        units["text"] = tuple(_TEXT_PIECES.findall(text))
    if not units:
        raise UsageError(f"{where} has neither tokens, a list of ids, nor text, a string")
    reason = value.get("finish_reason")
    check_finish_reason(reason, where)
    prompt, parameters = value.get("prompt"), _request_parameters(value)
    if "messages" in value:
        prompt = {name: value[name] for name in CHAT_FIELDS if value.get(name)}
    if parameters.get("temperature") == 0.0:
        raise UsageError(
            f"{where} was asked at temperature 0: asked again an engine copies itself, and where "
            f"rounding parts two engines it parts them each time: leave such answers out, or "
            f"compare them by simverify triage"
        )
    return Answer(
        prompt if isinstance(prompt, str) else json.dumps(prompt),
        units,
        reason in STOP_REASONS,
        parameters,
        isinstance(value.get("asked"), dict),
        text is None or pieces is None or normalize_text("".join(pieces)) == normalize_text(text),
    )


def _request_parameters(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a line says that it was asked for, without what changes nothing."""
    request = value.get("asked")
    fields = (request if isinstance(request, dict) else {}) | dict(value)
    parameters = {}
    for name in (*PARAMETER_NAMES, *PARAMETER_ALIASES, "max_tokens"):
        canonical, answer = PARAMETER_ALIASES.get(name, name), fields.get(name)
        nothing = answer in (None, {}, []) or answer == NEUTRAL_VALUES.get(canonical)
        if not nothing and not (canonical in ("top_k", "min_tokens") and answer in (0, -1)):
            parameters[canonical] = answer
    return parameters


def pair_answers(first: Sequence[Answer], second: Sequence[Answer]) -> AnswerPairs:
    """Pair the answers of two engines: to the same prompt, the k-th of one with that of the other.

    The units are the finest that all answers have, and text if ids mean other tokens. What ends all
    answers that ended by themselves of one engine, an end-of-sequence token that the other does
    not show, is taken off.

    Raises
    ------
    UsageError
        If the two were asked for different things, share no prompt, or no unit.
    """
    every = (*first, *second)
    kinds = [kind for kind in _UNIT_FIELDS if all(kind in a.units for a in every)]
    if kinds[:1] == ["token texts"] and not all(answer.spelt for answer in every):
        # Servers write the text of a token as they like, and then it is no token's text.
        kinds = kinds[1:]
    if kinds[:1] == ["ids"] and "text" in kinds and _have_different_ids(first, second):
        kinds = kinds[1:]
    if not kinds:
        raise UsageError(
            "one of the two gives token ids and the other text alone: nothing compares them; ask "
            "both alike"
        )
    kind = kinds[0]
    answers = [_group_by_prompt(side) for side in (first, second)]
    for prompt in answers[0].keys() & answers[1].keys():
        for one, other in zip(answers[0][prompt], answers[1][prompt], strict=False):
            _check_same_request(one, other)
    ends = _end_tokens(first, second, kind)
    sides = [
        {prompt: [_append_end(a, kind, end) for a in own] for prompt, own in side.items()}
        for side, end in zip(answers, ends, strict=True)
    ]
    prompts = [prompt for prompt in sides[0] if prompt in sides[1]]
    if not prompts:
        raise UsageError("the two answer no prompt in common: ask both the same")
    groups = tuple(
        tuple(zip(sides[0][prompt], sides[1][prompt], strict=False)) for prompt in prompts
    )
    left = len(first) + len(second) - 2 * sum(map(len, groups))
    return AnswerPairs(groups, tuple(prompts), kind, left)


def _have_different_ids(first: Sequence[Answer], second: Sequence[Answer]) -> bool:
    """Whether one text never has the same ids in both: their tokenizers number tokens otherwise.

    Answers that ended are left out: one engine may show the token that ends them.
    """
    sides: list[dict[str, set[tuple[Unit, ...]]]] = [{}, {}]
    for ids, answers in zip(sides, (first, second), strict=True):
        for answer in answers:
            if not answer.ended:
                text = "".join(map(str, answer.units["text"]))
                ids.setdefault(text, set()).add(answer.units["ids"])
    shared = [text for text in sides[0].keys() & sides[1].keys() if text]
    return len(shared) >= 5 and all(sides[0][text].isdisjoint(sides[1][text]) for text in shared)


def _group_by_prompt(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(answer.prompt, []).append(answer)
    return groups


def _append_end(answer: Answer, kind: UnitKind, shown: Unit | None) -> tuple[Unit, ...]:
    """Units of an answer with its end, which is not counted twice where its token is ``shown``."""
    units = answer.units[kind]
    if not answer.ended:
        return units
    return (*(units[:-1] if shown is not None else units), END_UNIT)


def _end_tokens(
    first: Sequence[Answer], second: Sequence[Answer], kind: UnitKind
) -> tuple[Unit | None, Unit | None]:
    """Return of either engine the token that ends all its answers, if that is an end of sequence.

    That is one that one engine shows and the other does not: it stands at the ends of the one
    alone, and nowhere in the other. An answer's own last token, a full stop say, may be in all
    answers of one engine by chance, and then it is among those of the other too: taken off on one
    side alone it would part two engines that answer alike.
    """
    ends: list[Unit | None] = []
    for side in (first, second):
        last = {answer.units[kind][-1:] for answer in side if answer.ended}
        alone = len(last) == 1 and sum(answer.ended for answer in side) > 1
        ends.append(next(iter(next(iter(last))), None) if alone else None)
    shown_ends: list[Unit | None] = []
    for end, answers, other in zip(ends, (first, second), (second, first), strict=True):
        stray = any(end in answer.units[kind][:-1] for answer in answers)
        shared = any(end in answer.units[kind] for answer in other)
        shown_ends.append(None if stray or shared else end)
    return shown_ends[0], shown_ends[1]


def _check_same_request(first: Answer, second: Answer) -> None:
    """Raise ``UsageError`` for a pair that was asked for different things; models may differ.

    What a log does not say of an answer is not known.
    """
    names = first.asked.keys() & second.asked.keys()
    if first.whole:
        names |= second.asked.keys()
    if second.whole:
        names |= first.asked.keys()
    for name in sorted(names):
        one, other = first.asked.get(name), second.asked.get(name)
        if one != other:
            raise UsageError(
                f"the first was asked with {name} {json.dumps(one)[:40]}, the second with "
                f"{json.dumps(other)[:40]}: that differs by itself; ask both alike"
            )


def limit_pairs(pairs: AnswerPairs, most: int) -> AnswerPairs:
    """Return the first ``most`` pairs of each prompt."""
    return replace(pairs, groups=tuple(group[:most] for group in pairs.groups))


def count_copied_prompts(pairs: AnswerPairs, side: int) -> int:
    """Return the prompts, asked three times or more, to which a side gave one answer alone.

    Answers of fewer than eight units may be alike by chance, if they are fewer than eight.
    """
    return sum(
        len({pair[side] for pair in group}) == 1 and max(len(group[0][side]), len(group)) >= 8
        for group in pairs.groups
        if len(group) >= 3
    )


def _all_of_kind(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


def iter_pairs(pairs: AnswerPairs) -> Iterator[tuple[int, tuple[Unit, ...], tuple[Unit, ...]]]:
    """Yield all pairs, each with the index of its prompt."""
    for number, group in enumerate(pairs.groups):
        for one, other in group:
            yield number, one, other


# The beginnings of answers to one prompt: counts of their first two tokens, scores of the tokens.
#
# Counts are of both engines' answers together, so that no swap of a pair changes a weight.


PREFIX_UNITS = 2
"""Units of a beginning: speculation shows from the second token on, where a prompt gives the first.
"""

_MAX_PREFIXES = 4000  # Beginnings of one prompt that are counted by themselves, the most frequent
_MIN_ANSWERS = 16  # Answers that came a way at least, for the score of what follows it
_MAX_SCORED_UNITS = 8  # Units of an answer that are scored, at most
PromptGroup = Sequence[tuple[tuple[Unit, ...], tuple[Unit, ...]]]


@dataclass(frozen=True, eq=False)
class PrefixCounts:
    """Beginnings of the prompts that were asked most, as blocks for a sum of squares.

    ``blocks``: for each of those prompts the differences of its pairs, each beginning's over the
    root of its count, sparse (pairs, beginnings). ``excess``: for each what a TV of 1 adds to
    its sum, if every token's rate is off by the same share. ``once``: the share of all answers
    whose beginning no other has.
    """

    blocks: tuple[sparse.csr_array, ...]
    excess: Floats
    once: float

    def detectable(self, alpha: float) -> float:
        """Return the mean TV of beginnings that is found with power .9; inf if none is.

        It is spread over prompts as is hardest to find, and off by the same share of each
        beginning's chance, which is the hardest shape but for what is seen once alone.
        """
        if not (self.excess > 0.0).all():
            return math.inf
        threshold = stats.needed_excess(alpha, stats.quadratic_spread(self.blocks))
        return math.sqrt(threshold * float((1.0 / self.excess).sum())) / len(self.excess)


def most_repeated_prompts(pairs: AnswerPairs) -> list[PromptGroup]:
    """Return the groups of the prompts that were asked half as often as any, or oftener."""
    most = max(map(len, pairs.groups))
    return [group for group in pairs.groups if 2 * len(group) >= most]


def count_prefixes(groups: Sequence[PromptGroup]) -> PrefixCounts:
    """Count how the answers of each group begin."""
    blocks, excess, once, n = [], [], 0, 0
    for group in groups:
        count = Counter(answer[:PREFIX_UNITS] for pair in group for answer in pair)
        starts = [start for start, many in count.most_common(_MAX_PREFIXES) if many >= 2]
        place = {start: i for i, start in enumerate(starts)}
        rest = len(starts)
        columns = [place.get(answer[:PREFIX_UNITS], rest) for pair in group for answer in pair]
        signs = np.tile([1.0, -1.0], len(group))
        rows = np.repeat(np.arange(len(group)), 2)
        # Entries at one place are added: a pair that begins alike differs by nothing.
        values = sparse.csr_array((signs, (rows, columns)), shape=(len(group), rest + 1))
        sizes = np.array([float(count[start]) for start in starts])
        left = 2.0 * len(group) - sizes.sum()
        weights = 1.0 / np.sqrt(np.append(sizes, max(left, 1.0)))
        blocks.append(sparse.csr_array(values.multiply(weights[None, :])))
        excess.append(float((sizes - 1.0).sum()))
        once += sum(many == 1 for many in count.values())
        n += 2 * len(group)
    return PrefixCounts(tuple(blocks), np.array(excess), once / n)


def collision_rate(group: PromptGroup) -> float:
    """Return how often two answers to a prompt begin alike, of all pairs of its answers."""
    count = Counter(answer[:PREFIX_UNITS] for pair in group for answer in pair)
    n = sum(count.values())
    return sum(many * (many - 1) for many in count.values()) / max(n * (n - 1), 1)


def pair_scores(pairs: AnswerPairs) -> Floats:
    """Return by how much each pair differs in how its tokens fit, float64 (pairs, 4), uncorrelated.

    A token's score is the log of its share among the answers that came the same way, and of its
    share among all tokens: a draft that is weaker than its target knows the second better than
    the first. First tokens and later ones are summed apart.
    """
    units = Counter(unit for _, *both in iter_pairs(pairs) for answer in both for unit in answer)
    all_units = math.log(max(sum(units.values()), 1))
    ways = Counter(
        (prompt, answer[:k])
        for prompt, *both in iter_pairs(pairs)
        for answer in both
        for k in range(min(len(answer), _MAX_SCORED_UNITS) + 1)
    )

    def scored(prompt: int, answer: tuple[Unit, ...]) -> Floats:
        sums = np.zeros(4)
        for k in range(min(len(answer), _MAX_SCORED_UNITS)):
            count = ways[prompt, answer[:k]]
            if count < _MIN_ANSWERS:
                break
            at = 0 if k == 0 else 2
            sums[at] += math.log(ways[prompt, answer[: k + 1]] / count)
            sums[at + 1] += math.log(units[answer[k]]) - all_units
        return sums

    values = np.array([scored(p, a) - scored(p, b) for p, a, b in iter_pairs(pairs)])
    return _decorrelate(values)


def _decorrelate(values: Floats) -> Floats:
    """Return directions whose sums over all swaps have one spread and no correlation."""
    sizes, vectors = np.linalg.eigh(values.T @ values)
    kept = sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300)
    if not kept.any():
        return np.zeros((len(values), 1))
    directions: Floats = values @ (vectors[:, kept] / np.sqrt(sizes[kept]))
    return directions


# Features of answers: prefixes, n-grams, single units, summaries.
#
# Each is a difference within a pair. Weights and directions come from both answers of all pairs
# together, so that they are the same whichever of a pair is swapped.


MAX_PREFIX_UNITS = 12  # Units of a prefix at most: what few answers share is of no use
_MAX_UNITS = 1000  # Single units that are looked at, the most frequent
_MAX_UNIT_ENTRIES = 50_000_000  # Differences of single units that are kept, 400 MB
_MIN_PAIRS_WITH_UNIT = 8  # Pairs that a unit has to be in, to be looked at by itself
AnswerUnits = tuple[Unit, ...]


@dataclass(frozen=True, eq=False)
class FeatureDifferences:
    """What the first of each pair has more than the second: sparse (pairs, features), and names."""

    names: tuple[Hashable, ...]
    values: sparse.csr_array

    def weighted(self) -> sparse.csr_array:
        """Return them over the root of how much each varies."""
        squares = np.asarray(self.values.multiply(self.values).sum(axis=0)).ravel()
        weights = 1.0 / np.sqrt(np.where(squares > 0.0, squares, 1.0)) ** 0.5
        return sparse.csr_array(self.values.multiply(weights[None, :]))


def feature_differences(
    pairs: AnswerPairs, found: Callable[[int, AnswerUnits], Iterable[Hashable]]
) -> FeatureDifferences:
    """Count in each pair what ``found`` yields of either answer, given its prompt's number."""
    places: dict[Hashable, int] = {}
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for row, (prompt, one, other) in enumerate(iter_pairs(pairs)):
        count = Counter(found(prompt, one))
        count.subtract(found(prompt, other))
        for feature, value in count.items():
            if value:
                rows.append(row)
                columns.append(places.setdefault(feature, len(places)))
                values.append(float(value))
    shape = (pairs.n, max(len(places), 1))
    return FeatureDifferences(
        tuple(places), sparse.csr_array((values, (rows, columns)), shape=shape)
    )


def prefixes(prompt: int, answer: AnswerUnits) -> Iterator[Hashable]:
    """Yield what an answer to a prompt begins with, unit by unit."""
    for length in range(1, min(len(answer), MAX_PREFIX_UNITS) + 1):
        yield prompt, answer[:length]


def first_units(_prompt: int, answer: AnswerUnits) -> Iterator[Hashable]:
    """Yield the first unit, whatever the prompt."""
    yield from answer[:1]


def ngrams(prompt: int, answer: AnswerUnits) -> Iterator[Hashable]:
    """Yield units, pairs and triples of units of an answer to a prompt."""
    for n in (1, 2, 3):
        for i in range(len(answer) - n + 1):
            yield prompt, answer[i : i + n]


def bigrams(_prompt: int, answer: AnswerUnits) -> Iterator[Hashable]:
    """Yield the pairs of neighbouring units, whatever the prompt."""
    yield from _neighbouring_units(answer)


def unigrams(_prompt: int, answer: AnswerUnits) -> Iterator[Hashable]:
    """Yield the units, whatever the prompt."""
    yield from answer


def frequent_columns(own: FeatureDifferences) -> Floats:
    """Return the columns of the units that most pairs differ in, float64 (pairs, units)."""
    pairs_in = np.diff(sparse.csc_array(own.values).indptr)
    most = max(min(_MAX_UNITS, _MAX_UNIT_ENTRIES // own.values.shape[0]), 1)
    order = np.argsort(-pairs_in, kind="stable")[:most]
    columns = order[pairs_in[order] >= _MIN_PAIRS_WITH_UNIT]
    if not len(columns):
        columns = order[:1]
    return np.asarray(own.values[:, columns].toarray(), dtype=np.float64)


def gram_matrices(values: sparse.csr_array, groups: Sequence[int]) -> list[Floats]:
    """Return the inner products of the pairs of each group."""
    products, at = [], 0
    for size in groups:
        rows = values[at : at + size]
        products.append(np.asarray((rows @ rows.T).toarray(), dtype=np.float64))
        at += size
    return products


def summary_differences(pairs: AnswerPairs) -> tuple[tuple[str, ...], Floats]:
    """Return what each pair differs by in a few numbers, float64 (pairs, summaries), with names."""
    every = [(prompt, answer) for prompt, *both in iter_pairs(pairs) for answer in both]
    units = Counter(unit for _, answer in every for unit in answer)
    follows = Counter(two for _, answer in every for two in _neighbouring_units(answer))
    starts = Counter(start for prompt, answer in every for start in prefixes(prompt, answer))
    log = {unit: math.log(count) for unit, count in units.items()}
    total = math.log(sum(units.values()) or 1)
    after_log = {two: math.log(count) - log[two[0]] for two, count in follows.items()}

    def measured(prompt: int, answer: AnswerUnits) -> list[float]:
        n = max(len(answer), 1)
        common = sum(log[unit] - total for unit in answer) / n
        after = [after_log[two] for two in _neighbouring_units(answer)]
        deep = [math.log(starts[start]) for start in prefixes(prompt, answer)]
        return [
            len(answer),
            float(answer[-1:] == (END_UNIT,)),
            common,
            sum(after) / n,
            sum(deep),
            len(set(answer)) / n,
        ]

    names = (
        "length",
        "ended by itself",
        "frequency of its units",
        "frequency of what follows",
        "how many begin like it",
        "share of distinct units",
    )
    gaps = [np.subtract(measured(p, a), measured(p, b)) for p, a, b in iter_pairs(pairs)]
    return names, np.array(gaps, dtype=np.float64)


def _neighbouring_units(answer: AnswerUnits) -> Iterator[tuple[Unit, Unit]]:
    yield from pairwise(answer)


# Settings of a comparison: error rates, what a PASS promises, how often prompts are asked.


POWER = 0.9
MAX_TOKENS = 4
MAX_ANSWERS = 1_000_000

MAX_PILOT_PROMPTS = 64  # Prompts that are tried, for those that are asked often
PILOT_PAIRS = 16  # Pairs of answers to each prompt that is tried
MAX_REPEATED_PROMPTS = 8
"""Prompts that are asked often, at most: of one budget, few tell more than many."""

MAX_SIZES = 3
"""How often is asked, if answers begin in more ways than planned: as planned, twice, four times."""

ANSWER_DEVIATION = "a mean TV between the laws of an answer's first two tokens"
ONE_TOKEN_DEVIATION = "mean one-token TV, of one token whose rate moves alike in all contexts"

_CELLS, _ONCE, _AT = 85.0, 0.05, 2000.0
"""What the bundled prompts had, asked 2,000 times of two engines that answer alike: beginnings of
a prompt that come twice or more, and the share of answers that begin as no other does."""

_Z_POWER = 1.2816


@dataclass(frozen=True)
class AgainstSettings:
    """How two engines are compared.

    ``repeats``: how often each prompt is asked of each; None: a few prompts are chosen, and asked
    as often as ``detect`` needs.
    """

    repeats: int | None = None
    alpha: float = 1e-6
    detect: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        rules = (
            (
                "repeats",
                self.repeats,
                self.repeats is None or 2 <= self.repeats <= MAX_ANSWERS,
                f"2 to {MAX_ANSWERS}",
            ),
            ("alpha", self.alpha, MIN_ALPHA <= self.alpha < 1, f"{MIN_ALPHA:g} or more, below 1"),
            (
                "detect",
                self.detect,
                MIN_DETECT <= self.detect < 1,
                f"{MIN_DETECT:g} or more, below 1",
            ),
            ("seed", self.seed, 0 <= self.seed < 2**64, "0 to 2^64 - 1"),
        )
        check_ranges(rules)

    def shares(self) -> dict[str, float]:
        """Return each test's share of alpha."""
        return stats.split_alpha(
            self.alpha,
            {
                "contexts": 1.0,
                "counts": 2.0,
                "scores": 2.0,
                "prefixes": 1.0,
                "n-grams": 1.0,
                "pooled": 1.0,
                "twos": 1.0,
                "rates": 1.0,
                "summaries": 1.0,
                "swaps": 1.0,
            },
        )

    def planned(self, prompts: int) -> int:
        """Return how often each prompt that is asked often is asked of each engine.

        Raises
        ------
        UsageError
            If that is more than a million answers.
        """
        often = min(prompts, MAX_REPEATED_PROMPTS)
        if self.repeats is not None:
            if self.repeats * prompts > MAX_ANSWERS:
                raise UsageError(
                    f"repeats is {self.repeats:,} with {prompts:,} prompts: expected "
                    f"{MAX_ANSWERS:,} answers of each at most"
                )
            return self.repeats
        wanted = PILOT_PAIRS
        while self.expected(often, wanted) > self.detect:
            wanted = math.ceil(1.02 * wanted)
            if wanted * often > MAX_ANSWERS:
                raise UsageError(
                    f"detect is {self.detect:g}: that takes more than {MAX_ANSWERS:,} answers of "
                    f"each; ask for a larger deviation, or name --repeats"
                )
        # Those that are asked often have to be told from those that are only tried.
        return wanted if wanted == PILOT_PAIRS else max(wanted, 2 * PILOT_PAIRS + 1)

    def expected(self, prompts: int, repeats: int) -> float:
        """Return the mean TV that is found with power .9, where prompts are as the bundled ones."""
        cells = prompts * _CELLS * (repeats / _AT) ** 0.72
        once = min(_ONCE * (_AT / repeats) ** 0.4, 0.9)
        price = math.log(1.0 / self.shares()["counts"])
        threshold = 2.0 * math.sqrt(cells * price) + 2.0 * price
        excess = threshold
        for _ in range(50):
            excess = threshold + _Z_POWER * math.sqrt(2.0 * cells + 4.0 * excess)
        return min(math.sqrt(excess / (2.0 * prompts * repeats * (1.0 - once))), 1.0)

    def more(self, repeats: int, found: float, prompts: int) -> int | None:
        """Return how often prompts are asked in all where ``found`` is too much; None: no more."""
        last = self.planned(prompts) * 2 ** (MAX_SIZES - 1)
        wanted = 2 * repeats
        enough = found <= self.detect or not math.isfinite(found)
        return None if enough or wanted > last or wanted * prompts > MAX_ANSWERS else wanted

    def plan(self, prompts: int, max_tokens: int) -> str:
        """Say before anything is asked what will be asked, and what it can find."""
        repeats = self.planned(prompts)
        if self.repeats is not None:
            answers, how = 2 * repeats * prompts, f"{prompts:,} prompts"
            tv = self.expected(prompts, repeats)
        else:
            often, trial_prompts = (
                min(prompts, MAX_REPEATED_PROMPTS),
                min(prompts, MAX_PILOT_PROMPTS),
            )
            answers = 2 * (PILOT_PAIRS * trial_prompts + (repeats - PILOT_PAIRS) * often)
            tv = self.expected(often, repeats)
            how = f"{trial_prompts:,} prompts {PILOT_PAIRS} times, then {often:,} of them"
        again = (
            f"; up to {2 ** (MAX_SIZES - 1)} times as many if answers begin in more ways"
            if self.repeats is None
            else ""
        )
        return (
            f"plan: {how}, each {repeats:,} times of either, in pairs: {answers:,} answers of "
            f"{max_tokens:,} tokens at most{again}; false-alarm rate {self.alpha:g}; power "
            f"{POWER:g} against a TV of {tv:.2g} between the laws of an answer's first two "
            f"tokens, if answers begin in as few ways as to simverify's own prompts"
        )
