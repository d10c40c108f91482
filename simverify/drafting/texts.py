"""Drafting from the texts alone: prompt lookup, and counts of what followed.

Both propose one token after each text, so that its law is that token alone. Every draft is
gamma tokens long here: they go on behind their own drafts, and where nothing is known of a text
they propose its last token again.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence

import numpy as np

from simverify.drafting.drafter import Logits
from simverify.errors import UsageError

LONGEST = 3
"""Most tokens that are looked for."""


class FromTexts(ABC):
    """A drafter that proposes one token after each text of a batch of requests.

    Parameters
    ----------
    vocab_size
        V, the length of its rows.
    requests
        Size of the batch.
    """

    def __init__(self, vocab_size: int, requests: int) -> None:
        self._vocab_size = vocab_size
        self._texts: list[list[int]] = [[] for _ in range(requests)]
        self._drafts: list[list[int]] = [[] for _ in range(requests)]

    @abstractmethod
    def proposed(self, request: int, text: Sequence[int]) -> int:
        """Return the token that is proposed after ``text``, one token or more, of a request."""

    def read(self, request: int, tokens: Sequence[int]) -> None:
        """Begin a request with its prompt, but for the prompt's last token."""
        self._texts[request] = list(tokens)

    def begin(self, tokens: Sequence[Sequence[int]]) -> Logits:
        """Begin a phase; return float32 (requests, V), the logits for the first drafts."""
        for text, own in zip(self._texts, tokens, strict=True):
            text.extend(own)
        return self._logits()

    def extend(self, tokens: Sequence[int]) -> Logits:
        """Append one draft to each request's; return float32 (requests, V), for the next ones."""
        for drafts, token in zip(self._drafts, tokens, strict=True):
            drafts.append(int(token))
        return self._logits()

    def grow(
        self, tokens: Sequence[Sequence[int]], parents: Sequence[Sequence[int]]
    ) -> list[Logits]:
        """Raise ``UsageError``: of one token there are no siblings."""
        raise UsageError(
            "prompt-lookup and ngram propose one token after each text: ask for a single draft, "
            "or another --drafter"
        )

    def accept(self, kept: Sequence[Sequence[int]]) -> None:
        """End the phase: of each request the drafts that have come into the text, by number."""
        for text, drafts, way in zip(self._texts, self._drafts, kept, strict=True):
            text.extend(drafts[number] for number in way)
            drafts.clear()

    def end(self, requests: Sequence[bool]) -> None:
        """Forget the texts of the requests that have ended."""
        for text, ended in zip(self._texts, requests, strict=True):
            if ended:
                text.clear()

    def select(self, requests: Sequence[int]) -> None:
        """Go on with these requests of the batch, in this order."""
        self._texts = [self._texts[r] for r in requests]
        self._drafts = [self._drafts[r] for r in requests]

    def _logits(self) -> Logits:
        found = np.full((len(self._texts), self._vocab_size), -np.inf, np.float32)
        for r, (text, drafts) in enumerate(zip(self._texts, self._drafts, strict=True)):
            found[r, self.proposed(r, text + drafts)] = 0.0
        return found


class PromptLookup(FromTexts):
    """What followed the end of a request's text where it stood before, in the request alone.

    The longest end that stood before is taken, of three tokens at most, and the latest place.
    The drafts of the phase count as text, so that a draft goes on behind a match that ends.
    """

    def proposed(self, request: int, text: Sequence[int]) -> int:
        """Return the token that is proposed after ``text``, one token or more, of a request."""
        whole = list(text)
        for length in range(min(LONGEST, len(whole) - 1), 0, -1):
            end = whole[-length:]
            for at in range(len(whole) - length - 1, -1, -1):
                if whole[at : at + length] == end:
                    return whole[at + length]
        return whole[-1]


class Ngram(FromTexts):
    """The token that most often followed the last ones, in all texts of a request's lane so far.

    The longest end that was met before is taken, of three tokens at most, and of tokens that
    followed equally often the one that did so first. Lanes do not learn from one another, so
    that a text does not depend on the batch.
    """

    def __init__(self, vocab_size: int, requests: int) -> None:
        super().__init__(vocab_size, requests)
        self._counts: list[dict[tuple[int, ...], Counter[int]]] = [{} for _ in range(requests)]
        self._counted = [0] * requests

    def proposed(self, request: int, text: Sequence[int]) -> int:
        """Return the token that is proposed after ``text``, one token or more, of a request."""
        counts = self._counts[request]
        for length in range(min(LONGEST, len(text)), 0, -1):
            if found := counts.get(tuple(text[-length:])):
                return found.most_common(1)[0][0]
        return text[-1]

    def begin(self, tokens: Sequence[Sequence[int]]) -> Logits:
        """Begin a phase; return float32 (requests, V), the logits for the first drafts."""
        for text, own in zip(self._texts, tokens, strict=True):
            text.extend(own)
        self._learn()
        return self._logits()

    def read(self, request: int, tokens: Sequence[int]) -> None:
        """Begin a request with its prompt, but for the prompt's last token."""
        super().read(request, tokens)
        self._counted[request] = 0

    def select(self, requests: Sequence[int]) -> None:
        """Go on with these requests of the batch, in this order."""
        super().select(requests)
        self._counts = [self._counts[r] for r in requests]
        self._counted = [self._counted[r] for r in requests]

    def _learn(self) -> None:
        """Count what follows what in the tokens that have come since."""
        for r, text in enumerate(self._texts):
            for at in range(max(self._counted[r], 1), len(text)):
                for length in range(1, min(LONGEST, at) + 1):
                    after = self._counts[r].setdefault(tuple(text[at - length : at]), Counter())
                    after[text[at]] += 1
            self._counted[r] = len(text)
