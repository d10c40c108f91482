"""Callables as strangers hand them over: a right verdict or a finding, never a traceback."""

import builtins
import functools
import random
import sys
import warnings

import numpy as np
import pytest
from support.rules import token

from simverify.auditing.run import audit, supervised_audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.errors import UsageError

pytestmark = pytest.mark.usefixtures("unsearched", "unnamed")

SMALL = AuditSettings(gamma=1, vocab=2, seconds=4)


def returning(change):
    return lambda p, q, x, rng: change(token(p, q, x, rng))


def on_device(name):
    def rule(p, q, x, rng):
        torch = pytest.importorskip("torch")
        tokens = token(p, q, x, rng)
        return torch.tensor(tokens) if name == "cpu" else torch.zeros(1, dtype=int, device=name)

    return rule


def yielding(p, q, x, rng):
    yield from token(p, q, x, rng)


async def coroutine(p, q, x, rng):
    return token(p, q, x, rng)


async def stream(p, q, x, rng):
    yield 0


def writing(p, q, x, rng):
    tokens = token(p, q, x, rng)
    p[0] = 1.0
    return tokens


KEPT: list[np.ndarray] = []


def keeping(p, q, x, rng):
    """Write into the inputs of the call before."""
    for rows in KEPT:
        rows.flags.writeable = True
        rows[...] = 0.25
    KEPT[:] = [p, q]
    return token(p, q, x, rng)


def viewing(p, q, x, rng):
    tokens = token(p, q, x, rng)
    return x[: len(tokens)] if tokens == x[: len(tokens)].tolist() else tokens


def setting_errors(p, q, x, rng):
    np.seterr(all="raise")
    np.random.seed(0)  # noqa: NPY002
    return token(p, q, x, rng)


def warning(p, q, x, rng):
    warnings.simplefilter("error")
    warnings.warn("hm", stacklevel=1)
    return token(p, q, x, rng)


def barely(p, q, x, rng):
    raise RuntimeError


class Rule:
    def __init__(self, *block):
        self.tokens = token(*block) if block else []

    def __call__(self, p, q, x, rng):
        return token(p, q, x, rng)

    def method(self, p, q, x, rng):
        return token(p, q, x, rng)


RIGHT = {
    "an array": returning(np.array),
    "a tuple": returning(tuple),
    "a tensor": on_device("cpu"),
    "a view of its input": viewing,
    "floating point errors as exceptions": setting_errors,
    "a lambda": lambda p, q, x, rng: token(p, q, x, rng),
    "a partial": functools.partial(lambda p, q, x, rng, scale: token(p, q, x, rng), scale=1),
    "an object": Rule(),
    "a bound method": Rule().method,
    "keywords": lambda p, q, x, rng, *, temperature=1.0: token(p, q, x, rng),
}

WRONG = {
    "raises": (lambda p, q, x, rng: 1 / 0, "raised ZeroDivisionError: division by zero"),
    "raises barely": (barely, "raised RuntimeError without a message ("),
    "nothing": (lambda p, q, x, rng: [], "returned no tokens: at least one is due"),
    "too many": (returning(lambda tokens: [*tokens, 0, 0]), "tokens, gamma + 1 = 2"),
    "beyond": (lambda p, q, x, rng: [p.shape[1]], "returned token 2, vocabulary 0..1"),
    "negative": (lambda p, q, x, rng: [-1], "returned token -1, vocabulary 0..1"),
    "floats": (returning(lambda tokens: [*map(float, tokens)]), "returned a float as a token"),
    "whole floats": (returning(lambda t: np.array(t, dtype=float)), "returned a float as a token"),
    "booleans": (lambda p, q, x, rng: [True], "returned a bool as a token"),
    "int8": (returning(lambda t: np.array(t, dtype=np.int8)), "out of bounds for int8"),
    "a mask": (lambda p, q, x, rng: np.array([True]), "returned a bool as a token"),
    "device": (on_device("meta"), "returned a tensor on device meta: return it on the CPU"),
    "two axes": (returning(lambda tokens: np.array([tokens])), "one row of tokens is due"),
    "none": (lambda p, q, x, rng: None, "returned None"),
    "text": (lambda p, q, x, rng: "0", "returned a str, expected a list"),
    "a dictionary": (lambda p, q, x, rng: {0: 1}, "returned a dict, expected a list"),
    "a coroutine": (coroutine, "returned a coroutine, expected a list"),
    "an async generator": (stream, "returned an async_generator, expected a list"),
    "a generator": (yielding, "returned a generator, expected a list, array or tensor of integers"),
    "a set": (returning(set), "returned a set, expected a list, array or tensor of integers"),
    "a class": (Rule, "returned a Rule, expected a list"),
    "writes": (writing, "changes its argument target_probs in place"),
    "writes later": (keeping, "in place"),
    "warnings": (warning, "raised UserWarning: hm"),
    "a C function": (max, "raised ValueError: The truth value of an array"),
}


@pytest.fixture(autouse=True)
def quiet_coroutines():
    """Let coroutines that nobody awaits go without the warning that is an error here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="coroutine .* was never awaited")
        yield


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.thorough
def test_right_ones_pass(name):
    settings = np.geterr()
    run = audit(Subject("mine", RIGHT[name], None), "verify", SMALL)
    assert (run.verdict, run.findings) == ("PASS", ())
    assert np.geterr() == settings


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.thorough
def test_wrong_ones_fail_in_words(name):
    rule, words = WRONG[name]
    run = audit(Subject("mine", rule, None), "verify", SMALL)
    assert run.verdict == "FAIL"
    assert any(words in finding.text for finding in run.findings), run.findings
    assert all(finding.text.isprintable() for finding in run.findings)


@pytest.mark.parametrize("name", ["a tuple", "a generator", "device"])
@pytest.mark.thorough
def test_a_child_says_the_same(name):
    rule = RIGHT.get(name) or WRONG[name][0]
    subject = Subject("mine", rule, None)
    run = supervised_audit(lambda: subject, "verify", SMALL, spec="mine")
    ours = audit(subject, "verify", SMALL)
    assert (run.verdict, run.findings) == (ours.verdict, ours.findings)


def test_one_argument_more_is_refused_with_the_signature():
    def extra(p, q, x, rng, temperature):
        return token(p, q, x, rng)

    with pytest.raises(UsageError, match=r"temperature\) cannot be called as verify"):
        audit(Subject("mine", extra, None), "verify", SMALL)


def breaking(name, key, value):
    """The right rule, which sets a name of a shared module when it is called."""

    def verify(p, q, x, rng):
        tokens = token(p, q, x, rng)
        setattr(sys.modules[name], key, value)
        return tokens

    return verify


def forgetting(p, q, x, rng):
    sys.modules.pop("math", None)
    return token(p, q, x, rng)


SHARED = {
    "numpy.array": breaking("numpy", "array", None),
    "numpy.argmax": breaking("numpy", "argmax", lambda *_, **__: 0),
    "builtins.len": breaking("builtins", "len", None),
    "builtins.isinstance": breaking("builtins", "isinstance", None),
    "random.random": breaking("random", "random", lambda: 0.5),
    "sys.modules['math']": forgetting,
}


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("where", ["here", "in a child"])
@pytest.mark.thorough
def test_what_it_replaces_for_everybody_is_a_finding(name, where):
    subject = Subject("mine", SHARED[name], None)
    before = sys.modules.copy(), vars(np).copy(), vars(builtins).copy(), vars(random).copy()
    if where == "here":
        run = audit(subject, "verify", SMALL)
    else:
        run = supervised_audit(lambda: subject, "verify", SMALL, spec="mine")
    assert run.verdict == "FAIL"
    found = [x.text for x in run.findings if x.text.startswith("shared-modules: replaces ")]
    assert found == [f"shared-modules: replaces {name} for the whole process"]
    after = sys.modules, vars(np), vars(builtins), vars(random)
    for old, new in zip(before, after, strict=True):
        assert all(new[key] is value for key, value in old.items())


def test_what_it_replaces_while_it_is_loaded_is_a_finding_where_it_stops_the_audit():
    def load():
        np.array = None
        return Subject("mine", token, None)

    run = supervised_audit(load, "verify", SMALL, spec="mine")
    (found,) = run.findings
    assert found.kind == "process"
    assert found.text == "shared-modules: replaces numpy.array for the whole process"
    assert np.array is not None


def test_names_that_it_adds_are_no_finding():
    subject = Subject("mine", breaking("numpy", "its_own_name", 3), None)
    try:
        assert audit(subject, "verify", SMALL).verdict == "PASS"
    finally:
        del np.its_own_name
