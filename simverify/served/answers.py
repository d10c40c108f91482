"""Answers of two engines: read, paired, and turned into features that show how they differ.

An answer is a sequence of units: token ids, the texts of tokens, or pieces of text. Units are only
compared for equality, so no tokenizer is needed.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse

from simverify import stats
from simverify.arrays import Floats
from simverify.errors import UsageError
from simverify.models.distribution import NEUTRAL_VALUES, PARAMETER_ALIASES, PARAMETER_NAMES
from simverify.served.requests import (
    CHAT_FIELDS,
    STOP_REASONS,
    check_finish_reason,
    check_settings,
    expand_choices,
    normalize_text,
    read_objects,
)

Unit = int | str
UnitKind = Literal["ids", "token texts", "text"]

END_UNIT = ""  # the unit of an answer that ended by itself: no token's text is empty
_TEXT_PIECES = re.compile(r"\s?\w+|\s?[^\w\s]|\s")
_UNIT_FIELDS: dict[UnitKind, str] = {"ids": "tokens", "token texts": "pieces", "text": "text"}


@dataclass(frozen=True)
class Answer:
    """What an engine answered: its ``units``, of each kind that it gave.

    ``ended``: by itself, not by a limit. ``asked``: the known parameters of its request, and
    ``whole`` whether those are all. ``spelt``: whether the texts of its tokens make up its text.
    """

    prompt: str
    units: dict[UnitKind, tuple[Unit, ...]]
    ended: bool
    asked: Mapping[str, Any]
    whole: bool
    spelt: bool


AnswerUnits = tuple[Unit, ...]
PromptGroup = Sequence[tuple[AnswerUnits, AnswerUnits]]


@dataclass(frozen=True)
class AnswerPairs:
    """Answers of two engines to the same prompt at the same place, by prompt.

    ``groups``: for each prompt its pairs (first, second), each a sequence of units, in the order
    in which they were asked. ``kind``: of the units. ``left_out``: answers without another.
    """

    groups: tuple[tuple[tuple[AnswerUnits, AnswerUnits], ...], ...]
    prompts: tuple[str, ...]
    kind: UnitKind
    left_out: int = 0

    @property
    def n(self) -> int:
        """Pairs in all."""
        return sum(map(len, self.groups))

    def units(self, side: int) -> int:
        """Return the units of all answers of one side."""
        return sum(len(pair[side]) for group in self.groups for pair in group)


def read_answers(path: Path, kind: str) -> list[Answer]:
    """Read a JSONL file of answers: ``prompt``, and ``tokens``, ``pieces`` or ``text``.

    A line may have ``messages`` instead of ``prompt``, or be a server's answer with the request
    beside it (:func:`expand_choices`). ``UsageError`` if the file cannot be read, holds no answer,
    or a line is none.
    """
    answers = [
        check_answer(fields, at)
        for where, value in read_objects(path, kind)
        for at, fields in expand_choices(value, where, None)
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
            f"{where} was asked at temperature 0: an engine then repeats its answer, and if two "
            f"engines differ by rounding they differ each time: leave such answers out, or "
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
    """Return the parameters that a line was asked for, without those that change nothing."""
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

    The units are the finest that all answers have, and text if ids mean other tokens. An
    end-of-sequence token that only one engine shows is taken off. ``UsageError`` if the two were
    asked for different things, or share no prompt or no unit.
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
    by_prompt: dict[str, tuple[list[Answer], list[Answer]]] = defaultdict(lambda: ([], []))
    for side, answers in enumerate((first, second)):
        for answer in answers:
            by_prompt[answer.prompt][side].append(answer)
    pairs = {prompt: list(zip(*both, strict=False)) for prompt, both in by_prompt.items()}
    for one, other in chain(*pairs.values()):
        _check_same_request(one, other)

    def units(answer: Answer, end: Unit | None) -> AnswerUnits:
        """Units of an answer with its end, which counts once if its token is shown."""
        shown = answer.units[kind]
        return (*(shown if end is None else shown[:-1]), END_UNIT) if answer.ended else shown

    ends = _end_tokens(first, second, kind)
    prompts = [prompt for prompt, group in pairs.items() if group]
    if not prompts:
        raise UsageError("the two answer no prompt in common: ask both the same")
    groups = tuple(
        tuple((units(a, ends[0]), units(b, ends[1])) for a, b in pairs[prompt])
        for prompt in prompts
    )
    left = len(every) - 2 * sum(map(len, groups))
    return AnswerPairs(groups, tuple(prompts), kind, left)


def _have_different_ids(first: Sequence[Answer], second: Sequence[Answer]) -> bool:
    """Whether texts never have the same ids in both, as if their tokenizers differ."""
    ids: dict[str, tuple[set[AnswerUnits], set[AnswerUnits]]] = defaultdict(lambda: (set(), set()))
    for side, answers in enumerate((first, second)):
        for answer in answers:
            if not answer.ended:  # one engine may show the token that ends it
                text = "".join(map(str, answer.units["text"]))
                ids[text][side].add(answer.units["ids"])
    shared = [both for text, both in ids.items() if text and all(both)]
    return len(shared) >= 5 and all(one.isdisjoint(other) for one, other in shared)


def _end_tokens(
    first: Sequence[Answer], second: Sequence[Answer], kind: UnitKind
) -> list[Unit | None]:
    """Return for each engine the token that ends all its answers, if it is an end of sequence.

    One engine shows it and the other does not. A full stop may end all answers of one engine by
    chance, but then the other has it too: taken off on one side it would make equal engines differ.
    """
    ends: list[Unit | None] = []
    for side, other in ((first, second), (second, first)):
        last = {answer.units[kind][-1:] for answer in side if answer.ended}
        alone = len(last) == 1 and sum(answer.ended for answer in side) > 1
        end = next(iter(next(iter(last))), None) if alone else None
        stray = any(end in answer.units[kind][:-1] for answer in side)
        shared = any(end in answer.units[kind] for answer in other)
        ends.append(None if stray or shared else end)
    return ends


def _check_same_request(first: Answer, second: Answer) -> None:
    names = first.asked.keys() & second.asked.keys()
    names |= second.asked.keys() if first.whole else set()
    names |= first.asked.keys() if second.whole else set()
    for name in sorted(names):
        one, other = first.asked.get(name), second.asked.get(name)
        if one != other:
            raise UsageError(
                f"the first was asked with {name} {json.dumps(one)[:40]}, the second with "
                f"{json.dumps(other)[:40]}: that alone makes a difference; ask both alike"
            )


def count_copied_prompts(pairs: AnswerPairs, side: int) -> int:
    """Return how many prompts, asked three times or more, a side gave one answer alone.

    Fewer than eight answers of fewer than eight units may be alike by chance.
    """
    return sum(
        len({pair[side] for pair in group}) == 1 and max(len(group[0][side]), len(group)) >= 8
        for group in pairs.groups
        if len(group) >= 3
    )


def _all_of_kind(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


def iter_pairs(pairs: AnswerPairs) -> Iterator[tuple[int, AnswerUnits, AnswerUnits]]:
    """Yield all pairs, each with the index of its prompt."""
    for number, group in enumerate(pairs.groups):
        for one, other in group:
            yield number, one, other


# The first two tokens of answers to one prompt: their counts, and how well tokens fit.
#
# Counts are of both engines' answers together, so that no swap of a pair changes a weight.


PREFIX_UNITS = 2
"""Units of a beginning: speculation shows from the second token on, as a prompt gives the first."""

_MAX_PREFIXES = 4000  # beginnings of one prompt that count by themselves, the most frequent
_MIN_ANSWERS = 16  # that share a beginning, for a score of what follows it
_MAX_SCORED_UNITS = 8  # of an answer


@dataclass(frozen=True, eq=False)
class PrefixCounts:
    """Beginnings of the prompts that were asked most, as blocks for a sum of squares.

    ``blocks``: for each of those prompts the differences of its pairs, divided by the root of each
    beginning's count, sparse (pairs, beginnings). ``excess``: for each what a TV of 1 adds to its
    sum, if every token's rate is off by the same share. ``once``: the share of all answers whose
    beginning no other has.
    """

    blocks: tuple[sparse.csr_array, ...]
    excess: Floats
    once: float

    def detectable(self, alpha: float) -> float:
        """Return the mean TV of beginnings that is found with power .9; inf if none is.

        It is spread over prompts as is hardest to find, and off by the same share of each
        beginning's chance, the hardest shape except for beginnings that are seen once.
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

    A token's score is the log of its share among the answers with the same beginning, and of its
    share among all tokens: a draft that is weaker than its target knows the second better than
    the first. First tokens and later ones are summed separately.
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
            if (count := ways[prompt, answer[:k]]) < _MIN_ANSWERS:
                break
            at = 2 if k else 0
            sums[at] += math.log(ways[prompt, answer[: k + 1]] / count)
            sums[at + 1] += math.log(units[answer[k]]) - all_units
        return sums

    values = np.array([scored(p, a) - scored(p, b) for p, a, b in iter_pairs(pairs)])
    # Directions whose sums over all swaps have one spread and no correlation.
    sizes, vectors = np.linalg.eigh(values.T @ values)
    nonzero = sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300)
    if not nonzero.any():
        return np.zeros((len(values), 1))
    return np.asarray(values @ (vectors[:, nonzero] / np.sqrt(sizes[nonzero])))


# Features of answers: prefixes, n-grams, single units, summaries.
#
# Each is a difference within a pair. Weights and directions come from both answers of all pairs
# together, so that swapping a pair does not change them.


MAX_PREFIX_UNITS = 12  # few answers share longer prefixes
_MAX_UNITS = 1000  # single units that are tested, the most frequent
_MAX_UNIT_ENTRIES = 50_000_000  # differences of single units, 400 MB
_MIN_PAIRS_WITH_UNIT = 8  # for a unit to be tested by itself


@dataclass(frozen=True, eq=False)
class FeatureDifferences:
    """What the first of each pair has more than the second, sparse (pairs, features)."""

    names: tuple[Hashable, ...]
    values: sparse.csr_array

    def weighted(self) -> sparse.csr_array:
        """Return them divided by the root of how much each varies."""
        squares = self.squares()
        weights = 1.0 / np.sqrt(np.where(squares > 0.0, squares, 1.0)) ** 0.5
        return sparse.csr_array(self.values.multiply(weights[None, :]))

    def squares(self) -> Floats:
        """Return the sum of squares of each feature."""
        return np.asarray(self.values.multiply(self.values).sum(axis=0)).ravel()

    def largest(self) -> Hashable:
        """Return the name of the feature whose sum is largest for its spread."""
        total = np.asarray(self.values.sum(axis=0)).ravel()
        score = np.abs(total) / np.sqrt(np.maximum(self.squares(), 1.0))
        return self.names[int(score.argmax())]


def feature_differences(
    pairs: AnswerPairs, features: Callable[[int, AnswerUnits], Iterable[Hashable]]
) -> FeatureDifferences:
    """Count in each pair the ``features`` of either answer, given its prompt's number."""
    places: dict[Hashable, int] = {}
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for row, (prompt, one, other) in enumerate(iter_pairs(pairs)):
        count = Counter(features(prompt, one))
        count.subtract(features(prompt, other))
        for feature, value in count.items():
            if value:
                rows.append(row)
                columns.append(places.setdefault(feature, len(places)))
                values.append(float(value))
    matrix = sparse.csr_array((values, (rows, columns)), shape=(pairs.n, max(len(places), 1)))
    return FeatureDifferences(tuple(places), matrix)


def prefixes(prompt: int, answer: AnswerUnits) -> Iterator[Hashable]:
    """Yield the beginnings of an answer to a prompt."""
    for length in range(1, min(len(answer), MAX_PREFIX_UNITS) + 1):
        yield prompt, answer[:length]


def ngrams(prompt: int, answer: AnswerUnits) -> Iterator[Hashable]:
    """Yield units, pairs and triples of units of an answer to a prompt."""
    for n in (1, 2, 3):
        for i in range(len(answer) - n + 1):
            yield prompt, answer[i : i + n]


def frequent_columns(features: FeatureDifferences) -> Floats:
    """Return the columns of the units that most pairs differ in, float64 (pairs, units)."""
    pairs_in = np.diff(sparse.csc_array(features.values).indptr)
    most = max(min(_MAX_UNITS, _MAX_UNIT_ENTRIES // features.values.shape[0]), 1)
    order = np.argsort(-pairs_in, kind="stable")[:most]
    frequent = int((pairs_in[order] >= _MIN_PAIRS_WITH_UNIT).sum())
    columns = order[: max(frequent, 1)]
    return np.asarray(features.values[:, columns].toarray(), dtype=np.float64)


def gram_matrices(values: sparse.csr_array, groups: Sequence[int]) -> list[Floats]:
    """Return the inner products of the pairs of each group."""
    ends = np.cumsum(groups).tolist()
    parts = [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return [np.asarray((rows @ rows.T).toarray(), dtype=np.float64) for rows in parts]


def summary_differences(pairs: AnswerPairs) -> tuple[tuple[str, ...], Floats]:
    """Return how each pair differs in a few numbers, float64 (pairs, summaries), with names."""
    every = [(prompt, answer) for prompt, *both in iter_pairs(pairs) for answer in both]
    units = Counter(unit for _, answer in every for unit in answer)
    follows = Counter(two for _, answer in every for two in pairwise(answer))
    starts = Counter(start for prompt, answer in every for start in prefixes(prompt, answer))
    log = {unit: math.log(count) for unit, count in units.items()}
    total = math.log(sum(units.values()) or 1)
    after_log = {two: math.log(count) - log[two[0]] for two, count in follows.items()}

    def measured(prompt: int, answer: AnswerUnits) -> dict[str, float]:
        n = max(len(answer), 1)
        return {
            "length": len(answer),
            "ended by itself": float(answer[-1:] == (END_UNIT,)),
            "frequency of its units": sum(log[unit] - total for unit in answer) / n,
            "frequency of what follows": sum(after_log[two] for two in pairwise(answer)) / n,
            "how many begin like it": sum(
                math.log(starts[start]) for start in prefixes(prompt, answer)
            ),
            "share of distinct units": len(set(answer)) / n,
        }

    both = [(measured(p, a), measured(p, b)) for p, a, b in iter_pairs(pairs)]
    gaps = [np.subtract([*one.values()], [*other.values()]) for one, other in both]
    return tuple(both[0][0]), np.array(gaps, dtype=np.float64)


# Settings of a comparison: error rates, what a PASS promises, how often prompts are asked.


POWER = 0.9
MAX_TOKENS = 4
MAX_ANSWERS = 1_000_000

MAX_PILOT_PROMPTS = 64  # prompts that are tried, to choose those that are asked often
PILOT_PAIRS = 16  # of answers to each prompt that is tried
MAX_REPEATED_PROMPTS = 8  # with one budget, few prompts show more than many
MAX_SIZES = 3  # if answers begin in more ways than planned: as planned, twice, four times

ANSWER_DEVIATION = "a mean TV between the distributions of an answer's first two tokens"
ONE_TOKEN_DEVIATION = "mean one-token TV, of one token whose rate moves alike in all contexts"

_CELLS, _ONCE, _AT = 85.0, 0.05, 2000.0
"""Figures of the bundled prompts, asked 2,000 times of two equal engines: beginnings of a prompt
that come twice or more, and the share of answers that begin as no other does."""

_Z_POWER = 1.2816


@dataclass(frozen=True)
class AgainstSettings:
    """How two engines are compared.

    ``repeats``: how often each engine is asked each prompt; None: a few prompts are chosen, and
    asked as often as ``detect`` needs.
    """

    repeats: int | None = None
    alpha: float = 1e-6
    detect: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self, repeats=(2, MAX_ANSWERS))

    def shares(self) -> dict[str, float]:
        """Return each test's share of alpha."""
        ones = ("contexts", "prefixes", "n-grams", "pooled", "twos", "rates", "summaries", "swaps")
        parts = dict.fromkeys(ones, 1.0) | {"counts": 2.0, "scores": 2.0}
        return stats.split_alpha(self.alpha, parts)

    def planned(self, prompts: int) -> int:
        """Return how often prompts are asked often; ``UsageError`` for over a million answers."""
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
        # More than twice, to distinguish them from prompts that are only tried.
        return wanted if wanted == PILOT_PAIRS else max(wanted, 2 * PILOT_PAIRS + 1)

    def expected(self, prompts: int, repeats: int) -> float:
        """Return the mean TV that is found with power .9 on prompts like the bundled ones."""
        cells = prompts * _CELLS * (repeats / _AT) ** 0.72
        once = min(_ONCE * (_AT / repeats) ** 0.4, 0.9)
        price = math.log(1.0 / self.shares()["counts"])
        threshold = 2.0 * math.sqrt(cells * price) + 2.0 * price
        excess = threshold
        for _ in range(50):
            excess = threshold + _Z_POWER * math.sqrt(2.0 * cells + 4.0 * excess)
        return min(math.sqrt(excess / (2.0 * prompts * repeats * (1.0 - once))), 1.0)

    def more(self, repeats: int, detectable: float, prompts: int) -> int | None:
        """Return how often prompts are asked if ``detectable`` is too much; None: no more."""
        last = self.planned(prompts) * 2 ** (MAX_SIZES - 1)
        wanted = 2 * repeats
        enough = detectable <= self.detect or not math.isfinite(detectable)
        return None if enough or wanted > last or wanted * prompts > MAX_ANSWERS else wanted

    def plan(self, prompts: int, max_tokens: int) -> str:
        """Say before anything is asked what will be asked, and what it can find."""
        repeats = self.planned(prompts)
        often, again = prompts, ""
        answers, how = 2 * repeats * prompts, f"{prompts:,} prompts"
        if self.repeats is None:
            often, tried = min(prompts, MAX_REPEATED_PROMPTS), min(prompts, MAX_PILOT_PROMPTS)
            answers = 2 * (PILOT_PAIRS * tried + (repeats - PILOT_PAIRS) * often)
            how = f"{tried:,} prompts {PILOT_PAIRS} times, then {often:,} of them"
            times = 2 ** (MAX_SIZES - 1)
            again = f"; up to {times} times as many if answers begin in more ways"
        tv = self.expected(often, repeats)
        return (
            f"plan: {how}, each {repeats:,} times of either, in pairs: {answers:,} answers of "
            f"{max_tokens:,} tokens at most{again}; false-alarm rate {self.alpha:g}; power "
            f"{POWER:g} against a TV of {tv:.2g} between the distributions of an answer's first "
            f"two tokens, if answers begin in as few ways as to simverify's own prompts"
        )
