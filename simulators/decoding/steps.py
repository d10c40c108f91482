"""Rules that draft for themselves, on real models: lane by lane, rows of whatever prefix they ask.

Requests, lanes and what is cut are those of :mod:`~simverify.simulators.decoding.loop`; a batch
there is not, as nobody knows what a rule will ask for next.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from simverify.arrays import Floats
from simverify.errors import SimverifyError, UsageError
from simverify.models.real.transformer import TransformerPair
from simverify.simulators.decoding.lanes import Block, Job
from simverify.simulators.decoding.loop import Logits, call_generator, cut

if TYPE_CHECKING:
    from simverify.models.real.kv_cache import CachedModel
    from simverify.models.real.whole_model import WholeModel

Prefix = tuple[int, ...]


class BeyondContext(UsageError):
    """A rule asked for a row that lies beyond the models' context."""


class ModelFailed(SimverifyError):
    """A model gave no row, for which no rule is to blame."""


class Stepper(Protocol):
    """A rule of one lane of requests, under the ``step`` contract."""

    def reset(self) -> None:
        """Begin a new request."""
        ...

    def step(
        self,
        prefix: Prefix,
        target: "Oracle",
        draft: "Oracle",
        gamma: int,
        rng: np.random.Generator,
    ) -> Sequence[int]:
        """Return one or more tokens of the vocabulary that follow ``prefix``."""
        ...


class Oracle:
    """The row of a model after any prefix, on a cache that holds one sequence.

    Of the sequence that was fed last it keeps what the next prefix begins with, takes back
    the rest and feeds what is new: prefixes may grow, jump back and branch.

    Parameters
    ----------
    pair
        Says how logits become rows, and how long a context is.
    model
        Of the pair's models, with an empty cache of one request.
    """

    def __init__(self, pair: TransformerPair, model: "CachedModel | WholeModel") -> None:
        self._pair, self._model = pair, model
        self._fed: Prefix = ()
        self._settled = 0
        self._known: dict[Prefix, Logits] = {}

    def settle(self, prefix: Prefix) -> None:
        """Begin a call at ``prefix``: what was asked on branches beside it is forgotten."""
        # A row that a rule has seen stays the same to the last bit: top-k and top-p make much
        # of a rounding, and a token is judged by the row that it was drawn from.
        self._known = {
            known: row for known, row in self._known.items() if prefix[: len(known)] == known
        }
        self._settled = len(prefix)

    def __call__(self, prefix: Sequence[int]) -> Floats:
        """Return a fresh float64 row (V,) that sums to 1; ``prefix``: one token or more."""
        tokens = tuple(int(token) for token in prefix)
        if tokens not in self._known:
            self._feed(tokens)
        return self._pair.sampling.rows(self._known[tokens])

    def _feed(self, tokens: Prefix) -> None:
        self._prefix_iv(tokens)
        kept = 0
        for fed, token in zip(self._fed, tokens[:-1], strict=False):
            if fed != token:
                break
            kept += 1
        try:
            if kept < len(self._fed):
                self._model.take_back([len(self._fed) - kept])
            self._fed = tokens
            (logits,) = self._model.feed([tokens[kept:]])
        except (SimverifyError, RuntimeError, MemoryError) as error:  # as where memory is short
            line = " ".join(str(error).split())[:200]
            raise ModelFailed(f"a model fails after {len(tokens)} tokens: {line}") from error
        # Those of the prompt nobody asks for, and they are many.
        for length in range(max(kept + 1, min(self._settled, len(tokens))), len(tokens) + 1):
            self._known.setdefault(tokens[:length], logits[length - kept - 1].copy())

    def _prefix_iv(self, tokens: Prefix) -> None:
        if not tokens:
            raise ValueError("prefix is empty: a causal model needs one token or more")
        if len(tokens) > self._pair.context:
            raise BeyondContext(
                f"the rule asks for the row after {len(tokens)} tokens, and the context holds "
                f"{self._pair.context}: gamma + 1 tokens beyond its own prefix are sure to fit; "
                f"raise --gamma, or take shorter prompts"
            )
        vocab_size = self._pair.vocab_size
        wrong = next((token for token in tokens if not 0 <= token < vocab_size), None)
        if wrong is not None:
            raise ValueError(f"prefix holds token {wrong}, vocabulary 0..{vocab_size - 1}")


def decode_steps(
    pair: TransformerPair,
    job: Job,
    make_rule: Callable[[], Stepper],
    observe: Callable[[Block], None],
) -> None:
    """Decode ``job`` with a rule that drafts for itself; hand every call to ``observe``.

    A lane has a rule of its own, which is reset where a request begins. The block of a call has
    no drafts: ``emitted`` are its tokens that count, ``p`` and ``q`` float64 (n, V) the rows of
    target and draft before each of those n, ``tau`` all its tokens less one. They follow the
    target by absolute position; a slot of a call need not, as the rule may carry state.

    Raises
    ------
    BeyondContext
        The rule looks farther ahead than the context goes.
    ModelFailed
        Memory is short, for instance.
    """
    target = Oracle(pair, pair.cached(pair.target_model, 1))
    draft = Oracle(pair, pair.cached(pair.draft_model, 1))
    for lane in range(job.lanes):
        rule, emitted, call = make_rule(), 0, 0
        numbers = itertools.count(lane, job.lanes)
        while emitted < job.lane_tokens:
            prompt = prefix = job.prompts[next(numbers) % len(job.prompts)]
            ends = len(prompt) + min(job.request_tokens, job.lane_tokens - emitted)
            rule.reset()
            while len(prefix) < ends and not (prefix[len(prompt) :] and prefix[-1] in pair.eos):
                target.settle(prefix)
                draft.settle(prefix)
                rng = call_generator(job.seed, lane, call)
                found = list(rule.step(prefix, target, draft, job.gamma, rng))
                tokens = cut(found, ends - len(prefix), pair.eos)
                p, q = (
                    np.stack([rows((*prefix, *tokens[:i])) for i in range(len(tokens))])
                    for rows in (target, draft)
                )
                observe(Block(lane, emitted, prefix == prompt, p, q, (), len(found) - 1, tokens))
                prefix, emitted, call = (*prefix, *tokens), emitted + len(tokens), call + 1
