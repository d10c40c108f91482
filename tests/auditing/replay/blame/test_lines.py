"""The line that is named is the one that was planted; each rule here has one marked with WRONG."""

import textwrap

import pytest

from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.judging.diagnosis import rich_instance
from simverify.auditing.exact.judging.examiner import Examiner
from simverify.auditing.replay.blame.lines import located
from simverify.auditing.subject import load_subject
from simverify.reports.audit.lines import decided_words

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
    place = located(subject, contract, _judged(subject, contract, RICH), 1e-9)
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
    place = located(subject, contract, _judged(subject, contract, model), 1e-9)
    assert (list(place.lines[:1]), place.alone) == (wrong, True)
    assert decided_words(place).startswith("That token is decided at rule.py:")


@pytest.mark.parametrize("name", UNDECIDED)
def test_a_token_that_no_line_decides_goes_with_the_output_up_to_it(name, tmp_path):
    subject, contract, wrong = _rule(tmp_path, UNDECIDED[name])
    place = located(
        subject, contract, _judged(subject, contract, rich_instance(contract, POINT)), 1e-9
    )
    assert (list(place.lines), place.alone) == (wrong, False)
    assert decided_words(place).startswith("No line decides that token alone; the output up to it")


def test_other_lines_of_the_rule_are_not_named(tmp_path):
    """The line that keeps a draft token decides nothing of the bonus token, nor the other way."""
    subject, contract, wrong = _rule(tmp_path, RULES["bonus"])
    place = located(subject, contract, _judged(subject, contract, RICH), 1e-9)
    assert list(place.lines) == wrong


def test_rows_that_leave_no_choice_are_left_for_richer_ones(tmp_path):
    subject, contract, wrong = _rule(tmp_path, RULES["bonus"])
    shown = _judged(subject, contract, POINT)
    assert shown.deviates
    place = located(subject, contract, shown, 1e-9)
    assert list(place.lines) == wrong


def test_code_that_takes_coins_has_no_lines(tmp_path):
    subject, contract, _ = _rule(tmp_path, RULES["residual"])
    shown = _judged(subject, contract, RICH)
    coins = type(subject)(**{**vars(subject), "coin_bits": 53})
    assert located(coins, contract, shown, 1e-9).lines == ()


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
    place = located(subject, contract, _judged(subject, contract, RICH), 1e-9)
    assert wrong not in place.lines
    assert wrong in place.sources
    text = (tmp_path / "rule.py").read_text().splitlines()
    assert not [line for line in place.sources if "# APART" in text[int(line.split(":")[-1]) - 1]]
    assert "Its numbers come from, likeliest mistake first, rule.py:" in decided_words(place)
