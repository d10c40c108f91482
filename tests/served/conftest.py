import pytest

from simverify.models.rounding import WEIGHT_FORMATS

ONE = "4 bits (groups of 128)"
"""What weights are rounded to where a test is about something else."""

SEAM = "simverify.served.run.WEIGHT_FORMATS"


@pytest.fixture(scope="module", autouse=True)
def one_rounding():
    """An audit bets on one rounding of the weights.

    Fourteen of its sixteen scorings of the first tokens are with rounded weights, each with the
    code of the others: most of what a short audit of tokens costs.
    """
    pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SEAM, {ONE: WEIGHT_FORMATS[ONE]})
        yield


@pytest.fixture(scope="module")
def shallow_target():
    """Pairs have a shallow target, in files that ask how tokens are judged and not how good it is.

    Not for tests that count how many tokens tell a fault.
    """
    pytest.importorskip("transformers")
    from support.shallow_target import cut_target

    with pytest.MonkeyPatch.context() as patch:
        cut_target(patch)
        yield


@pytest.fixture(scope="module")
def logits_once():
    """Tokens that were rescored before are not rescored again, in files that judge the same often.

    Not for tests of rescoring itself.
    """
    pytest.importorskip("torch")
    from support.kept_logits import keep_logits

    with pytest.MonkeyPatch.context() as patch:
        keep_logits(patch)
        yield


@pytest.fixture
def all_roundings(one_rounding, monkeypatch):
    """It bets on all of them, as for a user: for tests of engines whose weights are rounded."""
    monkeypatch.setattr(SEAM, WEIGHT_FORMATS)
