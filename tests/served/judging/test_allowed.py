"""What the engine's rounding may explain: measured, claimed, and told from what is none."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    Ensemble,
    emitted,
)
from support.judged_tokens import judged  # noqa: E402

from simverify.models.transformer import (  # noqa: E402
    Sampling,
    load_pair,
)
from simverify.reports.formats import markdown_report  # noqa: E402
from simverify.served.evidence import OutputEvidence  # noqa: E402
from simverify.served.judge import ROUNDING_ALPHA as DENIED  # noqa: E402
from simverify.served.judge import (  # noqa: E402
    PrecisionTrial,
    rounding_drift_test,
)
from simverify.verifiers import VERIFIERS  # noqa: E402

pytestmark = pytest.mark.usefixtures("logits_once")

N, MIXED = 2000, 3500


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


@pytest.fixture(scope="module")
def coarse():
    return load_pair("tiny-llama", "tiny-llama", dtype="bfloat16")


@pytest.fixture(scope="module")
def mixed(pair):
    return emitted(pair, Ensemble, MIXED, gamma=1)


@pytest.mark.distribution
@pytest.mark.slow
def test_an_engine_in_another_precision_is_told_how_to_be_judged(pair):
    law = Sampling(top_k=3)
    fine = dataclasses.replace(pair, sampling=law)
    coarse = load_pair("tiny-llama", "tiny-llama", sampling=law, dtype="bfloat16")
    objects = emitted(coarse, VERIFIERS["token"], 1500)
    run = judged(fine, objects, 1500, detect=0.5)
    assert run.verdict == "FAIL"
    (note,) = [note for note in run.notes if "--dtype bfloat16" in note]
    assert "has the shape of rounding" in note
    assert not run.shape.rejected
    right = judged(coarse, objects, 1500, detect=0.5)
    assert right.verdict == "PASS"
    assert right.ball == right.ball_measured == right.rescoring.precision
    claimed = judged(fine, objects, 1500, detect=0.5, ball=0.02)
    assert claimed.verdict == "PASS"
    assert claimed.hidden == run.findings
    ruling = " ".join(markdown_report(claimed).split())
    assert (
        "PASS if the engine's rows are off by TV 0.02 on average, as --row-tolerance claims"
        in ruling
    )
    assert "Without the claim it is a FAIL: " in ruling
    assert "as declared, which nothing here shows" in claimed.certificate.assumption


@pytest.mark.distribution
@pytest.mark.thorough
def test_no_precision_excuses_a_mixture_with_the_draft(pair, coarse, mixed):
    run = judged(pair, mixed, MIXED)
    assert run.verdict == "FAIL"
    assert not any("bfloat16" in note for note in run.notes)
    assert judged(coarse, mixed, MIXED).verdict == "FAIL"


@pytest.mark.distribution
@pytest.mark.thorough
def test_a_claim_that_hides_what_is_no_rounding_leaves_no_verdict(pair, mixed):
    run = judged(pair, mixed, MIXED, ball=0.05)
    assert (run.verdict, run.findings) == ("INCONCLUSIVE", ())
    assert run.shape.rejected
    assert run.hidden
    assert "not of the shape that rounding makes" in run.inconclusive
    assert run.certificate is None


@pytest.mark.distribution
@pytest.mark.thorough
def test_an_engine_in_the_declared_precision_passes(pair, coarse):
    objects = emitted(coarse, VERIFIERS["token"], N)
    run = judged(coarse, objects)
    assert (run.verdict, run.hidden, run.shape) == ("PASS", (), None)
    assert 1e-3 < run.ball < 0.02
    assert judged(pair, objects).verdict == "PASS"  # so few tokens do not tell


def test_the_target_is_left_as_it_was(coarse):
    before = {name: x.clone() for name, x in coarse.target_model.state_dict().items()}
    buffers = {name: x.clone() for name, x in coarse.target_model.named_buffers()}
    judged(coarse, [{"prompt": "def f(", "tokens": [5, 6, 7]}], 10)
    for name, x in coarse.target_model.state_dict().items():
        assert x.dtype == torch.bfloat16
        assert torch.equal(x, before[name])
    for name, x in coarse.target_model.named_buffers():
        assert x.dtype == buffers[name].dtype
        assert torch.equal(x, buffers[name])


def simulated(rng, drift):
    """Tokens whose scores are off by ``drift`` of their spread, and rounding that is seen."""
    found = OutputEvidence(0, False)
    spreads, tried = rng.uniform(1.0, 3.0, (2, 1000))
    off = rng.normal(size=1000) + drift(spreads)
    found.deviations = {"score -log p": [np.stack([off, np.ones(1000)])]}
    found.spreads = [spreads]
    moved = 0.02 * tried * rng.normal(size=1000) + 0.002 * tried
    return rounding_drift_test(
        ["score -log p"], found, PrecisionTrial(1000, 0.01, 0.1, {"score -log p": moved}, {}, tried)
    )


@pytest.mark.distribution
@pytest.mark.thorough
def test_the_shape_of_rounding_is_denied_at_its_rate():
    """Logits off by .02 of their spread, both ways, and all of them a tenth of that one way."""
    rng = np.random.default_rng(61)
    denied = sum(
        simulated(rng, lambda s: 0.02 * s * rng.normal(size=1000) + 0.002 * s).rejected
        for _ in range(2000)
    )
    assert denied <= 20  # binomial with a rate of 1e-3: 20 or more at 2000 have 1e-13
    assert DENIED == 1e-3
    assert simulated(rng, lambda s: np.full(1000, 0.4)).rejected  # not both ways
    assert simulated(rng, lambda s: np.where(s > 2.5, 0.7, 0.0)).rejected


def test_too_few_tokens_tell_no_shape(pair):
    found = OutputEvidence(0, False)
    request = {"prompt": "def f(", "tokens": [5, 6, 7]}
    run = judged(pair, [request], 3)
    assert run.shape is None
    rounding = PrecisionTrial(3, 0.1, 0.1, {"score -log p": np.zeros(3)}, {}, np.ones(3))
    found.deviations = {"score -log p": [np.ones((2, 3))]}
    found.spreads = [np.ones(3)]
    assert rounding_drift_test(["score -log p"], found, rounding) is None


def test_a_precision_that_was_tried_widens_the_margin_of_a_cut():
    """That a text is computed alike alone and among others says nothing of another machine."""
    found = OutputEvidence(0, False)
    assert found.margin == 0.1
    found.allow(0.3)
    assert found.margin == 0.6
