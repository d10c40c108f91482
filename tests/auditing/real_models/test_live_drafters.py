"""Code under audit in the decoding loop, with drafts that are fuzzy or from the texts alone."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.false_alarms import ALPHA  # noqa: E402
from support.levels import at_night  # noqa: E402
from support.real_models import deep_pair  # noqa: E402
from support.traces import (  # noqa: E402
    PROMPTS,
    spelled_pair,
)

from simverify.auditing.real_models import (  # noqa: E402
    LiveModels,
    audit_on_models,
)
from simverify.auditing.settings import AuditSettings  # noqa: E402
from simverify.auditing.subject import load_subject  # noqa: E402
from simverify.drafting.method import DraftMethod  # noqa: E402
from simverify.errors import UsageError  # noqa: E402

FUZZY, KEPT = DraftMethod("easyspec", 4), DraftMethod("easyspec", 4, calibration=False)
TEXTS = [DraftMethod("prompt-lookup"), DraftMethod("ngram")]
METHODS = [FUZZY, KEPT, *TEXTS]
named = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.words)


def audited(spec, method, *, tokens=800, detect=0.3, gamma=3, **options):
    live = LiveModels("t", None if method.from_texts else "d", gamma=gamma, tokens=tokens,
                method=method, **options)  # fmt: skip
    pair = replace(deep_pair(eos=(11,)), tokenizer=spelled_pair().tokenizer)
    settings = AuditSettings(alpha=ALPHA, detect=detect, seed=3)
    return audit_on_models(load_subject(spec), live, settings, loaded=(pair, PROMPTS))


@pytest.fixture(autouse=True)
def unprobed(monkeypatch):
    """What edge probes find has nothing to do with who drafts."""
    monkeypatch.setattr("simverify.auditing.real_models.run_subject_probes", lambda *_: ())


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("rule", "method"),
    at_night(
        [(rule, method) for rule in ("token", "block") for method in METHODS],
        # Which rule judges and who drafts are two things: all of either, and a pair of both.
        but=[*(("token", method) for method in METHODS), ("block", FUZZY)],
    ),
    ids=lambda value: getattr(value, "words", value),
)
@pytest.mark.thorough
def test_a_lossless_rule_passes(rule, method):
    found = audited(rule, method)
    assert (found.verdict, found.tier, found.contract) == ("PASS", "sampled", "verify")
    assert found.not_enumerable.endswith(f" {method.words}")


@pytest.mark.distribution
@named
@pytest.mark.thorough
def test_the_catalogues_residual_of_the_target_fails(method):
    found = audited("target-residual", method, tokens=2400)
    assert found.verdict == "FAIL"
    assert any(test.rejected for test in found.sampled.tests)


@pytest.mark.distribution
@pytest.mark.parametrize(
    "method", at_night([FUZZY, KEPT], but=[FUZZY]), ids=lambda method: method.words
)
@pytest.mark.thorough
def test_trees_of_fuzzy_drafts(method):
    options = {"tree": "2,2", "gamma": 2, "contract": "tree"}
    assert audited("recursive", method, **options).verdict == "PASS"
    options |= {"tokens": 2400, "scheme": "iid"}
    found = audited("parent-row-bonus", method, **options)
    assert found.verdict == "FAIL"


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (FUZZY, "--draft d --gamma 3 --tokens 64 --drafter easyspec --layer-parallel 4"),
        (KEPT, "--drafter easyspec --layer-parallel 4 --no-calibration"),
        (TEXTS[1], "audit token --target t --gamma 3 --tokens 64 --drafter ngram"),
    ],
)
def test_its_command_says_how_drafts_are_made(method, words):
    found = audited("token", method, tokens=64, detect=0.9)
    assert words in found.reproduce


@pytest.mark.parametrize("method", TEXTS, ids=lambda method: method.words)
def test_what_drafts_no_trees_is_refused_before_anything_runs(method):
    with pytest.raises(UsageError, match=f"{method.name} proposes one token after each text"):
        audited("recursive", method, tree="2,1", gamma=2, contract="tree")


@pytest.mark.parametrize("method", [FUZZY, *TEXTS], ids=lambda method: method.words)
def test_code_that_drafts_takes_no_drafter(method):
    with pytest.raises(UsageError, match="is not for the step contract"):
        audited("greedy", method, contract="step")
