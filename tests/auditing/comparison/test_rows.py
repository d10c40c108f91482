"""What kind of rows a failure needs is said with it."""

import numpy as np
import pytest

from simverify.auditing.confirm import row_kind_of
from simverify.auditing.instances import SmallModel
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject

# Which rows fail is looked for by itself, whatever the search for a counterexample finds.
pytestmark = pytest.mark.usefixtures("unsearched")


def verifier(*, lenience=1.0, disjoint_raises=False, accepts_impossible=False):
    def verify(target_probs, draft_probs, draft_tokens, rng):
        for i, token in enumerate(draft_tokens):
            p, q = target_probs[i], draft_probs[i]
            if disjoint_raises and not (p * q).any():
                raise ZeroDivisionError("nothing in common")
            if accepts_impossible and p[token] == 0 and rng.random() < 0.2:
                continue
            if rng.random() * q[token] * lenience >= p[token]:
                rest = np.maximum(p - q, 0)
                return [*draft_tokens[:i], rng.choice(len(p), p=rest / rest.sum())]
        return [*draft_tokens, rng.choice(len(p), p=target_probs[-1])]

    return verify


def run_of(rule):
    settings = AuditSettings(gamma=2, vocab=3)
    return audit(Subject("rule", rule, "verify"), "verify", settings)


def test_a_broken_contract_on_disjoint_rows_alone_is_told_with_where_it_is_right():
    run = run_of(verifier(disjoint_raises=True))
    assert run.verdict == "FAIL"
    assert run.rows.kinds == ("disjoint",)
    assert run.rows.message.startswith("It is lossless on rows in which some token has both")
    assert "nothing in common" in run.rows.message
    assert run.rows.max_abs_deviation < 1e-12
    assert (run.rows.instances > 50, run.rows.paths > 500) == (True, True)
    assert (run.breach is None, run.counterexample is None) == (False, True)
    assert "Which rows:\n  It is lossless on rows" in str(run)


def test_a_law_that_is_wrong_where_p_has_zeros_is_right_elsewhere():
    run = run_of(verifier(accepts_impossible=True))
    assert run.rows.kinds[0] == "zeros of p"
    assert run.rows.message.startswith("It is lossless on rows without zeros (")
    # Rows with zeros on both sides have them in p too: no further news.
    assert run.rows.message.endswith("where p has zeros")


def test_a_fault_on_all_rows_has_a_counterexample_of_each_sort():
    run = run_of(verifier(lenience=0.9, disjoint_raises=True))
    assert run.rows.kinds == ("plain",)
    assert run.rows.message.startswith("It also fails on rows without zeros: the distribution")
    assert run.rows.max_abs_deviation is None
    assert "nothing in common" in run.breach.message
    shown = run.counterexample.instance
    assert all(float(x.partition("/")[0]) > 0 for row in shown.target_probs.values() for x in row)
    assert any(finding.text.startswith("raises:") for finding in run.findings)
    assert any(finding.kind == "law" for finding in run.findings)


@pytest.mark.thorough
def test_a_fault_of_large_vocabularies_is_not_put_down_to_the_zeros_of_their_rows():
    right, lenient = verifier(), verifier(lenience=0.9)

    def verify(target_probs, draft_probs, draft_tokens, rng):
        rule = lenient if target_probs.shape[1].bit_length() > 4 else right
        return rule(target_probs, draft_probs, draft_tokens, rng)

    run = run_of(verify)
    assert run.verdict == "FAIL"
    assert run.rows is None or run.rows.kinds == ("plain",)


def test_right_code_has_no_failing_rows():
    assert run_of(verifier()).rows is None


@pytest.mark.parametrize(
    ("targets", "drafts", "kind"),
    [
        (((1, 2),), ((2, 1),), "plain"),
        (((1, 2), (1, 1)), ((2, 1), (3, 3)), "equal"),
        (((0, 1),), ((1, 1),), "zeros of p"),
        (((1, 1),), ((0, 1),), "zeros of q"),
        (((0, 1, 1),), ((1, 0, 1),), "zeros of both"),
        (((1, 2), (0, 1)), ((2, 1), (1, 0)), "disjoint"),
    ],
)
def test_kinds_of_rows(targets, drafts, kind):
    assert row_kind_of(SmallModel("rows", 1, targets, drafts)) == kind
