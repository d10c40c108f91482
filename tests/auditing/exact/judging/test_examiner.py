"""When an instance fails, and when nothing can be said of it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from simverify.auditing.exact.instances.made import instances_for
from simverify.auditing.exact.judging.comparison import Comparison, OutputSequence
from simverify.auditing.exact.judging.examiner import Examiner
from simverify.auditing.subject import load_subject
from simverify.symbolic import Finding

TOLERANCE = 1e-9
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

LINES = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()[2:]]


@dataclass(frozen=True)
class Told(Examiner):
    """An examiner that is told what the law is."""

    found: Comparison = EQUAL

    def compare(self, model, seconds, lift=None):
        return self.found


def judged(**found):
    subject = load_subject("token")
    model = next(iter(instances_for("verify", 1, 2, 0, None)))
    told = Told(subject, "verify", TOLERANCE, found=replace(EQUAL, **found))
    return told.judge(model)


@pytest.mark.parametrize(("deviation", "pruned", "lost", "deviates", "undecided"), LINES)
def test_an_instance_is_judged_as_the_table_says(deviation, pruned, lost, deviates, undecided):
    found = judged(max_abs_deviation=float(deviation), pruned=float(pruned), lost=float(lost))
    assert (found.deviates, found.undecided) == (deviates == "yes", undecided == "yes")
    assert not found.violated
    assert found.failed == found.deviates


@pytest.mark.parametrize(
    ("findings", "violated"),
    [((), False), ((WARNING,), False), ((VIOLATION,), True), ((WARNING, VIOLATION), True)],
)
@pytest.mark.parametrize("deviation", [0.0, 0.25])
def test_a_violation_fails_whatever_the_law_is(findings, violated, deviation):
    found = judged(findings=findings, max_abs_deviation=deviation)
    assert found.violated == violated
    assert found.failed == (violated or deviation > 0)
