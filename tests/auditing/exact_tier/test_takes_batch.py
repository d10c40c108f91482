"""Code that judges one block a call is refused where a batch is asked for, and no other is."""

import functools

import numpy as np
import pytest

import simverify
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject, load_subject
from simverify.engines import ENGINES, Signature, as_batched, as_verify, make_engine
from simverify.errors import UsageError
from simverify.faults.calls import judge_mixed_batch
from simverify.options.option import flag
from simverify.verifiers import VERIFIERS

token = VERIFIERS["token"].rule
OPTIONS = ({"batch": 2}, {"batch_mix": "greedy"})


def sampled(draft_tokens, target, draft, lengths, rng):
    """The token rule with a batch axis, as engines have it."""
    out = np.full((len(target), draft_tokens.shape[1] + 1), -1)
    for b, n in enumerate(lengths):
        row = token(target[b, : n + 1], draft[b, :n], draft_tokens[b, :n], rng)
        out[b, : len(row)] = row
    return out


NUMPY = Signature(randomness="numpy")


def small(**options):
    return AuditSettings(gamma=1, vocab=3, detect=0.2, **options)


def refusal(subject, options):
    with pytest.raises(UsageError) as caught:
        audit(subject, None, small(**options))
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", ["token", "block", "sample-and-match", "reused-uniform"])
def test_built_in_rules_judge_one_block_a_call(name, options):
    said = f"{name} judges one block a call: leave {flag(next(iter(options)))} out"
    assert said in refusal(load_subject(name), options)
    rule = load_subject(name).rule
    assert "mine judges one block a call" in refusal(Subject("mine", rule, None), options)


@pytest.mark.parametrize("options", OPTIONS)
def test_so_do_engines(monkeypatch, options):
    engine = make_engine(
        "an-engine", "simverify/__init__.py:", "simverify", "", lambda _path: token
    )
    monkeypatch.setitem(ENGINES, "an-engine", engine)
    assert "an-engine judges one block a call" in refusal(load_subject("an-engine"), options)


@pytest.mark.usefixtures("unprobed", "unsearched", "unnamed")
def test_so_does_what_as_verify_returns():
    subject = Subject("mine", as_verify(sampled, NUMPY), None)
    assert audit(subject, None, small()).verdict == "PASS"
    for options in OPTIONS:
        assert "mine judges one block a call" in refusal(subject, options)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", ["command", "library"])
def test_so_do_other_languages(name, options):
    option = next(iter(options))
    with pytest.raises(UsageError, match=f"^{option} is not for a program or a library"):
        simverify.audit(**{name: "./harness.so:verify"}, **options)


def test_the_other_way_of_a_batch_says_how_it_is_called():
    four = load_subject("ragged-offset"), Subject("mine", lambda p, q, x, rng: [[0]], None)
    for subject in (*four, load_subject("torch-token")):
        said = refusal(subject, {"batch_mix": "greedy"})
        assert said.endswith("with --batch-mix it is called as verify(batch, rng)")
    subject = Subject("mine", as_batched(sampled, NUMPY), None)
    assert "mine takes (batch, rng): with --batch it is called as" in refusal(subject, {"batch": 2})


def test_from_python_options_are_keywords():
    for options in OPTIONS:
        with pytest.raises(UsageError, match=r"token judges.*leave (batch|batch_mix) out"):
            simverify.audit("token", gamma=1, vocab=3, **options)


def own(p, q, x, rng):
    return [token(*block, rng) for block in zip(p, q, x, strict=True)]


@functools.wraps(token)
def decorated(*given):
    return judge_mixed_batch(*given)


@pytest.mark.usefixtures("unprobed", "unsearched", "unnamed")
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        (own, {"batch": 2}),
        (judge_mixed_batch, {"batch_mix": "greedy"}),
        (decorated, {"batch_mix": "greedy"}),
        (as_batched(sampled, NUMPY), {"batch_mix": "ragged"}),
    ],
)
def test_code_that_takes_batches_goes_on_as_before(rule, options):
    assert audit(Subject("mine", rule, None), None, small(**options)).verdict == "PASS"


@pytest.mark.usefixtures("unprobed", "unsearched", "unnamed")
@pytest.mark.thorough
def test_an_engine_that_declares_it_takes_batches():
    pytest.importorskip("torch")
    subject = load_subject("torch-token")
    assert subject.one_block
    assert audit(subject, None, small(batch=2)).verdict == "PASS"
