"""Token ids in a server's answer: where servers put them, and whether they spell the text."""

from functools import lru_cache
from typing import Any

from simverify.models.real.transformer import TransformerPair

TEXT_ALONE, BY_THEIR_TEXTS, IDS = range(3)
"""What an answer says of its tokens: nothing, the text of each, or the id of each."""

_ID = "token_id:"


def given_ids(answer: Any) -> int:
    """Return what the first choice of an answer says of its tokens."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return TEXT_ALONE
    ids, pieces = stated_ids(choice, answer)
    return IDS if ids is not None else TEXT_ALONE if pieces is None else BY_THEIR_TEXTS


def stated_ids(choice: dict[str, Any], answer: dict[str, Any]) -> tuple[Any, list[str] | None]:
    """Return a choice's token ids as they stand there, and the texts of its tokens instead."""
    if choice.get("token_ids") is not None:
        return choice["token_ids"], None
    verbose = answer.get("__verbose")
    if isinstance(verbose, dict) and verbose.get("tokens") and len(answer["choices"]) == 1:
        return verbose["tokens"], None  # llama.cpp: all of them, as beside log probabilities not
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return None, None
    content = logprobs.get("content")
    pieces = logprobs.get("tokens")
    if isinstance(content, list) and content and all(isinstance(e, dict) for e in content):
        if all(type(entry.get("id")) is int for entry in content):
            return [entry["id"] for entry in content], None  # llama.cpp
        pieces = [entry.get("token") for entry in content]  # OpenAI's chat completions
    if isinstance(pieces, list) and all(type(piece) is int for piece in pieces):
        return pieces, None  # mlx-lm
    if not (isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces)):
        return None, None
    if all(piece.startswith(_ID) and piece[len(_ID) :].isdigit() for piece in pieces):
        return [int(piece[len(_ID) :]) for piece in pieces], None
    return None, pieces


def ids_of(choice: dict[str, Any], answer: dict[str, Any], pair: TransformerPair) -> Any:
    """Return token ids of a choice, however it gives them; None where it does not."""
    ids, pieces = stated_ids(choice, answer)
    if ids is not None or pieces is None:
        return ids
    known = _pieces(pair.tokenizer, pair.vocab_size)
    found = [known.get(piece) for piece in pieces]
    return None if None in found else found


@lru_cache(maxsize=2)
def _pieces(tokenizer: Any, vocab_size: int) -> dict[str, int | None]:
    """Each token's own text; those of which two have the same tell nothing."""
    found: dict[str, int | None] = {}
    for token in range(vocab_size):
        text = tokenizer.decode([token], clean_up_tokenization_spaces=False)
        found[text] = None if text in found else token
    return found


def spells(ids: Any, text: str, pair: TransformerPair) -> bool:
    """Return whether a server's text may be that of its ids.

    Servers differ in spaces, special tokens and characters that are cut in two, so those do not
    count. What are no ids of the model is for others to refuse.
    """
    if not isinstance(ids, list) or not all(
        type(token) is int and 0 <= token < pair.vocab_size for token in ids
    ):
        return True
    due = bare(text)
    return not due or any(
        bare(
            pair.tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
        )
        == due
        for skip in (True, False)
    )


def bare(text: str) -> str:
    """Return a text without what servers differ in: blanks, and marks of cut characters."""
    return "".join(text.replace("\ufffd", "").split())
