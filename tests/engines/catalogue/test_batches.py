"""Engines that judge a batch are handed one: faults that no request by itself shows."""

import pytest
from support.batched_doubles import V1, V1_FAULTS
from support.batched_servers import (
    ASCEND,
    ASCEND_FAULTS,
    LMDEPLOY,
    LMDEPLOY_FAULTS,
    SGLANG,
    SGLANG_FAULTS,
    V2,
    V2_FAULTS,
)
from support.engine_doubles import checkout, largest_deviation

from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import load_subject
from simverify.errors import UsageError

torch = pytest.importorskip("torch")


NOISE = """
from nobody.triton_utils import tl, triton


@triton.jit
def tl_rand32(seed, offset, includes_zero: tl.constexpr):
    return tl.rand(seed, offset)


@triton.jit
def murmur3_uniform32(seed, pos, offset):
    return tl.rand(seed + pos * 1000003, offset)


@triton.jit
def _log1p_neg_stable(value):
    return tl.log(tl.maximum(1.0 - value, 6e-8))


@triton.jit
def gumbel_block_argmax(logits, block, mask, seed, pos):
    noise = -tl.log(-_log1p_neg_stable(murmur3_uniform32(seed, pos, block)))
    return tl.argmax(tl.where(mask, logits + noise, float("-inf")), axis=0)
"""
BESIDE = {"vllm-v2-token": {"vllm/v1/worker/gpu/sample/gumbel.py": NOISE}}

OTHERS = {
    "vllm-v2-token": (V2, V2_FAULTS),
    "ascend-token": (ASCEND, ASCEND_FAULTS),
    "lmdeploy": (LMDEPLOY, LMDEPLOY_FAULTS),
    "sglang": (SGLANG, SGLANG_FAULTS),
}
"""The others that are handed batches: a double of each, and faults by the kind that shows them."""


def judged(folder, text, kinds, name="aphrodite", **options):
    place = checkout(folder, name, text, BESIDE.get(name))
    subject = load_subject(name, checkout=str(place))
    sizes = {"gamma": 1, "vocab": 3, "max_samples": 4000, "seconds": 60.0}
    return audit(subject, None, AuditSettings(batch_mix=kinds, **sizes | options))


@pytest.mark.thorough
def test_a_right_batch_passes_in_the_company_that_its_adapter_knows(tmp_path):
    run = judged(tmp_path, V1, "ragged,mixed,one-hot")
    assert (run.verdict, run.tier, run.company) == ("PASS", "exact", "ragged,one-hot,mixed")


@pytest.mark.parametrize("kind", V1_FAULTS)
@pytest.mark.thorough(by_day=1)
def test_a_fault_that_only_a_batch_shows_is_found_in_its_company(tmp_path, kind):
    right, wrong = V1_FAULTS[kind]
    assert V1.count(right) == 1
    text = V1.replace(right, wrong)
    if kind != "one-hot":  # drafts without probabilities are no matter of the batch
        assert largest_deviation("aphrodite", checkout(tmp_path, "aphrodite", text), 1) < 1e-6
    assert judged(tmp_path, text, kind).verdict == "FAIL"


DEAR = {("vllm-v2-token", "greedy"), ("vllm-v2-token", "padded"), ("sglang", "padded, places")}
"""Those that take a processor several seconds each; one of the same engine runs every time."""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[pytest.mark.slow] if (name, kind) in DEAR else [])
        for name, (_, faults) in OTHERS.items()
        for kind in faults
    ],
)
@pytest.mark.thorough(by_day=2)
def test_the_others_are_right_and_a_fault_of_each_kind_is_found(tmp_path, no_gpu, name, kind):
    text, faults = OTHERS[name]
    right, wrong = faults[kind]
    assert text.count(right) == 1
    company = kind.partition(",")[0]
    good = judged(tmp_path / "right", text, company, name)
    assert (good.verdict, good.tier) == ("PASS", "exact")
    broken = text.replace(right, wrong)
    assert judged(tmp_path / "wrong", broken, company, name).verdict == "FAIL"
    alone = checkout(tmp_path / "alone", name, broken, BESIDE.get(name))
    if company != "one-hot":
        assert largest_deviation(name, alone, 1) < 1e-6


def test_another_kind_than_the_adapter_knows_is_refused(tmp_path):
    with pytest.raises(UsageError, match="aphrodite takes no requests of the kind unmasked"):
        judged(tmp_path, V1, "unmasked")
