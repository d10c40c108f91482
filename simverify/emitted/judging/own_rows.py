"""What the engine's own log probabilities say of its rows: for the tests, the notes, the bound."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simverify import results as doc
from simverify import stats
from simverify.emitted.judging.evidence import OutputEvidence
from simverify.emitted.judging.judge import Judged
from simverify.emitted.judging.reported import NAME, Said
from simverify.emitted.judging.rounding import Rounding, tried_rounding
from simverify.emitted.reading.requests import Request
from simverify.models.real.transformer import TransformerPair

_TIMES = 2.0
"""How many times as far as bfloat16 moves rows an engine's may be: its rounding and that of here
need not be the same."""


@dataclass(frozen=True)
class OwnRows:
    """Reported values of a run: ``said``, and whether they are ``beyond`` the ball.

    ``coarse``: what bfloat16 moves rows by, where a target in float32 had to be tried in it, or
    what the target's ``own`` precision does where that is coarser. ``doubted``: whether they are
    off by more than that, and yet no evidence on the tokens.
    """

    said: Said
    beyond: bool
    ball: float
    coarse: float | None
    own: bool
    doubted: bool = False

    def document(self, alpha: float) -> doc.Reported:
        """As the document has it."""
        limit = self.said.limit(max(self.ball, self.allowed))
        return doc.Reported(
            tokens=len(self.said.off),
            kind=self.said.kind,
            fits=self.said.fits and not self.doubted,
            error=self.said.error,
            tv=self.said.tv,
            tv_upper=self.said.upper,
            allowed=limit,
            needed=stats.values_needed(self.said.off, limit=limit, alpha=alpha),
        )

    @property
    def allowed(self) -> float:
        """The least ball of the test: that of a coarser precision, where it was tried."""
        return 0.0 if self.coarse is None else _TIMES * self.coarse

    def notes(self, failed: bool) -> list[str]:
        """Remarks on what was reported."""
        if self.doubted:
            return [
                f"what is reported is not what was sampled, or it cannot be told: of the engine's "
                f"log probabilities, off by TV {self.said.tv:.2g}, {self.said.doubt}: they say "
                f"nothing of the tokens, which are judged by themselves"
            ]
        found = [f"the engine's log probabilities {self.said.words()}"]
        if not self.said.fits or not self.beyond:
            return found
        far = (
            f"by its log probabilities the engine's rows are off from the target's by TV "
            f"{self.said.tv:.2g} on average, where {self.ball:.2g} is allowed for"
        )
        if failed and (exact := self.said.exact(self.ball)):
            return [
                *found,
                f"{far}: {exact} of {len(self.said.each)} requests are exact, so that its weights "
                f"and its precision are right, and what is off is of single requests, such as a "
                f"prefix taken from a cache",
            ]
        if failed:
            return [*found, f"{far}: its weights or its logits are not the target's"]
        precision = "bfloat16"
        advice = "; if the engine computes in bfloat16, judge it with --dtype bfloat16"
        if self.own:
            precision, advice = "that precision", ""
        return [
            *found,
            f"{far}: no more than twice what {precision} moves them ({self.coarse or 0.0:.2g}), so "
            f"that it is no finding; the bound allows for it{advice}",
        ]

    def widened(self, certificate: stats.Certificate) -> stats.Certificate:
        """Return a certificate that holds for rows as far off as reported values say."""
        more = self.said.upper - self.ball
        if self.doubted or not (self.beyond and self.said.fits and more > 0.0):
            return certificate
        return replace(
            certificate,
            bound=min(1.0, certificate.bound + more),
            method=f"{certificate.method} + {more:.2g}, by which the engine's own rows are off at "
            f"most, as its log probabilities say",
        )


def own_rows(
    found: OutputEvidence, kept: Sequence[Request], pair: TransformerPair, ball: float,
    alpha: float, fine: Rounding | None,
) -> OwnRows | None:  # fmt: skip
    """Weigh the reported values of a run, and say to ``found`` what their test allows for.

    They never widen the ball of any other test. Where rows are off by no more than twice what
    bfloat16 moves a target that was declared in float32, that is rounding, and is told; but not
    where some requests are exact. ``fine``: what the precision of a coarser target moves.
    """
    said = found.reported.said(alpha)
    if said is None:
        return None
    beyond = said.test(alpha, ball).rejected
    coarse = None if fine is None else fine.tv
    rounds = str(pair.target_model.dtype) == "torch.float32" and not said.exact(ball)
    if beyond and said.fits and rounds:
        coarse = tried_rounding(kept, pair, len(found.orders) == 3).tv
    own = OwnRows(said, beyond, ball, coarse, fine is not None)
    if beyond and said.fits and said.doubt is not None:
        limit = min(max(ball, own.allowed), 0.999)
        unexplained = said.tv > limit or said.test(alpha, limit).rejected
        own = replace(own, doubted=unexplained)
    found.reported.allowed = own.allowed
    return own


def weights_failed(judged: Judged) -> bool:
    """Whether the test of reported values rejected."""
    return any(test.rejected and test.name == NAME for test in judged.tests)
