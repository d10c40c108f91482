"""Your own rule in a comparison: exact where it can be, measured elsewhere, wrong where it is."""

import ctypes
import os
from fractions import Fraction

import numpy as np
import pytest

import simverify
from simverify import UsageError
from simverify.verifiers import get_verifier

TOKEN = get_verifier("token").rule
BLOCKS = 2_000


def token(target_probs, draft_probs, draft_tokens, rng):
    return TOKEN(target_probs, draft_probs, draft_tokens, rng)


def target_after_rejection(target_probs, draft_probs, draft_tokens, rng):
    """Accept as the token rule does, and draw from the target after a rejection."""
    kept = 0
    while kept < len(draft_tokens):
        x = draft_tokens[kept]
        if not rng.random() < target_probs[kept][x] / draft_probs[kept][x]:
            break
        kept += 1
    row = target_probs[kept]
    return [*map(int, draft_tokens[:kept]), int(rng.choice(len(row), p=row))]


def plain(prefix, target, draft, gamma, rng):
    """Draw from the target, and draft nothing."""
    row = target(prefix)
    return [int(rng.choice(len(row), p=row))]


def recursive(target_probs, draft_probs, tokens, parents, rng):
    from simverify.verifiers.trees import get_tree_verifier

    return get_tree_verifier("recursive").rule(target_probs, draft_probs, tokens, parents, rng)


def the_row(rule, model, **options):
    options.setdefault("detect", 0.2)  # what so few tokens can find
    run = simverify.compare([model], [rule], blocks=BLOCKS, threads=1, **options)
    (row,) = run.results
    return row


def test_such_a_run_is_read_back_and_shown(tmp_path):
    run = simverify.compare(["toy"], ["token", token], gamma=2, blocks=BLOCKS, detect=0.2)
    run.save(tmp_path / "run.json")
    assert simverify.load(tmp_path / "run.json") == run
    run.report(tmp_path / "report")
    assert "test_own.py:token" in str(run)
    assert "test_own.py:token" in (tmp_path / "report" / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("model", "gamma", "accepted", "best"),
    [("toy", 3, Fraction(38, 27), Fraction(5, 3)), ("compact", 2, Fraction(101, 72), "211/144")],
)
def test_an_own_rule_is_exact_and_below_the_optimum(model, gamma, accepted, best):
    row = the_row(token, model, gamma=gamma)
    assert (row.verdict, row.lossless.tier) == ("PASS", "exact")
    assert row.expected_accepted.exact == pytest.approx(float(accepted), abs=1e-12)
    assert row.optimum.name == "block"
    assert row.optimality == pytest.approx(float(accepted / Fraction(best)), abs=1e-12)
    assert row.measured.blocks == BLOCKS
    assert row.measured.ci_low < float(accepted) < row.measured.ci_high


def test_a_lossy_rule_fails_by_its_law():
    row = the_row(target_after_rejection, "compact", gamma=2)
    assert row.verdict == "FAIL"
    assert "the rule's exact distribution differs" in row.lossless.findings[0]
    assert row.lossless.tv > 0.01


def test_where_there_is_no_law_the_tokens_decide():
    right, wrong = (the_row(rule, "markov-8", gamma=4) for rule in (token, "inverted-ratio"))
    assert (right.verdict, right.lossless.tier) == ("PASS", "output")
    assert right.expected_accepted.method == "measured"
    assert right.expected_accepted.exact is None
    assert wrong.verdict == "FAIL"
    exact = simverify.compare(["markov-8"], ["token"], gamma=4, blocks=1000).results[0]
    assert right.measured.ci_low < exact.block_efficiency - 1 < right.measured.ci_high


@pytest.mark.parametrize(("model", "gamma"), [("markov-8", 4), ("compact", 2)])
def test_too_few_tokens_are_inconclusive(model, gamma):
    """With an exact law too: it says nothing of what code keeps from call to call."""
    row = the_row(token, model, gamma=gamma, detect=0.01)
    assert row.verdict == "INCONCLUSIVE"


def late(prefix, target, draft, gamma, rng):
    """Draw from the target as far as its law is written out, and what is likeliest behind."""
    row = target(prefix)
    if len(prefix) > gamma:
        return [int(row.argmax())]
    return [int(rng.choice(len(row), p=row))]


def test_what_lies_behind_the_exact_law_is_found_by_the_tokens():
    row = the_row(late, "compact", gamma=2)
    assert row.verdict == "FAIL"
    assert row.lossless.exact.tv < 1e-12
    assert row.lossless.exact.scope.startswith("first 3 tokens, over calls after the empty prefix")


@pytest.mark.thorough
def test_a_rule_that_drafts_for_itself_is_held_against_the_bound_of_all():
    row = the_row(plain, "compact", gamma=2)
    assert (row.verdict, row.optimum.name) == ("PASS", "coupling")
    assert (row.expected_accepted.exact, row.measured.mean) == (0, 0)
    stateful = the_row("greedy-no-state", "compact", gamma=2)
    assert stateful.verdict == "FAIL"


def test_a_rule_for_draft_trees():
    row = the_row(recursive, "toy", tree="2")
    assert (row.verdict, row.optimum.name) == ("PASS", "memoryless")
    assert row.expected_accepted.exact == pytest.approx(7 / 9, abs=1e-12)
    assert row.optimum.expected_accepted == pytest.approx(8 / 9, abs=1e-9)
    wrong = the_row("twice-taken-residual", "compact", tree="2")
    assert wrong.verdict == "FAIL"
    with pytest.raises(UsageError, match="judges draft trees: say which, with tree or drafts"):
        the_row(recursive, "toy", gamma=2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda p, q, x, rng: 1 / 0, "raise"),
        (lambda p, q, x, rng: [*x, 0, 0], "returned 4 tokens|not-a-prefix"),
        (lambda p, q, x, rng: [99], "returned token 99"),
        (lambda p, q, x, rng: "text", "str"),
    ],
)
def test_code_that_breaks_the_contract_fails_and_says_so(wrong, said):
    for model in ("compact", "markov-8"):
        row = the_row(wrong, model, gamma=2 if model == "compact" else 4)
        assert row.verdict == "FAIL"
        assert pytest.approx(0.0, abs=2) == row.measured.mean
        assert any(word in row.lossless.findings[0] for word in said.split("|"))


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (lambda a, b: [0], "takes 2 arguments: expected verify"),
        ("tokn", "did you mean 'token'"),
        ("no_such_file.py:verify", "no file no_such_file.py"),
        ("top-k-after-sampling", "is a drafter|unknown"),
        ("swapped-requests", "takes whole batches"),
        (lambda prefix, draft_row, k, rng: ([0], draft_row), "is a drafter: expected a verifier"),
        (3, "expected a callable or a SPEC"),
    ],
)
def test_what_cannot_be_compared_is_one_line(rule, said):
    with pytest.raises(UsageError, match=said):
        the_row(rule, "toy", gamma=2)


def test_code_that_exits_fails():
    row = the_row(lambda p, q, x, rng: os._exit(3), "toy", gamma=1)
    assert row.verdict == "FAIL"
    assert "SystemExit" in row.lossless.findings[0]


def test_code_that_kills_its_process_is_told():
    with pytest.raises(simverify.SimverifyError, match="ends the process on toy"):
        the_row(lambda p, q, x, rng: ctypes.string_at(0), "toy", gamma=1)


def test_inputs_are_not_the_models_own():
    def writes(target_probs, draft_probs, draft_tokens, rng):
        found = token(target_probs, draft_probs, draft_tokens, rng)
        target_probs[:] = np.nan
        return found

    row = the_row(writes, "markov-8", gamma=4)
    assert row.verdict == "PASS"
