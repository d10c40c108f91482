"""Lines that a wrong token may come from: the planted one is named, and before what is right."""

import textwrap

import pytest

from simverify.auditing import blame
from simverify.auditing.blame import (
    MAX_SUSPECTS,
    NO_VERDICTS,
    SlicingCriterion,
    locate_deviation,
    rank_suspects,
)
from simverify.auditing.dependence import DependenceGraph
from simverify.auditing.examiner import Examiner, rich_instance
from simverify.auditing.instances import SmallModel
from simverify.auditing.rerun import LineStep
from simverify.auditing.subject import load_subject

POINT = SmallModel(
    "point masses", 2, ((1, 0, 0), (0, 1, 0), (0, 0, 1)), ((1, 1, 1), (1, 2, 1), (1, 1, 2))
)

FAR_BACK = """
def verify(p, q, x, rng):
    n = len(x)
    ratio = p[np.arange(n), x] / q[np.arange(n), x]
    left = np.maximum(p[:-1] - q / 2, 0)  # WRONG
    total = left.sum(-1, keepdims=True)
    left = left / np.where(total > 0, total, 1)
    rows = np.concatenate([left, p[-1:]])
    shape = rows.shape
    device = rows.dtype
    size = shape[0]
    width = shape[1]
    places = list(range(size))
    tokens = list(range(width))
    kept = 0
    limit = len(places) - 1
    start = places[0]
    stop = start + limit
    one = 1
    alive = True
    while alive and kept < stop:
        u = rng.random()
        alive = u < ratio[kept]
        kept = kept + one * alive
    row = rows[kept]
    return [*x[:kept], tokens[rng.choice(width, p=row)]]
"""
"""More lines than are named ran between the mistake and the draw, most of them about sizes."""

ONE_ARGUMENT = """
def drawn(used, unused, rng):
    row = used / used.sum()
    return rng.choice(len(row), p=row)

def verify(p, q, x, rng):
    for i, token in enumerate(x):
        apart = p[i] * 2.0 - q[i]  # APART
        left = np.maximum(p[i] - q[i] / 2, 0)  # WRONG
        if rng.random() >= p[i][token] / q[i][token]:
            return [*x[:i], drawn(left, apart, rng)]
    return [*x, rng.choice(len(p[-1]), p=p[-1])]
"""

COMPREHENSION = """
def verify(p, q, x, rng):
    left = [np.maximum(a - b / 2, 0) for a, b in zip(p, q)]  # WRONG
    left = [row / max(row.sum(), 1e-9) for row in left]
    for i, token in enumerate(x):
        if rng.random() >= p[i][token] / q[i][token]:
            return [*x[:i], rng.choice(len(left[i]), p=left[i])]
    return [*x, rng.choice(len(p[-1]), p=p[-1])]
"""

ALWAYS_KEPT = """
def step(prefix, target, draft, gamma, rng):
    q = draft(prefix)
    token = int(rng.choice(len(q), p=q))  # DRAFT
    p = target(prefix)
    ratio = max(p[token] / q[token], 1.0)  # WRONG
    u = rng.random()
    if u < ratio:
        return [token]
    left = np.maximum(p - q, 0)
    return [int(rng.choice(len(left), p=left / left.sum()))]
"""
"""No decision but the draft's own is left on any path."""

DRAFTED_WRONG = ALWAYS_KEPT.replace("max(p[token] / q[token], 1.0)  # WRONG", "p[token] / q[token]")
DRAFTED_WRONG = DRAFTED_WRONG.replace("p=q))  # DRAFT", "p=hot(q)))  # WRONG").replace(
    "def step", "def hot(q):\n    return q**2 / (q**2).sum()\n\ndef step"
)


GREEDY = """
def step(prefix, target, draft, gamma, rng):
    q = draft(prefix)
    token = int(q.argmax())  # WRONG
    p = target(prefix)
    ratio = min(p[token] / q[token], 1.0)  # RATIO
    if rng.random() < ratio:
        return [token]
    left = np.maximum(p - q, 0)
    return [int(rng.choice(len(left), p=left / left.sum()))]  # RESIDUAL
"""
"""Its coin falls with the probabilities that a row of the draft has too, and is no draft."""

REPORTED = """
def told(row):
    back = row[::-1]  # WRONG
    return back / back.sum()

def drafted(draft, prefix, rng):
    row = draft(prefix)
    row = row / row.sum()  # DRAFTED
    token = int(rng.choice(len(row), p=row))
    reported = told(row)
    return token, reported

def scored(target, prefix, token):
    rows = [target(prefix), target((*prefix, token))]
    rows = np.stack(rows)
    logits = np.log(np.maximum(rows, 1e-300))
    logits = logits - logits.max(-1, keepdims=True)
    logits = logits * 1.0
    logits = logits + 0.0
    shifted = logits - logits.mean(-1, keepdims=True)
    shifted = np.clip(shifted, -700.0, 700.0)
    powers = np.exp(shifted)
    powers = np.maximum(powers, 0.0)
    sums = powers.sum(-1, keepdims=True)
    rows = powers / sums
    rows = rows * 1.0
    rows = rows + 0.0
    return rows  # SCORED

def step(prefix, target, draft, gamma, rng):
    token, q = drafted(draft, prefix, rng)
    p = scored(target, prefix, token)
    ratio = p[0][token] / q[token]
    if rng.random() < ratio:
        return [token, int(rng.choice(len(q), p=p[1]))]
    left = np.maximum(p[0] - q, 0)
    return [int(rng.choice(len(left), p=left / left.sum()))]
"""
"""More lines make the rows of the target, which are right, than are named."""


def places(folder, text, mark):
    file = folder / "rule.py"
    lines = file.read_text().splitlines()
    return [f"{file}:{i}" for i, line in enumerate(lines, 1) if mark in line]


def named(folder, text):
    file = folder / "rule.py"
    file.write_text("import numpy as np\n" + textwrap.dedent(text))
    contract = "step" if "def step" in text else "verify"
    subject = load_subject(f"{file}:{contract}")
    judged = Examiner(subject, contract, 1e-9).judge(rich_instance(contract, POINT))
    assert judged.deviates
    place = locate_deviation(subject, contract, judged, 1e-9)
    return [*place.lines, *(place.sources or ())]


@pytest.mark.parametrize(
    "text", [FAR_BACK, ONE_ARGUMENT, COMPREHENSION, ALWAYS_KEPT, DRAFTED_WRONG, GREEDY, REPORTED]
)
def test_the_mistake_is_named(text, tmp_path):
    found = named(tmp_path, text)
    (wrong,) = places(tmp_path, text, "# WRONG")
    assert wrong in found
    assert not set(places(tmp_path, text, "# APART")) & set(found)
    assert len(found) <= MAX_SUSPECTS + 3


def test_what_ran_last_would_not_do(tmp_path):
    """The control: the lines between the mistake and the draw would fill the list."""
    found = named(tmp_path, FAR_BACK)
    (wrong,) = places(tmp_path, FAR_BACK, "# WRONG")
    number = int(wrong.rpartition(":")[2])
    ran_later = [i for i, line in enumerate(FAR_BACK.splitlines(), 2) if i > number and line][:-2]
    assert len(ran_later) > MAX_SUSPECTS
    about_sizes = places(tmp_path, FAR_BACK, "device =") + places(
        tmp_path, FAR_BACK, "alive = True"
    )
    assert not set(about_sizes) & set(found[: found.index(wrong)])


def test_an_honest_draft_comes_after_the_test_that_is_wrong(tmp_path):
    found = named(tmp_path, ALWAYS_KEPT)[1:]  # the first line decides: the draft alone is random
    (wrong,) = places(tmp_path, ALWAYS_KEPT, "# WRONG")
    (draft,) = places(tmp_path, ALWAYS_KEPT, "q = draft")
    assert wrong in found
    assert draft not in found[: found.index(wrong)]


def test_a_coin_that_falls_as_a_draft_would_is_no_draft(tmp_path):
    found = named(tmp_path, GREEDY)
    (wrong,), (ratio,), (residual,) = (
        places(tmp_path, GREEDY, mark) for mark in ("# WRONG", "# RATIO", "# RESIDUAL")
    )
    assert wrong in found
    assert found.index(ratio) < found.index(residual)


def test_what_a_right_decision_comes_from_is_named_last(tmp_path, monkeypatch):
    """The bonus token's law is right, and so are the target's rows; the draft may be any."""
    found = named(tmp_path, REPORTED)
    (wrong,), (drafted,) = (places(tmp_path, REPORTED, mark) for mark in ("# WRONG", "# DRAFTED"))
    assert wrong in found
    assert drafted not in found
    monkeypatch.setattr(blame, "judge_decisions", lambda *_: NO_VERDICTS)  # the control
    assert named(tmp_path, REPORTED).index(wrong) > found.index(wrong) + 2


def test_a_token_that_nothing_draws_is_named_first(tmp_path, monkeypatch):
    """Where every decision is as it should be, a token was taken without one."""
    found = named(tmp_path, GREEDY)
    (wrong,) = places(tmp_path, GREEDY, "# WRONG")
    assert found.index(wrong) <= 2
    monkeypatch.setattr(blame, "judge_decisions", lambda *_: NO_VERDICTS)  # the control
    assert named(tmp_path, GREEDY).index(wrong) > 2


def test_what_is_stored_side_by_side_does_not_meet(tmp_path):
    file = tmp_path / "rule.py"
    file.write_text("def f(s, p, q):\n    s.a = p\n    s.b = q\n    s.c = p - q\n    return s.b\n")
    path = [LineStep(str(file), n, 0, None, True, ("p", "q") * (n == 2)) for n in (2, 3, 4, 5)]
    graph = DependenceGraph(path)
    assert [graph.nodes[graph.of[i]].meets for i in range(3)] == [False, False, True]
    # The object holds all of them behind it.
    assert graph.of[1] in graph.behind({graph.of[3]: 0}, lambda node: 1)


def test_a_file_that_is_edited_is_read_anew(tmp_path):
    """As in a notebook, where code is audited, mended and audited again."""
    file = tmp_path / "rule.py"

    def behind():
        path = [LineStep(str(file), line, 0, None) for line in (2, 3, 4)]
        return [place.rpartition(":")[2] for place in rank_suspects([SlicingCriterion(path, 2)])]

    file.write_text("def f(p, q):\n    a = p + 1\n    b = q + 1\n    return a * 2\n")
    assert behind() == ["2"]
    file.write_text("def f(p, q):\n    a = p + 1\n    b = q + 1\n    return b * 2\n")
    assert behind() == ["3"]
