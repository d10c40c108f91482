"""The fused kernels: on the GPU where there is one, else in Triton's interpreter."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.false_alarms import ALPHA

torch = pytest.importorskip("torch")
from support.backend_batches import (  # noqa: E402
    DEVICE,
    batch,
    beside_thresholds,
    unexplained,
)

from simverify.auditing.coins import compare_coins  # noqa: E402
from simverify.auditing.enumeration import enumerate_verify  # noqa: E402
from simverify.auditing.sampled_runs import default_sampled_instances  # noqa: E402
from simverify.auditing.sampled_tier import sample_callable  # noqa: E402
from simverify.backends import (  # noqa: E402
    fused,
    rules,
    uniforms,
    verify,
)
from simverify.backends.batch import load_triton  # noqa: E402
from simverify.backends.rules import fused_coin_rule  # noqa: E402
from simverify.engines import get_engine  # noqa: E402
from simverify.errors import UsageError  # noqa: E402
from simverify.folders import find_package  # noqa: E402
from simverify.models.base import (  # noqa: E402
    compact,
    toy,
)
from simverify.symbolic.provenance import CannotEnumerate  # noqa: E402

if find_package("triton") is None:
    pytest.skip("needs Triton: pip install --no-deps triton", allow_module_level=True)
load_triton(lambda: importlib.import_module("simverify.backends.kernels"))

COMPACT_P = np.array([compact().target(()), compact().target((0,))])
COMPACT_Q = np.array([compact().draft(())])

BOTH = pytest.mark.parametrize("rule", ["token", "block"])
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")


@pytest.fixture
def small_tiles(monkeypatch):
    """Many tiles also of a small row."""
    monkeypatch.setattr(fused, "TILE", 32)


def test_uniforms_are_those_of_the_cpu():
    far = (2**63 + 12_345_678_901, 2**40 - 2, 7)
    for gamma in (1, 3, 4):
        found = fused.fused_uniforms(100, gamma, *far, torch.device(DEVICE)).cpu()
        due = uniforms(100, gamma, seed=far[0], first_trial=far[1], call=far[2])
        assert torch.equal(found, due)
    # Arguments that are 1 are compiled in.
    found = fused.fused_uniforms(3, 2, 1, 1, 1, torch.device(DEVICE)).cpu()
    assert torch.equal(found, uniforms(3, 2, seed=1, first_trial=1, call=1))


@BOTH
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.thorough(by_day=6)
def test_every_token_is_within_the_tolerance(small_tiles, rule, logits, dtype):
    given = batch(16, 3, 100, seed=2, dtype=dtype, logits=logits, device=DEVICE)
    result = fused.verify(rule, *given, logits=logits, check=False)
    assert unexplained(rule, *given, result, logits=logits) == []
    assert len(set(result.tau.tolist())) > 1
    due = rules.torch_verify(rule, *given, logits=logits, check=False)
    if dtype == torch.float64:
        assert torch.equal(result.tokens, due.tokens)
    # The control: what the other rule did needs another explanation.
    other = "block" if rule == "token" else "token"
    wrong = rules.torch_verify(other, *given, logits=logits, check=False)
    assert unexplained(rule, *given, wrong, logits=logits) != []


@pytest.mark.parametrize("side", [-1, 1])
@BOTH
def test_thresholds_are_where_they_should_be(rule, side):
    given, due = beside_thresholds(rule, batch(24, 2, 40, seed=8, device=DEVICE), side)
    assert fused.verify(rule, *given).tau.eq(due).all()


@BOTH
def test_the_largest_vocabulary(rule):
    given = batch(2, 2, 152_064, seed=3, dtype=torch.bfloat16, logits=True, device=DEVICE)
    result = fused.verify(rule, *given, logits=True)
    assert unexplained(rule, *given, result, logits=True) == []
    assert int(result.tokens.max()) > fused.TILE  # not from the first tile


@BOTH
@pytest.mark.parametrize("coin", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.thorough
def test_tokens_without_mass_are_never_drawn(small_tiles, rule, coin):
    p = torch.zeros(5, 2, 100, dtype=torch.float64, device=DEVICE)
    p[:, :, 37], p[:, :, 70] = 0.5, 0.5
    q = torch.full((5, 1, 100), 0.01, dtype=torch.float64, device=DEVICE)
    coins = torch.full((5, 2), coin, dtype=torch.float64, device=DEVICE)
    drafts = torch.tensor([0, 37, 50, 70, 99], device=DEVICE)[:, None]
    for rows in ((p, q), (p.log(), q.log())):
        tokens, tau = fused.verify(rule, *rows, drafts, coins, logits=rows[0] is not p)
        for row, count in zip(tokens.tolist(), tau.tolist(), strict=True):
            assert set(row[: count + 1]) <= {37, 70}


@BOTH
def test_a_residual_lost_to_rounding_leaves_the_target_row(rule):
    # q >= p everywhere by rounding, and the draft rejected: nothing is left to draw from.
    p = torch.tensor([[[0.25, 0.75, 0.0]] * 2], dtype=torch.float64, device=DEVICE)
    q = p[:, :1] * (1 + 1e-10)
    for last, token in ((0.2, 0), (0.3, 1)):
        coins = torch.tensor([[1 - 2**-53, last]], dtype=torch.float64, device=DEVICE)
        drafts = torch.zeros(1, 1, dtype=torch.int64, device=DEVICE)
        result = fused.verify(rule, p, q, drafts, coins)
        assert (int(result.tau), int(result.tokens[0, 0])) == (0, token)


@BOTH
def test_drafts_that_the_draft_cannot_emit_are_judged_as_by_torch(rule):
    p = torch.tensor([[[0.5, 0.5, 0.0]] * 2] * 3, dtype=torch.float64, device=DEVICE)
    q = torch.tensor([[[1.0, 0.0, 0.0]]] * 3, dtype=torch.float64, device=DEVICE)
    drafts = torch.arange(3, device=DEVICE)[:, None]
    coins = torch.zeros(3, 2, dtype=torch.float64, device=DEVICE)
    due = rules.torch_verify(rule, p, q, drafts, coins)
    assert torch.equal(fused.verify(rule, p, q, drafts, coins).tokens, due.tokens)


@BOTH
def test_rows_may_lie_apart(rule):
    p, q, x, u = batch(8, 3, 50, seed=6, device=DEVICE)
    joint = torch.cat([p, q], dim=1)
    apart = fused.verify(rule, joint[:, :4], joint[:, 4:], x, u)
    assert torch.equal(apart.tokens, fused.verify(rule, p, q, x, u).tokens)
    with pytest.raises(UsageError, match=r"target has stride 4 along V: pass .contiguous\(\)"):
        fused.verify(rule, p.mT.contiguous().mT, q, x, u)


def test_bad_input_is_one_line():
    given = batch(4, 2, 5, seed=0, device=DEVICE)
    with pytest.raises(UsageError, match="rule='greedy': the fused kernels have token and block"):
        fused.verify("greedy", *given)
    with pytest.raises(UsageError, match=r"draft_tokens is int32: pass int64"):
        fused.verify("token", *given[:2], given[2].int(), given[3])
    with pytest.raises(UsageError, match="the tensors are on meta, the fused kernels run on"):
        fused.verify("token", *(x.to("meta") for x in given), check=False)


@pytest.mark.parametrize(
    ("rule", "gamma", "tau"),
    [
        ("token", 1, 5 / 6),
        pytest.param("block", 2, 211 / 144, marks=pytest.mark.slow),  # in the interpreter
    ],
)
@pytest.mark.thorough
def test_the_kernels_are_lossless_on_every_box_of_coins(rule, gamma, tau):
    engine = get_engine(f"triton-{rule}").on_gpu
    verify = fused_coin_rule(rule, device=DEVICE)
    result = compare_coins(
        verify, compact(), gamma, bits=engine.coin_bits, tolerance=engine.tolerance, probes=1
    )
    assert result.max_abs_deviation < 1e-12
    assert result.expected_accepted == pytest.approx(tau, abs=1e-12)
    assert result.findings == ()
    assert "TRITON_INTERPRET" not in os.environ or DEVICE == "cuda"


@pytest.mark.thorough
def test_kernels_on_a_wrong_draft_are_caught():
    verify = fused_coin_rule("token", device=DEVICE)

    def on_scaled_draft(p, q, x, u):
        return verify(p, 0.9 * q, x, u)

    result = compare_coins(on_scaled_draft, toy(), 1, probes=1)
    assert result.max_abs_deviation > 0.001


def fused_rule(name):
    """The kernels under the verify contract: no path of random choices goes through them."""
    coins_in = fused_coin_rule(name, device=DEVICE)

    def verify(p, q, x, rng):
        shape = np.shape(x)
        coins = np.array(rng.random((*shape[:-1], shape[-1] + 1)), dtype=np.float64)
        return coins_in(p, q, x, coins)

    return verify


def test_kernels_are_sampled_where_their_randomness_is_symbolic():
    with pytest.raises(CannotEnumerate):
        enumerate_verify(fused_rule("token"), COMPACT_P, COMPACT_Q, np.array([0]))


COMPILE = Path(__file__).with_name("compile_kernels.py")


@pytest.mark.skipif(sys.platform != "linux", reason="Triton brings its assembler on Linux alone")
@pytest.mark.thorough
def test_the_kernels_compile_for_a_gpu_that_is_not_there(tmp_path):
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    run = subprocess.run(
        [sys.executable, str(COMPILE)], capture_output=True, text=True, env=environment,
        timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["fill_uniforms", "sum_tiles", "weigh", "sum_laws", "draw"] * 2


@needs_gpu
@pytest.mark.gpu
@BOTH
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_gpu_agrees_with_the_cpu(rule, dtype):
    given = batch(64, 8, 152_064, seed=4, dtype=dtype, logits=True, device=DEVICE)
    result = verify(rule, *given, logits=True)
    assert unexplained(rule, *given, result, logits=True) == []
    due = rules.torch_verify(rule, *(x.cpu() for x in given), logits=True)
    same = (result.tau.cpu() == due.tau).float().mean()
    assert same >= (1 if dtype == torch.float64 else 0.9)


@needs_gpu
@pytest.mark.gpu
@pytest.mark.distribution
@BOTH
def test_the_sampled_battery_passes_on_the_kernels(rule):
    found = sample_callable(
        fused_rule(rule), "verify", instances=default_sampled_instances(), seed=5,
        alpha=ALPHA, detect=0.02, batch=4096,
    )  # fmt: skip
    assert found.verdict == "PASS"


@needs_gpu
@pytest.mark.gpu
@pytest.mark.distribution
def test_the_sampled_battery_catches_kernels_on_a_wrong_draft():
    rule = fused_rule("token")

    def on_mixed_draft(p, q, x, rng):
        return rule(p, np.asarray(q) * 0.9 + 0.1 / q.shape[-1], x, rng)

    found = sample_callable(
        on_mixed_draft,
        "verify",
        instances=default_sampled_instances(),
        seed=5,
        alpha=ALPHA,
        detect=0.02,
        batch=4096,
    )
    assert found.verdict == "FAIL"
