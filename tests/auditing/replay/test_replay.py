"""Replay against the laws that are known: what leads there, and what it weighs."""

import ctypes
import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from simverify.auditing.examiner import verify_as_step
from simverify.auditing.instances import InstanceRows, SmallModel
from simverify.auditing.replay import explain_output, render_explanation
from simverify.auditing.run import supervised_explain
from simverify.auditing.subject import Subject
from simverify.errors import SimverifyError
from simverify.models.base import compact, toy
from simverify.results import Counterexample, Instance
from simverify.verifiers import VERIFIERS


def document(model, gamma, depth):
    def table(row):
        return {
            ",".join(map(str, prefix)): tuple(row(prefix).tolist())
            for length in range(depth + 1)
            for prefix in itertools.product(range(model.vocab_size), repeat=length)
        }

    return Instance(
        name="small",
        vocab_size=model.vocab_size,
        gamma=gamma,
        target_probs=table(model.target),
        draft_probs=table(model.draft),
    )


COMPACT = document(compact(), 2, 5)


def joint(sequence):
    mass = 1.0
    for i, token in enumerate(sequence):
        mass *= compact().target(sequence[:i])[token]
    return mass


@pytest.mark.parametrize("name", ["token", "block", "match", "greedy"])
@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.thorough
def test_the_paths_to_every_output_carry_its_probability(name, length):
    verifier = VERIFIERS[name]
    if name == "greedy" and length == 3:
        sequences = [(0, 2, 1), (2, 2, 2)]
    else:
        sequences = list(itertools.product(range(3), repeat=length))
    for sequence in sequences:
        found = explain_output(verifier.rule, verifier.contract, COMPACT, sequence)
        assert found.emitted == pytest.approx(joint(sequence), abs=1e-12)
        assert found.due == pytest.approx(joint(sequence), abs=1e-12)
        weights = [trail.contribution for trail in found.trails]
        assert weights == sorted(weights, reverse=True)
        assert sum(weights) == pytest.approx(found.emitted)


def test_token_rule_on_the_toy_by_hand():
    # q = (2/3, 1/3), p = (1/3, 2/3): (0,) is a draft 0 that was accepted, 2/3 * 1/2.
    found = explain_output(VERIFIERS["token"].rule, "verify", document(toy(), 1, 2), (0,))
    assert found.emitted == pytest.approx(1 / 3)
    assert {trail.drafted for trail in found.trails} == {(0,)}
    assert sum(t.contribution for t in found.trails) == pytest.approx(1 / 3)
    for trail in found.trails:
        accept, bonus = trail.branches
        assert (accept.draw, accept.taken, accept.ways) == (1, 0, 2)
        assert accept.weight == pytest.approx(0.5)
        assert accept.left == pytest.approx((0, 0.5))
        assert bonus.draw == 2
        assert bonus.weight == pytest.approx((1 / 3, 2 / 3)[trail.emitted[1]])


def reuse(p, q, x, rng):
    """The residual by inverse CDF with the uniform that rejected."""
    for i, y in enumerate(x):
        u = rng.random()
        if not u < p[i][y] / q[i][y]:
            row = np.maximum(p[i] - q[i], 0)
            return [*x[:i], int(np.searchsorted(row.cumsum() / row.sum(), u))]
    return [*x, int(rng.choice(len(p[-1]), p=p[-1]))]


def test_a_reused_uniform_shows_as_one_draw_decided_twice():
    def wide(row):
        """Draft 1 always, rejected with u >= row[1]."""
        later = {str(i): (0.25,) * 4 for i in range(4)}
        return Instance(
            name="wide",
            vocab_size=4,
            gamma=1,
            target_probs={"": row, **later},
            draft_probs={"": (0.0, 1.0, 0.0, 0.0), **later},
        )

    always = explain_output(reuse, "verify", wide((0.3, 0.0, 0.3, 0.4)), (0,))
    assert always.emitted == pytest.approx(0.3)  # p = 0: a rejection says nothing of u

    found = explain_output(reuse, "verify", wide((0.3, 0.4, 0.2, 0.1)), (0,))
    # u in [.4, .5) of the residual (1/2, 0, 1/3, 1/6).
    assert found.emitted == pytest.approx(0.1)
    assert found.due == pytest.approx(0.3)
    (trail,) = found.trails
    assert {branch.draw for branch in trail.branches} == {1}
    assert trail.branches[0].left == pytest.approx((0.4, 1.0))
    assert trail.branches[-1].left == pytest.approx((0.4, 0.5))
    assert np.prod([branch.weight for branch in trail.branches]) == pytest.approx(0.1)


def branches(draws):
    """What is noted on the paths of a rule that draws its only token from the target so."""

    def rule(p, q, x, rng):
        return [*x, draws(p[-1], rng)]

    found = explain_output(rule, "verify", document(toy(), 1, 2), (0, 0))
    return [trail.branches for trail in found.trails]


def test_every_kind_of_decision_is_named_with_its_draw():
    half = lambda p, rng: int(rng.random() < 0.5)  # noqa: E731
    ((one,),) = branches(half)
    assert (one.kind.value, one.draw, one.left) == ("a comparison with a number", 1, (0.5, 1.0))

    (((one,)),) = branches(lambda p, rng: int(rng.integers(2)))
    assert (one.kind.value, one.draw) == ("an outcome of a draw", 1)

    def after_another(p, rng):
        rng.random()
        return int(rng.choice(2, p=p))

    ((one,),) = branches(after_another)
    assert (one.kind.value, one.draw) == ("an outcome of a draw", 2)

    ((one,),) = branches(lambda p, rng: int(rng.exponential() > 2 * rng.exponential()))
    assert (one.kind.value, one.draw, one.left) == ("a race of two draws", None, None)

    ((one,),) = branches(lambda p, rng: int(np.argmax(rng.gumbel(size=2))))
    assert (one.kind.value, one.draw) == ("a comparison of several draws", None)


def test_a_product_of_draws_compared_with_a_number_is_noted():
    ((one,),) = branches(lambda p, rng: int(rng.random() * rng.random() < 0.5))
    assert (one.kind.value, one.draw, one.left) == ("a comparison with a number", None, None)
    # Pr(u v >= 1/2) = 1 - 1/2 (1 + log 2).
    assert one.weight == pytest.approx(1 - 0.5 * (1 + np.log(2)))


def test_branches_name_the_line_of_the_code():
    found = explain_output(reuse, "verify", COMPACT, (2, 2))
    source = Path(__file__).read_text().splitlines()
    for trail in found.trails:
        for branch in trail.branches:
            file, line = branch.where.rsplit(":", 1)
            assert Path(file) == Path(__file__)
            assert any(word in source[int(line) - 1] for word in ("u <", "searchsorted", "choice"))


def test_an_output_that_is_never_emitted_has_no_paths():
    found = explain_output(lambda p, q, x, rng: [0], "verify", COMPACT, (1, 0))
    assert (found.trails, found.emitted) == ((), 0)
    assert found.due > 0
    assert "no path leads there: the code never emits it" in render_explanation(found)


def test_the_text_shows_rows_draws_and_weights():
    found = explain_output(VERIFIERS["block"].rule, "verify", COMPACT, (0, 2, 1))
    text = render_explanation(found, most=2)
    assert "output 0, 2, 1" in text
    assert "q = 0.416667  0.5  0.0833333" in text
    assert "position 2: token 1" in text
    assert text.count("\npath ") == 2
    assert "verifiers/block.py:" in text
    assert "1 more paths" in text
    assert "the target completes it: 0.25" in text
    assert "decided nothing" in text


def test_one_path_keeps_its_number_and_their_count():
    found = explain_output(VERIFIERS["block"].rule, "verify", COMPACT, (0, 2, 1))
    text = render_explanation(found, only=2)
    assert f"{len(found.trails)} paths lead there, numbered from 0, heaviest first" in text
    assert f"path 2: {found.trails[2].contribution:.6g}" in text
    assert text.count("\npath ") == 1


def test_a_replay_runs_in_a_child():
    counterexample = Counterexample(
        instance=COMPACT,
        sequence=(0, 2),
        probability_emitted=0.0,
        probability_expected=0.0,
        max_abs_deviation=0.0,
        tv=0.0,
    )

    run = SimpleNamespace(
        spec="mine", contract="verify", counterexample=counterexample, batch=None, company=None
    )

    def replayed(rule):
        subject = Subject("mine", rule, None)
        return supervised_explain(lambda: subject, run)

    assert replayed(reuse) == explain_output(reuse, "verify", COMPACT, (0, 2))
    with pytest.raises(SimverifyError, match="mine ends the replay: the process was ended"):
        replayed(lambda p, q, x, rng: ctypes.string_at(0))
    with pytest.raises(SimverifyError, match="mine has changed since the audit"):
        replayed(lambda p, q, x, rng: [hash(rng.random()) % 3])


def test_torch_code_is_followed():
    torch = pytest.importorskip("torch")

    def rule(p, q, x, rng):
        p, q = torch.as_tensor(p), torch.as_tensor(q)
        for i, y in enumerate(x):
            if torch.rand(1, dtype=torch.float64) >= p[i, y] / q[i, y]:
                return [*x[:i], torch.multinomial((p[i] - q[i]).clamp(min=0), 1).item()]
        return [*x, torch.multinomial(p[-1], 1).item()]

    found = explain_output(rule, "verify", COMPACT, (2, 1))
    assert found.emitted == pytest.approx(joint((2, 1)))
    assert {b.draw for t in found.trails for b in t.branches} <= {1, 2, 3}


def test_code_that_the_exact_tier_begins_anew_is_counted_once():
    def rule(p, q, x, rng):
        # float() of a draw is followed only at a second attempt.
        for i, y in enumerate(x):
            if not float(rng.random()) < p[i][y] / q[i][y]:
                return [*x[:i], int(rng.choice(3, p=residual(p[i], q[i])))]
        return [*x, int(rng.choice(3, p=p[-1]))]

    for sequence in itertools.product(range(3), repeat=2):
        found = explain_output(rule, "verify", COMPACT, sequence)
        assert found.emitted == pytest.approx(joint(sequence), abs=1e-12)


def test_a_prompt_comes_before_every_prefix():
    model = SmallModel("prompted", 1, ((1, 2), (3, 1)), ((2, 1), (1, 1)), prompt=(0, 1, 1))
    rule = verify_as_step(VERIFIERS["token"].rule)
    for sequence in itertools.product(range(2), repeat=2):
        found = explain_output(rule, "step", model.document(2), sequence)
        due = model.target((0, 1, 1))[sequence[0]]
        due *= model.target((0, 1, 1, sequence[0]))[sequence[1]]
        assert found.emitted == pytest.approx(due)
        assert found.positions[0].target == tuple(model.target((0, 1, 1)))
    assert tuple(model.target(())) != tuple(model.target((0, 1, 1)))
    with pytest.raises(ValueError, match="no target row"):
        InstanceRows(model.document(2)).target((0, 0, 1))


def residual(p, q):
    rest = np.maximum(p - q, 0)
    return rest / rest.sum()


def test_fractions_are_read_and_missing_rows_named():
    instance = Instance(
        name="thirds",
        vocab_size=2,
        gamma=1,
        target_probs={"": ("1/3", "2/3"), "0": (0.5, 0.5), "1": (1.0, 0.0)},
        draft_probs={"": (1.0, 0.0)},
    )
    assert InstanceRows(instance).target(())[0] == 1 / 3
    found = explain_output(VERIFIERS["token"].rule, "verify", instance, (0, 1))
    assert found.emitted == pytest.approx(1 / 6)
    with pytest.raises(ValueError, match=r"no draft row after '[01]'"):
        explain_output(VERIFIERS["greedy"].rule, "step", instance, (0, 1))


@pytest.mark.parametrize("sequence", [(), (0, 1, 2, 0), (3,), (-1,)])
def test_sequences_that_do_not_fit_are_refused(sequence):
    with pytest.raises(ValueError, match="pass"):
        explain_output(VERIFIERS["token"].rule, "verify", COMPACT, sequence)
