"""Evidence of requests as they come: scored batch by batch, looked at, and gone on with."""

import math
from collections.abc import Callable, Sequence

from simverify import results as doc
from simverify.emitted.judging.allowed import allowance
from simverify.emitted.judging.evidence import OutputEvidence
from simverify.emitted.judging.judge import shares_of
from simverify.emitted.judging.looks import log_evalue
from simverify.emitted.judging.own_rows import own_rows
from simverify.emitted.judging.rounding import TOKENS, Rounding, tried_rounding
from simverify.emitted.judging.weights import WeightBets
from simverify.emitted.reading.requests import Request, first_tokens
from simverify.emitted.rescoring import rescore, whole_batches
from simverify.emitted.settings import OutputSettings
from simverify.models.real.roundings import ROUNDINGS
from simverify.models.real.transformer import TransformerPair

_SPARE = 1.25
"""By how much the ball may still grow, until a run that was stopped is judged."""

_FIRST = (1, 2, 4, 8)
"""Requests after which reported log probabilities are looked at, before any batch is full."""

_SAID = 1.5
"""A look is told when there are so many times the tokens of the one that was told before."""


class Begun:
    """What is known of a run's first requests; ``found`` is the evidence of ``done`` of them.

    Batches are those of the whole run, so that it does not matter how often one looked.
    """

    def __init__(
        self, pair: TransformerPair, settings: OutputSettings, proxy: bool,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.found, self.done = OutputEvidence(settings.seed, proxy), 0
        self.fine: Rounding | None = None
        self.stopped = False
        self._pair, self._settings, self._proxy, self._say = pair, settings, proxy, say
        self._planned, self._told = settings.planned(proxy), 0
        self._weights = WeightBets(ROUNDINGS)

    def powers(self, ball: float) -> tuple[doc.FormatPower, ...]:
        """Return which rounded weights so many tokens would have told."""
        return self._weights.powers(shares_of(self._settings.alpha)["weights"], ball)

    def go_on(self, coming: Sequence[Request], due: int | None = None) -> None:
        """Score the next requests; of ``due`` tokens in all it is said how many are."""
        found, said = self.found, 0
        wanted = self._weights.wanted
        for scored in rescore(coming, self._pair, self._proxy, wanted, first=self.done):
            found.bet_on_weights(self._weights.scored(scored, self._pair))
            found.add(scored)
            if due is not None and 10 * found.n // due > said:
                said = 10 * found.n // due
                self._say(f"rescored {found.n:,} of {due:,} tokens")
        self.done += len(coming)

    def try_rounding(self, kept: Sequence[Request]) -> None:
        """Score the first tokens in float32 too, if the target is not, and that was not done."""
        if str(self._pair.target_model.dtype) != "torch.float32" and self.fine is None:
            self._say("the first tokens in float32, for what the precision moves")
            self.fine = tried_rounding(kept, self._pair, self._proxy)
            # Together and alone a text may be computed alike here, and not on another machine.
            self.found.allow(self.fine.shift)

    def enough(self, requests: Sequence[Request]) -> bool:
        """Look at all requests so far; return whether the bets say FAIL, so that no more is needed.

        Texts are not looked at: what they leave open outweighs every bet.
        """
        if self.stopped or requests[-1].from_text:
            return self.stopped
        if len(requests) in _FIRST and self._by_values(requests):
            self.stopped = True
            self._say(
                f"look: log probabilities of {sum(len(own.tokens) for own in requests):,} tokens, "
                f"which the engine reports itself, say FAIL: stopped"
            )
            return True
        coming = first_tokens(requests[self.done :], self._planned - self.found.n)
        ready = whole_batches(coming, self._pair.vocab_size)
        if not ready:
            return False
        self.go_on(coming[:ready])
        coarse = str(self._pair.target_model.dtype) != "torch.float32"
        if coarse and self.found.n < TOKENS:
            return False
        self.try_rounding(requests)
        alpha = shares_of(self._settings.alpha)["looks"]
        allowed = allowance(self.found, self.fine, None, self._settings.ball)
        ball = min(_SPARE * allowed.ball.tv, 0.999)
        log_e, needed = log_evalue(self.found.snapshots[-1], ball), math.log(1.0 / alpha)
        self.stopped = log_e > needed
        if self.stopped or self.found.n >= _SAID * self._told:
            self._told = self.found.n
            paid = sum(len(request.tokens) for request in requests)
            asked = sum(len(request.prompt) for request in requests)
            self._say(
                f"look: {self.found.n:,} of {self._planned:,} tokens judged; {paid:,} emitted and "
                f"{asked:,} of prompts paid for; log e {log_e:.1f}, FAIL from {needed:.1f}"
                + (": stopped" if self.stopped else "")
            )
        return self.stopped

    def _by_values(self, requests: Sequence[Request]) -> bool:
        """Whether what the engine says of its first tokens is enough to end the run.

        Scored for itself, as these requests may be less than a batch of the whole run. What a
        precision that is coarser than float32 moves is measured on the same requests.
        """
        pair, settings = self._pair, self._settings
        if all(request.logprobs is None for request in requests):
            return False
        coarse = str(pair.target_model.dtype) != "torch.float32"
        moved = tried_rounding(requests, pair, self._proxy) if coarse else None
        found = OutputEvidence(settings.seed, self._proxy)
        for scored in rescore(requests, pair, self._proxy):
            found.add(scored)
        share = shares_of(settings.alpha)["reported"]
        least = allowance(found, moved, None, None).ball.tv
        ball = min(_SPARE * max(least, settings.ball or 0.0), 0.999)
        own = own_rows(found, requests, pair, ball, share, moved)
        if own is None or not (own.beyond and own.said.tells):
            return False
        return own.said.test(share, min(_SPARE * max(ball, own.allowed), 0.999)).rejected
