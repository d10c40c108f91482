"""A tokenizer of texts that are ids, for decoding loops that take text and return it."""

from typing import Any


class IdsTokenizer(dict[str, Any]):
    """A tokenizer that leaves ids as they are, and what it makes of any text: some ids.

    Parameters
    ----------
    ids
        The ids of any text, under ``input_ids`` as in Hugging Face's.
    """

    def __init__(self, ids: Any) -> None:
        super().__init__(input_ids=ids)

    def __call__(self, *_: Any, **__: Any) -> "IdsTokenizer":
        """Return the ids, whatever is asked: their text, or that they are moved elsewhere."""
        return self

    to = __call__

    def encode(self, text: Any) -> Any:
        """Return the ids."""
        return self["input_ids"]

    def decode(self, ids: Any, **_: Any) -> Any:
        """Return the ids that are decoded."""
        return ids
