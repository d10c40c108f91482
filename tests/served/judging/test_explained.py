"""What a run that failed is consistent with: other ways to sample, by name."""

import dataclasses

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.judged_tokens import judged  # noqa: E402
from support.levels import at_night  # noqa: E402
from support.sampled_engine import sampled_answers  # noqa: E402

from simverify.models.distribution import ORDERS, Law  # noqa: E402
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served.variants import LOOKUP_VARIANTS, TAIL_VARIANTS, VARIANTS  # noqa: E402

pytestmark = pytest.mark.usefixtures("logits_once", "shallow_target")

N = 2000
NAMED = {one.words: one for one in VARIANTS}
ASKED = {
    "top-p without the token that crosses p": Law(0.8, None, 0.8),
    "top-p with one token more than reach p": Law(0.8, None, 0.8),
    "top-k of k + 1": Law(1.0, 4),
    "min-p relative to 1, not to the largest probability": Law(1.0, min_p=0.1),
    "temperature after the cuts": Law(0.5, None, 0.8),
    "0.8 times the temperature": Law(1.0),
    "top-k 20, which was not asked for": Law(1.0),
}
DAILY = ("top-p without the token that crosses p", "0.8 times the temperature")
RIGHT = (
    Law(0.8, None, 0.8),
    dataclasses.replace(Law(0.5, 20, 0.8, 0.02), order=ORDERS["llamacpp"]),
    Law(1.5, 4),
)


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", None)


def audited(pair, law, rows, seed=0):
    answers = sampled_answers(pair, rows, N, seed=seed)
    objects = [
        {"prompt": list(own.prompt), "tokens": list(own.tokens), "finish_reason": "length"}
        for own in answers
    ]
    return judged(dataclasses.replace(pair, sampling=law), objects, N)


@pytest.mark.distribution
@pytest.mark.parametrize("words", at_night(ASKED, but=DAILY))
@pytest.mark.thorough(by_day=1)
def test_what_an_engine_does_is_named(pair, words):
    law = ASKED[words]
    run = audited(pair, law, lambda *given: NAMED[words].rows(law, *given))
    assert run.verdict == "FAIL"
    fits = [one.words for one in run.explained.fits]
    assert words in fits
    assert len(fits) <= 2
    shown = " ".join(str(run).split())
    assert "They are consistent with" in shown
    assert f"{words} (p-value" in shown
    assert "other explanations are below 1e-" in shown


@pytest.mark.distribution
@pytest.mark.parametrize("law", at_night(RIGHT, but=RIGHT[:1]), ids=("top-p", "llamacpp", "top-k"))
@pytest.mark.thorough
def test_an_engine_that_does_what_it_is_asked_for_passes(pair, law):
    run = audited(pair, law, law.after)
    assert run.verdict == "PASS"
    assert run.explained is None


@pytest.mark.distribution
@pytest.mark.thorough
def test_a_fault_of_another_kind_is_explained_by_none(pair):
    law = Law(0.8)

    def rows(*given):
        return 0.7 * law.after(*given) + 0.3 / given[0].shape[-1]

    run = audited(pair, law, rows)
    assert run.verdict == "FAIL"
    assert run.explained.fits == ()
    assert "None of 41 explanations fits them" in " ".join(str(run).split())


PRECISION = {one.words: one for one in (*LOOKUP_VARIANTS, *TAIL_VARIANTS)}
COARSE = (
    "tokens looked up in a bfloat16 running sum",
    "tokens looked up in a float16 running sum, likeliest first",
    "tokens looked up in a bfloat16 running sum by a uniform of 7 bits",
    "half precision: no token below a probability of 2^-8 comes out",
)


@pytest.mark.distribution
@pytest.mark.parametrize("words", at_night(COARSE, but=COARSE[:1]))
@pytest.mark.thorough(by_day=1)
def test_a_sampler_of_few_digits_is_named(pair, words):
    law = Law(1.0)
    run = audited(pair, law, lambda *given: PRECISION[words].rows(law, *given))
    assert run.verdict == "FAIL"
    fits = [one.words for one in run.explained.fits]
    assert words in fits
    assert {one.split(":")[0] for one in fits} == {words.split(":")[0]}
