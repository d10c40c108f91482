"""What explains a greedy token that is off: contexts, the target's choices, fits and causes.

An explanation is a context that an engine would have read if a token had been missing, or a row had
been another's. It fits if the target's choice after it is the emitted token.
"""

import inspect
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import structs

from simverify import stats
from simverify.arrays import Floats, Ints
from simverify.errors import SimverifyError, UsageError
from simverify.models.distribution import STAGES, TRUNCATION_STAGES, Law, RowContext
from simverify.models.transformer import TransformerPair
from simverify.results import TriageCause, TriageClass, TriageSide
from simverify.served.requests import (
    Request,
    check_request,
    common_prefix_length,
    expand_choices,
    limit_tokens,
    read_objects,
)
from simverify.served.rescore import length_batches, logits_before

# Contexts that an off token may have been chosen after: what goes wrong in caches and rows.
#
# How often the target's choice fits by chance, and so what a fit is worth, is measured below.


MAX_DISTANCE_BACK = 8  # from the end, for a token that is tried as missing, doubled or replaced
_PROMPT_END_TOKENS = 16  # at either end of a prompt, each of which is tried as missing
_MAX_ROW_SHIFT = 3
_MAX_SHIFTED_TOKENS = 4
"""Last tokens at most whose positions are tried as shifted, beside those of the whole answer."""

_POSITION_SHIFTS = (-1, 1, 2, 3)
"""By how many places: one too few, or as many too many as drafts may have been rejected."""

_WINDOW_SIZES = tuple(1 << k for k in range(4, 20))


@dataclass(frozen=True)
class WrongContext:
    """The ``tokens`` that were read instead, by the name of what went wrong.

    ``positions``: where each token stands, from 0; None: one after the other. ``family``: the name
    of many such contexts, none of which is likely by itself. ``whole``: the prompt is read
    otherwise, and so is all of the answer.
    """

    name: str
    tokens: tuple[int, ...]
    kind: TriageClass = "cache or rows"
    positions: tuple[int, ...] | None = None
    family: str | None = None
    whole: bool = False


def wrong_contexts(
    prompt: Sequence[int],
    tokens: Sequence[int],
    at: int,
    choice: int,
    drafts: Sequence[int] | None,
    pair: TransformerPair,
    shared: int = 0,
) -> list[WrongContext]:
    """Return the contexts that are tried for the token at ``at``; two names may have the same.

    ``choice``: the target's there. ``drafts``: the draft's choice at each place, None for none.
    ``shared``: first tokens of the prompt that may have come from another request's cache.
    """
    prompt, out = tuple(prompt), tuple(tokens[:at])
    unique: dict[str, WrongContext] = {}
    for context in (
        *_template_contexts(prompt, out, pair),
        *_row_contexts(prompt, out, choice, drafts),
        *_missing_token_contexts(prompt, out),
        *_shifted_contexts(prompt, out),
        *_cache_contexts(prompt, out, shared),
    ):
        if context.tokens and (context.tokens != (*prompt, *out) or context.positions is not None):
            unique.setdefault(context.name, context)
    return list(unique.values())


def _row_contexts(
    prompt: tuple[int, ...], out: tuple[int, ...], choice: int, drafts: Sequence[int] | None
) -> Iterator[WrongContext]:
    c, at = (*prompt, *out), len(out)
    for k in range(1, _MAX_ROW_SHIFT + 1):
        yield WrongContext("the row before" if k == 1 else f"the row {k} before", c[:-k])
    yield WrongContext("the row after: a token is skipped", (*c, choice))
    if drafts is not None and drafts[at] != choice:
        yield WrongContext("the row after the rejected draft", (*c, int(drafts[at])))
    if out:
        yield from _edited_contexts("the prompt's last token", c, len(prompt) - 1, whole=True)
        yield from _edited_contexts("the first emitted token", c, len(prompt))
        yield WrongContext("the prompt is forgotten", out, whole=True)
    for k in range(1, min(MAX_DISTANCE_BACK, len(c) - 1) + 1):
        place = len(c) - k
        # Without its last token it is the row before.
        yield from list(_edited_contexts(f"the token {k} from the end", c, place))[k == 1 :]
        if drafts is not None and k <= at:
            d = int(drafts[at - k])
            if d != c[place]:
                words = f"a rejected draft, {k} from the end,"
                in_place, beside = (*c[:place], d, *c[place + 1 :]), (*c[:place], d, *c[place:])
                yield WrongContext(f"{words} stands in the cache", in_place)
                yield WrongContext(f"{words} was left in the cache", beside)


def _edited_contexts(
    words: str, c: tuple[int, ...], place: int, *, whole: bool = False
) -> Iterator[WrongContext]:
    """Yield a text without the token at ``place``, and with that token twice."""
    lost, twice = (*c[:place], *c[place + 1 :]), (*c[: place + 1], *c[place:])
    yield WrongContext(f"{words} is missing", lost, whole=whole)
    yield WrongContext(f"{words} is doubled", twice, whole=whole)


def _missing_token_contexts(
    prompt: tuple[int, ...], out: tuple[int, ...]
) -> Iterator[WrongContext]:
    """Yield texts that lack the first token, one near a prompt's ends, or all but the last."""
    c, n = (*prompt, *out), len(prompt)
    yield WrongContext("the first token is forgotten", c[1:], whole=True)
    places = (*range(min(_PROMPT_END_TOKENS, n)), *range(max(n - _PROMPT_END_TOKENS, 0), n))
    for place in dict.fromkeys(places):
        yield WrongContext(
            f"the prompt's token {place + 1} is missing",
            (*c[:place], *c[place + 1 :]),
            family="a token of the prompt is missing",
            whole=True,
        )
    for window in _WINDOW_SIZES:
        if window < len(c):
            yield WrongContext(f"all but the last {window} tokens are forgotten", c[-window:])


def shared_prefix_length(prompt: Sequence[int], earlier: Iterable[Sequence[int]]) -> int:
    """Return how many first tokens an earlier text shares; the last one is read again anyway."""
    return max((common_prefix_length(prompt[:-1], text) for text in earlier), default=0)


def _cache_contexts(
    prompt: tuple[int, ...], out: tuple[int, ...], shared: int
) -> Iterator[WrongContext]:
    """Yield what is read if the beginning is from a cache that is a token too short or too long."""
    if 0 < shared < len(prompt):
        c, whose = (*prompt, *out), "a beginning that an earlier request has"
        after = _edited_contexts(f"the first token after {whose}", c, shared, whole=True)
        missing, doubled = _edited_contexts(f"the last token of {whose}", c, shared - 1, whole=True)
        yield from (missing, next(after), doubled)


def _shifted_contexts(prompt: tuple[int, ...], out: tuple[int, ...]) -> Iterator[WrongContext]:
    """Yield the right tokens at other positions, as if an engine counted rejected drafts.

    A shift of all tokens alike changes nothing for rotary embeddings, but does for learned ones.
    """
    c = (*prompt, *out)

    def shifted(begin: int, shift: int) -> tuple[int, ...]:
        return tuple(i + shift * (i >= begin) for i in range(len(c)))

    name = "all positions are counted from 1"
    yield WrongContext(name, c, positions=shifted(0, 1), whole=True)
    places = {
        len(c) - k: "the last token stands" if k == 1 else f"the last {k} tokens stand"
        for k in range(1, min(_MAX_SHIFTED_TOKENS, len(c) - 1) + 1)
    }
    if out:
        name = "the answer's positions are counted from 0"
        again = (*range(len(prompt)), *range(len(out)))
        yield WrongContext(name, c, positions=again, whole=True)
        places[len(prompt)] = "the answer's tokens stand"
    for place, words in places.items():
        for shift in _POSITION_SHIFTS:
            if place + shift >= 0:
                by = "a position" if abs(shift) == 1 else f"{shift} positions"
                name = f"{words} {by} too far {'on' if shift > 0 else 'back'}"
                positions, whole = shifted(place, shift), place == len(prompt)
                yield WrongContext(name, c, positions=positions, whole=whole)


def _template_contexts(
    prompt: tuple[int, ...], out: tuple[int, ...], pair: TransformerPair
) -> Iterator[WrongContext]:
    tokenizer = pair.tokenizer
    start = tokenizer.bos_token_id
    prompts: dict[str, Sequence[int]] = {}
    if start is not None and prompt[0] == start:
        prompts["the prompt without its BOS"] = prompt[1:]
        prompts["the prompt with a second BOS"] = (start, *prompt)
    elif start is not None:
        prompts["the prompt with a BOS"] = (start, *prompt)
    text = tokenizer.decode(prompt, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    others = {
        "the prompt without blanks at its end": text.rstrip(),
        "the prompt without blanks around it": text.strip(),
        "the prompt with a newline at its end": text + "\n",
        "the prompt with a blank at its end": text + " ",
        "the prompt with a blank before it": " " + text,
    }
    for name, other in others.items():
        if other.strip() and other != text:
            prompts[name] = pair.encode(other)
    if tokenizer.chat_template:
        messages = [{"role": "user", "content": text}]
        for more in (True, False):
            name = f"the prompt in the chat template{'' if more else ', without its turn'}"
            prompts[name] = tokenizer.apply_chat_template(
                messages, add_generation_prompt=more, tokenize=True, return_dict=False
            )
    for name, ids in prompts.items():
        yield WrongContext(name, (*map(int, ids), *out), "template", whole=True)


# The distance of each emitted token from the target's own choice, and what rounding does to it.
#
# A greedy token is the largest logit of its row. Rows are computed again by teacher forcing: among
# other requests, alone, token after token as decoding does it, and in another precision. How far
# these differ is what dtype and batch shape explain.


STEPWISE_TOKENS = 512  # first tokens that are scored one after the other, with a call each
ROUNDING_FACTOR = 2.0  # an engine's rounding may be so many times what it moved here

Logits = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class AnswerPath:
    """An answer's tokens beside the target's choices, each after the answer's own tokens.

    ``top``, ``second``: int64 (n,), the two largest logits of each row; ``lead``: float64 (n,), by
    how much the first is ahead. ``gap``: float64 (n,), by how much the emitted token is behind the
    largest logit, in the scoring where that is least; 0: it is the target's choice. ``moved``:
    float64 (n,), by how much the scorings differ in the lead of the largest logit over the second
    or the emitted one. ``rank``: int64 (n,), tokens ahead of the emitted one.
    """

    top: Ints
    second: Ints
    lead: Floats
    gap: Floats
    moved: Floats
    rank: Ints


def score_requests(
    requests: Sequence[Request], pair: TransformerPair, other: TransformerPair | None = None
) -> list[AnswerPath]:
    """Score each request; ``other`` is the target in another precision, None for none."""
    steps = _stepwise_logits(limit_tokens(requests, STEPWISE_TOKENS), pair)
    paths: list[AnswerPath] = []
    for together in length_batches([len(r.prompt) + len(r.tokens) for r in requests]):
        batch = [requests[i] for i in together]
        rows = logits_before(pair, pair.target_model, batch)
        for i, request, base in zip(together, batch, rows, strict=True):
            views = [
                logits_before(version, version.target_model, [request])[0]
                for version in (pair, other)
                if version is not None
            ]
            law, before = request.judged_by(pair), RowContext(request.prompt, request.tokens)
            scores = [greedy_scores(x, law, before) for x in (base, *views, *steps[i : i + 1])]
            paths.append(_answer_path(np.array(request.tokens), scores[0], scores[1:]))
    return paths


_BANNED_SCORE = -1e6  # in the place of minus infinity, which has no differences


def greedy_scores(logits: Logits, law: Law, before: RowContext) -> Floats:
    """Return scores float64 (n, V), whose largest is chosen: with penalties, biases, bans.

    Temperature and truncation leave the largest where it is. ``SimverifyError`` for logits that are
    no numbers, ``UsageError`` if all is banned.
    """
    if not np.isfinite(logits.max(axis=1)).all():
        raise SimverifyError(
            "the target's logits hold NaN or infinity: nothing can be judged by it"
        )
    scores = law.scores(logits, before)
    if not np.isfinite(scores.max(axis=1)).all():
        raise UsageError("a request was asked to ban every token: nothing is left to choose")
    return np.maximum(scores, _BANNED_SCORE)


def _stepwise_logits(requests: Sequence[Request], pair: TransformerPair) -> list[Logits]:
    """Return logits as :func:`logits_before`, one token a call, as without drafts."""
    logits: list[Logits] = []
    for together in length_batches([len(r.prompt) for r in requests]):
        batch = [requests[i] for i in together]
        model = pair.cached(pair.target_model, len(batch))
        rows = [[last[-1]] for last in model.feed([request.prompt for request in batch])]
        for step in range(max(len(request.tokens) for request in batch) - 1):
            # A request that has ended is fed its last token again, which nobody reads.
            fed = [[request.tokens[min(step, len(request.tokens) - 1)]] for request in batch]
            for steps, last in zip(rows, model.feed(fed), strict=True):
                steps.append(last[-1])
        logits += [np.stack(x[: len(r.tokens)]) for x, r in zip(rows, batch, strict=True)]
    return logits


def _answer_path(tokens: Ints, x: Floats, views: Sequence[Floats]) -> AnswerPath:
    n = np.arange(len(tokens))
    top = x.argmax(axis=1)
    rest = x.copy()
    rest[n, top] = -np.inf
    second = rest.argmax(axis=1)
    behind = np.stack([second, tokens], axis=1)
    gap, shift = x[n, top] - x[n, tokens], np.zeros(len(tokens))
    for other in views:
        k = len(other)  # the last request of those scored step by step may be cut
        off = other - x[:k]
        apart = off[n[:k], top[:k]][:, None] - np.take_along_axis(off, behind[:k], axis=1)
        shift[:k] = np.maximum(shift[:k], np.abs(apart).max(axis=1))
        gap[:k] = np.minimum(gap[:k], other.max(axis=1) - other[n[:k], tokens[:k]])
    rank = (x > x[n, tokens][:, None]).sum(axis=1)
    return AnswerPath(top, second, x[n, top] - x[n, second], gap, shift, rank)


# The target's argmax after every token of a text, whose tokens may have other positions.


@dataclass(frozen=True)
class Processing:
    """What is applied to the rows of a text from ``row`` on: ``law`` in the context ``before``."""

    law: Law
    before: RowContext
    row: int = 0


class Text(NamedTuple):
    """Tokens, their positions if they are not 0, 1, 2 and so on, and what is done to their rows."""

    tokens: tuple[int, ...]
    positions: tuple[int, ...] | None = None
    processing: Processing | None = None

    def scores(self, logits: Logits) -> Floats:
        """Return the rows by which tokens are chosen, float64 (n, V)."""
        assert self.processing is not None
        x, row = logits.astype(np.float64), self.processing.row
        x[row:] = greedy_scores(logits[row:], self.processing.law, self.processing.before)
        return x


def target_argmax(texts: Sequence[Text], pair: TransformerPair) -> dict[Text, tuple[Ints, Floats]]:
    """Return the target's choice after every token of each text, int64 (n,).

    Then by how many logits the text's next token is behind the choice, float64 (n,); 0 for the last
    token, which has no next.
    """
    results: dict[Text, tuple[Ints, Floats]] = {}
    for placed in (False, True):
        chosen = [text for text in texts if (text.positions is not None) == placed]
        chosen.sort(key=lambda text: len(text.tokens))
        for together in length_batches([len(text.tokens) for text in chosen], pair.vocab_size):
            group = chosen[together.start : together.stop]
            if placed:
                logits = _positioned_logits(group, pair)
            else:
                model = pair.cached(pair.target_model, len(group))
                logits = model.feed([text.tokens for text in group])
            for text, raw in zip(group, logits, strict=True):
                rows = raw if text.processing is None else text.scores(raw)
                behind = np.zeros(len(rows))
                each = np.arange(len(rows) - 1)
                behind[:-1] = rows[:-1].max(axis=1) - rows[each, list(text.tokens[1:])]
                results[text] = rows.argmax(axis=1), behind
    return results


def _positioned_logits(texts: Sequence[Text], pair: TransformerPair) -> list[Logits]:
    import torch

    width = max(len(text.tokens) for text in texts)
    # Ids, positions, and where there is a token.
    arrays = torch.zeros((3, len(texts), width), dtype=torch.long)
    for row, (tokens, places, _) in enumerate(texts):
        each = torch.as_tensor((tokens, places, (1,) * len(tokens)))
        arrays[:, row, : len(tokens)] = each
    ids, positions, mask = arrays.to(pair.target_model.device)
    with torch.no_grad():
        logits = pair.target_model(
            ids, attention_mask=mask, position_ids=positions, use_cache=False
        ).logits
    rows = logits.float().cpu().numpy()
    return [x[: len(text.tokens)] for x, text in zip(rows, texts, strict=True)]


# Two logs of greedy answers: what each line holds, and which lines match.


Side = Literal["a", "b"]


@dataclass(frozen=True)
class LoggedAnswer:
    """One request of a log.

    ``line``: where it stands, from 1. ``name``: its ``id``, None where the line says none.
    ``reason``: its ``finish_reason``; ``stop``: what stopped it, a string or a token's id.
    ``calls``: tokens that each call of the engine emitted, None where nothing says.
    """

    request: Request
    line: int
    name: str | int | None = None
    reason: str | None = None
    stop: str | int | None = None
    calls: tuple[int, ...] | None = None

    def slot(self, place: int) -> tuple[int, int] | None:
        """Return the place of a token within its call, from 0, and how many the call emitted."""
        start = 0
        for emitted in self.calls or ():
            if place < start + emitted:
                return place - start, emitted
            start += emitted
        return None


@dataclass(frozen=True)
class MatchedAnswers:
    """Answers of both logs to the same requests, and how many of each log have no other."""

    pairs: tuple[tuple[LoggedAnswer, LoggedAnswer], ...]
    alone_a: int
    alone_b: int


def read_answers(path: Path, pair: TransformerPair) -> tuple[LoggedAnswer, ...]:
    """Read a log as :func:`read_requests` does, with ``id`` and ``calls`` of its lines.

    Each choice of a server's answer is an answer. ``pair`` has temperature 0. ``UsageError`` as
    there, and if a line was asked at another temperature, or its calls do not add up to its tokens.
    """
    answers = [
        _parse_answer(fields, at, number, pair)
        for number, (where, value) in enumerate(read_objects(path, "triage"), 1)
        for at, fields in expand_choices(value, where, pair)
    ]
    if not answers:
        raise UsageError(f"triage: {path} holds no request: expected one JSON object a line")
    return tuple(answers)


def _parse_answer(value: Any, where: str, number: int, pair: TransformerPair) -> LoggedAnswer:
    request = check_request(value, where, pair)
    if request.law is not None and request.law.temperature != 0.0:
        raise UsageError(
            f"{where} was asked at temperature {request.law.temperature:g}: triage is for greedy "
            f"answers, at 0; audit --outputs judges samples"
        )
    name, stop = value.get("id"), value.get("stop_reason", value.get("matched_stop"))
    calls = value.get("calls")
    if calls is not None:
        whole = isinstance(calls, list) and all(type(n) is int and n > 0 for n in calls)
        # A token that was put back because the engine stopped belongs to the last call.
        totals = (len(request.tokens), len(request.tokens) - request.restored)
        if not whole or sum(calls) not in totals:
            raise UsageError(
                f"{where}: calls is {str(calls)[:40]}: expected how many tokens each call emitted, "
                f"{len(request.tokens)} in all"
            )
    return LoggedAnswer(
        request,
        number,
        name=name if isinstance(name, str | int) else None,
        reason=value.get("finish_reason"),
        stop=stop if isinstance(stop, str | int) else None,
        calls=None if calls is None else tuple(calls),
    )


def _choosing_law(request: Request) -> Law:
    """Return what of a request's law may change which token is chosen."""
    law = Law(0.0) if request.law is None else request.law
    return replace(law, order=STAGES, top_k=None, top_p=None, min_p=None, typical_p=None)


def match_answers(a: Sequence[LoggedAnswer], b: Sequence[LoggedAnswer]) -> MatchedAnswers:
    """Pair the answers to the same request.

    By ``id`` if every line of both has one of its own; else the k-th answer to a prompt with the
    k-th to the same prompt, and the rest in order: prompts that differ are a finding. Parameters
    that differ raise ``UsageError``.
    """

    def unique(answers: Sequence[LoggedAnswer]) -> bool:
        names = {answer.name for answer in answers}
        return None not in names and len(names) == len(answers)

    def keys(answers: Sequence[LoggedAnswer]) -> list[Hashable]:
        if by_name:
            return [answer.name for answer in answers]
        places: dict[tuple[int, ...], Iterator[int]] = defaultdict(count)
        prompts = [answer.request.prompt for answer in answers]
        return [(prompt, next(places[prompt])) for prompt in prompts]

    by_name = unique(a) and unique(b)
    other = dict(zip(keys(b), b, strict=True))
    both = [(x, other.pop(key)) for x, key in zip(a, keys(a), strict=True) if key in other]
    taken = {x.line for x, _ in both}
    left_a, left_b = [x for x in a if x.line not in taken], list(other.values())
    if not by_name:
        rest = list(zip(left_a, left_b, strict=False))
        both = sorted(both + rest, key=lambda entry: entry[0].line)
        left_a, left_b = left_a[len(rest) :], left_b[len(rest) :]
    for x, y in both:
        if _choosing_law(x.request) != _choosing_law(y.request):
            raise UsageError(
                f"triage: line {x.line} of A and line {y.line} of B were asked with other "
                f"penalties, biases or bans: expected answers to the same request"
            )
    return MatchedAnswers(tuple(both), len(left_a), len(left_b))


# Explanations that fit an off token: by it alone, by all that follow, by the whole answer.
#
# An explanation that stays, such as a prompt that was read otherwise, has to give every token of
# the answer, also those that it leaves as they are: the more of them it would have changed, the
# less likely it fits by chance.


DRAFT_TOKEN_ACCEPTED = "the draft's own token is kept"

REACH_WORDS = ("", ", and all that follows", ", and the whole answer")
"""What an explanation gives: the off token, what is behind it too, and what is before it."""

_MAX_NEIGHBOUR_DISTANCE = 4


@dataclass(frozen=True, eq=False)
class GreedyLog:
    """One log: its answers, their paths, and the draft's choices at each place, None for none."""

    answers: Sequence[LoggedAnswer]
    paths: Sequence[AnswerPath]
    drafts: Sequence[Ints] | None

    def shared(self, number: int) -> int:
        """Return how many first tokens a prompt shares with an earlier request of the log."""
        texts = ((*own.request.prompt, *own.request.tokens) for own in self.answers[:number])
        return shared_prefix_length(self.answers[number].request.prompt, texts)


@dataclass(frozen=True, eq=False)
class OffToken:
    """A token to be explained; ``shared``: prompt tokens that another's cache may have given."""

    log: GreedyLog
    number: int
    at: int
    token: int
    shared: int

    @property
    def request(self) -> Request:
        """The request with its answer."""
        return self.log.answers[self.number].request

    @property
    def path(self) -> AnswerPath:
        """The answer beside the target's choices."""
        return self.log.paths[self.number]

    @property
    def text(self) -> tuple[int, ...]:
        """All tokens before the one that is to be explained."""
        return (*self.request.prompt, *self.request.tokens[: self.at])


@dataclass(frozen=True)
class ExplanationFit:
    """Whether an explanation gives a token: alone, with what follows, with the whole answer.

    ``reaches``: for each of ``REACH_WORDS``, None if that is no explanation: a prompt that was
    read otherwise is none for one token alone, and what is lost behind it touches nothing before.
    """

    kind: TriageClass
    reaches: tuple[bool | None, ...]


def explanation_fits(
    spots: Sequence[OffToken], pair: TransformerPair, radius: float, wanted: set[str] | None = None
) -> list[dict[str, ExplanationFit]]:
    """Return for each spot whether the ``wanted`` explanations fit; a family counts as one."""
    jobs: list[tuple[int, WrongContext, Text]] = []
    results: list[dict[str, ExplanationFit]] = []
    # A recurrent target takes no positions: it counts its tokens itself.
    placed = "position_ids" in inspect.signature(type(pair.target_model).forward).parameters
    for i, spot in enumerate(spots):
        fits = _model_free_fits(spot).items()
        results.append({name: fit for name, fit in fits if wanted is None or name in wanted})
        drafts = None if spot.log.drafts is None else spot.log.drafts[spot.number].tolist()
        choice = int(spot.path.top[spot.at])
        prompt, tokens = spot.request.prompt, spot.request.tokens
        for context in wrong_contexts(prompt, tokens, spot.at, choice, drafts, pair, spot.shared):
            name = context.family or context.name
            if (placed or context.positions is None) and (wanted is None or name in wanted):
                whole = (*context.tokens, *tokens[spot.at :])
                places = context.positions
                if places is not None:  # the answer's further tokens continue them
                    more = range(places[-1] + 1, places[-1] + 1 + len(whole) - len(places))
                    places = (*places, *more)
                if len(whole) <= pair.context:
                    done = _context_processing(spot, context, pair)
                    jobs.append((i, context, Text(whole, places, done)))
        for context, done in _penalty_contexts(spot, pair):
            name = context.family or context.name
            if wanted is None or name in wanted:
                jobs.append((i, context, Text(context.tokens, None, done)))
    given = target_argmax(list(dict.fromkeys(text for *_, text in jobs)), pair)
    for i, context, text in jobs:
        fit = _context_fit(spots[i], context, *given[text], radius)
        if context.kind == "verifier":  # how far a penalty lags changes from block to block
            fit = ExplanationFit(fit.kind, fit.reaches[:1])
        name = context.family or context.name
        if name in results[i]:
            both = zip(fit.reaches, results[i][name].reaches, strict=True)
            fit = ExplanationFit(fit.kind, tuple(None if a is None else a or b for a, b in both))
        results[i][name] = fit
    return results


def _context_fit(
    spot: OffToken, context: WrongContext, top: Ints, behind: Floats, radius: float
) -> ExplanationFit:
    row = len(context.tokens) - 1
    hit = int(top[row]) == spot.token
    # The last row is of what comes behind the answer.
    follows = hit and bool((behind[row + 1 : -1] <= radius).all())
    if not context.whole:
        return ExplanationFit(context.kind, (hit, follows))
    before = behind[max(row - spot.at, 0) : row]
    return ExplanationFit(context.kind, (None, follows, follows and bool((before <= radius).all())))


def _context_processing(
    spot: OffToken, context: WrongContext, pair: TransformerPair
) -> Processing | None:
    """Return what the spot's law does to the rows after a context; None where it does nothing.

    A prompt that was read otherwise is counted as it was read; a cache that is wrong changes
    nothing of what is counted.
    """
    law = spot.request.judged_by(pair)
    if not _is_processed(law):
        return None
    row = len(context.tokens) - 1
    start = max(row - spot.at, 0)
    prompt = context.tokens[: start + 1] if context.whole else spot.request.prompt
    before = RowContext(prompt, spot.request.tokens, spot.at - (row - start))
    return Processing(law, before, start)


def _is_processed(law: Law) -> bool:
    return not law.acting <= {"temperature", *TRUNCATION_STAGES}


MAX_PENALTY_LAG = 8  # last tokens that penalties may not count yet, as they were drafted


def _penalty_contexts(
    spot: OffToken, pair: TransformerPair
) -> Iterator[tuple[WrongContext, Processing]]:
    """Yield the right context with penalties that count other tokens, or without them."""
    law, at = spot.request.judged_by(pair), spot.at
    if not _is_processed(law):
        return
    prompt, tokens, row = spot.request.prompt, spot.request.tokens, len(spot.text) - 1

    def counted(
        name: str, own: Law, before: RowContext, family: str | None = None
    ) -> tuple[WrongContext, Processing]:
        context = WrongContext(name, spot.text, "verifier", family=family)
        return context, Processing(own, before, row)

    without = RowContext(prompt, tokens, at)
    yield counted("penalties, biases and bans are left out", Law(0.0), without)
    if not law.acting & {"repetition", "presence"}:
        return
    for lag in range(1, min(MAX_PENALTY_LAG, at) + 1):
        name = f"penalties do not count the last {lag} tokens"
        family = "penalties do not count the last tokens, as they were drafts of one block"
        yield counted(name, law, RowContext(prompt, tokens, at - lag), family)
    whole = (*prompt, *tokens)
    yield counted("penalties do not count the prompt", law, RowContext((), tokens, at))
    yield counted("penalties count the prompt, too", law, RowContext((), whole, len(prompt) + at))


def _model_free_fits(spot: OffToken) -> dict[str, ExplanationFit]:
    """Return explanations without a model: other requests' rows at this place, and the draft."""
    explanations = {}
    paths = spot.log.paths
    for k in range(-_MAX_NEIGHBOUR_DISTANCE, _MAX_NEIGHBOUR_DISTANCE + 1):
        other = spot.number + k
        if k and 0 <= other < len(paths) and spot.at < len(paths[other].top):
            far = f"{'' if abs(k) == 1 else f'{abs(k)} '}{'before' if k < 0 else 'after'}"
            hit = int(paths[other].top[spot.at]) == spot.token
            explanations[f"the row of the request {far}"] = ExplanationFit("cache or rows", (hit,))
    if spot.log.drafts is not None:
        hit = int(spot.log.drafts[spot.number][spot.at]) == spot.token
        explanations[DRAFT_TOKEN_ACCEPTED] = ExplanationFit("verifier", (hit,))
    return explanations


# Causes: fits are compared with fits by chance.
#
# Some explanations fit by chance: a context that is nearly the right one often makes the runner-up
# the choice. How often is measured at other places, where nothing is off and the runner-up is as
# near, by asking whether the same explanation gives the runner-up.


MAX_EXAMINED = 16
"""Off tokens on which explanations are tried; those that are taken are tried on all."""

CAUSE_LEVEL = 0.01
"""An explanation is taken if one fits so often by chance with this probability at most."""

COMMON_CAUSE_SHARE = 0.5
"""Share of the off tokens that a common cause fits; if none fits so many, there is none."""

_SHARE_SMOOTHING, _SIMILARITY_WIDTH = 0.05, 0.5
"""A share of explanations that counts as none, and the log ratio at which others are unlike."""

_TOTAL_CONTROLS = 48
_CONTROLS_PER_SPOT = (4, 24)
"""Controls of all off tokens together, and of each at least and at most."""


@dataclass(frozen=True)
class ExplanationResult:
    """The explanations.

    ``causes``: what was tried and fits anywhere; ``taken``: the cause by index of the spot;
    ``tried``: explanations in all; ``open``: an explanation that fits most of the others, but not
    beyond chance; None if none does.
    """

    causes: tuple[TriageCause, ...]
    taken: Mapping[int, TriageCause]
    tried: int
    open: TriageCause | None = None


@dataclass(frozen=True)
class Hypothesis:
    """An explanation, ``name``, of as much as ``REACH_WORDS`` says at ``reach``."""

    name: str
    kind: TriageClass
    reach: int

    @property
    def words(self) -> str:
        """Its name with what it gives."""
        return self.name + REACH_WORDS[self.reach]

    def fits(self, spot: Mapping[str, ExplanationFit]) -> bool:
        """Whether it fits a spot."""
        fit = spot.get(self.name)
        return fit is not None and fit.reaches[self.reach : self.reach + 1] == (True,)


def explain_spots(
    spots: Sequence[OffToken], logs: Sequence[GreedyLog], pair: TransformerPair, radius: float
) -> ExplanationResult:
    """Try every explanation on the first spots, equal ones once; take what is beyond chance."""
    if not spots:
        return ExplanationResult((), {}, 0)
    alike: dict[tuple[tuple[int, ...], int], list[int]] = defaultdict(list)
    for i, spot in enumerate(spots):
        alike[spot.text, spot.token].append(i)
    numbers = list(alike.values())
    first = [spots[same[0]] for same in numbers[:MAX_EXAMINED]]
    spot_fits = explanation_fits(first, pair, radius)
    hypotheses = list(
        dict.fromkeys(
            Hypothesis(name, fit.kind, reach)
            for fits in spot_fits
            for name, fit in fits.items()
            for reach, hit in enumerate(fit.reaches)
            if hit is not None
        )
    )
    names = {one.name for one in hypotheses}
    if not any(one.fits(fits) for one in hypotheses for fits in spot_fits):
        return ExplanationResult((), {}, len(names))
    controls = _control_spots(first, logs, radius)
    control_fits = iter(
        explanation_fits([x for each in controls for x in each], pair, radius, names)
    )
    # For each spot which hypotheses fit it, and each of its controls: bool (1 + k, H).
    groups = []
    for fits, each in zip(spot_fits, controls, strict=True):
        every = (fits, *islice(control_fits, len(each)))
        groups.append(np.array([[one.fits(own) for one in hypotheses] for own in every]))
    similarity = [_group_similarity(group) for group in groups]
    taken: dict[int, TriageCause] = {}
    candidates: dict[str, TriageCause] = {}
    accepted: dict[Hypothesis, TriageCause] = {}
    causes: dict[Hypothesis, TriageCause] = {}
    while rest := [i for i in range(len(first)) if i not in taken]:
        worth = stats.matched_fits([groups[i] for i in rest], [similarity[i] for i in rest])
        causes = {
            one: TriageCause(
                name=one.words,
                kind=one.kind,
                places=sum(one.name in spot_fits[i] for i in rest),
                fits=int(worth.fits[j]),
                by_chance=float(worth.by_chance[j]),
                chance=float(worth.chance[j]),
                taken=False,
            )
            for j, one in enumerate(hypotheses)
            if worth.fits[j]
        }
        for one, cause in causes.items():
            candidates.setdefault(one.words, cause)
        good = [one for one in causes if causes[one].chance <= CAUSE_LEVEL]
        if not good:
            break
        best = min(good, key=lambda one: (worth.tails[hypotheses.index(one)], -one.reach))
        where = {i for i in rest if best.fits(spot_fits[i])}
        # Another that fits the same places as well is named beside it.
        others = sorted(
            (one.kind == best.kind, one.name)
            for one in good
            if one.name != best.name and {i for i in rest if one.fits(spot_fits[i])} == where
        )
        also = f", or: {others[0][1]}" if others else ""
        cause = structs.replace(causes[best], name=f"{best.words}{also}", taken=True)
        candidates[best.words] = accepted[best] = cause
        taken |= dict.fromkeys(where, cause)
    ordered = sorted(
        candidates.values(), key=lambda cause: (not cause.taken, cause.chance, -cause.fits)
    )
    result = {i: cause for place, cause in taken.items() for i in numbers[place]}
    if accepted and len(numbers) > len(first):
        later = numbers[MAX_EXAMINED:]
        wanted = {one.name for one in accepted}
        more = explanation_fits([spots[same[0]] for same in later], pair, radius, wanted)
        for same, fits in zip(later, more, strict=True):
            if matches := [cause for one, cause in accepted.items() if one.fits(fits)]:
                result |= dict.fromkeys(same, max(matches, key=lambda cause: cause.fits))
    # The likeliest of the explanations that fit most of what is left.
    likely = [
        cause
        for one, cause in causes.items()
        if rest and one.kind != "verifier" and cause.fits > COMMON_CAUSE_SHARE * len(rest)
    ]
    open_ = min(likely, key=lambda cause: (cause.chance, -cause.fits), default=None)
    return ExplanationResult(tuple(ordered), result, len(names), open_)


def _group_similarity(group: npt.NDArray[np.bool_]) -> Floats:
    """Return how like the spot each of its group is, by the share of explanations that fit it."""
    # A token that half of them would give is easily changed, whatever its lead says.
    share = (group.sum(axis=1) + _SHARE_SMOOTHING * group.shape[1]) / group.shape[1]
    return np.asarray(np.exp(-np.abs(np.log(share / share[0])) / _SIMILARITY_WIDTH))


def _control_spots(
    spots: Sequence[OffToken], logs: Sequence[GreedyLog], radius: float
) -> list[list[OffToken]]:
    """Return for each spot places of the target's own choices whose runner-up is as near.

    They lie about as far in an answer, as what is lost in a prompt counts less and less; none has
    fewer tokens before it than explanations ask for, and none has the same text.
    """
    pool: dict[tuple[int, ...], OffToken] = {}
    for log in logs:
        for number, path in enumerate(log.paths):
            for at in np.flatnonzero((path.gap == 0.0) & (path.lead > radius)).tolist():
                spot = OffToken(log, number, at, int(path.second[at]), 0)
                pool.setdefault(spot.text, spot)
    for spot in spots:
        pool.pop(spot.text, None)
    each = int(np.clip(-(-_TOTAL_CONTROLS // len(spots)), *_CONTROLS_PER_SPOT))
    free = list(pool.values())
    controls = []
    for spot in spots:
        late = [one for one in free if one.at >= min(spot.at, MAX_DISTANCE_BACK)]
        gap = float(spot.path.gap[spot.at])

        def distance(one: OffToken, spot: OffToken = spot, gap: float = gap) -> float:
            near = math.log(gap / float(one.path.lead[one.at]))
            return abs(near) + abs(math.log((spot.at + 1) / (one.at + 1)))

        late.sort(key=distance)
        taken = late[:each]
        free = [one for one in free if one not in taken]
        lengths = [
            one.log.shared(one.number) or min(spot.shared, len(one.request.prompt) - 1)
            for one in taken
        ]
        controls.append([replace(x, shared=n) for x, n in zip(taken, lengths, strict=True)])
    return controls


# The outcome of a request: same, near enough for rounding, ended early, or off, and where.


@dataclass(frozen=True)
class RequestOutcome:
    """A request's class and why; ``kind`` is None for an off token that is to be explained.

    ``fault``: whether it fails the run, None if that cannot be told. ``parted``: index of the first
    token that differs; ``at``, ``side``: the token that is reported.
    """

    number: int
    kind: TriageClass | None
    fault: bool | None
    why: str
    parted: int | None = None
    at: int | None = None
    side: TriageSide | None = None


def classify_request(
    number: int,
    both: tuple[LoggedAnswer, LoggedAnswer],
    paths: tuple[AnswerPath, AnswerPath],
    radius: float,
    eos: frozenset[int],
) -> RequestOutcome:
    """Judge one pair of answers, whose tokens may be off by ``radius``."""
    a, b = (answer.request for answer in both)
    common = common_prefix_length(a.tokens, b.tokens)
    parted = common if common < min(len(a.tokens), len(b.tokens)) else None

    outcome = partial(RequestOutcome, number, parted=parted)

    if a.prompt != b.prompt and a.tokens != b.tokens:
        k = common_prefix_length(a.prompt, b.prompt)
        n, m = len(a.prompt), len(b.prompt)
        why = f"the prompts differ: {n:,} and {m:,} tokens, alike up to token {k:,}"
        return outcome("template", True, why, at=common)
    off = _first_off_token(both, paths, radius, common)
    if off is not None:
        at, side = off
        which = 1 if side == "b" else 0
        token, expected = both[which].request.tokens[at], int(paths[which].top[at])
        if token in eos or expected in eos:
            why = "goes on where the target ends: it ignores or does not know the end of sequence"
            if token in eos:
                why = "ends where the target goes on"
                if both[which].request.restored:
                    says = "says that it stopped where the target goes on"
                    why = f"{says}: a stop string, or another end token"
            return outcome("early stop", True, why, at=at, side=side)
        if a.from_text or b.from_text:
            why = "its tokens are known by their text alone, which may be of others"
            return outcome("text", None, why, at=at, side=side)
        return outcome(None, None if side == "both" else True, "", at=at, side=side)
    if parted is not None:
        why = "both tokens are the target's, within rounding"
        return outcome("numerics", False, why, at=parted)
    short, long = sorted(both, key=lambda answer: len(answer.request.tokens))
    rest = long.request.tokens[common:]
    # One log may only drop the token that ended both.
    if not rest or (short.reason is None and len(rest) == 1 and rest[0] in eos):
        return outcome("same", False, "")
    fault, why = _shorter_answer(both, eos)
    return outcome("early stop", fault, why, at=common)


def _first_off_token(
    both: tuple[LoggedAnswer, LoggedAnswer],
    paths: tuple[AnswerPath, AnswerPath],
    radius: float,
    common: int,
) -> tuple[int, TriageSide] | None:
    """Return the first token that is off, and whose; of two at one place the further off."""
    places = [np.flatnonzero(path.gap > radius) for path in paths]
    if ended_equally(both):
        last = len(both[0].request.tokens) - 1
        places = [place[place < last] for place in places]
    first = [int(place[0]) if len(place) else None for place in places]
    at = min((place for place in first if place is not None), default=None)
    if at is None:
        return None
    if at < common and both[0].request.prompt == both[1].request.prompt:
        return at, "both"
    if first[0] == first[1]:
        return at, "a" if paths[0].gap[at] >= paths[1].gap[at] else "b"
    return at, "a" if first[0] == at else "b"


def ended_equally(both: tuple[LoggedAnswer, LoggedAnswer]) -> bool:
    """Whether both say that they stopped after the same tokens, and neither shows what stopped it.

    The end of sequence that was put back may be none of the target's if both were asked to stop at
    a string: that is no difference.
    """
    a, b = (answer.request for answer in both)
    return a.restored and b.restored and a.tokens == b.tokens


def _shorter_answer(
    both: tuple[LoggedAnswer, LoggedAnswer], eos: frozenset[int]
) -> tuple[bool | None, str]:
    """Return whether it is a fault that one answer begins the other, and why it ends."""
    short = min(both, key=lambda answer: len(answer.request.tokens))
    which = "A" if short is both[0] else "B"
    n = len(short.request.tokens)
    if short.reason == "length":
        return False, f"{which} was cut at a limit of {n:,} tokens"
    if isinstance(short.stop, str):
        return True, f"{which} ends at the stop string {short.stop!r}, and the other does not"
    if short.request.tokens[-1] in eos:
        return True, f"{which} ends at the end of sequence, and the other goes on behind it"
    if short.stop is not None:
        return True, f"{which} ends at token {short.stop}, which ends nothing in the other"
    return None, f"{which} ends after {n:,} tokens and does not say why: log its finish_reason"
