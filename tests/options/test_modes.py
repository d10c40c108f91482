"""Every option once: whose it is, what it may be, how it is written, under which names."""

import inspect
import re
from dataclasses import replace

import pytest
from msgspec.structs import replace as replaced

import simverify
from simverify.errors import UsageError
from simverify.options.audit import CODE, AuditOptions, RealModelOptions, SelfTestOptions
from simverify.options.compare import COMPARISONS
from simverify.options.modes import mode_of, options_of, renamed
from simverify.options.option import GROUPS, Options, option_of
from simverify.options.served import (
    AgainstOptions,
    MatrixOptions,
    OutputOptions,
    TriageOptions,
    TwoEngineOptions,
    WatchOptions,
)
from simverify.options.surveys import BisectOptions, SweepOptions, TableOptions

MODES = (
    *CODE, *COMPARISONS, SelfTestOptions, AgainstOptions, OutputOptions, TwoEngineOptions,
    MatrixOptions, TriageOptions, WatchOptions, BisectOptions, SweepOptions, TableOptions,
)  # fmt: skip


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_every_option_has_a_help_a_type_and_a_group(mode):
    hints = mode.types()
    assert mode.names()
    for one in mode.options():
        option = option_of(one)
        assert option.help.endswith("."), one.name
        assert option.group in GROUPS
        assert one.name in hints


def test_audit_shows_what_most_audits_need_and_takes_the_rest():
    shown = list(inspect.signature(simverify.audit).parameters)
    assert shown[0] == "rule"
    assert shown[-1] == "progress"
    assert len(shown) <= 13
    assert "strict_coverage" not in shown
    for name in shown[1:-1]:
        assert f"\n{name}\n    " in inspect.getdoc(simverify.audit)
    options = options_of(CODE, {"rule": "token", "strict_coverage": True, "max_paths": 9})
    assert options == AuditOptions("token", strict_coverage=True, max_paths=9)


def test_one_object_stands_for_keywords():
    small = {"gamma": 1, "vocab": 2, "max_paths": 2000}
    by_keyword = simverify.audit("token", **small)
    by_object = simverify.audit(AuditOptions("token", **small))
    assert replaced(by_keyword, meta=by_object.meta) == by_object
    with pytest.raises(TypeError, match="as one object or as keywords"):
        simverify.audit(AuditOptions("token"), gamma=1)
    with pytest.raises(UsageError, match="audit got MatrixOptions: expected one of AuditOptions"):
        simverify.audit(MatrixOptions("http://a"))


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({}, "AuditOptions"),
        ({"trace": "t", "target": "x"}, "TraceOptions"),
        ({"target": "x", "drafter": "ngram"}, "RealModelOptions"),
        ({"drafter": "easyspec"}, "RealModelOptions"),
        ({"drafter": "d.py:draft"}, "PairOptions"),
        ({"command": "./a"}, "ProgramOptions"),
        ({"target": None, "trace": None, "verifier": None}, "AuditOptions"),
    ],
)
def test_an_option_chooses_its_mode(given, mode):
    assert mode_of(CODE, given).__name__ == mode


def test_one_error_says_whose_an_option_is():
    with pytest.raises(UsageError) as caught:
        options_of(CODE, {"target": "x", "max_paths": 3})
    assert str(caught.value) == (
        "--max-paths is not for real models: it is for code on small instances"
    )
    with pytest.raises(UsageError) as caught:
        simverify.audit("token", draft="x")
    assert str(caught.value) == (
        "draft is not for code on small instances: it is for real models (target)"
    )
    with pytest.raises(UsageError, match="unknown option 'gama': did you mean 'gamma'"):
        simverify.audit("token", gama=3)


@pytest.mark.parametrize("value", [None, False])
def test_what_is_not_given_is_of_no_mode(value):
    assert options_of(CODE, {"rule": "a", "draft": value}) == AuditOptions("a")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"gamma": 0}, "gamma is 0: expected 1 to 4"),
        ({"alpha": float("nan")}, "alpha is nan: expected 1e-300 or more, below 1"),
        ({"seconds": 0}, "seconds is 0: expected more than 0, 1e+06 at most"),
        ({"max_paths": 0}, "max paths is 0: expected 1 or more"),
        ({"seed": -1}, "seed is -1: expected 0 to 2^64 - 1"),
        ({"eos": 3, "vocab": 3}, "eos is 3: expected an id below the largest vocabulary, 3"),
        ({"contract": "stp"}, "--contract is 'stp': expected verify, step, tree or draft for code"),
    ],
)
def test_ranges_stand_on_the_fields(given, says):
    with pytest.raises(UsageError, match=re.escape(says)):
        AuditOptions(**given)


def test_words_are_what_is_no_default():
    options = AuditOptions("x", gamma=2, strict_probes=True, detect=0.1)
    without = ("rule",)
    words = ["--gamma", "2", "--detect", "0.1", "--strict-probes"]
    assert options.words(without=without) == words
    assert options.words(always=("seed",), without=without) == ["--seed", "0", *words]
    assert replace(options, tree="-1").words(without=without)[-2] == "--tree=-1"
    law = OutputOptions(
        "a", logit_bias={5: -100}, bad_words=["a"], mask=test_words_are_what_is_no_default
    )
    assert law.words(without=("outputs",)) == [
        "--logit-bias", '{"5": -100}', "--bad-words", '["a"]', "--mask",
        "test_words_are_what_is_no_default",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="expected what JSON can hold"):
        OutputOptions("a", logit_bias={5: object()}).words()


def test_old_names_are_understood_and_the_new_one_said_once():
    with (
        pytest.warns(FutureWarning, match="company is now called batch_mix") as told,
        pytest.raises(UsageError, match="token judges one block a call"),
    ):
        simverify.audit("token", company="greedy", gamma=1, vocab=3)
    assert len(told) == 1
    said = []
    given = {"company": None, "ball": 0.1, "row_tolerance": None}
    new = renamed((AuditOptions, OutputOptions), given, lambda *names: said.append(names))
    assert new == {"row_tolerance": 0.1}
    assert said == [("ball", "row_tolerance")]
    with pytest.raises(UsageError, match="--ball is the old name of --row-tolerance"):
        renamed((OutputOptions,), {"ball": 0.1, "row_tolerance": 0.1}, lambda *_: None)


def test_positional_arguments_are_those_of_the_mode():
    with pytest.raises(TypeError, match="takes 1 positional"):
        simverify.audit("token", 2)
    with pytest.raises(TypeError, match="got 'rule' twice"):
        simverify.audit("token", rule="token")


def test_progress_is_no_option():
    lines = []
    options = RealModelOptions("x", progress=lines.append)
    options.say("begun")
    assert lines == ["begun"]
    assert "progress" not in RealModelOptions.names()
    assert options == RealModelOptions("x")
    Options().say("nobody hears it")
