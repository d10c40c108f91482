import numpy as np
from support.engine_doubles import checkout
from support.whole_laws import compare_verify

from simverify.engines import get_engine
from simverify.models.base import MarkovModel

DOUBLE = """
import random
from dataclasses import dataclass
from math import exp


@dataclass
class DraftToken:
    token_id: int
    logprob: float


@dataclass
class TargetLogprob:
    token_id: int
    logprob: float
    draft_token_logprob: float | None = None


@dataclass
class VerificationResult:
    accepted_tokens: list
    bonus_token: DraftToken | None = None
    resample_token: DraftToken | None = None


def verify_draft_tokens(draft_tokens, target_logprobs, temperature=0.0):
    assert temperature == 1
    kept = []
    for drafted, target in zip(draft_tokens, target_logprobs):
        if random.random() < exp(target.draft_token_logprob - drafted.logprob):
            kept.append(drafted)
            continue
        return VerificationResult(kept, resample_token=target)
    return VerificationResult(kept, bonus_token=target_logprobs[-1])
"""

# The engine is told no rows. Where what is left of p after q is the top token, and the rows after
# the first are one-hot, a rule needs none.
ROWS = np.array([[0.25, 0.75], [0.75, 0.25]])
MODEL = MarkovModel("told", ROWS[0], np.array([[0, 1], [0, 1.0]]), ROWS[1], ROWS)


def deviation(folder, text):
    verify = get_engine("tightwad").load(checkout(folder, "tightwad", text))
    return compare_verify(verify, MODEL, 1).max_abs_deviation


def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path):
    assert deviation(tmp_path / "right", DOUBLE) < 1e-12
    wrong = DOUBLE.replace("target.draft_token_logprob - drafted", "target")
    assert wrong != DOUBLE
    assert deviation(tmp_path / "wrong", wrong) > 0.1
