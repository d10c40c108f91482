"""A bonus token from rows that nothing names: what a PASS may say of it, and who finds it."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from simverify.models.distribution import Law
from simverify.served.evidence import OutputEvidence
from simverify.served.judge import OutputSettings, RowTolerance, judge_evidence

V, LENGTH, N, BONUS = 64, 64, 8_000, 5


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def judged(proxy, off=1.0):
    """Tokens whose every fifth is drawn from a row that is off by noise of size ``off``."""
    rng = np.random.default_rng(3)
    found, apart = OutputEvidence(0, proxy), []
    for number in range(N // LENGTH):
        logits = 2.2 * rng.normal(size=(LENGTH, V))
        p, other = softmax(logits), softmax(logits + off * rng.normal(size=(LENGTH, V)))
        own = p.copy()
        own[BONUS - 1 :: BONUS] = other[BONUS - 1 :: BONUS]
        apart.append(0.5 * np.abs(own - p).sum(axis=1).mean())
        u = rng.random((LENGTH, 1))
        tokens = np.minimum((own.cumsum(axis=1) <= u).sum(axis=1), V - 1)
        request = SimpleNamespace(
            tokens=tuple(tokens.tolist()), prompt=(number,), law=None, logprobs=None
        )
        found.add(
            SimpleNamespace(
                number=number, request=request, p=p, p_again=p, q=other if proxy else None,
                gap=np.zeros(LENGTH), shift=np.zeros(LENGTH), rounded={}, stated={},
                stated_again={}, law=Law(), logits=np.log(p),
            )
        )  # fmt: skip
    return judge_evidence(found, OutputSettings(tokens=found.n), RowTolerance(1e-6, {})), float(
        np.mean(apart)
    )


@pytest.mark.distribution
def test_nothing_shows_without_them_and_the_bound_names_what_it_takes_for_granted():
    run, apart = judged(proxy=False)
    assert apart > 0.06
    assert not run.findings
    assert run.certificate.bound < 0.08
    assert "which one token a context cannot show" in run.certificate.assumption


@pytest.mark.distribution
def test_the_rows_that_are_named_by_a_draft_show_it():
    assert judged(proxy=True)[0].findings
    assert not judged(proxy=True, off=0.0)[0].findings


def test_little_of_it_is_left_in_the_law_of_a_token_given_the_targets_row():
    """Whoever does not know the other row sees its mean over what it may have been."""
    rng = np.random.default_rng(4)
    alone, mean = [], []
    for _ in range(20):
        logits = 2.2 * rng.normal(size=V)
        p, others = softmax(logits), softmax(logits + rng.normal(size=(4_000, V)))
        alone.append(0.5 * np.abs(others - p).sum(axis=1).mean())
        mean.append(0.5 * np.abs(others.mean(axis=0) - p).sum())
    assert np.mean(mean) < np.mean(alone) / 5
