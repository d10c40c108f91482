"""Audits of drafters: from the line that a user types to the replay of a failure."""

import numpy as np
import pytest

import simverify
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.errors import UsageError
from simverify.results.reading import check_consistent

pytestmark = pytest.mark.usefixtures("unsearched")

SMALL = AuditSettings(gamma=2, vocab=3)


def honest(prefix, draft_row, k, rng):
    return [int(rng.choice(len(draft_row), p=draft_row)) for _ in range(k)], draft_row


def run(rule, settings=SMALL):
    return audit(Subject("mine", rule, None), "draft", settings)


def words(found):
    return " ".join(str(found).split())


@pytest.mark.thorough
def test_an_honest_drafter_passes_exactly():
    found = run(honest, AuditSettings(gamma=3))
    assert (found.verdict, found.tier) == ("PASS", "exact")
    assert (found.scheme, found.contract) == ("iid", "draft")
    assert max(i.max_abs_deviation for i in found.instances) < 1e-12
    names = {instance.name for instance in found.instances}
    assert {"plain, V=5, tree 3", "plain, V=3, tree 1,1,1", "one-hot, V=3, tree 3"} <= names
    assert "stop-at-unlikely-token" in found.refuted


@pytest.mark.usefixtures("unnamed", "unprobed")
def test_any_law_may_be_reported_as_long_as_it_is_drawn_from():
    def uniform(prefix, draft_row, k, rng):
        row = np.full(len(draft_row), 1 / len(draft_row))
        return rng.integers(len(row), size=k), row

    def narrowed(prefix, draft_row, k, rng):
        """First half of the ids or second, by a coin: the report says which."""
        half = len(draft_row) // 2
        row = np.zeros(len(draft_row))
        row[slice(half, None) if rng.random() < 0.5 else slice(0, half)] = 1
        row /= row.sum()
        return [int(rng.choice(len(row), p=row)) for _ in range(k)], row

    for rule in (uniform, narrowed):
        assert run(rule).verdict == "PASS"


@pytest.mark.usefixtures("unnamed", "unprobed")
def test_how_many_come_may_depend_on_anything_but_the_tokens():
    def coin(prefix, draft_row, k, rng):
        count = int(rng.integers(k + 1))
        return honest(prefix, draft_row, count, rng)

    def peeked(prefix, draft_row, k, rng):
        tokens, row = honest(prefix, draft_row, k, rng)
        return tokens[: 1 + (tokens[0] == 0)], row

    def empty(prefix, draft_row, k, rng):
        tokens, row = honest(prefix, draft_row, k, rng)
        return ([] if draft_row[tokens[0]] < 0.3 else tokens), row

    assert run(coin).verdict == "PASS"
    found = run(peeked)
    assert found.verdict == "FAIL"
    assert found.counterexample.call.asked >= 2
    assert found.counterexample.call.share < 1
    assert run(empty).verdict == "FAIL"


@pytest.mark.usefixtures("unnamed", "unprobed")
def test_a_chain_whose_second_call_knows_the_first_draw():
    class Chain:
        """Draws the second token with the first, and says nothing where it is unlikely."""

        def __init__(self):
            self.later = None

        def draft(self, prefix, draft_row, k, rng):
            tokens, row = honest(prefix, draft_row, k, rng)
            unlikely, self.later = self.later == 0, tokens[0]
            return ([] if unlikely and tokens[0] == 0 else tokens), row

    assert run(Chain).verdict == "FAIL"


@pytest.mark.usefixtures("unnamed", "unprobed")
def test_what_goes_wrong_behind_a_long_prompt_alone():
    def draft(prefix, draft_row, k, rng):
        row = draft_row if len(prefix) < 8 else draft_row[::-1]
        return [int(rng.choice(len(row), p=row)) for _ in range(k)], draft_row

    found = run(draft)
    assert found.verdict == "FAIL"
    assert len(found.counterexample.call.prefix) == 12
    assert "Prefix: 0, 1, 2, 0, 1, 2" in words(found)
    assert not list(check_consistent(found, "the run") or ())


@pytest.mark.usefixtures("unnamed", "unprobed")
@pytest.mark.parametrize("most", [4, 8])
@pytest.mark.thorough
def test_what_goes_wrong_with_many_siblings_alone(most):
    def repeats(prefix, draft_row, k, rng):
        tokens, row = honest(prefix, draft_row, k, rng)
        return ([*tokens[:-1], tokens[0]] if k >= most else tokens), row

    assert run(repeats).verdict == "FAIL"


@pytest.mark.usefixtures("unnamed")
def test_a_stop_after_an_unlikely_token_is_right():
    def draft(prefix, draft_row, k, rng):
        # The token before was kept: what it was is known to whoever verifies.
        if prefix and prefix[-1] == 0:
            return [], draft_row
        return honest(prefix, draft_row, k, rng)

    assert run(draft).verdict == "PASS"


@pytest.mark.usefixtures("unnamed", "unprobed")
@pytest.mark.parametrize("scheme", ["top-k", "argmax-first", "last-sampled"])
def test_equally_likely_tokens_are_likeliest_in_any_order(scheme):
    def draft(prefix, draft_row, k, rng, by=lambda row, x: (-row[x], -x)):
        order = sorted(range(len(draft_row)), key=lambda x: by(draft_row, x))
        certain = {"top-k": k, "argmax-first": 1, "last-sampled": k - 1}[scheme]
        tokens, left = order[:certain], draft_row.copy()
        while len(tokens) < k:
            left[tokens] = 0
            if not left.any():
                break
            tokens.append(int(rng.choice(len(left), p=left / left.sum())))
        return tokens, draft_row

    def least(prefix, draft_row, k, rng):
        return draft(prefix, draft_row, k, rng, by=lambda row, x: (row[x], x))

    settings = AuditSettings(gamma=2, vocab=3, scheme=scheme)
    assert run(draft, settings).verdict == "PASS"
    assert run(least, settings).verdict == "FAIL"


@pytest.mark.usefixtures("unnamed")
@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (lambda q: None, r"returned NoneType: return \(tokens, probs\)"),
        (lambda q: ([0], q, 1), r"returned tuple of 3: return \(tokens, probs\)"),
        (lambda q: (0, q), "returned an int, expected a list, array or tensor"),
        (lambda q: ([0.0], q), "returned a float as a token"),
        (lambda q: ([len(q)], q), "returned token 2, vocabulary 0..1"),
        (lambda q: ([0] * 9, q), "returned 9 tokens, asked for 1: return 1"),
        (lambda q: ([0], None), "reports None: report the row of 2 probabilities"),
        (lambda q: ([0], [q, q]), r"reports an array of shape \(2, 2\): report the row of 2"),
        (lambda q: ([0], q[:1]), r"reports an array of shape \(1,\): report the row of 2"),
        (lambda q: ([0], 0.5), "reports a float: report the row of 2 probabilities"),
        (lambda q: ([0], 2 * q), "reports probabilities that sum to 2: expected 1"),
        (lambda q: ([0], q - 2), "reports a probability of -1.*: expected 0 or more"),
        (lambda q: ([0], q * np.nan), "reports a probability of nan: expected 0 or more"),
        (lambda q: ([0], ["a", "b"]), "reports a str as a probability: expected a number"),
    ],
)
def test_a_broken_call_is_said_in_one_line(returned, why):
    found = run(lambda prefix, q, k, rng: returned(q), AuditSettings(gamma=1, vocab=2))
    assert found.verdict == "FAIL"
    assert found.breach is not None
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(found.breach.message)
    assert "draft row" in words(found)


@pytest.mark.usefixtures("unnamed")
def test_inputs_are_left_as_they_are():
    def spoils(prefix, draft_row, k, rng):
        tokens, row = honest(prefix, draft_row.copy(), k, rng)
        draft_row[:] = 0
        return tokens, row

    found = run(spoils)
    assert found.verdict == "FAIL"
    assert any("changes its argument draft_row" in f.text for f in found.findings)


@pytest.mark.usefixtures("unnamed", "unprobed")
@pytest.mark.parametrize(
    ("dtype", "verdict"), [(np.float32, "PASS"), (np.float16, "FAIL"), (np.float64, "PASS")]
)
@pytest.mark.thorough
def test_a_report_in_16_bits_is_not_excused(dtype, verdict):
    def draft(prefix, draft_row, k, rng):
        return honest(prefix, draft_row, k, rng)[0], draft_row.astype(dtype)

    assert run(draft).verdict == verdict
    settings = AuditSettings(gamma=2, vocab=3, tolerance=2e-2)
    assert run(draft, settings).verdict == "PASS"


@pytest.mark.usefixtures("unnamed")
def test_a_drafter_that_drafts_nothing_is_told_of():
    found = run(lambda prefix, q, k, rng: ([], q))
    assert found.verdict == "PASS"
    (probe,) = (p for p in found.probes if p.outcome == "warning")
    assert "nothing was judged" in probe.message


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize(("off", "verdict"), [(0.0, "PASS"), (1.0, "FAIL")])
def test_code_that_cannot_be_followed_is_sampled(off, verdict):
    def folded(prefix, draft_row, k, rng):
        # The sum of two uniforms, folded back: a uniform that no path can follow.
        ends, last = np.cumsum(draft_row), int(np.flatnonzero(draft_row)[-1])
        us = [float(rng.random(2).sum()) % 1.0 for _ in range(k)]
        tokens = [min(int(np.searchsorted(ends, u, side="right")), last) for u in us]
        row = draft_row + off * draft_row[::-1]
        return tokens, row / row.sum()

    found = run(folded, AuditSettings(gamma=1, vocab=3, detect=0.05))
    assert (found.verdict, found.tier) == (verdict, "sampled")


@pytest.mark.usefixtures("unnamed", "unprobed")
def test_a_seed_in_every_call_is_seen():
    def draft(prefix, draft_row, k, rng):
        return honest(prefix, draft_row, k, np.random.default_rng(7))

    assert run(draft).verdict == "FAIL"


@pytest.mark.parametrize(
    ("rule", "given", "why"),
    [
        (honest, {"scheme": "idd"}, "did you mean 'iid'"),
        (honest, {"batch": 2}, "--batch and --batch-mix are for the verify contract"),
        (honest, {"eos": 1}, "--eos is for code that emits"),
        (honest, {"tree": "2,x"}, "expected children per level"),
        (lambda prefix: prefix, {}, r"neither draft\(prefix, draft_row, k, rng\)"),
    ],
)
def test_options_and_code_that_do_not_fit(rule, given, why):
    with pytest.raises(UsageError, match=why):
        audit(Subject("mine", rule, None), "draft", AuditSettings(**given))


@pytest.mark.parametrize("way", [{"target": "tiny-llama"}, {"trace": "folder"}])
def test_small_instances_alone(way):
    with pytest.raises(UsageError, match="contract is 'draft': expected verify"):
        simverify.audit(honest, contract="draft", **way)


SHOWN = """
import numpy as np
class Drafter:
    def draft(self, prefix, draft_row, k, rng):
        if prefix and CONDITION:
            raise KeyError("late")
        row = draft_row + 0.1 * draft_row[::-1]
        return [int(rng.choice(len(row), p=row / row.sum())) for _ in range(k)], draft_row
"""


@pytest.mark.usefixtures("unnamed", "unprobed")
@pytest.mark.parametrize(
    ("condition", "shown"),
    [("False", ("reported:", "emitted with probability", "draw 1")), ("True", ("KeyError",))],
)
@pytest.mark.thorough
def test_a_failure_is_shown_again(tmp_path, condition, shown):
    path = tmp_path / "mine.py"
    path.write_text(SHOWN.replace("CONDITION", condition).replace("0.1", "0.1 * (not CONDITION)")
                    .replace("CONDITION", condition))  # fmt: skip
    found = simverify.audit(f"{path}:Drafter", contract="draft", gamma=2, vocab=3)
    assert found.verdict == "FAIL"
    assert "--contract draft" in found.reproduce
    file = tmp_path / "run.json"
    found.save(file)
    text = str(simverify.replay(simverify.load(file), 0))
    assert all(part in text for part in shown)
    call = found.counterexample.call if found.counterexample else None
    if call is not None:
        assert "by the report it is" in words(found)
        assert found.counterexample.probability_emitted != pytest.approx(
            found.counterexample.probability_expected
        )
