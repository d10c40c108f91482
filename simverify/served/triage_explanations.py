"""What explains a greedy token that is off: contexts, the target's choices, fits and causes.

An explanation is a context that an engine would have read if a token had been missing, or a row had
been another's. It fits if the target's choice after it is the emitted token.
"""

import inspect
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.arrays import Floats, Ints
from simverify.errors import SimverifyError, UsageError
from simverify.models.transformer import TransformerPair
from simverify.results import TriageCause, TriageClass, TriageSide
from simverify.served.distribution import TRUNCATION_STAGES
from simverify.served.requests import (
    Request,
    check_request,
    expand_choices,
    limit_tokens,
    read_objects,
)

# Contexts that an off token may have been chosen after: what goes wrong in caches and rows.
#
# How often the target's choice fits by chance, and so what a fit is worth, is measured below.


MAX_DISTANCE_BACK = 8  # How far from the end a token is tried as missing, doubled or replaced
_PROMPT_END_TOKENS = 16  # Tokens at either end of a prompt, each of which is tried as missing
_MAX_ROW_SHIFT = 3
_MAX_SHIFTED_TOKENS = 4
"""Last tokens at most whose positions are tried as shifted, beside those of the whole answer."""

_POSITION_SHIFTS = (-1, 1, 2, 3)
"""By how many places: one too few, or as many too many as drafts may have been rejected."""

_WINDOW_SIZES = tuple(1 << k for k in range(4, 20))


@dataclass(frozen=True)
class WrongContext:
    """What was read instead, ``tokens``, by the name of what went wrong.

    ``positions``: where each token stands, from 0; None: one after the other. ``family``: what it
    is one of many of, none of which is likely for itself. ``whole``: it is the prompt that is read
    otherwise, so that all of the answer is.
    """

    name: str
    kind: TriageClass
    tokens: tuple[int, ...]
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
    right = (*prompt, *tokens[:at])
    unique: dict[str, WrongContext] = {}
    texts = tuple(prompt), tuple(tokens)
    for made in (
        *_all_contexts(*texts, at, choice, drafts, pair),
        *_cache_contexts(*texts, at, shared),
    ):
        if made.tokens and (made.tokens != right or made.positions is not None):
            unique.setdefault(made.name, made)
    return list(unique.values())


def _all_contexts(
    prompt: tuple[int, ...],
    tokens: tuple[int, ...],
    at: int,
    choice: int,
    drafts: Sequence[int] | None,
    pair: TransformerPair,
) -> Iterator[WrongContext]:
    c, out = (*prompt, *tokens[:at]), tokens[:at]
    yield from _template_contexts(prompt, out, pair)
    for k in range(1, _MAX_ROW_SHIFT + 1):
        yield WrongContext(_row_words(k), "cache or rows", c[:-k])
    yield WrongContext("the row after: a token is skipped", "cache or rows", (*c, choice))
    if drafts is not None and drafts[at] != choice:
        name = "the row after the rejected draft"
        yield WrongContext(name, "cache or rows", (*c, int(drafts[at])))
    if out:
        yield _missing_context("the prompt's last token", c, len(prompt) - 1, whole=True)
        yield _doubled_context("the prompt's last token", c, len(prompt) - 1, whole=True)
        yield _missing_context("the first emitted token", c, len(prompt))
        yield _doubled_context("the first emitted token", c, len(prompt))
        yield WrongContext("the prompt is forgotten", "cache or rows", out, whole=True)
    for k in range(1, min(MAX_DISTANCE_BACK, len(c) - 1) + 1):
        place = len(c) - k
        if k > 1:
            yield _missing_context(f"the token {k} from the end", c, place)
        yield _doubled_context(f"the token {k} from the end", c, place)
        if drafts is not None and k <= at:
            d = int(drafts[at - k])
            if d != c[place]:
                words = f"a rejected draft, {k} from the end,"
                in_place, beside = (*c[:place], d, *c[place + 1 :]), (*c[:place], d, *c[place:])
                yield WrongContext(f"{words} stands in the cache", "cache or rows", in_place)
                yield WrongContext(f"{words} was left in the cache", "cache or rows", beside)
    yield from _missing_token_contexts(prompt, out)
    for window in _WINDOW_SIZES:
        if window < len(c):
            name = f"all but the last {window} tokens are forgotten"
            yield WrongContext(name, "cache or rows", c[-window:])
    yield from _shifted_contexts(prompt, out)


def _missing_token_contexts(
    prompt: tuple[int, ...], out: tuple[int, ...]
) -> Iterator[WrongContext]:
    """Yield the texts that lack a token of the prompt: the first, and one of any place.

    Of a prompt that is longer than twice ``_PROMPT_END_TOKENS``, places in its middle are left out.
    """
    c = (*prompt, *out)
    yield WrongContext("the first token is forgotten", "cache or rows", c[1:], whole=True)
    n = len(prompt)
    for place in dict.fromkeys(
        (*range(min(_PROMPT_END_TOKENS, n)), *range(max(n - _PROMPT_END_TOKENS, 0), n))
    ):
        name, family = (
            f"the prompt's token {place + 1} is missing",
            "a token of the prompt is missing",
        )
        lost = (*c[:place], *c[place + 1 :])
        yield WrongContext(name, "cache or rows", lost, family=family, whole=True)


def shared_prefix_length(prompt: Sequence[int], earlier: Iterable[Sequence[int]]) -> int:
    """Return how many first tokens of a prompt an earlier text, prompt and answer, begins with.

    All but the last at most: that one is read again, as something must be.
    """
    longest = 0
    for text in earlier:
        same = 0
        while same < min(len(prompt) - 1, len(text)) and prompt[same] == text[same]:
            same += 1
        longest = max(longest, same)
    return longest


def _cache_contexts(
    prompt: tuple[int, ...], tokens: tuple[int, ...], at: int, shared: int
) -> Iterator[WrongContext]:
    """Yield what is read where the beginning is from a cache that is a token short, or long."""
    if not 0 < shared < len(prompt):
        return
    c = (*prompt, *tokens[:at])
    last, after = "the last token of a beginning", "the first token after a beginning"
    yield _missing_context(f"{last} that an earlier request has", c, shared - 1, whole=True)
    yield _missing_context(f"{after} that an earlier request has", c, shared, whole=True)
    yield _doubled_context(f"{last} that an earlier request has", c, shared - 1, whole=True)


def _shifted_contexts(prompt: tuple[int, ...], out: tuple[int, ...]) -> Iterator[WrongContext]:
    """Yield the right tokens at other positions, as an engine that counts rejected drafts has them.

    To rotary embeddings a shift of all tokens alike is none; to learned ones it is.
    """
    c = (*prompt, *out)
    name = "all positions are counted from 1"
    yield WrongContext(name, "cache or rows", c, _shifted_positions(c, 0, 1), whole=True)
    if out:
        name = "the answer's positions are counted from 0"
        again = (*range(len(prompt)), *range(len(out)))
        yield WrongContext(name, "cache or rows", c, again, whole=True)
    places = {
        len(c) - k: _last_token_words(k) for k in range(1, min(_MAX_SHIFTED_TOKENS, len(c) - 1) + 1)
    }
    if out:
        places[len(prompt)] = "the answer's tokens stand"
    for place, words in places.items():
        for shift in _POSITION_SHIFTS:
            if place + shift < 0:
                continue
            side = "far on" if shift > 0 else "far back"
            by = "a position" if abs(shift) == 1 else f"{shift} positions"
            shifted = _shifted_positions(c, place, shift)
            name, whole = f"{words} {by} too {side}", place == len(prompt)
            yield WrongContext(name, "cache or rows", c, shifted, whole=whole)


def _last_token_words(k: int) -> str:
    return "the last token stands" if k == 1 else f"the last {k} tokens stand"


def _shifted_positions(c: Sequence[int], begin: int, shift: int) -> tuple[int, ...]:
    return tuple(i + shift * (i >= begin) for i in range(len(c)))


def _template_contexts(
    prompt: tuple[int, ...], out: tuple[int, ...], pair: TransformerPair
) -> Iterator[WrongContext]:
    tokenizer = pair.tokenizer
    start = tokenizer.bos_token_id
    if start is not None:
        if prompt[0] == start:
            yield WrongContext(
                "the prompt without its BOS", "template", (*prompt[1:], *out), whole=True
            )
            yield WrongContext(
                "the prompt with a second BOS", "template", (start, *prompt, *out), whole=True
            )
        else:
            yield WrongContext(
                "the prompt with a BOS", "template", (start, *prompt, *out), whole=True
            )
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
            yield WrongContext(name, "template", (*pair.encode(other), *out), whole=True)
    if tokenizer.chat_template:
        messages = [{"role": "user", "content": text}]
        for more in (True, False):
            name = f"the prompt in the chat template{'' if more else ', without its turn'}"
            ids = tokenizer.apply_chat_template(
                messages, add_generation_prompt=more, tokenize=True, return_dict=False
            )
            yield WrongContext(name, "template", (*map(int, ids), *out), whole=True)


def _row_words(k: int) -> str:
    return "the row before" if k == 1 else f"the row {k} before"


def _missing_context(
    words: str, c: tuple[int, ...], place: int, *, whole: bool = False
) -> WrongContext:
    lost = (*c[:place], *c[place + 1 :])
    return WrongContext(f"{words} is missing", "cache or rows", lost, whole=whole)


def _doubled_context(
    words: str, c: tuple[int, ...], place: int, *, whole: bool = False
) -> WrongContext:
    more = (*c[: place + 1], *c[place:])
    return WrongContext(f"{words} is doubled", "cache or rows", more, whole=whole)


# The distance of each emitted token from the target's own choice, and what rounding does to it.
#
# A greedy token is the largest logit of its row. Rows are computed again by teacher forcing: among
# other requests, alone, token after token as decoding does it, and in another precision. How far
# these differ is what dtype and batch shape explain.


MAX_BATCH = 16  # Texts scored together at most
STEPWISE_TOKENS = 512  # First tokens that are scored one after the other, which takes a call each
ROUNDING_FACTOR = 2.0  # How many times what rounding moved here an engine's own may come to
_MAX_BATCH_LOGITS = 1 << 26  # Logits of a batch at most, 256 MB, one text excepted
Logits = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class AnswerPath:
    """An answer's tokens beside the target's choices, each after the answer's own tokens.

    ``top``, ``second``: int64 (n,), the two largest logits of each row; ``lead``: float64 (n,), by
    how much the first is ahead. ``gap``: float64 (n,), by how much the emitted token is behind the
    largest logit, in that scoring in which it is least; 0: it is the target's choice. ``moved``:
    float64 (n,), by how much the scorings differ in how far the largest logit is ahead, of the
    second or of the emitted one. ``rank``: int64 (n,), tokens ahead of the emitted one.
    """

    top: Ints
    second: Ints
    lead: Floats
    gap: Floats
    moved: Floats
    rank: Ints

    def off(self, radius: float) -> Ints:
        """Return the places of tokens that are no choice of the target's within ``radius``."""
        return np.flatnonzero(self.gap > radius)


def score_requests(
    requests: Sequence[Request],
    pair: TransformerPair,
    other: TransformerPair | None = None,
) -> list[AnswerPath]:
    """Score each request; ``other`` is the target in another precision, None for none."""
    steps = _stepwise_logits(limit_tokens(requests, STEPWISE_TOKENS), pair)
    paths: list[AnswerPath] = []
    for together in text_batches([_full_text(request) for request in requests]):
        batch = [requests[i] for i in together]
        for i, request, base in zip(
            together, batch, teacher_forced_logits(pair, batch), strict=True
        ):
            views = [teacher_forced_logits(pair, [request])[0]]
            if other is not None:
                views.append(teacher_forced_logits(other, [request])[0])
            if i < len(steps):
                views.append(steps[i])
            paths.append(_answer_path(np.array(request.tokens), base, views))
    return paths


def teacher_forced_logits(pair: TransformerPair, requests: Sequence[Request]) -> list[Logits]:
    """Logits before each emitted token, float32 (n, V) for each request, scored in one batch."""
    fed = [_full_text(request) for request in requests]
    rows = pair.cached(pair.target_model, len(fed)).feed(fed)
    return [own[-len(r.tokens) :] for own, r in zip(rows, requests, strict=True)]


def text_batches(
    texts: Sequence[Sequence[int]], rows: int = MAX_BATCH, size: int = 0
) -> Iterator[range]:
    """Yield ranges of ``texts`` that are computed together: ``rows`` at most, and as memory has.

    ``size``: tokens of the vocabulary; 0 for no limit by it.
    """
    start, longest = 0, 0
    for i, text in enumerate(texts):
        longest = max(longest, len(text))
        if i > start and (
            i - start == rows or longest * (i - start + 1) * size > _MAX_BATCH_LOGITS
        ):
            yield range(start, i)
            start, longest = i, len(text)
    if len(texts) > start:
        yield range(start, len(texts))


def _full_text(request: Request) -> tuple[int, ...]:
    return (*request.prompt, *request.tokens[:-1])


def _stepwise_logits(requests: Sequence[Request], pair: TransformerPair) -> list[Logits]:
    """Logits as :func:`teacher_forced_logits`, one token a call, as without drafts."""
    logits: list[Logits] = []
    for together in text_batches([r.prompt for r in requests]):
        batch = [requests[i] for i in together]
        model = pair.cached(pair.target_model, len(batch))
        rows = [[last[-1]] for last in model.feed([request.prompt for request in batch])]
        for step in range(max(len(request.tokens) for request in batch) - 1):
            # A request that has ended is fed its last token again, which nobody reads.
            fed = [[request.tokens[min(step, len(request.tokens) - 1)]] for request in batch]
            for steps, last in zip(rows, model.feed(fed), strict=True):
                steps.append(last[-1])
        logits += [np.stack(kept[: len(r.tokens)]) for kept, r in zip(rows, batch, strict=True)]
    return logits


def _answer_path(tokens: Ints, base: Logits, views: Sequence[Logits]) -> AnswerPath:
    n = np.arange(len(tokens))
    x = base.astype(np.float64)
    if not np.isfinite(x.max(axis=1)).all():
        raise SimverifyError(
            "the target's logits hold NaN or infinity: nothing can be judged by it"
        )
    top = x.argmax(axis=1)
    rest = x.copy()
    rest[n, top] = -np.inf
    second = rest.argmax(axis=1)
    behind = np.stack([second, tokens], axis=1)
    gap, shift = x[n, top] - x[n, tokens], np.zeros(len(tokens))
    for view in views:
        k = len(view)  # the last request of those scored step by step may be cut
        other = view.astype(np.float64)
        off = other - x[:k]
        apart = off[n[:k], top[:k]][:, None] - np.take_along_axis(off, behind[:k], axis=1)
        shift[:k] = np.maximum(shift[:k], np.abs(apart).max(axis=1))
        gap[:k] = np.minimum(gap[:k], other.max(axis=1) - other[n[:k], tokens[:k]])
    rank = (x > x[n, tokens][:, None]).sum(axis=1)
    return AnswerPath(top, second, x[n, top] - x[n, second], gap, shift, rank)


# The target's argmax after every token of a text, whose tokens may have other positions.


@dataclass(frozen=True)
class PositionedText:
    """A text's ``tokens``, and ``positions`` where they are not 0, 1, 2 and so on."""

    tokens: tuple[int, ...]
    positions: tuple[int, ...] | None = None

    @classmethod
    def of(cls, tokens: tuple[int, ...], positions: tuple[int, ...] | None) -> "PositionedText":
        """Return a text whose last tokens, if there are more than positions, go on from there."""
        if positions is None:
            return cls(tokens)
        more = range(positions[-1] + 1, positions[-1] + 1 + len(tokens) - len(positions))
        return cls(tokens, (*positions, *more))


def supports_positions(pair: TransformerPair) -> bool:
    """Return whether the target is told where its tokens stand; a state counts for itself."""
    return "position_ids" in inspect.signature(type(pair.target_model).forward).parameters


def target_argmax(
    texts: Sequence[PositionedText], pair: TransformerPair
) -> dict[PositionedText, tuple[Ints, Floats]]:
    """Return the target's choice after every token of each text, int64 (n,).

    Beside it by how much the text's next token is behind the choice, float64 (n,) in logits; 0
    after the last, which has none.
    """
    results: dict[PositionedText, tuple[Ints, Floats]] = {}
    plain = sorted((t for t in texts if t.positions is None), key=lambda text: len(text.tokens))
    tokens = [text.tokens for text in plain]
    for together in text_batches(tokens, MAX_BATCH, pair.vocab_size):
        model = pair.cached(pair.target_model, len(together))
        for i, rows in zip(together, model.feed([tokens[j] for j in together]), strict=True):
            results[plain[i]] = _argmax_and_gaps(rows, plain[i])
    placed = sorted((t for t in texts if t.positions is not None), key=lambda t: len(t.tokens))
    for together in text_batches([text.tokens for text in placed], MAX_BATCH, pair.vocab_size):
        group = [placed[i] for i in together]
        results |= dict(zip(group, _positioned_argmax(group, pair), strict=True))
    return results


def _argmax_and_gaps(rows: npt.NDArray[np.float32], text: PositionedText) -> tuple[Ints, Floats]:
    behind = np.zeros(len(rows))
    each = np.arange(len(rows) - 1)
    behind[:-1] = rows[:-1].max(axis=1) - rows[each, list(text.tokens[1:])]
    return rows.argmax(axis=1), behind


def _positioned_argmax(
    texts: Sequence[PositionedText], pair: TransformerPair
) -> list[tuple[Ints, Floats]]:
    """Choices after texts with positions of their own, filled up on the right to one length."""
    import torch

    width = max(len(text.tokens) for text in texts)
    ids = torch.zeros((len(texts), width), dtype=torch.long)
    positions, there = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, text in enumerate(texts):
        n = len(text.tokens)
        ids[row, :n] = torch.as_tensor(text.tokens)
        positions[row, :n] = torch.as_tensor(text.positions)
        there[row, :n] = 1
    device = pair.target_model.device
    with torch.no_grad():
        logits = pair.target_model(
            ids.to(device),
            attention_mask=there.to(device),
            position_ids=positions.to(device),
            use_cache=False,
        ).logits
    rows = logits.float().cpu().numpy()
    return [
        _argmax_and_gaps(own[: len(text.tokens)], text)
        for own, text in zip(rows, texts, strict=True)
    ]


# Two logs of greedy answers: what each line holds, and which lines match.


Side = Literal["a", "b"]

_GREEDY_STAGES = frozenset({"temperature", *TRUNCATION_STAGES})
"""Stages that leave the largest logit where it is."""


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

    Of an answer as it came each choice is one of its own.

    ``pair`` has temperature 0.

    Raises
    ------
    UsageError
        As :func:`read_requests`; or if a line was asked at another temperature, or its calls do not
        add up to its tokens.
    """
    answers = [
        _parse_answer(own, at, number, pair)
        for number, (where, value) in enumerate(read_objects(path, "triage"), 1)
        for at, own in expand_choices(value, where, pair)
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
    if request.law is not None and (more := request.law.acting - _GREEDY_STAGES):
        raise UsageError(
            f"{where} was asked with {sorted(more)[0]}: the target's choice is its largest logit "
            f"here, with nothing added or banned: ask both without it"
        )
    name, stop = value.get("id"), value.get("stop_reason", value.get("matched_stop"))
    calls = value.get("calls")
    if calls is not None:
        whole = isinstance(calls, list) and all(type(n) is int and n > 0 for n in calls)
        # A token that was put back, because the engine said that it stopped, is of the last call.
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


def match_answers(a: Sequence[LoggedAnswer], b: Sequence[LoggedAnswer]) -> MatchedAnswers:
    """Bring together what answers the same request.

    By ``id`` where every line of both has one of its own; else the k-th answer to a prompt with the
    k-th to the same prompt, and what is left over in its order: prompts that differ are a finding.
    """
    if _have_unique_names(a) and _have_unique_names(b):
        return _match_by_key(a, b, [x.name for x in a], [x.name for x in b], in_order=False)
    return _match_by_key(a, b, _numbered_prompts(a), _numbered_prompts(b), in_order=True)


def _have_unique_names(answers: Sequence[LoggedAnswer]) -> bool:
    names = {answer.name for answer in answers}
    return None not in names and len(names) == len(answers)


def _numbered_prompts(answers: Sequence[LoggedAnswer]) -> list[tuple[tuple[int, ...], int]]:
    seen: dict[tuple[int, ...], int] = defaultdict(int)
    keys = []
    for answer in answers:
        prompt = answer.request.prompt
        keys.append((prompt, seen[prompt]))
        seen[prompt] += 1
    return keys


def _match_by_key(
    a: Sequence[LoggedAnswer],
    b: Sequence[LoggedAnswer],
    keys_a: Sequence[Hashable],
    keys_b: Sequence[Hashable],
    *,
    in_order: bool,
) -> MatchedAnswers:
    other = dict(zip(keys_b, b, strict=True))
    both = [(x, other.pop(key)) for x, key in zip(a, keys_a, strict=True) if key in other]
    taken = {x.line for x, _ in both}
    left_a, left_b = [x for x in a if x.line not in taken], list(other.values())
    if in_order:
        rest = list(zip(left_a, left_b, strict=False))
        both = sorted(both + rest, key=lambda entry: entry[0].line)
        left_a, left_b = left_a[len(rest) :], left_b[len(rest) :]
    return MatchedAnswers(tuple(both), len(left_a), len(left_b))


# Explanations that fit an off token: by it alone, by all that follow, by the whole answer.
#
# An explanation that stays, as a prompt that was read otherwise does, has to give every token of
# the answer, and those that it leaves as they are too: the more of them it would have changed, the
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
        """Return how much of a prompt one of the answers before has, in the order of the log."""
        texts = ((*own.request.prompt, *own.request.tokens) for own in self.answers[:number])
        return shared_prefix_length(self.answers[number].request.prompt, texts)


@dataclass(frozen=True, eq=False)
class OffToken:
    """A token: of which log and answer, where, and what is to be explained there.

    ``shared``: tokens of the prompt that may have come from another request's cache.
    """

    log: GreedyLog
    number: int
    at: int
    token: int
    shared: int

    @property
    def prompt(self) -> tuple[int, ...]:
        """The tokens of the prompt."""
        return self.log.answers[self.number].request.prompt

    @property
    def tokens(self) -> tuple[int, ...]:
        """The answer's tokens."""
        return self.log.answers[self.number].request.tokens

    @property
    def path(self) -> AnswerPath:
        """The answer beside the target's choices."""
        return self.log.paths[self.number]

    @property
    def text(self) -> tuple[int, ...]:
        """All tokens before the one that is to be explained."""
        return (*self.prompt, *self.tokens[: self.at])


@dataclass(frozen=True)
class ExplanationFit:
    """Whether an explanation gives a token: alone, with what follows, with the whole answer.

    ``reaches``: for each of ``REACH_WORDS``, None where that is no explanation: a prompt that was
    read otherwise is not for one token alone, and what is lost behind it touches nothing before.
    """

    kind: TriageClass
    reaches: tuple[bool | None, ...]

    def joined(self, other: "ExplanationFit | None") -> "ExplanationFit":
        """Return the fit of one of both."""
        if other is None:
            return self
        both = zip(self.reaches, other.reaches, strict=True)
        return ExplanationFit(self.kind, tuple(None if a is None else a or b for a, b in both))


def explanation_fits(
    spots: Sequence[OffToken], pair: TransformerPair, radius: float, wanted: set[str] | None = None
) -> list[dict[str, ExplanationFit]]:
    """Return for each spot the explanations, of those ``wanted``, and whether they fit."""
    jobs: list[tuple[int, WrongContext, PositionedText]] = []
    results: list[dict[str, ExplanationFit]] = []
    placed = supports_positions(pair)
    for i, spot in enumerate(spots):
        results.append(_wanted_fits(_model_free_fits(spot), wanted))
        drafts = None if spot.log.drafts is None else spot.log.drafts[spot.number].tolist()
        made = wrong_contexts(
            spot.prompt,
            spot.tokens,
            spot.at,
            int(spot.path.top[spot.at]),
            drafts,
            pair,
            spot.shared,
        )
        for context in made:
            if context.positions is not None and not placed:
                continue
            whole = (*context.tokens, *spot.tokens[spot.at :])
            if len(whole) <= pair.context and (wanted is None or context_family(context) in wanted):
                jobs.append((i, context, PositionedText.of(whole, context.positions)))
    given = target_argmax(list(dict.fromkeys(text for *_, text in jobs)), pair)
    for i, context, text in jobs:
        fit = _context_fit(spots[i], context, *given[text], radius)
        results[i][context_family(context)] = fit.joined(results[i].get(context_family(context)))
    return results


def context_family(context: WrongContext) -> str:
    """Return the name by which a context is counted: its family's, if it has one."""
    return context.family or context.name


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


def _model_free_fits(spot: OffToken) -> dict[str, ExplanationFit]:
    """Explanations that take no model: other requests' rows at the same place, and the draft."""
    explanations = {}
    paths = spot.log.paths
    for k in range(-_MAX_NEIGHBOUR_DISTANCE, _MAX_NEIGHBOUR_DISTANCE + 1):
        other = spot.number + k
        if k and 0 <= other < len(paths) and spot.at < len(paths[other].top):
            side = "before" if k < 0 else "after"
            far = "" if abs(k) == 1 else f"{abs(k)} "
            hit = int(paths[other].top[spot.at]) == spot.token
            explanations[f"the row of the request {far}{side}"] = ExplanationFit(
                "cache or rows", (hit,)
            )
    if spot.log.drafts is not None:
        hit = int(spot.log.drafts[spot.number][spot.at]) == spot.token
        explanations[DRAFT_TOKEN_ACCEPTED] = ExplanationFit("verifier", (hit,))
    return explanations


def _wanted_fits(
    own: Mapping[str, ExplanationFit], wanted: set[str] | None
) -> dict[str, ExplanationFit]:
    return {name: fit for name, fit in own.items() if wanted is None or name in wanted}


# Causes: fits are compared with fits by chance.
#
# Some explanations fit by chance, as a context that is nearly the right one often makes the
# runner-up the choice. How often is measured at other places, where nothing is off, the runner-up
# is as near, and the same explanation is asked for the runner-up.


MAX_EXAMINED = 16
"""Off tokens on which explanations are tried; those that are taken are tried on all."""

CAUSE_LEVEL = 0.01
"""An explanation is taken if one fits so often by chance with this probability at most."""

COMMON_CAUSE_SHARE = 0.5
"""Share of the off tokens that a common cause fits; where none fits so many, there is none."""

_SHARE_SMOOTHING, _SIMILARITY_WIDTH = 0.05, 0.5
"""A share of explanations that is taken as none, and by which factor, to e, others are unlike."""

_TOTAL_CONTROLS = 48
_CONTROLS_PER_SPOT = (4, 24)
"""Controls of all off tokens together, and of each at least and at most."""


@dataclass(frozen=True)
class ExplanationResult:
    """What came of it.

    ``causes``: what was tried and fits anywhere; ``taken``: by index of the spot, the cause;
    ``tried``: explanations in all; ``open``: an explanation that would fit most of the others, but
    not beyond chance; None where none does.
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

    def of(self, own: Mapping[str, ExplanationFit]) -> bool:
        """Whether it fits, by the fits of a spot."""
        fit = own.get(self.name)
        return fit is not None and fit.reaches[self.reach : self.reach + 1] == (True,)


def explain_spots(
    spots: Sequence[OffToken], logs: Sequence[GreedyLog], pair: TransformerPair, radius: float
) -> ExplanationResult:
    """Try every explanation on the first spots, hold it against chance, take what is beyond it.

    What is off by the same token after the same text is counted once.
    """
    if not spots:
        return ExplanationResult((), {}, 0)
    alike: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for i, spot in enumerate(spots):
        alike.setdefault((spot.text, spot.token), []).append(i)
    numbers = list(alike.values())
    first = [spots[same[0]] for same in numbers[:MAX_EXAMINED]]
    spot_fits = explanation_fits(first, pair, radius)
    hypotheses = _hypotheses(spot_fits)
    fitting = [one for one in hypotheses if any(one.of(fit) for fit in spot_fits)]
    names = {one.name for one in hypotheses}
    if not fitting:
        return ExplanationResult((), {}, len(names))
    controls = _control_spots(first, logs, radius)
    among = explanation_fits([spot for each in controls for spot in each], pair, radius, names)
    groups = _fit_groups(spot_fits, among, [len(each) for each in controls], hypotheses)
    alike_by = [_group_similarity(group) for group in groups]
    taken: dict[int, TriageCause] = {}
    candidates: dict[str, TriageCause] = {}
    accepted: dict[Hypothesis, TriageCause] = {}
    causes: dict[Hypothesis, TriageCause] = {}
    while rest := [i for i in range(len(first)) if i not in taken]:
        worth = stats.matched_fits([groups[i] for i in rest], [alike_by[i] for i in rest])
        causes = {
            one: _cause_entry(one, j, [spot_fits[i] for i in rest], worth)
            for j, one in enumerate(hypotheses)
            if worth.fits[j]
        }
        for one, cause in causes.items():
            candidates.setdefault(one.words, cause)
        good = [one for one in causes if causes[one].chance <= CAUSE_LEVEL]
        if not good:
            break
        best = min(good, key=lambda one: (worth.tails[hypotheses.index(one)], -one.reach))
        where = {i for i in rest if best.of(spot_fits[i])}
        others = [one for one in good if {i for i in rest if one.of(spot_fits[i])} == where]
        candidates[best.words] = accepted[best] = _accept_cause(best, causes[best], others)
        taken |= dict.fromkeys(where, accepted[best])
    ordered = sorted(
        candidates.values(), key=lambda cause: (not cause.taken, cause.chance, -cause.fits)
    )
    result = {i: cause for place, cause in taken.items() for i in numbers[place]}
    if accepted and len(numbers) > len(first):
        later = numbers[MAX_EXAMINED:]
        more = explanation_fits(
            [spots[same[0]] for same in later], pair, radius, {one.name for one in accepted}
        )
        for same, fit in zip(later, more, strict=True):
            matches = [accepted[one] for one in accepted if one.of(fit)]
            if matches:
                result |= dict.fromkeys(same, max(matches, key=lambda cause: cause.fits))
    return ExplanationResult(tuple(ordered), result, len(names), _open_cause(causes, rest))


def _hypotheses(own: Sequence[Mapping[str, ExplanationFit]]) -> list[Hypothesis]:
    kinds: dict[tuple[str, int], TriageClass] = {}
    for fit in own:
        for name, one in fit.items():
            for reach, hit in enumerate(one.reaches):
                if hit is not None:
                    kinds.setdefault((name, reach), one.kind)
    return [Hypothesis(name, kind, reach) for (name, reach), kind in kinds.items()]


def _fit_groups(
    own: Sequence[Mapping[str, ExplanationFit]],
    among: Sequence[Mapping[str, ExplanationFit]],
    sizes: Sequence[int],
    tried: Sequence[Hypothesis],
) -> list[npt.NDArray[np.bool_]]:
    """Return for each spot which hypotheses fit it, and each of its controls: bool (1 + k, H)."""
    ends = np.cumsum([0, *sizes])
    return [
        np.array([[one.of(fit) for one in tried] for fit in (spot, *among[start:end])])
        for spot, start, end in zip(own, ends[:-1], ends[1:], strict=True)
    ]


def _group_similarity(group: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """How like the spot each of its group is, by the share of all explanations that fit it.

    A token that half of them would give is one that hangs by a thread, whatever its lead says.
    """
    share = (group.sum(axis=1) + _SHARE_SMOOTHING * group.shape[1]) / group.shape[1]
    likeness: npt.NDArray[np.float64] = np.exp(
        -np.abs(np.log(share / share[0])) / _SIMILARITY_WIDTH
    )
    return likeness


def _control_spots(
    spots: Sequence[OffToken], logs: Sequence[GreedyLog], radius: float
) -> list[list[OffToken]]:
    """Return for each spot places of the target's own choices whose runner-up is as near.

    They lie about as far in an answer, as what is lost in a prompt is felt less and less, none has
    less of it before it than what explanations ask for, and none the same text.
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
        late.sort(key=lambda one: _control_distance(spot, one))
        taken = late[:each]
        free = [one for one in free if one not in taken]
        controls.append(
            [
                OffToken(
                    one.log,
                    one.number,
                    one.at,
                    one.token,
                    one.log.shared(one.number) or min(spot.shared, len(one.prompt) - 1),
                )
                for one in taken
            ]
        )
    return controls


def _control_distance(spot: OffToken, other: OffToken) -> float:
    """How unlike a control is: by the ratio of how near the tokens are, and of how far in."""
    near = float(spot.path.gap[spot.at]) / float(other.path.lead[other.at])
    return abs(math.log(near)) + abs(math.log((spot.at + 1) / (other.at + 1)))


def _cause_entry(
    one: Hypothesis,
    number: int,
    own: Sequence[Mapping[str, ExplanationFit]],
    worth: stats.MatchedFits,
) -> TriageCause:
    attempts = [fit[one.name] for fit in own if one.name in fit]
    return TriageCause(
        name=one.words,
        kind=one.kind,
        places=len(attempts),
        fits=int(worth.fits[number]),
        by_chance=float(worth.by_chance[number]),
        chance=float(worth.chance[number]),
        taken=False,
    )


def _accept_cause(best: Hypothesis, cause: TriageCause, alike: Sequence[Hypothesis]) -> TriageCause:
    """Return the cause as taken, with another that fits the same places as well."""
    others = sorted((one.kind == best.kind, one.name) for one in alike if one.name != best.name)
    also = f", or: {others[0][1]}" if others else ""
    return TriageCause(
        name=f"{cause.name}{also}",
        kind=cause.kind,
        places=cause.places,
        fits=cause.fits,
        by_chance=cause.by_chance,
        chance=cause.chance,
        taken=True,
    )


def _open_cause(
    causes: Mapping[Hypothesis, TriageCause], rest: Sequence[int]
) -> TriageCause | None:
    """Return the likeliest of the explanations that fit most of what is left, None for none.

    ``causes``: as they are of the places ``rest``, which no cause was found for.
    """
    likely = [
        cause
        for one, cause in causes.items()
        if rest and one.kind != "verifier" and cause.fits > COMMON_CAUSE_SHARE * len(rest)
    ]
    return min(likely, key=lambda cause: (cause.chance, -cause.fits), default=None)


# The outcome of a request: same, near enough for rounding, ended early, or off, and where.


@dataclass(frozen=True)
class RequestOutcome:
    """A request's class and why; ``None`` as ``kind`` for a token that is off, to be explained.

    ``fault``: whether it fails the run, None where nobody can tell. ``parted``: index of the first
    token that differs; ``at``, ``side``: of the token that is told.
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
    if a.prompt != b.prompt and a.tokens != b.tokens:
        return RequestOutcome(
            number, "template", True, _prompt_words(a.prompt, b.prompt), parted, common
        )
    off = _first_off_token(both, paths, radius, common)
    if off is not None:
        at, side = off
        which = 1 if side == "b" else 0
        token, expected = both[which].request.tokens[at], int(paths[which].top[at])
        if token in eos or expected in eos:
            put_back = token in eos and both[which].request.restored
            return RequestOutcome(
                number, "early stop", True, _end_words(token in eos, put_back), parted, at, side
            )
        if a.from_text or b.from_text:
            why = "its tokens are known by their text alone, which may be of others"
            return RequestOutcome(number, "text", None, why, parted, at, side)
        return RequestOutcome(number, None, None if side == "both" else True, "", parted, at, side)
    if parted is not None:
        return RequestOutcome(
            number,
            "numerics",
            False,
            "both tokens are the target's, within rounding",
            parted,
            parted,
        )
    if len(a.tokens) == len(b.tokens) or _differ_by_end_token(both, common, eos):
        return RequestOutcome(number, "same", False, "")
    fault, why = _shorter_answer(both, eos)
    return RequestOutcome(number, "early stop", fault, why, None, common)


def common_prefix_length(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many first tokens are the same."""
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def _first_off_token(
    both: tuple[LoggedAnswer, LoggedAnswer],
    paths: tuple[AnswerPath, AnswerPath],
    radius: float,
    common: int,
) -> tuple[int, TriageSide] | None:
    """Return the first token that is no choice of the target's, and whose it is.

    Where both are off at the same place with tokens of their own, it is the one further behind.
    """
    places = [own.off(radius) for own in paths]
    if ended_equally(both):
        last = len(both[0].request.tokens) - 1
        places = [own[own < last] for own in places]
    first = [int(own[0]) if len(own) else None for own in places]
    at = min((place for place in first if place is not None), default=None)
    if at is None:
        return None
    if at < common and both[0].request.prompt == both[1].request.prompt:
        return at, "both"
    if first[0] == first[1]:
        return at, "a" if paths[0].gap[at] >= paths[1].gap[at] else "b"
    return at, "a" if first[0] == at else "b"


def ended_equally(both: tuple[LoggedAnswer, LoggedAnswer]) -> bool:
    """Whether both say that they stopped after the same tokens, and none shows what stopped it.

    The end of sequence that was put back may be none of the target's, where both were asked to stop
    at a string: that parts nobody.
    """
    a, b = (answer.request for answer in both)
    return a.restored and b.restored and a.tokens == b.tokens


def _prompt_words(a: Sequence[int], b: Sequence[int]) -> str:
    k = common_prefix_length(a, b)
    return f"the prompts differ: {len(a):,} and {len(b):,} tokens, alike up to token {k:,}"


def _end_words(ended: bool, put_back: bool) -> str:
    if not ended:
        return "goes on where the target ends: its end of sequence is ignored or unknown there"
    if put_back:
        return "says that it stopped where the target goes on: a stop string, or another end token"
    return "ends where the target goes on"


def _differ_by_end_token(
    both: tuple[LoggedAnswer, LoggedAnswer], common: int, eos: frozenset[int]
) -> bool:
    """Whether one log only drops the token that ended both."""
    short, long = sorted(both, key=lambda answer: len(answer.request.tokens))
    rest = long.request.tokens[common:]
    return short.reason is None and len(rest) == 1 and rest[0] in eos


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
