"""The interface of all drafters, and those that need no model: prompt lookup and n-grams.

Both propose one token after each text, so its law is that token alone. Every draft is gamma tokens
long: they continue behind their own drafts, and where nothing is known of a text they propose its
last token again. A phase's drafts count as text while it lasts; rejected ones are forgotten with
it, and nothing is learned from them.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from simverify.errors import UsageError

# The interface: the laws of a batch of requests' next tokens, one phase after another.


Logits = npt.NDArray[np.float32]


class Drafter(Protocol):
    """Drafts for requests side by side, in phases.

    A phase begins with the tokens that were emitted; then each draft that was drawn is told, and
    the law of the next is given. It ends with what the verifier kept of the drafts. The laws are
    given as logits, of which temperature, top-k and top-p make the row that drafts are drawn from
    and that the verifier is told: a drafter that knows one token alone gives minus infinity to
    all others.
    """

    def read(self, request: int, tokens: Sequence[int]) -> None:
        """Begin a request with its prompt, but for the prompt's last token.

        A request that goes on may be read no tokens, which changes nothing.
        """
        ...

    def begin(self, tokens: Sequence[Sequence[int]]) -> Logits:
        """Begin a phase; return float32 (requests, V), the logits for the first drafts.

        ``tokens``: of each request the one or more at its end that were no accepted drafts: the
        last of its prompt, or what the verifier drew in the last phase.
        """
        ...

    def extend(self, tokens: Sequence[int]) -> Logits:
        """Append one draft to each request's; return float32 (requests, V), for the next ones."""
        ...

    def grow(
        self, tokens: Sequence[Sequence[int]], parents: Sequence[Sequence[int]]
    ) -> list[Logits]:
        """Append nodes to the requests' draft trees; return (n_r, V), the logits after each.

        ``parents``: by number in the request's tree, which counts from 0; -1 is its root, the end
        of the request's text. A request may get no node.
        """
        ...

    def accept(self, kept: Sequence[Sequence[int]]) -> None:
        """End the phase: of each request the drafts that have come into the text, by number.

        Of a chain they are 0, 1, ..., of a tree a way down from its root.
        """
        ...

    def end(self, requests: Sequence[bool]) -> None:
        """Forget the texts of the requests that have ended."""
        ...

    def select(self, requests: Sequence[int]) -> None:
        """Go on with these requests of the batch, in this order."""
        ...


MAX_MATCH_TOKENS = 3
"""Most tokens that are looked for."""

Context = tuple[int, ...]


class TextDrafter(ABC):
    """A drafter that proposes one token after each text of a batch of requests.

    Where a phase begins, it learns what follows the last one, two and three tokens of each place,
    of the tokens that have come since: no text is gone through twice. ``vocab_size``: V, the length
    of its rows. ``requests``: size of the batch.
    """

    forgets: ClassVar[bool]
    """Whether a request forgets what it learned when its text ends."""

    def __init__(self, vocab_size: int, requests: int) -> None:
        self._vocab_size = vocab_size
        self._texts: list[list[int]] = [[] for _ in range(requests)]
        self._learned = [0] * requests
        # What was learned of each request, by what stood before.
        self._memory: list[dict[Context, Any]] = [{} for _ in range(requests)]
        self._drafted = 0  # tokens at the end of each text that are drafts of this phase

    @abstractmethod
    def learn(self, request: int, context: Context, token: int) -> None:
        """Note that ``token`` came after ``context``, one to three tokens of a request's text."""

    @abstractmethod
    def proposed(self, request: int) -> int:
        """Return the token that is proposed after a request's text and its drafts."""

    def read(self, request: int, tokens: Sequence[int]) -> None:
        """Begin a request with its prompt, but for the prompt's last token.

        A request that goes on is read no tokens, and keeps its text.
        """
        self._texts[request] += tokens

    def begin(self, tokens: Sequence[Sequence[int]]) -> Logits:
        """Begin a phase; return float32 (requests, V), the logits for the first drafts."""
        for request, (text, new_tokens) in enumerate(zip(self._texts, tokens, strict=True)):
            text += new_tokens
            for at in range(max(self._learned[request], 1), len(text)):
                for length in range(1, min(MAX_MATCH_TOKENS, at) + 1):
                    self.learn(request, tuple(text[at - length : at]), text[at])
            self._learned[request] = len(text)
        return self._logits()

    def extend(self, tokens: Sequence[int]) -> Logits:
        """Append one draft to each request's; return float32 (requests, V), for the next ones."""
        for text, token in zip(self._texts, tokens, strict=True):
            text.append(int(token))
        self._drafted += 1
        return self._logits()

    def grow(
        self, tokens: Sequence[Sequence[int]], parents: Sequence[Sequence[int]]
    ) -> list[Logits]:
        """Raise ``UsageError``: of one token there are no siblings."""
        raise UsageError(
            "prompt-lookup and ngram propose one token after each text, and draft no trees: take "
            "another drafter"
        )

    def accept(self, kept: Sequence[Sequence[int]]) -> None:
        """End the phase: of each request the drafts that have come into the text, by number."""
        for text, way in zip(self._texts, kept, strict=True):
            start = len(text) - self._drafted
            text[start:] = [text[start + number] for number in way]
        self._drafted = 0

    def end(self, requests: Sequence[bool]) -> None:
        """Forget the texts of the requests that have ended."""
        for request, ended in enumerate(requests):
            if ended:
                self._texts[request], self._learned[request] = [], 0
                if self.forgets:
                    self._memory[request] = {}

    def select(self, requests: Sequence[int]) -> None:
        """Go on with these requests of the batch, in this order."""
        self._texts = [self._texts[r] for r in requests]
        self._learned = [self._learned[r] for r in requests]
        self._memory = [self._memory[r] for r in requests]

    def _logits(self) -> Logits:
        logits = np.full((len(self._texts), self._vocab_size), -np.inf, np.float32)
        for request, row in enumerate(logits):
            row[self.proposed(request)] = 0.0
        return logits


class PromptLookup(TextDrafter):
    """What followed the end of a request's text where it stood before, in the request alone.

    The longest end that stood before is taken, of three tokens at most, and the latest place.
    The drafts of the phase count as text, so that a draft goes on behind a match that ends.
    """

    forgets = True

    def learn(self, request: int, context: Context, token: int) -> None:
        """Note that ``token`` came after ``context``: what did so before is out of date."""
        self._memory[request][context] = token

    def proposed(self, request: int) -> int:
        """Return the token that is proposed after a request's text and its drafts."""
        text, latest = self._texts[request], self._memory[request]
        start = len(text) - self._drafted
        for length in range(min(MAX_MATCH_TOKENS, len(text) - 1), 0, -1):
            end = text[-length:]
            for at in range(len(text) - 1, max(start, length) - 1, -1):  # drafts that follow
                if text[at - length : at] == end:
                    return text[at]
            if (token := latest.get(tuple(end))) is not None:
                return int(token)
        return text[-1]


class NgramDrafter(TextDrafter):
    """The token that most often followed the last ones, in all texts of a request's lane so far.

    The longest end that was met before is taken, of three tokens at most, and of tokens that
    followed equally often the one that did so first. The drafts of the phase are part of that
    end, but are not counted, and neither is what the last phase of a request emits. Lanes do
    not learn from one another, so that a text does not depend on the batch.
    """

    forgets = False

    def learn(self, request: int, context: Context, token: int) -> None:
        """Count that ``token`` came after ``context``."""
        self._memory[request].setdefault(context, Counter())[token] += 1

    def proposed(self, request: int) -> int:
        """Return the token that is proposed after a request's text and its drafts."""
        text, counts = self._texts[request], self._memory[request]
        for length in range(min(MAX_MATCH_TOKENS, len(text)), 0, -1):
            if candidates := counts.get(tuple(text[-length:])):
                # The first that it met, of equals.
                return int(max(candidates, key=candidates.__getitem__))
        return text[-1]
