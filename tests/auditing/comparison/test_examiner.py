"""When an instance fails, and when nothing can be said of it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from simverify.auditing.coins import NotMonotone, TooManyCalls
from simverify.auditing.comparison import Comparison, OutputSequence
from simverify.auditing.examiner import Examiner, output_length
from simverify.auditing.instances import SmallModel
from simverify.auditing.subject import load_subject
from simverify.symbolic import CannotEnumerate, Finding, OutOfTime
from simverify.symbolic.paths import TooManyPaths

TOLERANCE = 1e-9
SUBJECT = load_subject("token")
MODEL = SmallModel(
    "mine", 2, ((3, 1), (1, 3)), ((1, 1), (2, 1)), earlier_calls=1, eos=1, prompt=(0, 0)
)
EQUAL = Comparison(
    max_abs_deviation=0.0, tv=0.0, worst=OutputSequence((0,), 0.5, 0.5), place=None,
    expected_accepted=0.0, bonus=0.0, paths=2, pruned=0.0, lost=0.0, complete=True, findings=(),
    emitted=np.array([0.5, 0.5]), dtype="float64",
)  # fmt: skip
WARNING = Finding("edge", "warning", "a token of p = 0 at u = 0")
VIOLATION = Finding("emits", "violation", "emitted token 9")

TABLE = """
    largest deviation | not run | lost   | deviates | undecided
    ------------------+---------+--------+----------+----------
    0                 | 0       | 0      | no       | no
    1e-10             | 0       | 0      | no       | no
    1e-9              | 0       | 0      | no       | no
    1.001e-9          | 0       | 0      | yes      | no
    0.25              | 0       | 0      | yes      | no
    1e-10             | 1e-10   | 0      | no       | no
    1e-9              | 1e-9    | 0      | no       | no
    1e-8              | 1e-8    | 0      | no       | yes
    0.25              | 0.125   | 0      | no       | yes
    0.25              | 0.12    | 0      | yes      | no
    0.25              | 0.25    | 0      | no       | yes
    0.25              | 0       | 0.25   | no       | no
    0.25              | 0       | 0.125  | yes      | no
    0.25              | 0.125   | 0.125  | no       | yes
"""
"""``not run``: the mass of branches that were left out, which may lie anywhere, twice; ``lost``:
that of paths that broke the contract, which is a finding and no law."""


def rows_of(table):
    """The rows of a table under its head, as words."""
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()[2:]]


@dataclass(frozen=True)
class Told(Examiner):
    """An examiner that is told what the law is."""

    found: Comparison = EQUAL

    def compare(self, model, lift=None):
        assert model is MODEL
        return self.found


def judged(tolerance=TOLERANCE, enough=None, **found):
    told = Told(SUBJECT, "verify", tolerance, found=replace(EQUAL, **found))
    return told.within(enough=enough).judge(MODEL)


@pytest.mark.parametrize(("deviation", "pruned", "lost", "deviates", "undecided"), rows_of(TABLE))
def test_an_instance_is_judged_as_the_table_says(deviation, pruned, lost, deviates, undecided):
    found = judged(max_abs_deviation=float(deviation), pruned=float(pruned), lost=float(lost))
    assert (found.deviates, found.undecided) == (deviates == "yes", undecided == "yes")
    assert not found.violated
    assert found.failed == found.deviates


def test_a_law_that_was_seen_in_part_fails_nobody_and_passes_nobody():
    found = judged(max_abs_deviation=0.25, complete=False)
    assert (found.deviates, found.undecided) == (False, True)


@pytest.mark.parametrize(
    ("findings", "violated"),
    [((), False), ((WARNING,), False), ((VIOLATION,), True), ((WARNING, VIOLATION), True)],
)
@pytest.mark.parametrize("deviation", [0.0, 0.25])
def test_a_violation_fails_whatever_the_law_is(findings, violated, deviation):
    found = judged(findings=findings, max_abs_deviation=deviation)
    assert found.violated == violated
    assert found.failed == (violated or deviation > 0)


# Of code whose paths have no end a law is known within an interval, which may be 1e-6 wide.
WIDTHS = """
    tolerance | enough | largest deviation | undecided
    ----------+--------+-------------------+----------
    1e-9      | -      | 1e-8              | yes
    1e-9      | 2e-7   | 1e-8              | yes
    -         | -      | 1e-8              | yes
    -         | 2e-7   | 1e-8              | no
    -         | 2e-7   | 1e-6              | no
    -         | 2e-7   | 1.1e-6            | yes
    -         | 0      | 1e-8              | no
    0.125     | 2e-7   | 0.125             | no
"""


@pytest.mark.parametrize(("tolerance", "enough", "deviation", "undecided"), rows_of(WIDTHS))
def test_a_law_of_endless_paths_is_known_within_an_interval(
    tolerance, enough, deviation, undecided
):
    found = judged(
        tolerance=None if tolerance == "-" else float(tolerance),
        enough=None if enough == "-" else float(enough),
        max_abs_deviation=float(deviation), pruned=float(deviation),
    )  # fmt: skip
    assert not found.deviates
    assert found.undecided == (undecided == "yes")


def test_a_wide_tolerance_is_not_narrowed_to_the_interval():
    found = judged(tolerance=None, enough=2e-7, max_abs_deviation=1e-2, pruned=1e-2,
                   dtype="bfloat16")  # fmt: skip
    assert (found.held.tolerance, found.undecided) == (2e-2, False)


def test_code_is_judged_as_what_it_was_compared_as():
    """A law that is off in 16 bits and not in 64 is held to another; the model is named."""
    asked = []

    class Lifted(Told):
        def compare(self, model, lift=None):
            asked.append((model, self.budget.seconds, lift))
            return replace(EQUAL, max_abs_deviation=0.0 if lift else 1e-3, dtype="float32")

    found = Lifted(SUBJECT, "verify").within(seconds=7.0).judge(MODEL)
    assert asked == [(MODEL, 7.0, None), (MODEL, 7.0, "half")]
    assert (found.model, found.held.tolerance) == (MODEL, 2e-2)
    assert found.comparison is found.held.comparison
    asked.clear()
    Lifted(SUBJECT, "verify", TOLERANCE).judge(MODEL)
    assert asked == [(MODEL, 60.0, None)]


NOT_ENUMERATED = [
    CannotEnumerate("a call"),
    NotMonotone(0, (0.0, 0.5, 1.0), (), (0,), (1,)),
    TooManyCalls(3, 2),
    TooManyPaths(3),
]


@pytest.mark.parametrize("error", NOT_ENUMERATED, ids=lambda error: type(error).__name__)
def test_what_cannot_be_enumerated_is_no_failure(monkeypatch, error):
    def compare(self, model, lift=None):
        raise error

    monkeypatch.setattr(Told, "compare", compare)
    assert not Told(SUBJECT, "verify", TOLERANCE).fails(MODEL)
    error = OutOfTime(1.0, 3)  # what a slow machine did not finish is no answer
    with pytest.raises(OutOfTime):
        Told(SUBJECT, "verify", TOLERANCE).fails(MODEL)


@pytest.mark.parametrize("deviation", [0.0, 0.25])
def test_a_deviation_is_a_failure(deviation):
    found = replace(EQUAL, max_abs_deviation=deviation)
    assert Told(SUBJECT, "verify", TOLERANCE, found=found).fails(MODEL) == (deviation > 0)


LENGTHS = """
    contract | gamma | V | drafts  | earlier calls | tokens
    ---------+-------+---+---------+---------------+-------
    verify   | 1     | 2 | any     | 0             | 2
    verify   | 3     | 3 | any     | 1             | 4
    step     | 1     | 3 | any     | 1             | 2
    step     | 2     | 3 | any     | 1             | 3
    step     | 3     | 2 | any     | 0             | 4
    step     | 3     | 2 | any     | 1             | 2
    step     | 3     | 3 | any     | 0             | 2
    step     | 3     | 3 | certain | 0             | 4
    step     | 3     | 3 | certain | 1             | 2
    step     | 5     | 4 | any     | 0             | 2
"""
"""How much of the output is compared: of a rule that drafts itself little, where paths are many."""


@pytest.mark.parametrize(
    ("contract", "gamma", "vocab", "drafts", "earlier", "tokens"), rows_of(LENGTHS)
)
def test_as_many_tokens_are_compared_as_the_table_says(
    contract, gamma, vocab, drafts, earlier, tokens
):
    row = (1,) * int(vocab)
    draft = (1, *(0,) * (int(vocab) - 1)) if drafts == "certain" else row
    model = SmallModel("", int(gamma), (row,), (draft,), earlier_calls=int(earlier))
    assert output_length(model, contract) == int(tokens)
