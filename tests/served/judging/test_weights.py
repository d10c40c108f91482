"""Weights that were rounded to few bits: found at the budget of the plan, whichever they are."""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import emitted  # noqa: E402
from support.judged_tokens import judged  # noqa: E402

from simverify.models import rounding as grids  # noqa: E402
from simverify.models.rounding import (  # noqa: E402
    WEIGHT_FORMATS,
    WeightFormat,
    use_weight_format,
)
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served import evidence  # noqa: E402
from simverify.served.judge import (  # noqa: E402
    ReportedLogprobs,
    blames_exact_weights,
    without_weights,
)
from simverify.stats import (  # noqa: E402
    bet_sums,
    bet_test,
)
from simverify.verifiers import VERIFIERS  # noqa: E402

pytestmark = pytest.mark.usefixtures("all_roundings")

N = 5000
"""Somewhat more than the plan for a TV of .054 says."""

FEW = 600
"""Enough for weights that are off by several times as much."""


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


@pytest.mark.distribution
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("4 bits (Q4_0, layers)", marks=pytest.mark.slow),
        pytest.param("4 bits (Q4_0)", marks=pytest.mark.slow),
        pytest.param("4 bits (NF4)", marks=pytest.mark.slow),
    ],
)
def test_an_engine_with_rounded_weights_fails_by_that_test_alone(pair, name):
    with use_weight_format(pair.target_model, WEIGHT_FORMATS[name]):
        objects = emitted(pair, VERIFIERS["token"], N)
    run = judged(pair, objects, N)
    assert run.verdict == "FAIL"
    failed = {test.name for test in run.tests if test.rejected}
    # The bets that may end a run early hold those on weights, too.
    assert failed - {evidence.LOOKS_TEST_NAME} == {"weights, rounded to few bits"}
    assert any(f"fit best: {name}" in note for note in run.notes)
    assert not any("bfloat16" in note for note in run.notes)


def coarse(weight):
    """Round each row to nine levels: off by several times what four bits are."""
    scale = weight.abs().amax(dim=-1, keepdim=True) / 4.0
    return torch.round(weight / scale) * scale


@pytest.mark.distribution
@pytest.mark.thorough
def test_rounded_weights_are_told_from_the_targets_own(pair, monkeypatch):
    """A fraction of the tokens finds weights that are rounded more coarsely."""
    offered = {
        "nine levels": WeightFormat(coarse),
        "8 bits": WEIGHT_FORMATS["8 bits (float8 e4m3)"],
    }
    monkeypatch.setattr("simverify.served.run.WEIGHT_FORMATS", offered)
    with use_weight_format(pair.target_model, offered["nine levels"]):
        wrong = emitted(pair, VERIFIERS["token"], FEW, lanes=16)
    run = judged(pair, wrong, FEW, detect=0.5)
    assert run.verdict == "FAIL"
    assert "weights, rounded to few bits" in {test.name for test in run.tests if test.rejected}
    assert any("fit best: nine levels" in note for note in run.notes)
    right = judged(pair, emitted(pair, VERIFIERS["token"], FEW, lanes=16), FEW, detect=0.5)
    assert right.verdict == "PASS"


@pytest.mark.thorough
def test_bets_end_at_a_token_that_was_fixed_and_not_with_a_request(pair, monkeypatch):
    """Else a request would count or not by its own length, which is what is judged."""
    monkeypatch.setattr(evidence, "WEIGHT_TOKENS", 7)
    # Copies would be judged apart.
    objects = [{"prompt": "def f(", "tokens": [5 + i, 6, 7, 8, 9]} for i in range(3)]
    run = judged(pair, objects, 15)
    assert {test.n for test in run.tests if test.name.startswith("weights")} == {7}


NAMES = tuple("abcdef")


def drawn(seed, planted=None, n=512, size=12):
    """Ratios of six alternatives to a row, float64 (3, n) each; tokens of the row or of one."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(size), n)
    laws = {name: p * np.exp(rng.normal(0.0, 0.35, p.shape)) for name in NAMES}
    laws = {name: law / law.sum(axis=1, keepdims=True) for name, law in laws.items()}
    ends = (p if planted is None else laws[planted]).cumsum(axis=1)
    tokens = (ends < rng.random((n, 1))).sum(axis=1).clip(max=size - 1)
    tables = {name: law / p for name, law in laws.items()}
    return {
        name: np.stack([table[np.arange(n), tokens], table.min(axis=1), table.max(axis=1)])
        for name, table in tables.items()
    }


def betted(ratios, step):
    bets, sums = evidence.WeightBets(dict.fromkeys(NAMES, WEIGHT_FORMATS["4 bits (NF4)"])), None
    for start in range(0, 512, step):
        more = bets.bet({name: x[:, start : start + step] for name, x in ratios.items()})
        sums = more if sums is None or more is None else sums + more
    return bets, sums


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(evidence, "SCREENING_TOKENS", 100)


def test_after_the_first_tokens_three_go_on_wherever_requests_end(short):
    ratios = drawn(1, "d")
    (bets, whole), (_, parts) = betted(ratios, 512), betted(ratios, 64)
    np.testing.assert_allclose(whole.log_wealth, parts.log_wealth)
    assert (len(bets.wanted()), "d" in bets.wanted(), whole.n) == (3, True, 512)
    first = evidence.WeightBets(dict.fromkeys(NAMES, WEIGHT_FORMATS["4 bits (NF4)"]))
    begun = first.bet({name: x[:, :100] for name, x in ratios.items()})
    stayed = np.isclose(begun.log_wealth, whole.log_wealth)
    left = [name.split(",")[0] in bets.wanted() for name in whole.names]
    assert stayed.tolist() == [not own for own in left]


@pytest.mark.distribution
def test_bets_of_which_most_end_early_reject_as_seldom_as_promised(short):
    """Of 200 right runs a twentieth may be rejected at .05; tokens of an alternative all are."""
    tests = [
        [
            bet_test(betted(drawn(seed, planted), 512)[1], alpha=0.05).rejected
            for seed in range(runs)
        ]
        for planted, runs in ((None, 200), ("e", 20))
    ]
    assert sum(tests[0]) <= 18
    assert sum(tests[1]) == 20


def test_the_model_is_left_as_it_was_even_by_an_error(pair):
    before = {name: x.clone() for name, x in pair.target_model.state_dict().items()}

    def bad(weight):
        raise RuntimeError("no")

    row = pair.target([5, 6])
    with use_weight_format(pair.target_model, WEIGHT_FORMATS["4 bits (Q4_0)"]):
        assert np.abs(pair.target([5, 6]) - row).sum() > 0.01
    with (
        pytest.raises(RuntimeError, match="no"),
        use_weight_format(pair.target_model, WeightFormat(bad)),
    ):
        pair.target([5, 6])
    np.testing.assert_array_equal(pair.target([5, 6]), row)
    for key, x in pair.target_model.state_dict().items():
        assert torch.equal(x, before[key])


@pytest.mark.parametrize(
    ("rounding", "off", "levels"),
    [
        (grids.q4_0, 0.13, 16),
        (grids.q4_1, 0.09, 16),
        (grids.q4_k, 0.09, 16),
        (grids.asymmetric_groups(128), 0.14, 16),
        (grids.asymmetric_groups(32), 0.1, 16),
        (grids.symmetric_groups(128), 0.16, 16),
        (grids.fitted_groups(64), 0.12, 16),
        (grids.mlx(64), 0.14, 16),
        (grids.nf4, 0.16, 16),
        (grids.mxfp4, 0.2, 15),
        (grids.nvfp4, 0.14, 30),
        (grids.fp8, 0.07, 256),
    ],
)
def test_a_rounded_matrix_has_few_levels_and_is_near(rounding, off, levels):
    torch.manual_seed(1)
    weight = torch.randn(3, 100)
    found = rounding(weight)
    assert found.shape == weight.shape
    assert found.dtype == weight.dtype
    for block in found[0, :32].reshape(1, -1):
        assert len(block.unique()) <= levels
    assert 1e-3 < (found - weight).norm() / weight.norm() < off
    assert torch.equal(rounding(torch.zeros(2, 40)), torch.zeros(2, 40))


def test_q4_0_is_ggmls():
    """The value of the largest magnitude becomes -8 scales; 8 scales of the other sign are 7."""
    block = torch.tensor([[-8.0, 7.9, 1.4, -0.4, *[0.0] * 28]])
    assert grids.q4_0(block)[0, :4].tolist() == [-8.0, 7.0, 1.0, 0.0]


@pytest.mark.distribution
def test_a_format_is_told_as_often_as_was_promised_and_by_half_of_that_seldom():
    """Contexts and a law of random rows; runs draw their contexts and tokens anew."""
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(12), 512)
    rows = p * np.exp(rng.normal(0.0, 0.35, p.shape))
    rows /= rows.sum(axis=1, keepdims=True)
    gains = evidence.ExpectedGains()
    gains.add(p, rows, rows / p)
    alpha, ball = 1e-4, 1e-3
    promised = gains.document("a", 1, alpha, ball, bets=2)
    assert promised.tv == pytest.approx(np.abs(rows - p).sum(axis=1).mean() / 2)
    half = promised.needed // 2
    ends = rows.cumsum(axis=1)

    def told(n, law):
        at = rng.integers(512, size=n)
        tokens = (law[at] < rng.random((n, 1))).sum(axis=1).clip(max=11)
        table = rows[at] / p[at]
        seen = np.stack([table[np.arange(n), tokens], table.min(axis=1), table.max(axis=1)])
        sums = bet_sums("a", *seen, shares=(1.0, 0.3))
        return bet_test(sums, alpha=alpha, ball=ball).rejected

    for n in (half, promised.needed):
        power = gains.document("a", n, alpha, ball, bets=2).power
        found = sum(told(n, ends) for _ in range(400)) / 400
        assert found == pytest.approx(power, abs=0.08), n  # four times the noise of 400 runs
    assert power == pytest.approx(0.9, abs=0.005)
    assert not any(told(promised.needed, p.cumsum(axis=1)) for _ in range(200))


def test_what_wins_nothing_is_told_by_no_number_of_tokens():
    p = np.random.default_rng(4).dirichlet(np.ones(5), 64)
    gains = evidence.ExpectedGains()
    gains.add(p, p, np.ones_like(p))
    same = gains.document("a", 1000, 1e-6, 0.0, bets=2)
    assert (same.tv, same.power, same.needed) == (0.0, 0.0, None)


def test_a_token_that_a_format_hardly_ever_emits_has_its_price():
    """At a low temperature ratios lie below 1e-16, and 1 + (ratio - 1) would be 0."""
    p, rows = np.array([[0.5, 0.5, 0.0]]), np.array([[1.0 - 1e-30, 1e-30, 0.0]])
    gains = evidence.ExpectedGains()
    gains.add(p, rows, np.array([[2.0, 2e-30, 1.0]]))
    found = gains.document("a", 100, 1e-6, 0.0, bets=2)
    # All tokens are the first, and double the wealth of the whole stake.
    assert (found.tv, found.power) == (pytest.approx(0.5), pytest.approx(1.0))
    assert found.needed == pytest.approx(np.log2(2e6), abs=1)


@pytest.mark.thorough
def test_a_pass_says_which_weights_it_would_have_told(pair, monkeypatch):
    offered = {
        "nine levels": WeightFormat(coarse),
        "8 bits": WEIGHT_FORMATS["8 bits (float8 e4m3)"],
    }
    monkeypatch.setattr("simverify.served.run.WEIGHT_FORMATS", offered)
    run = judged(pair, emitted(pair, VERIFIERS["token"], FEW, lanes=16), FEW, detect=0.5)
    told, missed = run.weights
    assert (told.name, missed.name) == ("nine levels", "8 bits")
    assert told.power > 0.9 > 0.1 > missed.power
    assert told.tv > 5 * missed.tv > 0
    assert told.needed < FEW
    assert missed.needed is None or missed.needed > FEW
    lines = " ".join(str(run).split())
    assert "Rounded weights: power 0.9 or more against 1 of 2 formats" in lines
    farthest = f"8 bits is the farthest from the target: TV {missed.tv:.2g}, power 0.00"
    assert f"of those missed {farthest}" in lines


WEIGHTS, OTHERS = "weights, rounded to few bits", "other ways to sample"


@pytest.mark.parametrize(
    ("log_p", "off", "explained", "blamed"),
    [
        ({WEIGHTS: -20, "PIT": -30, OTHERS: -40}, None, True, True),
        ({WEIGHTS: -20, "PIT": -30, OTHERS: -40}, None, False, False),
        ({WEIGHTS: -20, "PIT": -30, OTHERS: -10}, None, True, False),
        ({WEIGHTS: -20, "PIT": -30}, 1e-5, False, True),
        ({WEIGHTS: -20, "PIT": -30}, 1e-2, False, False),
        ({WEIGHTS: -20, evidence.LOOKS_TEST_NAME: -30}, 1e-5, True, False),
        ({"PIT": -30}, 1e-5, True, False),
    ],
)
def test_exact_weights_are_not_blamed_for_what_else_fails(log_p, off, explained, blamed):
    """Reported values show them, or a way to sample that the tokens fit better."""
    tests = [SimpleNamespace(name=k, log_pvalue=x, rejected=True) for k, x in log_p.items()]
    reported = None
    if off is not None:
        values = evidence.LogprobKind("raw", 0.0, np.full(9, off), 1e-7)
        reported = ReportedLogprobs(values, off > 1e-3, 1e-6, None, False)
    assert blames_exact_weights(SimpleNamespace(tests=tests), reported, explained) == blamed


def test_lines_on_weights_are_left_out_and_no_others():
    lines = (
        f"{WEIGHTS}: p = 1e-9",
        "of rounded weights these fit best: 4 bits (NF4)",
        "PIT: p = 0",
    )
    assert without_weights(lines) == ("PIT: p = 0",)
