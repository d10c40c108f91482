import time

import numpy as np
import pytest
from support.engine_doubles import checkout
from support.whole_laws import compare_verify, enumerate_step

from simverify.engines import get_engine
from simverify.engines.catalogue.transformers import (
    load_transformers_function,
    wrap_speculative_sampling,
)
from simverify.errors import SimverifyError
from simverify.folders import find_package
from simverify.models.base import MarkovModel, compact

pytestmark = pytest.mark.skipif(
    find_package("transformers") is None or find_package("torch") is None,
    reason="transformers is not installed: pip install transformers==5.24.0",
)

COMPACT = compact()
TV = 1 / 6  # of the start rows (5, 1, 6)/12 and (6, 2, 4)/12


@pytest.fixture(scope="module")
def function():
    return load_transformers_function(get_engine("transformers").find())


def test_transformers_is_lossless_to_rounding():
    result = compare_verify(get_engine("transformers").load(), COMPACT, 3)
    assert result.max_abs_deviation < 1e-15
    assert result.expected_accepted == pytest.approx(379 / 216, abs=1e-13)
    assert result.findings == ()


def test_float32_costs_float32(function):
    verify = wrap_speculative_sampling(function, dtype="float32")
    assert 1e-12 < compare_verify(verify, COMPACT, 2).max_abs_deviation < 1e-6


@pytest.mark.parametrize("w", [0.0, 0.25, 0.5, 0.9, 0.999, 1.0])
def test_the_ensemble_weight_is_a_dose_of_known_size(function, w):
    result = compare_verify(
        wrap_speculative_sampling(function, assistant_ensemble_weight=w),
        COMPACT,
        2,
        tolerance=1e-12,
    )
    if w == 1:
        assert result.place is None
    else:
        assert result.place.position == 0
        assert result.place.tv == pytest.approx((1 - w) * TV, abs=1e-12)


def test_the_dose_holds_where_the_target_is_cut(function):
    rng = np.random.default_rng(4)
    p, q = rng.dirichlet(np.full(5, 0.5), size=2)
    model = MarkovModel("iid", p, p[None], q, q[None])
    verify = wrap_speculative_sampling(function, assistant_ensemble_weight=0.7)
    place = compare_verify(verify, model, 1).place
    assert place.tv == pytest.approx(0.3 * np.abs(p - q).sum() / 2, abs=1e-12)
    assert place.tv > 0.01


@pytest.mark.thorough
def test_the_promised_speed_at_five_tokens(function):
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(5), size=12)
    model = MarkovModel("five", rows[0], rows[1:6], rows[6], rows[7:])
    started = time.process_time()
    result = compare_verify(wrap_speculative_sampling(function), model, 3)
    assert result.max_abs_deviation < 1e-14
    # The promise is 2 s; the margin is for machines that are busy with other things.
    assert time.process_time() - started < 6


def test_releases_that_ask_for_more_are_told(function):
    """As 4.40 to 5.17 and as 4.37 have it; that the draft ends the text would cost the bonus."""

    def done(
        candidate_input_ids, candidate_logits, candidate_length, new_logits, is_done_candidate
    ):
        assert is_done_candidate is False
        return function(candidate_input_ids, candidate_logits, candidate_length, new_logits)

    def oldest(candidate_input_ids, candidate_logits, candidate_length, new_logits,
               last_assistant_token_is_eos, max_matches):  # fmt: skip
        assert max_matches == candidate_length
        return done(candidate_input_ids, candidate_logits, candidate_length, new_logits,
                    last_assistant_token_is_eos)  # fmt: skip

    for asking in (done, oldest):
        result = compare_verify(wrap_speculative_sampling(asking), COMPACT, 2)
        assert result.max_abs_deviation < 1e-15
        assert result.findings == ()


def test_a_release_without_the_weight_is_refused_in_one_line(tmp_path):
    double = "def _speculative_sampling(candidate_input_ids, candidate_logits, "
    double += "candidate_length, new_logits):\n    return candidate_input_ids, 0\n"
    get_engine("transformers").load(checkout(tmp_path, "transformers", double))
    with pytest.raises(SimverifyError, match="and no assistant_ensemble_weight: its adapter is "):
        get_engine("hf-ensemble-0.9").load(tmp_path)


def test_the_ensembles_are_engines_of_their_own():
    for name, weight in (("hf-ensemble-0.9", 0.9), ("hf-ensemble-0.99", 0.99)):
        place = compare_verify(get_engine(name).load(), COMPACT, 1, tolerance=1e-12).place
        assert place.tv == pytest.approx((1 - weight) * TV, abs=1e-12)


def test_a_greedy_draft_that_reports_its_softmax_is_lossy():
    step = get_engine("hf-argmax-raw-q").load()
    law = enumerate_step(step, COMPACT.target, COMPACT.draft, gamma=1, length=1)
    # Token 0 is drafted always, from (6, 2, 4)/12; the target has (5, 1, 6)/12.
    assert law.probabilities == pytest.approx({(0,): 5 / 6, (2,): 1 / 6}, abs=1e-12)
