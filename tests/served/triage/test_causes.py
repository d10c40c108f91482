"""Causes of off tokens by what fits where: taken beyond chance, open where chance may do it too."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from simverify.served import triage_explanations
from simverify.served.requests import Request
from simverify.served.triage_explanations import (
    AnswerPath,
    ExplanationFit,
    GreedyLog,
    LoggedAnswer,
    OffToken,
)

RADIUS = 1e-5
REQUESTS, LENGTH, AT = 40, 12, 4


def path(off):
    """Leads of one at each place; a token that is one behind where it is ``off``."""
    n = np.zeros(LENGTH, np.int64)
    gap = np.zeros(LENGTH)
    if off:
        gap[AT] = 1.0
    return AnswerPath(n, n + 1, np.ones(LENGTH), gap, np.zeros(LENGTH), n)


def explained(monkeypatch, rates, *, off=8, same=False, seed=0, fits=None):
    """Explain ``off`` tokens; ``rates``: by name how often it fits them, and a control.

    ``fits``: what fits where, in the place of rates.
    """
    rng = np.random.default_rng(seed)

    def by_rates(spots, pair, radius, wanted=None):
        return [
            {
                name: ExplanationFit(
                    kind, (rng.random() < rate[bool(spot.path.gap[spot.at] == 0.0)],)
                )
                for name, (kind, *rate) in rates.items()
            }
            for spot in spots
        ]

    monkeypatch.setattr(triage_explanations, "explanation_fits", fits or by_rates)
    answers = [
        LoggedAnswer(Request((7, 1 if same else 10 + i), tuple(range(LENGTH))), i)
        for i in range(REQUESTS)
    ]
    log = GreedyLog(answers, [path(i < off) for i in range(REQUESTS)], None)
    spots = [OffToken(log, i, AT, AT, 0) for i in range(off)]
    return triage_explanations.explain_spots(spots, [log], None, RADIUS)


CACHE = "cache or rows"
OTHERS = {f"nothing {i}": (CACHE, 0.1, 0.1) for i in range(40)}


def test_what_fits_all_and_seldom_by_chance_is_taken(monkeypatch):
    found = explained(monkeypatch, {"a cache": (CACHE, 1.0, 0.1)} | OTHERS)
    assert {cause.name for cause in found.taken.values()} == {"a cache"}
    assert (len(found.taken), found.open, found.tried) == (8, None, 41)
    assert found.causes[0].taken
    assert found.causes[0].chance <= triage_explanations.CAUSE_LEVEL


def test_what_fits_all_and_mostly_by_chance_too_is_open(monkeypatch):
    found = explained(monkeypatch, {"a cache": (CACHE, 1.0, 0.9)} | OTHERS)
    assert not found.taken
    assert found.open.name == "a cache"
    assert found.open.chance > triage_explanations.CAUSE_LEVEL


def test_where_nothing_fits_most_no_cache_did_it(monkeypatch):
    found = explained(monkeypatch, OTHERS)
    assert (dict(found.taken), found.open) == ({}, None)


def test_two_that_fit_the_same_are_both_named(monkeypatch):
    rates = {"a cache": (CACHE, 1.0, 0.05), "the draft's own": ("verifier", 1.0, 0.05)} | OTHERS
    (cause,) = set(explained(monkeypatch, rates).taken.values())
    assert {"a cache", "the draft's own"} == set(cause.name.split(", or: "))


def test_the_same_answer_many_times_is_one(monkeypatch):
    """Eight copies of one request are no more evidence than it is: all are open together."""
    rates = {"a cache": (CACHE, 1.0, 0.1)} | OTHERS
    found = explained(monkeypatch, rates, same=True)
    assert not found.taken
    assert found.open is not None


def test_what_is_open_is_of_what_is_left(monkeypatch):
    """One cause fits eight of fourteen, and is taken; another fits all, mostly by chance too."""

    def fits(spots, pair, radius, wanted=None):
        planted = [spot.path.gap[spot.at] > 0.0 and spot.number < 8 for spot in spots]
        chance = np.random.default_rng(1).random((len(spots), 2))
        off = [spot.path.gap[spot.at] > 0.0 for spot in spots]
        return [
            {
                "a cache": ExplanationFit(CACHE, (own or u < 0.05,)),
                "another": ExplanationFit(CACHE, (own or here or v < 0.9,)),
            }
            for own, here, (u, v) in zip(planted, off, chance, strict=True)
        ]

    found = explained(monkeypatch, {}, off=14, fits=fits)
    assert {cause.name for cause in found.taken.values()} == {"a cache"}
    assert len(found.taken) == 8
    assert (found.open.name, found.open.fits, found.open.places) == ("another", 6, 6)


@pytest.mark.distribution
def test_a_cause_is_taken_as_seldom_as_it_says(monkeypatch):
    """Of 60 runs in which all fit by chance alone one in a hundred is due: three at most."""
    rates = {f"one {i}": (CACHE, rate, rate) for i, rate in enumerate([0.05, 0.3, 0.6] * 10)}
    taken = sum(bool(explained(monkeypatch, rates, seed=s).taken) for s in range(60))
    assert taken <= 3
