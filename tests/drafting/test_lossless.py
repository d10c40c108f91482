"""Drafts of layers in groups are lossless with and without calibration, and what is not."""

import math
from dataclasses import replace
from functools import cache, partial

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.false_alarms import ALPHA
from support.faulty_drafters import (
    Faulty,
    KeepsAcceptedEntries,
    KeepsARejectedSibling,
    OneTokenShort,
    Twin,
)
from support.levels import at_night
from support.real_models import deep_pair

from simverify.battery.battery import judge_output
from simverify.comparing.real import RowSettings, decode_rules
from simverify.drafting.method import DraftMethod
from simverify.models.transformer import BUNDLED, load_pair, read_prompts
from simverify.simulators.decoding import loop
from simverify.simulators.decoding.job import EmissionObserver, make_job
from simverify.simulators.decoding.loop import Job, verifier_factory
from simverify.simulators.decoding.trees import (
    RULE_PART,
    StatelessTreeVerifier,
    TreeEmissionObserver,
    decode_trees,
)
from simverify.trees import SCHEMES, Drafting, shape_of_levels
from simverify.verifiers import VERIFIERS
from simverify.verifiers.trees import TREE_VERIFIERS

pytestmark = pytest.mark.distribution


DECISIONS = 5
"""Verdicts that one test may ask for."""

PROMPTS = ((1, 2, 3), (4,), (5, 6), (7, 8, 9, 10), (11, 1))
JOB = Job(PROMPTS, gamma=4, lanes=50, lane_tokens=60, request_tokens=30, seed=3)
TREE = Drafting(shape_of_levels([2, 2, 1]), SCHEMES["iid"])
CALIBRATED, NOT_CALIBRATED = (DraftMethod("easyspec", 4, calibration=x) for x in (True, False))


def chain(method, name="token", job=JOB, scale=0.3):
    """The verdict on the tokens that are emitted on single drafts, and what is kept of a draft."""
    seen = EmissionObserver(job, VERIFIERS[name])
    loop.decode(
        deep_pair((2,), scale=scale), job, verifier_factory(VERIFIERS[name]), seen, method=method
    )
    worth, token = seen.decoded.worth, [1.0] * job.gamma
    rest = [0.0] * (worth.sums.shape[1] - job.gamma)
    kept = worth.interval([*token, *rest], 0.999)
    return judge_output(seen.decoded.features, ALPHA / DECISIONS).verdict(1.0), kept


@cache
def tree(method, name="recursive"):
    """As :func:`chain`, on trees."""
    rule = TREE_VERIFIERS[name]
    job = replace(JOB, gamma=3)
    seen = TreeEmissionObserver(job.lanes, job.seed, TREE, rule, nodes=40)
    decode_trees(
        deep_pair((2,)), job, TREE, partial(StatelessTreeVerifier, rule.rule), seen, method
    )
    found = seen.decoded
    return judge_output(found.features, ALPHA / DECISIONS).verdict(1.0), found.interval(RULE_PART)


def apart(one, other):
    """Whether one mean is above another at 99.9%, errors being independent."""
    return one.mean - other.mean > math.hypot(one.mean - one.low, other.high - other.mean)


# Of token, and below of recursive, on calibrated drafts: in the tests of faults of the cache.
@pytest.mark.parametrize(
    ("method", "name"),
    [(NOT_CALIBRATED, "block"), (DraftMethod("easyspec", 2), "greedy")],
)
@pytest.mark.thorough
def test_chains_are_lossless(method, name):
    assert chain(method, name)[0] == "PASS"


@pytest.mark.thorough
def test_trees_are_lossless():
    assert tree(NOT_CALIBRATED, "traversal")[0] == "PASS"


@pytest.mark.slow
def test_exact_laws_reported_of_fuzzy_drafts_are_lossy(monkeypatch):
    drafted = loop._draft_blocks

    def exactly(draft, lanes, gamma, uniforms, sampling):
        q, tokens, heads = drafted(draft, lanes, gamma, uniforms, sampling)
        for i, head in enumerate(draft.heads):
            q[:, i] = sampling.rows(head)
        return q, tokens, heads

    monkeypatch.setattr(
        Faulty, "make", lambda self, pair, requests: Twin(pair.draft_model, requests)
    )
    # With ten seeds of ten; at 100 tokens a lane with seven.
    how = {"job": replace(JOB, lane_tokens=160), "scale": 0.6}
    assert chain(Faulty(), **how)[0] == "PASS"
    monkeypatch.setattr(loop, "_draft_blocks", exactly)
    assert chain(Faulty(), **how)[0] == "FAIL"


LONGER = replace(JOB, lane_tokens=120)


@pytest.fixture(scope="module")
def right_chain():
    return chain(CALIBRATED, job=LONGER)


@pytest.mark.parametrize(
    "kind", at_night((KeepsAcceptedEntries, OneTokenShort), but=(KeepsAcceptedEntries,))
)
@pytest.mark.thorough
def test_faults_of_the_cache_are_slow_and_not_lossy(right_chain, kind):
    """The law that is reported is the law that was drawn from, however far from the model's own."""
    verdict, right = right_chain
    assert verdict == "PASS"
    verdict, kept = chain(Faulty(kind=kind), job=LONGER)
    assert verdict == "PASS"
    assert apart(right, kept)


@pytest.mark.slow
def test_a_fault_of_the_cache_of_trees_is_slow_and_not_lossy():
    verdict, right = tree(CALIBRATED)
    assert verdict == "PASS"
    verdict, kept = tree(Faulty(kind=KeepsARejectedSibling))
    assert verdict == "PASS"
    assert apart(right, kept)


@pytest.mark.slow
@pytest.mark.parametrize("calibration", [True, False])
@pytest.mark.parametrize("layer_parallel", [2, 4, 12])
@pytest.mark.parametrize("drafting", [None, TREE], ids=["chain", "tree"])
def test_the_bundled_pair_is_lossless(layer_parallel, calibration, drafting):
    pair = load_pair("tiny-llama", "tiny-llama-deep")
    texts = read_prompts(BUNDLED / "prompts.jsonl")
    job = make_job(pair, texts, gamma=3, tokens=5000, lanes=48, seed=1)
    method = DraftMethod("easyspec", layer_parallel, calibration=calibration)
    rule = VERIFIERS["token"] if drafting is None else TREE_VERIFIERS["recursive"]
    found = decode_rules(pair, job, [rule], drafting, method, lambda words: None)
    (row,) = found.rows(RowSettings(ALPHA, detect=0.9, cost_ratio=0.1))
    assert row.verdict == "PASS"
    assert row.lossless.detectable < 0.1
