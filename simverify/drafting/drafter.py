"""What every drafter is: the laws of a batch of requests' next tokens, one phase after another."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

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
