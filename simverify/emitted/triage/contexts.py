"""Other contexts that an off token may have been chosen after: what goes wrong in caches and rows.

Each is what an engine would have read if a token had been missing, or a row been another's. That
the target's choice after it is the emitted token is a fit; how often that happens by chance, and
so what a fit is worth, is for ``causes``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from simverify.models.real.transformer import TransformerPair
from simverify.results import TriageClass

BACK = 8
"""How far from the end a token is tried as missing, doubled or replaced."""

_PLACES = 16
"""Tokens at either end of a prompt, each of which is tried as missing."""

_ROWS = 3
_SHIFTED = 4
"""Last tokens at most whose positions are tried as shifted, beside those of the whole answer."""

_SHIFTS = (-1, 1, 2, 3)
"""By how many places: one too few, or as many too many as drafts may have been rejected."""

_WINDOWS = tuple(1 << k for k in range(4, 20))


@dataclass(frozen=True)
class Context:
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


def contexts(
    prompt: Sequence[int], tokens: Sequence[int], at: int, choice: int,
    drafts: Sequence[int] | None, pair: TransformerPair, shared: int = 0,
) -> list[Context]:  # fmt: skip
    """Return the contexts that are tried for the token at ``at``; two names may have the same.

    ``choice``: the target's there. ``drafts``: the draft's choice at each place, None for none.
    ``shared``: first tokens of the prompt that may have come from another request's cache.
    """
    right = (*prompt, *tokens[:at])
    found: dict[str, Context] = {}
    texts = tuple(prompt), tuple(tokens)
    for made in (*_all(*texts, at, choice, drafts, pair), *_cached(*texts, at, shared)):
        if made.tokens and (made.tokens != right or made.positions is not None):
            found.setdefault(made.name, made)
    return list(found.values())


def _all(
    prompt: tuple[int, ...], tokens: tuple[int, ...], at: int, choice: int,
    drafts: Sequence[int] | None, pair: TransformerPair,
) -> Iterator[Context]:  # fmt: skip
    c, out = (*prompt, *tokens[:at]), tokens[:at]
    yield from _templates(prompt, out, pair)
    for k in range(1, _ROWS + 1):
        yield Context(_rows(k), "cache or rows", c[:-k])
    yield Context("the row after: a token is skipped", "cache or rows", (*c, choice))
    if drafts is not None and drafts[at] != choice:
        name = "the row after the rejected draft"
        yield Context(name, "cache or rows", (*c, int(drafts[at])))
    if out:
        yield _missing("the prompt's last token", c, len(prompt) - 1, whole=True)
        yield _doubled("the prompt's last token", c, len(prompt) - 1, whole=True)
        yield _missing("the first emitted token", c, len(prompt))
        yield _doubled("the first emitted token", c, len(prompt))
        yield Context("the prompt is forgotten", "cache or rows", out, whole=True)
    for k in range(1, min(BACK, len(c) - 1) + 1):
        place = len(c) - k
        if k > 1:
            yield _missing(f"the token {k} from the end", c, place)
        yield _doubled(f"the token {k} from the end", c, place)
        if drafts is not None and k <= at:
            d = int(drafts[at - k])
            if d != c[place]:
                words = f"a rejected draft, {k} from the end,"
                in_place, beside = (*c[:place], d, *c[place + 1 :]), (*c[:place], d, *c[place:])
                yield Context(f"{words} stands in the cache", "cache or rows", in_place)
                yield Context(f"{words} was left in the cache", "cache or rows", beside)
    yield from _lost(prompt, out)
    for window in _WINDOWS:
        if window < len(c):
            name = f"all but the last {window} tokens are forgotten"
            yield Context(name, "cache or rows", c[-window:])
    yield from _shifted(prompt, out)


def _lost(prompt: tuple[int, ...], out: tuple[int, ...]) -> Iterator[Context]:
    """Yield the texts that lack a token of the prompt: the first, and one of any place.

    Of a prompt that is longer than twice ``_PLACES``, places in its middle are left out.
    """
    c = (*prompt, *out)
    yield Context("the first token is forgotten", "cache or rows", c[1:], whole=True)
    n = len(prompt)
    for place in dict.fromkeys((*range(min(_PLACES, n)), *range(max(n - _PLACES, 0), n))):
        name, family = (
            f"the prompt's token {place + 1} is missing",
            "a token of the prompt is missing",
        )
        lost = (*c[:place], *c[place + 1 :])
        yield Context(name, "cache or rows", lost, family=family, whole=True)


def shared_beginning(prompt: Sequence[int], earlier: Iterable[Sequence[int]]) -> int:
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


def _cached(
    prompt: tuple[int, ...], tokens: tuple[int, ...], at: int, shared: int
) -> Iterator[Context]:
    """Yield what is read where the beginning is from a cache that is a token short, or long."""
    if not 0 < shared < len(prompt):
        return
    c = (*prompt, *tokens[:at])
    last, after = "the last token of a beginning", "the first token after a beginning"
    yield _missing(f"{last} that an earlier request has", c, shared - 1, whole=True)
    yield _missing(f"{after} that an earlier request has", c, shared, whole=True)
    yield _doubled(f"{last} that an earlier request has", c, shared - 1, whole=True)


def _shifted(prompt: tuple[int, ...], out: tuple[int, ...]) -> Iterator[Context]:
    """Yield the right tokens at other positions, as an engine that counts rejected drafts has them.

    To rotary embeddings a shift of all tokens alike is none; to learned ones it is.
    """
    c = (*prompt, *out)
    name = "all positions are counted from 1"
    yield Context(name, "cache or rows", c, _places(c, 0, 1), whole=True)
    if out:
        name = "the answer's positions are counted from 0"
        again = (*range(len(prompt)), *range(len(out)))
        yield Context(name, "cache or rows", c, again, whole=True)
    places = {len(c) - k: _last(k) for k in range(1, min(_SHIFTED, len(c) - 1) + 1)}
    if out:
        places[len(prompt)] = "the answer's tokens stand"
    for place, words in places.items():
        for shift in _SHIFTS:
            if place + shift < 0:
                continue
            side = "far on" if shift > 0 else "far back"
            by = "a position" if abs(shift) == 1 else f"{shift} positions"
            shifted = _places(c, place, shift)
            name, whole = f"{words} {by} too {side}", place == len(prompt)
            yield Context(name, "cache or rows", c, shifted, whole=whole)


def _last(k: int) -> str:
    return "the last token stands" if k == 1 else f"the last {k} tokens stand"


def _places(c: Sequence[int], begin: int, shift: int) -> tuple[int, ...]:
    return tuple(i + shift * (i >= begin) for i in range(len(c)))


def _templates(
    prompt: tuple[int, ...], out: tuple[int, ...], pair: TransformerPair
) -> Iterator[Context]:
    tokenizer = pair.tokenizer
    start = tokenizer.bos_token_id
    if start is not None:
        if prompt[0] == start:
            yield Context("the prompt without its BOS", "template", (*prompt[1:], *out), whole=True)
            yield Context(
                "the prompt with a second BOS", "template", (start, *prompt, *out), whole=True
            )
        else:
            yield Context("the prompt with a BOS", "template", (start, *prompt, *out), whole=True)
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
            yield Context(name, "template", (*pair.encode(other), *out), whole=True)
    if tokenizer.chat_template:
        messages = [{"role": "user", "content": text}]
        for more in (True, False):
            name = f"the prompt in the chat template{'' if more else ', without its turn'}"
            ids = tokenizer.apply_chat_template(
                messages, add_generation_prompt=more, tokenize=True, return_dict=False
            )
            yield Context(name, "template", (*map(int, ids), *out), whole=True)


def _rows(k: int) -> str:
    return "the row before" if k == 1 else f"the row {k} before"


def _missing(words: str, c: tuple[int, ...], place: int, *, whole: bool = False) -> Context:
    lost = (*c[:place], *c[place + 1 :])
    return Context(f"{words} is missing", "cache or rows", lost, whole=whole)


def _doubled(words: str, c: tuple[int, ...], place: int, *, whole: bool = False) -> Context:
    more = (*c[: place + 1], *c[place:])
    return Context(f"{words} is doubled", "cache or rows", more, whole=whole)
