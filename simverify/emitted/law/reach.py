"""How far logits have to be off for a law to keep a token that it cuts off."""

import numpy as np

from simverify.arrays import Floats
from simverify.emitted.law import stages
from simverify.emitted.law.law import CUTS, Law
from simverify.emitted.law.stages import Before

_NOTHING = Before((), ())

_HALVINGS = 40


def reach(x: Floats, token: int, law: Law, before: Before = _NOTHING) -> float:
    """Return the least M with which ``law`` may keep ``token``, of logits x (V,); inf if none.

    Each logit may be off by M/2. So may be ahead of the token whatever is not more than M above
    it, and every probability may be larger than it should be by exp(M / temperature). What is
    banned is kept by no rounding.
    """
    scores, least, scale = np.array(x[None], dtype=np.float64), 0.0, 1.0
    whole, cuts = scores, set[str]()
    stretch = law.repetition_penalty or 1.0
    stretch = max(stretch, 1.0 / stretch)
    for name in law.order:
        value = getattr(law, name.replace("-", "_")) if name in CUTS else None
        if name not in CUTS:
            scores, whole = (law.scores_of(name, rows, before) for rows in (scores, whole))
            if not np.isfinite(whole[0, token]):
                return np.inf
        elif value is not None and law.temperature > 0.0:
            own = float(whole[0, token])
            seen = [scores[0][np.isfinite(scores[0])]]
            if cuts - {"top-k"} or name == "typical-p":
                # What was cut off before may be kept as well, where logits are off.
                seen.append(whole[0])
            needed = [_NEEDED[name](one, own, value) for one in seen]
            if not (cuts and "typical-p" in {name, *cuts}):  # which all that is cut before moves
                least = max(least, scale * min(needed))
            cuts.add(name)
            scores = law.scores_of(name, scores, before)
        if name == "temperature":
            if law.temperature == 0.0:
                return max(float(whole[0].max() - whole[0, token]), 0.0) / stretch
            scale = law.temperature
    return least / stretch


def _for_top_k(x: Floats, own: float, k: int) -> float:
    above = np.sort(x[x > own] - own)
    return float(above[-k]) if k <= len(above) else 0.0


def _for_top_p(x: Floats, own: float, share: float) -> float:
    kept = np.sort(x[np.isfinite(x)])
    places = kept[kept > own] - own
    if not len(places):
        return 0.0
    p = np.exp(kept - kept[-1])
    # Mass of the tokens that are ahead for sure at M = 0, and from the place of each above on.
    ahead = np.append(np.cumsum(p[::-1])[::-1][-len(places) :], 0.0) / p.sum()
    begins, ends = np.append(0.0, places), np.append(places, np.inf)
    with np.errstate(divide="ignore"):
        needed = np.maximum(begins, np.log(ahead / share))
    return float(needed[needed < ends].min())


def _for_min_p(x: Floats, own: float, share: float) -> float:
    return max(float(x.max()) + float(np.log(share)) - own, 0.0) if share else 0.0


def _for_typical(x: Floats, own: float, share: float) -> float:
    """By halving: a surprise is off by M, a probability by exp(M), the entropy by what is far."""
    p = stages.softmax(x[None])
    far, _ = stages.surprises(p)
    entropy = float(-(p[p > 0.0] * np.log(p[p > 0.0])).sum())
    top, spread = float(x.max()), float((p[p > 0.0] * far[p > 0.0]).sum())
    high = abs(top + float(np.log(np.exp(x - top).sum())) - own - entropy)

    def kept(m: float) -> bool:
        nearer = far[0] < high - m * (2.0 + spread * float(np.exp(m)))
        return float(p[0, nearer].sum()) * float(np.exp(-m)) < share

    low, high_m = 0.0, high
    if kept(low):
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high_m) / 2.0
        low, high_m = (low, middle) if kept(middle) else (middle, high_m)
    return high_m


_NEEDED = {
    "top-k": _for_top_k, "top-p": _for_top_p, "min-p": _for_min_p, "typical-p": _for_typical,
}  # fmt: skip
