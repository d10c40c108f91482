"""Token ids in a server's answer: where servers put them, and whether they spell the text."""

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
    ids, pieces = stated_ids(choice)
    return IDS if ids is not None else TEXT_ALONE if pieces is None else BY_THEIR_TEXTS


def stated_ids(choice: dict[str, Any]) -> tuple[Any, list[str] | None]:
    """Return a choice's token ids as they stand there, and the texts of its tokens instead."""
    if choice.get("token_ids") is not None:
        return choice["token_ids"], None
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return None, None
    content = logprobs.get("content")  # llama.cpp
    if isinstance(content, list) and all(
        isinstance(entry, dict) and type(entry.get("id")) is int for entry in content
    ):
        return [entry["id"] for entry in content], None
    pieces = logprobs.get("tokens")
    if isinstance(pieces, list) and all(type(piece) is int for piece in pieces):
        return pieces, None  # mlx-lm
    if not (isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces)):
        return None, None
    if all(piece.startswith(_ID) and piece[len(_ID) :].isdigit() for piece in pieces):
        return [int(piece[len(_ID) :]) for piece in pieces], None
    return None, pieces


def spells(ids: Any, text: str, pair: TransformerPair) -> bool:
    """Return whether a server's text may be that of its ids.

    Servers differ in spaces, special tokens and characters that are cut in two, so those do not
    count. What are no ids of the model is for others to refuse.
    """
    if not isinstance(ids, list) or not all(
        type(token) is int and 0 <= token < pair.vocab_size for token in ids
    ):
        return True
    due = _bare(text)
    return not due or any(
        _bare(
            pair.tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
        )
        == due
        for skip in (True, False)
    )


def _bare(text: str) -> str:
    return "".join(text.replace("\ufffd", "").split())
