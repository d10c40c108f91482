"""The suite's total false-alarm rate, counted."""

import ast
from pathlib import Path

from support.false_alarms import ALPHA, TOTAL, suite_rate


def test_the_whole_suite_is_under_its_total(distribution_tests):
    assert suite_rate(distribution_tests) <= TOTAL


def test_a_suite_too_large_is_seen():
    assert suite_rate(int(1.01 * TOTAL / ALPHA)) > TOTAL


def test_the_rate_of_one_test_is_defined_once():
    """No test module writes a rate of its own: a second constant could be raised unseen."""
    own = [
        path.name
        for path in Path(__file__).parent.rglob("*.py")
        if path.name != "false_alarms.py"
        and any(
            isinstance(node, ast.Assign)
            and any(isinstance(to, ast.Name) and to.id.endswith("ALPHA") for to in node.targets)
            for node in ast.walk(ast.parse(path.read_text()))
        )
    ]
    assert not own
