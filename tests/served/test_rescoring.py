"""How far logits have to be off for a token to be kept that truncation cuts off."""

import dataclasses
import zlib

import numpy as np
import pytest
from support.false_alarms import ALPHA

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import emitted  # noqa: E402

from simverify.models.distribution import (  # noqa: E402
    ORDERS,
    TRUNCATION_STAGES,
    Law,
    min_logit_error,
)
from simverify.models.transformer import (  # noqa: E402
    Sampling,
    load_pair,
)
from simverify.served import (  # noqa: E402
    OutputSettings,
    RequestSource,
    audit_outputs,
    check_request,
)
from simverify.verifiers import VERIFIERS  # noqa: E402


def laws(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = 2 * rng.normal(size=rng.integers(2, 12))
        yield (
            x,
            Law(
                float(rng.choice([0.0, 0.5, 1.0, 1.5])),
                rng.choice([None, 1, 2, 4]),
                rng.choice([None, 0.3, 0.6, 0.9]),
                min_p=rng.choice([None, None, 0.1, 0.5]),
                typical_p=rng.choice([None, None, None, 0.3, 0.7]),
                order=ORDERS[rng.choice(list(ORDERS))],
            ),
        )


def rows(law, x):
    return law.after(x[None], (), ())[0]


@pytest.mark.parametrize("count", [150, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.thorough
def test_a_token_out_of_reach_is_never_kept(count):
    rng, kept = np.random.default_rng(1), []
    for x, law in laws(2, count):
        for token in np.flatnonzero(rows(law, x) == 0):
            half = min_logit_error(x, int(token), law) / 2
            if half == 0 and len(law.acting & set(TRUNCATION_STAGES)) > 1:
                assert law.acting & {"min-p", "typical-p"}
                continue  # what the last of several cuts takes is not known: all counts
            assert half > 0
            for signs in rng.choice([-1, 1], (10, len(x))):
                moved = x + 0.999 * half * signs
                moved[token] = x[token] + 0.999 * half
                assert rows(law, moved)[token] == 0
            # All that is above moved down, all below too: tight but for the normaliser.
            moved = x - 1.001 * half
            moved[token] = x[token] + 1.001 * half
            kept.append(rows(law, moved)[token] > 0)
    assert len(kept) > 1.3 * count
    assert np.mean(kept) > 0.4


def test_a_token_that_is_kept_needs_nothing():
    for x, law in laws(3, 500):
        if law.temperature > 0.0:
            assert all(
                min_logit_error(x, int(t), law) < 1e-12 for t in np.flatnonzero(rows(law, x))
            )


class Noisy(Sampling):
    """An engine whose logits are off by a normal error of .03, as in bfloat16."""

    def rows(self, logits):
        logits = np.asarray(logits, dtype=np.float64)
        rng = np.random.default_rng(zlib.crc32(logits.tobytes()))
        return super().rows(logits + 0.03 * rng.normal(size=logits.shape))


@pytest.mark.distribution
@pytest.mark.usefixtures("shallow_target")
@pytest.mark.slow
def test_the_edge_of_top_p_is_where_the_engines_own_rounding_puts_it():
    torch.set_num_threads(1)
    pair = load_pair("tiny-llama", "tiny-llama")
    law = Sampling(top_p=0.5)
    noisy = dataclasses.replace(pair, sampling=Noisy(top_p=0.5))
    judge = dataclasses.replace(pair, sampling=law)
    settings = OutputSettings(tokens=1500, alpha=ALPHA, detect=0.5, ball=0.03)
    here = RequestSource(
        "outputs.jsonl", "simverify audit --outputs outputs.jsonl --target tiny-llama"
    )

    def run(by):
        requests = [check_request(x, "", judge) for x in emitted(by, VERIFIERS["token"], 1500)]
        return audit_outputs(requests, judge, here, settings)

    right = run(noisy)
    # No false alarm. Whether it is a PASS is up to the noise, which the bits of the logits choose:
    # of five seeds of it, two leave rows of a shape that rounding alone does not explain.
    assert right.verdict in ("PASS", "INCONCLUSIVE")
    assert right.unsupported == 0
    assert right.near > 1
    wrong = run(pair)  # one that ignores top-p
    assert wrong.verdict == "FAIL"
    assert wrong.unsupported > 50
