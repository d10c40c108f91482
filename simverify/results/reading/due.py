"""What a verdict has to follow from: the findings and the tests that stand beside it."""

import math
from collections.abc import Iterator, Sequence

from simverify.results import Test, Verdict


def due_verdict(where: str, found: Verdict, due: Verdict, why: str) -> Iterator[str]:
    """Complain of a verdict that is not the one that is ``due``."""
    if found != due:
        yield f"{where} is {found}: expected {due}, {why}"


def told_tests(tests: Sequence[Test], findings: Sequence[object], where: str) -> Iterator[str]:
    """Complain of tests that rejected against their own log p, or without a finding."""
    for k, test in enumerate(tests):
        rejected = test.log_pvalue is None or test.log_pvalue < math.log(test.alpha)
        if test.rejected != rejected:
            shown = str(test.rejected).lower()
            yield f"{where}.tests[{k}].rejected is {shown}: expected otherwise, by log_pvalue"
        if test.rejected and not findings:
            yield f"{where}.tests[{k}].rejected is true: expected a finding in {where}.findings"
