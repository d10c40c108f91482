import numpy as np
import pytest
from support.oracles.naive import Pair, draw_alias

torch = pytest.importorskip("torch")

from support.backend_batches import (  # noqa: E402
    batch,
    beside_thresholds,
    unexplained,
)
from support.whole_laws import compare_verify  # noqa: E402

from simverify.backends import (  # noqa: E402
    RULES,
    draft_uniforms,
    rules,
    uniforms,
    verify,
)
from simverify.backends.rules import torch_rule  # noqa: E402
from simverify.models.base import (  # noqa: E402
    MarkovModel,
    compact,
)
from simverify.simulators.run import (  # noqa: E402
    model_tables,
    simulate,
)

COMPACT = compact()
SEED, FIRST = 11, 2**33 - 50


def in_ratio_order(vocab, seed):
    """Rows whose q/p ascends with the token id: the compiled kernels draw in that order."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(vocab), vocab + 1)
    q = p * np.sort(rng.gamma(2.0, size=p.shape), axis=1)
    q /= q.sum(axis=1, keepdims=True)
    return MarkovModel("sorted", p[0], p[1:], q[0], q[1:])


def kernel_tokens(tables, rule, gamma, trial, *, calls, vocab):
    """Tokens of one trial of the compiled kernel, by the places of its counts."""
    shape = (calls * (gamma + 1), vocab + 1, vocab)
    counts = simulate(
        tables, rule, gamma, 1, seed=SEED, threads=1, calls=calls, transition_shape=shape,
        first_trial=trial,
    )  # fmt: skip
    return [int(token) for _, _, token in np.argwhere(counts.transitions)]


def tensor_tokens(model, rule, gamma, trials, calls):
    """Tokens of the same trials by the rules in torch, one call of all at a time."""
    pair = Pair.of(model, model_tables(model))
    out = [() for _ in range(trials)]
    for call in range(calls):
        address = {"seed": SEED, "first_trial": FIRST, "call": call}
        coins = draft_uniforms(trials, gamma, **address).tolist()
        blocks = []
        for tokens, coin in zip(out, coins, strict=True):
            path = tokens
            for u in coin:
                at = pair.context(path)
                path = (*path, draw_alias(pair.cut[at], pair.alias[at], u))
            at = [pair.context(path[: len(tokens) + i]) for i in range(gamma + 1)]
            rows = [pair.p[s] for s in at], [pair.q[s] for s in at[:-1]]
            blocks.append((*rows, path[len(tokens) :]))
        given = [torch.tensor(np.array(x)) for x in zip(*blocks, strict=True)]
        result = rules.torch_verify(rule, *given, uniforms(trials, gamma, **address))
        out = [
            (*tokens, *row[: int(tau) + 1])
            for tokens, row, tau in zip(out, result.tokens.tolist(), result.tau, strict=True)
        ]
    return out


@pytest.mark.parametrize("gamma", [1, 3])
@pytest.mark.parametrize("rule", ["token", "block", "match", "greedy"])
def test_tokens_are_those_of_the_compiled_kernel(rule, gamma):
    """To the last one: float64 on both sides, no tie in 100 trials."""
    calls = 1 if rule == "greedy" else 2
    model = in_ratio_order(6, seed=3)
    tables = model_tables(model)
    for number, tokens in enumerate(tensor_tokens(model, rule, gamma, 100, calls)):
        due = kernel_tokens(tables, rule, gamma, FIRST + number, calls=calls, vocab=6)
        assert list(tokens) == due, number


@pytest.mark.parametrize(
    ("rule", "gamma", "tau"),
    [("token", 3, 379 / 216), ("block", 3, 139 / 72), ("match", 1, None), ("greedy", 3, 593 / 288)],
)
def test_the_exact_law_is_the_targets_and_the_closed_form_holds(rule, gamma, tau):
    result = compare_verify(torch_rule(rule), COMPACT, gamma)
    assert result.findings == ()
    if tau is not None:
        assert result.expected_accepted == pytest.approx(tau, abs=1e-13)
    if rule == "greedy":  # a first call alone, without the debt: the control
        assert result.max_abs_deviation > 0.001
    else:
        assert result.max_abs_deviation < 1e-15


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("rule", ["token", "block"])
@pytest.mark.thorough
def test_every_token_is_within_the_tolerance(rule, logits, dtype):
    given = batch(200, 5, 1000, seed=1, dtype=dtype, logits=logits)
    result = verify(rule, *given, logits=logits, check=logits or dtype.itemsize > 2)
    assert unexplained(rule, *given, result, logits=logits) == []
    assert len(set(result.tau.tolist())) > 3
    # The control: the other rule is explained only where both do the same.
    other = "block" if rule == "token" else "token"
    assert len(unexplained(other, *given, result, logits=logits)) > 5


def test_long_rows_of_logits_are_normalised_to_float32():
    made = torch.Generator().manual_seed(0)
    logits = 4 * torch.randn(1, 8, 152_064, generator=made)
    p, exact = rules._probabilities(logits, True), logits.double().softmax(-1)
    worst = (p.double().cumsum(-1) - exact.cumsum(-1)).abs().max()
    assert 1e-9 < worst < 1e-6


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("rule", ["token", "block"])
def test_thresholds_are_where_they_should_be(rule, side):
    given, due = beside_thresholds(rule, batch(24, 2, 40, seed=8), side)
    assert rules.torch_verify(rule, *given).tau.eq(due).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("coin", [0.0, 0.5, 1 - 2**-53])
def test_tokens_without_mass_are_never_drawn(rule, coin):
    p = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]], dtype=torch.float64).repeat(5, 2, 1)
    q = torch.full((5, 1, 5), 0.2, dtype=torch.float64)
    coins = torch.full((5, 2), coin, dtype=torch.float64)
    tokens, tau = verify(rule, p, q, torch.arange(5)[:, None], coins)
    for row, count in zip(tokens.tolist(), tau.tolist(), strict=True):
        assert set(row[: count + 1]) <= {1, 3}


def test_equal_rows_leave_no_residual_and_accept_all():
    p, _, x, u = batch(50, 3, 40, seed=4)
    for rule in ("token", "block", "greedy"):
        assert verify(rule, p, p[:, :-1], x, u).tau.eq(3).all()


@pytest.mark.parametrize("rule", ["token", "block", "greedy"])
def test_a_residual_lost_to_rounding_leaves_the_target_row(rule):
    p = torch.tensor([[[0.25, 0.75, 0.0]] * 2], dtype=torch.float64)
    q = p[:, :1] * (1 + 1e-10)  # nowhere below p
    for last, token in ((0.2, 0), (0.3, 1)):
        coins = torch.tensor([[1 - 2**-53, last]], dtype=torch.float64)
        result = verify(rule, p, q, torch.zeros(1, 1, dtype=torch.int64), coins)
        assert (int(result.tau), int(result.tokens[0, 0])) == (0, token)


@pytest.mark.parametrize("rule", ["token", "block", "greedy"])
def test_drafts_that_the_draft_cannot_emit_are_judged_as_by_the_readable_rules(rule):
    """q = 0 < p: the token rule accepts, the others do not; q = p = 0: none does."""
    p = torch.tensor([[[0.5, 0.5, 0.0]] * 2], dtype=torch.float64)
    q = torch.tensor([[[1.0, 0.0, 0.0]]], dtype=torch.float64)
    coins = torch.tensor([[0.0, 0.5]], dtype=torch.float64)
    for x, due in ((1, int(rule == "token")), (2, 0)):
        assert int(verify(rule, p, q, torch.tensor([[x]]), coins).tau) == due
