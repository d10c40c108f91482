"""Records of single tokens against plain numpy, for rows of every kind and either dtype."""

import re

import numpy as np
import pytest
from numba import njit
from support.feature_rows import drawn, due_pits, due_ratios, due_scores, pairs_of_rows

from simverify import stats
from simverify.simulators.kernels import features as kernel
from simverify.simulators.kernels import row_sums
from simverify.stats.scores import SURPRISE_CAP

SIZES = [2, 3, 8, 64, 5000]
DTYPES = [np.float32, np.float64]


def filled(p, q, tokens, uniforms, judged):
    records = np.full((len(tokens), kernel.RECORD), np.nan)
    ratios = np.full((len(tokens), len(kernel.FAULTS)), np.nan)
    kernel.fill(p, q, tokens, uniforms, judged, records, ratios)
    assert not np.isnan(records).any()
    assert not np.isnan(ratios).any()
    return records.T, ratios


def instance(vocab_size, n=60):
    """Rows, tokens of all kinds (drawn from p, from q, and any), uniforms, and who was judged."""
    p, q = pairs_of_rows(11, n, vocab_size)
    rng = np.random.default_rng([12, vocab_size])
    tokens = np.where(np.arange(n) % 2 == 0, drawn(rng, p), drawn(rng, q))
    tokens[::5] = rng.integers(vocab_size, size=len(tokens[::5]))
    tokens[:2] = 0, vocab_size - 1
    return p, q, tokens, rng.random(n), np.arange(n) % 6 != 5


@pytest.fixture(scope="module", params=SIZES)
def rows(request):
    return instance(request.param)


@pytest.fixture(params=DTYPES, ids=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture
def case(dtype, rows):
    p, q, *rest = rows
    return rows, filled(p.astype(dtype), q.astype(dtype), *rest)


def test_the_instances_have_what_breaks_kernels():
    p, q, tokens, *_ = instance(8)
    own = p[np.arange(len(p)), tokens]
    assert ((p == 0) & (q > 0)).any()
    assert ((p > 0) & (q == 0)).any()
    assert (p.max(axis=1) == 1).any()
    assert (own == 0).any()
    assert (p == q).all(axis=1).any()
    keys = np.where(p > 0, q / np.maximum(p, 1e-9), np.nan)
    assert any(len(np.unique(k[k > 0])) < (k > 0).sum() for k in keys)


def test_pits_in_three_orders(case):
    (p, q, tokens, uniforms, _), (records, _) = case
    due = due_pits(p, q, tokens, uniforms)
    np.testing.assert_allclose(records[:3], due, atol=1e-13)
    if p.shape[1] > 2:
        for order in range(3):  # the orders differ
            assert np.abs(records[order] - due[(order + 1) % 3]).max() > 0.05


def test_scores_and_their_moments(case):
    (p, q, tokens, *_), (records, _) = case
    index = np.arange(len(tokens))
    for name, scores in due_scores(p, q).items():
        place = getattr(kernel, name.upper())
        moments = stats.score_moments(p, scores)
        due = [
            scores[index, tokens], moments.mean, moments.variance, moments.third,
            moments.fourth, moments.low, moments.high,
        ]  # fmt: skip
        # The surprise is a polynomial's.
        atol = 1e-5 if name == "surprise" else 1e-12
        np.testing.assert_allclose(records[place : place + 7], due, rtol=1e-9, atol=atol)
        sure = (p.max(axis=1) == 1) & (p[index, tokens] == 1)
        assert (records[place + 2, sure] == 0).all()


def test_indicators_and_their_chances(case):
    (p, q, tokens, *_), (records, _) = case
    index = np.arange(len(tokens))
    sets = {
        kernel.IS_ABOVE: stats.q_above_p(p, q),
        kernel.IS_RARE_0: stats.rare_token(p, below=row_sums.RARE[0]),
        kernel.IS_RARE_1: stats.rare_token(p, below=row_sums.RARE[1]),
    }
    for place, members in sets.items():
        np.testing.assert_array_equal(records[place], members[index, tokens])
        np.testing.assert_allclose(records[place + 1], (p * members).sum(axis=1), atol=1e-13)
        every = (members | (p == 0)).all(axis=1)
        assert (records[place + 1, every] == 1).all()
        assert (records[place + 1, ~(members & (p > 0)).any(axis=1)] == 0).all()


def test_a_row_of_rare_tokens_alone_has_chance_one():
    row = np.full((1, 3000), 1 / 3000)
    records, _ = filled(row, row, np.array([7]), np.array([0.5]), np.array([True]))
    assert records[kernel.RARE_0, 0] == 1
    assert records[kernel.RARE_1, 0] == 0


def test_ratios_are_the_catalogues(case, dtype):
    (p, q, tokens, _, judged), (_, ratios) = case
    due = due_ratios(p, q, tokens, judged)
    warm = [kernel.FAULTS.index(f"{model}-temperature(0.9)") for model in ("draft", "target")]
    # The powers of float32 entries, of one law and of its sum, are good to five millionths.
    relative = 6e-6 if dtype is np.float32 else 3e-7
    np.testing.assert_allclose(ratios[:, warm], due[:, warm], rtol=relative, atol=1e-10)
    others = np.delete(np.arange(len(kernel.FAULTS)), warm)
    np.testing.assert_allclose(ratios[:, others], due[:, others], rtol=3e-7, atol=1e-10)
    # Each law is one of its own somewhere, and the judged differ from the bonus.
    if p.shape[1] > 3:
        finite = ratios[np.isfinite(ratios).all(axis=1)]
        for m in range(len(kernel.FAULTS)):
            for other in range(m):
                assert np.abs(finite[:, m] - finite[:, other]).max() > 1e-6
        assert (ratios[~judged][:, :-1] == 1).all()


@pytest.mark.parametrize("tops", [(0, 1), (1, 6), (50, 100), (100, 4000), (4998, 4999)])
def test_of_equal_tops_the_first_counts(tops):
    """The draft's mode and the residual's, within a tile of entries and across tiles."""
    vocab_size = 8 if max(tops) < 8 else 5000
    rows = np.full((2, vocab_size), 0.5 / vocab_size)
    rows[0, list(tops)] += 0.25
    rows[1, [(top + 1) % vocab_size if tops[1] - tops[0] > 1 else top - 2 for top in tops]] += 0.25
    tokens = np.unique([0, *tops, *rows[1].argsort()[-2:], vocab_size - 1])
    p, q = (np.tile(row, (len(tokens), 1)) for row in rows / rows.sum(axis=1, keepdims=True))
    judged = np.ones(len(tokens), bool)
    _, ratios = filled(p, q, tokens, np.zeros(len(tokens)), judged)
    np.testing.assert_allclose(ratios, due_ratios(p, q, tokens, judged), rtol=3e-7, atol=1e-10)
    first, second = np.searchsorted(tokens, tops)
    top = kernel.FAULTS.index("top-k-residual(1)")
    assert ratios[first, top] > ratios[second, top] + 0.5
    mode = ratios[:, kernel.FAULTS.index("argmax-draft-soft-q")]
    drafted = np.isin(tokens, np.flatnonzero(q[0] == q[0].max()))
    assert mode[drafted].max() > mode[drafted].min()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_law_has_mass_one(dtype):
    """Over all tokens of a row P_m/P has mean 1 under P, to what sums of products round off."""
    rng = np.random.default_rng(13)
    for vocab_size in (5, 400):
        p, q = rng.dirichlet(np.full(vocab_size, 0.6), 2).astype(dtype)
        tokens = np.arange(vocab_size)
        uniforms, judged = np.zeros(vocab_size), np.ones(vocab_size, bool)
        same = (np.tile(row, (vocab_size, 1)) for row in (p, q))
        records, ratios = filled(*same, tokens, uniforms, judged)
        mean = records[kernel.PROBABILITY] @ ratios
        np.testing.assert_allclose(mean, 1, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_sum_to_one_but_for_rounding(dtype):
    """Order and PIT are those of the rows as given, divided by their float64 sums."""
    rng = np.random.default_rng(14)
    p, q = rng.dirichlet(np.full(5000, 0.4), (2, 20)).astype(dtype)
    tokens, uniforms = drawn(rng, p.astype(np.float64)), rng.random(20)
    records, ratios = filled(p, q, tokens, uniforms, np.ones(20, bool))
    exact = [row.astype(np.float64) for row in (p, q)]
    exact = [row / row.sum(axis=1, keepdims=True) for row in exact]
    np.testing.assert_allclose(records[:3], due_pits(*exact, tokens, uniforms), atol=1e-12)
    due = due_ratios(*exact, tokens, np.ones(20, bool))
    np.testing.assert_allclose(ratios, due, rtol=1e-4 if dtype == np.float32 else 3e-7, atol=1e-10)


def test_float32_rows_are_within_their_rounding_of_the_rows_they_came_from():
    """The docstring's TV of 3e-8, and not much less."""
    rng = np.random.default_rng(15)
    p = rng.dirichlet(np.full(5000, 0.4), 20)
    rounded = p.astype(np.float32).astype(np.float64)
    tv = np.abs(rounded / rounded.sum(axis=1, keepdims=True) - p).sum(axis=1) / 2
    assert 3e-9 < tv.max() < 3e-8


def test_the_cap_is_the_banks():
    assert row_sums.CAP == SURPRISE_CAP


@pytest.mark.parametrize(
    ("dtype", "near", "relative", "least", "smallest"),
    [(np.float64, 1e-9, 1.5e-7, -1021, 5e-324), (np.float32, 3e-6, 5e-6, -125, 1e-45)],
)
def test_logarithm_and_power(dtype, near, relative, least, smallest):

    @njit
    def fill(numbers, log, power):
        for i in range(len(numbers)):
            log[i] = row_sums.log2(numbers[i])
            power[i] = row_sums.power_of_two(log[i], 1 / 9)

    range_ = (-700, 5) if dtype is np.float64 else (-87, 5)
    x = np.exp(np.random.default_rng(16).uniform(*range_, 20_000)).astype(dtype)
    x[:4] = 1, 2, 0.5, np.sqrt(0.5)
    x[4:6] = 0, smallest
    log, power = np.empty_like(x), np.empty_like(x)
    fill(x, log, power)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(np.delete(log, [4, 5]), np.log2(np.delete(exact, [4, 5])), atol=near)
    assert (log[:3] == [0, 1, -1]).all()
    assert (log[4:6] < least).all()
    np.testing.assert_allclose(power[6:], exact[6:] ** (1 / 9), rtol=relative)
    assert np.isfinite(power).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["_survey", "_orders", "_fill_logs", "_logarithms", "_kept"])
@pytest.mark.thorough
def test_the_sums_are_vector_instructions(name, dtype):
    """A branch, an infinity or an ordered addition in the loop makes it eight times slower."""
    again = njit(nogil=True, error_model="numpy")(getattr(row_sums, name).py_func)
    row, sums = np.array([0.5, 0.5], dtype), np.zeros(row_sums.SUMS)
    logs = np.zeros((3, row_sums.TILE), dtype)
    between = {
        "_orders": (0.5, 0.5, 0.1, 0.1, sums), "_fill_logs": (logs,),
        "_logarithms": (logs, 0.1, sums),
    }  # fmt: skip
    again(row, row, 0, 2, *between.get(name, (sums,)))
    (code,) = again.inspect_llvm().values()
    if name != "_fill_logs":
        assert re.search(r"fadd reassoc nsz (contract )?<\d+ x double>", code)
        return
    # Nothing is added up there: sixteen entries at a time, or eight, or fewer.
    number = "float" if dtype is np.float32 else "double"
    assert re.search(rf"@llvm.fma.v\d+f\d\d\(<\d+ x {number}>", code)
