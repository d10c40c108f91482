"""Case-control tests of many explanations: exact, and valid for all of them together.

Each place has controls, which are like it in all that is known to matter. Under the null nothing
distinguishes the place from its controls: any member of the group could have been it. The p-value
of the best explanation counts all that were tried. It is of the least tail of all, over the same
draws of a member for each place (Westfall and Young, "Resampling-Based Multiple Testing", 1993),
so that explanations which say nearly the same cost next to nothing.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simverify.stats._checks import Floats, Ints

Bits = npt.NDArray[np.bool_]

_DEFAULT_DRAWS = 9_999
_DRAW_CHUNK = 500  # draws at a time: tables of a draw for each explanation are held no longer


@dataclass(frozen=True, eq=False)
class MatchedFits:
    """For each of H explanations, what its fits are worth.

    ``fits``: int64 (H,), places that it fits. ``by_chance``: float64 (H,), mean share of the
    controls that it fits. ``tails``: float64 (H,), probability of so many fits by members drawn at
    random. ``chance``: float64 (H,), p-value with all H counted in, at least 1/(draws + 1).
    """

    fits: Ints
    by_chance: Floats
    tails: Floats
    chance: Floats


def matched_fits(
    groups: list[Bits],
    weights: list[Floats] | None = None,
    *,
    seed: int = 0,
    draws: int = _DEFAULT_DRAWS,
) -> MatchedFits:
    """Test how often each explanation fits, against members of the places' own groups.

    ``groups``: for each place bool (1 + controls, H): whether each explanation fits it, in the
    first row, and its controls. ``weights``: for each place float64 (1 + controls,): how likely
    each member could have been it, in any unit; None for all alike. ``seed``: of the draws. With
    the same seed the answer is the same. ``draws``: draws of a member for each place, beside the
    one that was seen. Raises ``ValueError`` if there is no group, or one has no member or another
    number of explanations.

    Exact: if any member of a group is as likely the place as its weight says, independently of the
    other groups, the least ``chance`` is at most a with probability a at most, for every a.
    """
    if not groups or any(group.ndim != 2 or not len(group) for group in groups):
        raise ValueError("matched_fits: expected groups of one row or more, (members, H) each")
    if len({group.shape[1] for group in groups}) > 1:
        raise ValueError("matched_fits: groups have different numbers of explanations")
    laws = [np.ones(len(group)) for group in groups] if weights is None else weights
    if [len(group) for group in groups] != [len(law) for law in laws]:
        raise ValueError("matched_fits: expected a weight for each member of each group")
    laws = [law / law.sum() for law in laws]
    seen: Ints = np.sum([group[0] for group in groups], axis=0, dtype=np.int64)
    table = _poisson_binomial_tails(
        np.stack([law @ group for law, group in zip(laws, groups, strict=True)])
    )
    each = np.arange(table.shape[0])
    tails = table[each, seen]
    rng = np.random.Generator(np.random.Philox(key=seed))
    least = np.empty(draws)
    for start in range(0, draws, _DRAW_CHUNK):
        n = min(_DRAW_CHUNK, draws - start)
        fits = np.zeros((n, table.shape[0]), np.int64)
        for law, group in zip(laws, groups, strict=True):
            fits += group[rng.choice(len(group), size=n, p=law)]
        least[start : start + n] = table[each, fits].min(axis=1, initial=1.0)
    least.sort()
    # Tails that are equal but for rounding count as equal.
    beyond = np.searchsorted(least, tails * (1.0 + 1e-9), side="right")
    others = [
        law[1:] @ group[1:] / law[1:].sum()
        for law, group in zip(laws, groups, strict=True)
        if len(group) > 1
    ]
    return MatchedFits(
        fits=seen,
        by_chance=np.mean(others, axis=0) if others else np.ones(len(seen)),
        tails=tails,
        chance=np.asarray((1.0 + beyond) / (draws + 1.0), np.float64),
    )


def _poisson_binomial_tails(rates: Floats) -> Floats:
    """P(X >= k) for a sum of independent bits of ``rates`` (n, H): float64 (H, n + 1)."""
    n, h = rates.shape
    law = np.zeros((h, n + 1))
    law[:, 0] = 1.0
    for rate in rates:
        law[:, 1:] = law[:, 1:] * (1.0 - rate[:, None]) + law[:, :-1] * rate[:, None]
        law[:, 0] *= 1.0 - rate
    tails: Floats = np.cumsum(law[:, ::-1], axis=1)[:, ::-1]
    return np.minimum(tails, 1.0)
