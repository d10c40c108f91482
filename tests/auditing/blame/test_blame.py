"""The line that is named is the one that was planted; each rule here has one marked with WRONG."""

import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import simverify
from simverify.auditing.blame import NO_VERDICTS, judge_decisions, locate_deviation
from simverify.auditing.dependence import DependenceGraph
from simverify.auditing.exact_tier import make_counterexample
from simverify.auditing.examiner import Examiner, rich_instance
from simverify.auditing.instances import InstanceRows, SmallModel, instance_battery
from simverify.auditing.rerun import CALLS_BY_CONTRACT, LineStep
from simverify.auditing.subject import load_subject
from simverify.reports.audit import decided_words, short_location, source_words
from simverify.symbolic.engine import Budget, RecordedBranch, RecordedPath
from simverify.symbolic.provenance import parse_raise_site
from simverify.symbolic.races import DecisionKind

POINT = SmallModel(
    "point masses", 2, ((1, 0, 0), (0, 1, 0), (0, 0, 1)), ((1, 1, 1), (1, 2, 1), (1, 1, 2))
)
RICH = rich_instance("verify", POINT)

RULES = {
    "acceptance": """
        def verify(p, q, x, rng):
            for i, token in enumerate(x):
                u = rng.random()
                if u >= 1.05 * p[i][token] / q[i][token]:  # WRONG
                    left = np.maximum(p[i] - q[i], 0)
                    return [*x[:i], rng.choice(len(left), p=left / left.sum())]
            return [*x, rng.choice(len(p[-1]), p=p[-1])]
        """,
    "residual": """
        def verify(p, q, x, rng):
            for i, token in enumerate(x):
                if rng.random() >= p[i][token] / q[i][token]:
                    return [*x[:i], rng.choice(len(p[i]), p=p[i])]  # WRONG
            return [*x, rng.choice(len(p[-1]), p=p[-1])]
        """,
    "bonus": """
        def verify(p, q, x, rng):
            for i, token in enumerate(x):
                if rng.random() >= p[i][token] / q[i][token]:
                    left = np.maximum(p[i] - q[i], 0)
                    return [*x[:i], rng.choice(len(left), p=left / left.sum())]
            return [*x, rng.choice(len(p[-1]), p=p[-2])]  # WRONG
        """,
    "torch": """
        def verify(p, q, x, rng):
            p, q, x = map(torch.tensor, (p, q, x))
            i = torch.arange(len(x))
            keep = torch.rand(len(x), dtype=p.dtype) < p[i, x] / q[i, x]
            n = int(keep.cumprod(0).sum())
            rows = torch.cat([p[:-1], p[-1:]])
            return [*x[:n].tolist(), int(torch.multinomial(rows[n], 1))]  # WRONG
        """,
    # What it draws after a rejection is read only when the call has ended.
    "unread": """
        def verify(p, q, x, rng):
            p, q, x = map(torch.tensor, (p, q, x))
            for i, token in enumerate(x):
                if torch.rand(1, dtype=p.dtype) >= p[i, token] / q[i, token]:
                    return torch.cat([x[:i], torch.multinomial(p[i], 1)])  # WRONG
            return torch.cat([x, torch.multinomial(p[-1], 1)])
        """,
    "step": """
        def step(prefix, target, draft, gamma, rng):
            out = []
            for _ in range(gamma):
                p, q = target((*prefix, *out)), draft((*prefix, *out))
                token = rng.choice(len(q), p=q)
                if rng.random() >= (p[token] / q[token]) ** 1.1:  # WRONG
                    left = np.maximum(p - q, 0)
                    left = left if left.sum() else p
                    return [*out, rng.choice(len(left), p=left / left.sum())]
                out.append(token)
            last = target((*prefix, *out))
            return [*out, rng.choice(len(last), p=last)]
        """,
}

UNDECIDED = {
    # The second token is drawn by nobody; the one before it is.
    "typical": """
        def step(prefix, target, draft, gamma, rng):
            first = rng.choice(2, p=target(prefix))  # WRONG
            return [first, draft((*prefix, first)).argmax()]
        """,
    # The likeliest token of a residual, and the worst output begins with one that it never is.
    "likeliest": """
        def verify(p, q, x, rng):
            for i, token in enumerate(x):
                if rng.random() >= p[i][token] / q[i][token] / 2:  # WRONG
                    return [*x[:i], np.argmax(p[i] - q[i])]
            return [*x, rng.choice(len(p[-1]), p=p[-1])]
        """,
}


DRAWS = {
    "an outcome": "torch.multinomial(p, 1)",
    "Gumbel noise": "(p.log() - torch.empty_like(p).exponential_().log()).argmax(0)[None]",
    "a race": "(p / torch.empty_like(p).exponential_()).argmax(0)[None]",
    "an inverse law": "torch.searchsorted(p.cumsum(0), torch.rand(1, dtype=p.dtype))",
}
"""A token of the row ``p``, as a tensor that nothing has read."""

READ_ELSEWHERE = """
    def drawn(p):
        return {draw}  # WRONG

    def kept(token, row):
        return token.tolist()

    def scored(token, row):
        return kept(token, row[token])

    def verify(p, q, x, rng):
        p, q, x = map(torch.tensor, (p, q, x))
        for i, token in enumerate(x):
            if torch.rand(1, dtype=p.dtype) >= p[i, token] / q[i, token]:
                return [*x[:i].tolist(), *{reader}(drawn(p[i]), p[i])]
        last = (p[-1] - 0).clamp(min=0)
        return [*x.tolist(), *kept(torch.multinomial(last, 1), last)]
    """


@pytest.mark.parametrize("reader", ["kept", "scored"])
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.thorough
def test_a_token_is_decided_where_it_is_drawn_whoever_reads_it(draw, reader, tmp_path):
    text = READ_ELSEWHERE.replace("{draw}", DRAWS[draw]).replace("{reader}", reader)
    subject, contract, wrong = _rule(tmp_path, text)
    place = locate_deviation(subject, contract, _judged(subject, contract, RICH), 1e-9)
    assert (list(place.lines), place.alone) == (wrong, True)


def _rule(folder, text):
    file = folder / "rule.py"
    file.write_text("import numpy as np\nimport torch\n" + textwrap.dedent(text))
    wrong = [i for i, line in enumerate(file.read_text().splitlines(), 1) if "# WRONG" in line]
    name = "step" if "def step" in text else "verify"
    return load_subject(f"{file}:{name}"), name, [f"{file}:{line}" for line in wrong]


def _judged(subject, contract, model):
    return Examiner(subject, contract, 1e-9).judge(model)


@pytest.mark.parametrize("name", RULES)
def test_the_line_of_the_fault_is_named_first(name, tmp_path):
    subject, contract, wrong = _rule(tmp_path, RULES[name])
    model = rich_instance(contract, POINT)
    place = locate_deviation(subject, contract, _judged(subject, contract, model), 1e-9)
    assert (list(place.lines[:1]), place.alone) == (wrong, True)
    assert decided_words(place).startswith("That token is decided at rule.py:")


@pytest.mark.parametrize("name", UNDECIDED)
def test_a_token_that_no_line_decides_goes_with_the_output_up_to_it(name, tmp_path):
    subject, contract, wrong = _rule(tmp_path, UNDECIDED[name])
    place = locate_deviation(
        subject, contract, _judged(subject, contract, rich_instance(contract, POINT)), 1e-9
    )
    assert (list(place.lines), place.alone) == (wrong, False)
    assert decided_words(place).startswith("No line decides that token alone; the output up to it")


def test_other_lines_of_the_rule_are_not_named(tmp_path):
    """The line that keeps a draft token decides nothing of the bonus token, nor the other way."""
    subject, contract, wrong = _rule(tmp_path, RULES["bonus"])
    place = locate_deviation(subject, contract, _judged(subject, contract, RICH), 1e-9)
    assert list(place.lines) == wrong


def test_rows_that_leave_no_choice_are_left_for_richer_ones(tmp_path):
    subject, contract, wrong = _rule(tmp_path, RULES["bonus"])
    shown = _judged(subject, contract, POINT)
    assert shown.deviates
    place = locate_deviation(subject, contract, shown, 1e-9)
    assert list(place.lines) == wrong


def test_code_that_takes_coins_has_no_lines(tmp_path):
    subject, contract, _ = _rule(tmp_path, RULES["residual"])
    shown = _judged(subject, contract, RICH)
    coins = type(subject)(**{**vars(subject), "coin_bits": 53})
    assert locate_deviation(coins, contract, shown, 1e-9).lines == ()


BEFORE = {
    "what it is drawn from": """
        def left_of(p, q):
            return np.maximum(p - q / 2, 0)  # WRONG

        def verify(p, q, x, rng):
            unused = p[:-1] - q  # APART
            for i, token in enumerate(x):
                if rng.random() >= p[i][token] / q[i][token]:
                    left = left_of(p[i], q[i])
                    left = left / left.sum()
                    return [*x[:i], rng.choice(len(left), p=left)]
            last = p[-1]  # APART
            return [*x, rng.choice(len(last), p=last)]
        """,
    "what it is compared with": """
        def verify(p, q, x, rng):
            for i, token in enumerate(x):
                ratio = 1.05 * p[i][token] / q[i][token]  # WRONG
                u = rng.random()
                if u >= ratio:
                    left = np.maximum(p[i] - q[i], 0)  # APART
                    return [*x[:i], rng.choice(len(left), p=left / left.sum())]
            return [*x, rng.choice(len(p[-1]), p=p[-1])]
        """,
    "a caller": """
        def drawn(row, rng):
            return rng.choice(len(row), p=row)

        def verify(p, q, x, rng):
            for i, token in enumerate(x):
                if rng.random() >= p[i][token] / q[i][token]:
                    return [*x[:i], drawn(p[i] * 1.0, rng)]  # WRONG
            unused = p[-1] * 1.0  # APART
            return [*x, drawn(p[-1], rng)]
        """,
    "a token that is not drawn": """
        def verify(p, q, x, rng):
            for i, token in enumerate(x):
                if rng.random() >= p[i][token] / q[i][token]:
                    left = np.maximum(p[i] - q[i], 0)  # APART
                    return [*x[:i], rng.choice(len(left), p=left / left.sum())]
            last = p[-1].argmax()  # WRONG
            return [*x, last]
        """,
}
"""WRONG is not where the token is decided, which those marked APART have no part in."""


@pytest.mark.parametrize("name", BEFORE)
def test_the_lines_that_numbers_come_from_hold_the_mistake(name, tmp_path):
    subject, contract, (wrong,) = _rule(tmp_path, BEFORE[name])
    place = locate_deviation(subject, contract, _judged(subject, contract, RICH), 1e-9)
    assert wrong not in place.lines
    assert wrong in place.sources
    text = (tmp_path / "rule.py").read_text().splitlines()
    assert not [line for line in place.sources if "# APART" in text[int(line.split(":")[-1]) - 1]]
    assert (
        "Its numbers come from these lines, the likeliest mistake first: rule.py:"
        in decided_words(place)
    )


# Of code that raises: the line, what called it, and the lines that its values come from.


RULE = """
import numpy as np

def drawn(row, most, rng):
    first = np.argsort(-row)[:most]
    return rng.choice(first)

def verify(p, q, x, rng):
    apart = p - 1  # APART
    most = p.shape[-1] / 1  # WRONG
    for i, token in enumerate(x):
        if rng.random() >= p[i][token] / q[i][token]:
            return [*x[:i], drawn(np.maximum(p[i] - q[i], 0), most, rng)]  # CALLER
    return [*x, drawn(p[-1], most, rng)]  # CALLER
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    file = tmp_path_factory.mktemp("raised") / "rule.py"
    file.write_text(textwrap.dedent(RULE))
    return simverify.audit(f"{file}:verify", gamma=1, vocab=2, seed=0)


def at(run, mark):
    file = run.spec.partition(":")[0]
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return [f"{file}:{i}" for i, line in enumerate(lines, 1) if mark in line]


def test_a_raise_names_its_callers_and_what_is_behind_it(run):
    assert run.verdict == "FAIL"
    (raised,) = [found for found in run.findings if found.broke == "raises"]
    assert [raised.line] == at(run, "first = np.argsort")
    assert set(raised.callers) <= set(at(run, "# CALLER"))
    assert set(at(run, "# WRONG")) <= set(raised.sources)
    assert not set(at(run, "# APART")) & set(raised.sources)


def test_a_probe_names_them_too(run):
    probes = [found for found in run.findings if found.kind == "probe" and found.line]
    assert probes
    assert all(set(found.callers) <= set(at(run, "# CALLER")) for found in probes)


def test_they_are_told(run):
    (raised,) = [found for found in run.findings if found.broke == "raises"]
    said = source_words(raised)
    assert "called at " in raised.text
    assert "What it raised on comes from these lines, the likeliest mistake first: rule.py:" in said
    assert short_location(run.findings, None).startswith("raised at rule.py:5, called at rule.py:1")


def test_a_comma_in_a_file_s_name_is_of_the_name(tmp_path):
    file = tmp_path / "rule, old.py"
    file.touch()
    assert parse_raise_site(f"raised E: x ({file}:3, called at {file}:5, {file}:9)") == (
        f"{file}:3",
        f"{file}:5",
        f"{file}:9",
    )


def test_code_that_calls_itself_is_named_once(tmp_path):
    file = tmp_path / "deep.py"
    file.write_text(
        "def deep(n):\n    if n == 0:\n        raise ValueError('deep')\n    return deep(n - 1)\n\n"
        "def verify(p, q, x, rng):\n    return deep(5)\n"
    )
    run = simverify.audit(f"{file}:verify", gamma=1, vocab=2, seed=0)
    (raised,) = [found for found in run.findings if found.broke == "raises"]
    assert raised.callers == (f"{file}:4", f"{file}:7")


# Which decisions of a call are as the rows demand, by rules whose mistake is known.


PLAIN = next(model for model in instance_battery(3, 3) if model.name == "plain, V=3, gamma=1")

RIGHTS_RULE = """
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

BY_CDF = RIGHTS_RULE.replace(
    "rng.choice(len(row), p=row / row.sum())",
    "np.searchsorted(np.cumsum(row)[:-1], rng.random(), side='right')",
)


def judged_lines(folder, text):
    """The lines that decide rightly, those that do not, and whether a coin is missing."""
    file = folder / "rule.py"
    file.write_text(textwrap.dedent(text))
    subject = load_subject(f"{file}:step")
    judged = Examiner(subject, "step", 1e-9).judge(PLAIN)
    found = make_counterexample(judged, "step")
    model = InstanceRows(found.instance)
    (call,) = CALLS_BY_CONTRACT["step"](subject.rule, model, found.sequence, Budget(20_000, 20.0))
    verdicts = judge_decisions(call.leaves, model, found.sequence)
    where = {
        tuple(branch.taken for branch in leaf.branches[:depth]): int(own.where.rpartition(":")[2])
        for leaf in call.leaves
        for depth, own in enumerate(leaf.branches)
    }
    marks = {i: line.rpartition("# ")[2] for i, line in enumerate(text.splitlines(), 1)}
    right = {marks[where[place]] for place, known in verdicts.known.items() if known}
    wrong = {marks[where[place]] for place, known in verdicts.known.items() if not known}
    return right, wrong, verdicts.always_kept


@pytest.mark.parametrize("text", [RIGHTS_RULE, BY_CDF])
def test_every_decision_of_a_right_rule_is_right(text, tmp_path):
    right, wrong, missing = judged_lines(tmp_path, text)
    assert right == {"DRAWN", "COIN", "BONUS", "RESIDUAL"}
    assert not wrong
    assert not missing


@pytest.mark.parametrize("text", [RIGHTS_RULE, BY_CDF])
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
    right, wrong, _ = judged_lines(
        tmp_path, RIGHTS_RULE.replace("drawn(q, rng)", "drawn(q**2, rng)")
    )
    assert "DRAWN" in right
    assert "COIN" in wrong


@pytest.mark.parametrize("ratio", ["max(1.0, p[x])", "p[x] / q[::-1][x]"])
def test_a_coin_that_nobody_asks_is_missed(ratio, tmp_path):
    """The second asks one for some drafts, with the chance that is due, and none for others."""
    text = RIGHTS_RULE.replace("rng.random() < p[x] / q[x]", f"rng.random() < {ratio}")
    _, wrong, missing = judged_lines(tmp_path, text)
    assert missing
    assert not wrong


@pytest.mark.parametrize("token", [-1, 3, 77])
def test_a_decision_for_what_is_no_token_is_not_judged(token):
    def leaf(taken, emitted):
        branch = RecordedBranch(DecisionKind.BOUND, 1, taken, 2, 0.5, None, "rule.py:1")
        return RecordedPath((emitted,), 0.5, 1, (branch,))

    def row(prefix):
        return np.array([0.5, 0.5, 0.0])

    rows = SimpleNamespace(prompt=(), target=row, draft=row)
    assert judge_decisions([leaf(0, 0), leaf(1, 1)], rows).known == {(): True}  # the control
    assert judge_decisions([leaf(0, 0), leaf(1, token)], rows) == NO_VERDICTS


def test_nothing_is_known_of_a_call_without_decisions():
    assert judge_decisions([], SimpleNamespace(prompt=())) == NO_VERDICTS


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
    path = [LineStep(str(file), 8, 0, None, True, handed)]
    path += [LineStep(str(file), line, 1, 0) for line in (3, 4, 5)]
    path += [LineStep(str(file), line, 0, None) for line in (9, 10)]
    graph = DependenceGraph(path)

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
    graph = DependenceGraph(
        [LineStep(str(file), line, 0, None, True, ("p",)) for line in (2, 3, 4)]
    )

    def values(step):
        return {graph.nodes[i].at.rpartition(":")[2] for i in graph.values([step], ())}

    assert "2" not in values(2)
    assert "2" in values(1)  # the control: the draw itself rests on its row
