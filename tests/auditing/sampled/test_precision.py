"""Samplers of few digits, in code that fails: named by what its tokens are consistent with."""

from functools import partial

import numpy as np
import pytest

from simverify.auditing.sampled_runs import TrialRunner, default_sampled_instances
from simverify.auditing.sampled_tier import precision_words
from simverify.models.rounding import COARSE_LOOKUPS, looked_up, to_bfloat16, to_float16

FOUR_BITS = "tokens looked up by a uniform of 4 bits"


def drawing(lookup, accepts=1.0):
    """The token rule, whose own tokens follow the rows that ``lookup`` makes of the right ones."""

    def verify(target_probs, draft_probs, draft_tokens, rng):
        for i, x in enumerate(draft_tokens):
            p, q = target_probs[i], draft_probs[i]
            if rng.random() * q[x] * accepts >= p[x]:
                rest = np.maximum(p - q, 0)
                return [*draft_tokens[:i], pick(rest / rest.sum(), rng)]
        return [*draft_tokens, pick(target_probs[-1], rng)]

    def pick(row, rng):
        coarse = lookup(row[None])[0]
        return rng.choice(len(row), p=coarse / coarse.sum())

    return verify


def words_of(rule):
    instance = next(x for x in default_sampled_instances() if x.name.startswith("wide"))
    runner = TrialRunner(rule, "verify", instance, seconds=60.0)
    runner.run(20_000)
    return precision_words([(runner.tables, runner.emissions)])


@pytest.fixture
def coarser(monkeypatch):
    """A sampler so coarse that few calls show it, among those that are tried."""
    lookup = partial(looked_up, rounding=to_bfloat16, bits=4)
    monkeypatch.setitem(COARSE_LOOKUPS, FOUR_BITS, lookup)
    return lookup


def test_a_coarse_sampler_is_named(coarser):
    assert words_of(drawing(coarser)) == FOUR_BITS


@pytest.mark.parametrize("accepts", [1.0, 0.7], ids=["right", "lenient"])
def test_right_code_and_other_faults_are_not_called_coarse(coarser, accepts):
    assert words_of(drawing(np.array, accepts)) is None


def test_rows_of_a_running_sum_add_up_to_one_and_lose_what_is_too_small():
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.full(400, 0.3), size=6)
    for words, lookup in COARSE_LOOKUPS.items():
        made = lookup(rows)
        np.testing.assert_allclose(made.sum(axis=1), 1, err_msg=words)
        assert made.min() >= 0
        assert ((made == 0) & (rows > 0)).any()
    sums = np.cumsum(rows.astype(np.float32), axis=1, dtype=np.float32)
    np.testing.assert_allclose(looked_up(rows, np.array), np.diff(sums / sums[:, -1:], prepend=0))


@pytest.mark.parametrize(("rounding", "digits"), [(to_bfloat16, 8), (to_float16, 11)])
def test_numbers_are_rounded_to_the_nearest_of_a_type(rounding, digits):
    x = np.random.default_rng(3).uniform(0.01, 1.0, 10_000)
    rounded = rounding(x)
    mantissas = np.frexp(rounded)[0] * 2**digits
    assert (mantissas == mantissas.round()).all()
    assert (np.abs(rounded - x) <= 2.0**-digits * x).all()
    torch = pytest.importorskip("torch")
    kind = torch.bfloat16 if rounding is to_bfloat16 else torch.float16
    expected = torch.tensor(x, dtype=torch.float32).to(kind).double().numpy()
    assert (rounding(x.astype(np.float32)) == expected).all()
