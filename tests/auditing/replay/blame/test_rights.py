"""Which decisions of a call are as the rows demand, by rules whose mistake is known."""

import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

from simverify.auditing.exact.documents import counterexample
from simverify.auditing.exact.instances.made import battery
from simverify.auditing.exact.judging.examiner import Examiner
from simverify.auditing.replay.blame.dependence import Graph
from simverify.auditing.replay.blame.rights import UNKNOWN, verdicts_on
from simverify.auditing.replay.blame.steps import Step
from simverify.auditing.replay.instance_rows import InstanceRows
from simverify.auditing.replay.runs import CALLS, Budget
from simverify.auditing.subject import load_subject
from simverify.symbolic.draws.path import Decided
from simverify.symbolic.enumeration.recorder import Branch, Leaf

PLAIN = next(model for model in battery(3, 3) if model.name == "plain, V=3, gamma=1")

RULE = """
import numpy as np

def drawn(row, rng):
    return int(rng.choice(len(row), p=row / row.sum()))  # DRAWN

def step(prefix, target, draft, gamma, rng):
    q, p = draft(prefix), target(prefix)
    x = drawn(q, rng)
    if rng.random() < p[x] / q[x]:  # COIN
        after = target((*prefix, x))
        return [x, int(rng.choice(len(after), p=after))]  # BONUS
    left = np.maximum(p - q, 0)
    return [int(rng.choice(len(left), p=left / left.sum()))]  # RESIDUAL
"""

BY_CDF = RULE.replace(
    "rng.choice(len(row), p=row / row.sum())",
    "np.searchsorted(np.cumsum(row)[:-1], rng.random(), side='right')",
)


def judged_lines(folder, text):
    """The lines that decide rightly, those that do not, and whether a coin is missing."""
    file = folder / "rule.py"
    file.write_text(textwrap.dedent(text))
    subject = load_subject(f"{file}:step")
    judged = Examiner(subject, "step", 1e-9).judge(PLAIN)
    found = counterexample(judged, "step")
    model = InstanceRows(found.instance)
    (call,) = CALLS["step"](subject.rule, model, 1, found.sequence, Budget(20_000, 20.0))
    verdicts = verdicts_on(call.leaves, model, found.sequence)
    where = {
        tuple(branch.taken for branch in leaf.branches[:depth]): int(own.where.rpartition(":")[2])
        for leaf in call.leaves
        for depth, own in enumerate(leaf.branches)
    }
    marks = {i: line.rpartition("# ")[2] for i, line in enumerate(text.splitlines(), 1)}
    right = {marks[where[place]] for place, known in verdicts.known.items() if known}
    wrong = {marks[where[place]] for place, known in verdicts.known.items() if not known}
    return right, wrong, verdicts.always_kept


@pytest.mark.parametrize("text", [RULE, BY_CDF])
def test_every_decision_of_a_right_rule_is_right(text, tmp_path):
    right, wrong, missing = judged_lines(tmp_path, text)
    assert right == {"DRAWN", "COIN", "BONUS", "RESIDUAL"}
    assert not wrong
    assert not missing


@pytest.mark.parametrize("text", [RULE, BY_CDF])
@pytest.mark.parametrize(
    ("was", "becomes", "line"),
    [
        ("p[x] / q[x]:", "p[x] / (0.8 * q[x]):", "COIN"),
        ("np.maximum(p - q, 0)", "np.abs(p - q)", "RESIDUAL"),
        ("after = target((*prefix, x))", "after = target(prefix)", "BONUS"),
    ],
)
def test_the_wrong_decision_alone_is_wrong(text, was, becomes, line, tmp_path):
    right, wrong, _ = judged_lines(tmp_path, text.replace(was, becomes))
    assert wrong == {line}
    assert "DRAWN" in right


def test_a_draft_from_another_law_is_right_and_the_coin_is_told(tmp_path):
    """The law that drafts come from is free; that it is told as another is the coin's mistake."""
    right, wrong, _ = judged_lines(tmp_path, RULE.replace("drawn(q, rng)", "drawn(q**2, rng)"))
    assert "DRAWN" in right
    assert "COIN" in wrong


@pytest.mark.parametrize("ratio", ["max(1.0, p[x])", "p[x] / q[::-1][x]"])
def test_a_coin_that_nobody_asks_is_missed(ratio, tmp_path):
    """The second asks one for some drafts, with the chance that is due, and none for others."""
    text = RULE.replace("rng.random() < p[x] / q[x]", f"rng.random() < {ratio}")
    _, wrong, missing = judged_lines(tmp_path, text)
    assert missing
    assert not wrong


@pytest.mark.parametrize("token", [-1, 3, 77])
def test_a_decision_for_what_is_no_token_is_not_judged(token):
    def leaf(taken, emitted):
        branch = Branch(Decided.BOUND, 1, taken, 2, 0.5, None, "rule.py:1")
        return Leaf((emitted,), 0.5, 1, (branch,))

    def row(prefix):
        return np.array([0.5, 0.5, 0.0])

    rows = SimpleNamespace(prompt=(), target=row, draft=row)
    assert verdicts_on([leaf(0, 0), leaf(1, 1)], rows).known == {(): True}  # the control
    assert verdicts_on([leaf(0, 0), leaf(1, token)], rows) == UNKNOWN


def test_nothing_is_known_of_a_call_without_decisions():
    assert verdicts_on([], SimpleNamespace(prompt=())) == UNKNOWN


PARTS = """
def two(p, q):
    a = p + 1
    b = q + 1
    return a, b

def f(p, q):
    c, d = two(p, q)
    e = d * 2
    return e
"""


def test_the_parts_of_a_returned_tuple_are_told_apart(tmp_path):
    file = tmp_path / "rule.py"
    file.write_text(PARTS)
    handed = ("p", "q")
    path = [Step(str(file), 8, 0, None, True, handed)]
    path += [Step(str(file), line, 1, 0) for line in (3, 4, 5)]
    path += [Step(str(file), line, 0, None) for line in (9, 10)]
    graph = Graph(path)

    def behind(step):
        found = graph.behind({graph.of[step]: 0}, lambda node: 1)
        return {graph.nodes[i].at.rpartition(":")[2] for i in found}

    assert "4" in behind(4)
    assert "3" not in behind(4)
    assert {"3", "4"} <= behind(0)  # the control: the call depends on both


def test_values_are_not_followed_behind_a_draw(tmp_path):
    file = tmp_path / "rule.py"
    file.write_text(
        "def f(p, rng):\n    row = p + 1\n    x = rng.choice(3, p=row)\n    y = x + 1\n"
    )
    graph = Graph([Step(str(file), line, 0, None, True, ("p",)) for line in (2, 3, 4)])

    def values(step):
        return {graph.nodes[i].at.rpartition(":")[2] for i in graph.values([step], ())}

    assert "2" not in values(2)
    assert "2" in values(1)  # the control: the draw itself rests on its row
