"""Tokens that come too often, or too rarely, in all contexts alike: bets that learn as they go.

Weights that were rounded, a logit bias or a head whose rows are mixed up move some tokens up and
others down wherever they may come. Which, nobody knows beforehand; the tokens so far tell.
"""

from typing import Any

import numpy as np

from simverify.stats._checks import Floats, probability_rows
from simverify.stats.ratios.bets import BetSums, bet_sums

PRIORS = (3.0, 30.0, 300.0)
"""Expected counts at which half of an excess is believed, one for each bet."""


class LearnedRates:
    """Bets on each token's rate, (O + a) / (E + a): O its count so far, E what the rows expect.

    The alternative of a request is its rows, tilted by the rates of the requests before alone.

    References
    ----------
    .. [1] Clayton and Kaldor, "Empirical Bayes estimates of age-standardized relative risks",
       Biometrics 43 (1987) 671-681 (rates that a gamma prior shrinks).
    .. [2] Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting",
       J. R. Stat. Soc. B 86 (2024) 1-27 (bets that learn from what came before).
    """

    def __init__(self) -> None:
        self.sums: BetSums | None = None
        self._seen: Floats | None = None
        self._due: Floats | None = None

    def add(self, p: Any, tokens: Any) -> None:
        """Bet on the tokens of a request, then learn from them.

        Parameters
        ----------
        p : float64 array (n, V)
            Law of each token; each row sums to 1.
        tokens : int array (n,)
            Emitted tokens.

        Raises
        ------
        ValueError
            If a row is no law or V is not that of the requests before.
        """
        rows, ids = probability_rows("p", p), np.asarray(tokens)
        if self._seen is None or self._due is None:
            self._seen, self._due = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
        elif self._seen.shape != rows.shape[1:]:
            raise ValueError(f"V is {rows.shape[1]}, expected {self._seen.size} as before")
        found: BetSums | None = None
        for prior in PRIORS:
            rates = (self._seen + prior) / (self._due + prior)
            mean = rows @ rates
            bet = bet_sums(
                f"rates, prior {prior:g}", rates[ids] / mean, rates.min() / mean,
                rates.max() / mean, shares=(1.0,),
            )  # fmt: skip
            found = bet if found is None else found.beside(bet)
        assert found is not None
        self.sums = found if self.sums is None else self.sums + found
        self._seen = self._seen + np.bincount(ids, minlength=rows.shape[1])
        self._due = self._due + rows.sum(axis=0)
