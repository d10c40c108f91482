"""Which lines of the code an audit reached: every one is counted, and what is not is named."""

import dataclasses
import functools
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from simverify.auditing.coverage import (
    CALL_STRIDE,
    FIRST_CALLS,
    CoverageMonitor,
    call_monitored,
    describe_missed,
    find_reachable,
    measure_coverage,
    monitor_coverage,
)
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.reports.audit import line_coverage_words
from simverify.verifiers.token import verify as token

pytestmark = pytest.mark.usefixtures("unsearched")


MONITORED = sys.version_info >= (3, 12)

LIMIT = 1_000
TABLE = (7, 0.25)
SMALL = AuditSettings(gamma=2, vocab=3)


def never(x):
    return x + 1


def deeper(x):
    return x * x


def helper(x):
    if x > 5:
        return deeper(x)
    return x


def looped(x, cap=0.995):
    total = 0
    for i in range(x):
        if i > cap:
            total += helper(i)
    while total > LIMIT:
        total -= TABLE[0]
    return 1 if total else 2


class Rule:
    def __init__(self):
        self.bound = 77

    def verify(self, x):
        return self._named(x)

    def _named(self, x):
        return x * self.bound

    def _not_named(self, x):
        return never(x)


def makes(x):
    return Rule().verify(x)


def seen_by(rule, *calls, **options):
    watch = CoverageMonitor(find_reachable(rule).codes, **options)
    for arguments in calls:
        watch.call(rule, *arguments)
    watch.end()
    return watch


def watch_of(rule, *calls, **options):
    return measure_coverage(list(seen_by(rule, *calls, **options).instructions.values()))


def names(rule):
    return {code.co_name for code in find_reachable(rule).codes}


def test_what_the_rule_names_counts_and_nothing_else():
    assert names(looped) == {"looped", "helper", "deeper"}
    assert names(functools.partial(looped, cap=3)) == {"looped", "helper", "deeper"}
    assert names(Rule().verify) == {"verify", "_named"}  # it was made before
    assert 77 in find_reachable(Rule().verify).numbers
    assert names(makes) == {"makes", "__init__", "verify", "_named"}
    assert "__init__" in names(Rule)


def in_threads(x):
    threads = [threading.Thread(target=helper, args=(n,)) for n in range(x)]
    for thread in threads:
        thread.start()
        thread.join()


def test_what_a_thread_of_the_code_runs_counts():
    assert names(in_threads) >= {"in_threads", "helper"}
    assert (
        watch_of(in_threads, (2,), always=True).not_reached
        == watch_of(lambda n: [helper(i) for i in range(n)], (2,), always=True).not_reached
    )


def test_libraries_do_not_count():
    def rule(x):
        return np.linalg.norm(functools.reduce(max, x))

    assert names(rule) == {"rule"}
    assert find_reachable(np.add).codes == []


@dataclasses.dataclass
class Block:
    tokens: list

    def kept(self):
        return helper(len(self.tokens))


def test_what_a_dataclass_makes_for_itself_is_nobodys_code():
    def rule(tokens):
        return Block(tokens).kept()

    assert Block.__init__.__code__.co_filename == "<string>"
    assert names(rule) == {"rule", "kept", "helper", "deeper"}


def test_code_of_a_rule_that_a_text_holds_is_its_own():
    space = {}
    exec("def rule(p, q, x, rng):\n    return helper(x)\ndef helper(x):\n    return x[:777]", space)
    assert names(space["rule"]) == {"rule", "helper"}
    assert 777 in find_reachable(space["rule"]).numbers


def test_the_numbers_that_stand_in_the_code_or_are_read_by_it_are_found():
    found = find_reachable(looped).numbers
    assert {1_000, 7, 0.25, 0.995, 5} <= found
    assert 77 in find_reachable(Rule().verify).numbers
    assert 1_000 not in find_reachable(helper).numbers


def test_lines_that_did_not_run_are_named_with_the_arm_they_lie_in():
    found = watch_of(looped, (1,))
    assert found.lines_reached < found.lines
    told = [describe_missed(x).partition(":")[2] for x in found.not_reached]
    first = helper.__code__.co_firstlineno
    assert f"{first + 1}-{first + 3} (helper is never called)" in told
    assert any("(if i > cap)" in text for text in told)
    assert any("(while total > LIMIT)" in text for text in told)
    assert any("(deeper is never called)" in text for text in told)


def test_nothing_is_named_where_everything_ran():
    found = watch_of(looped, (60,), (0,), (3,))
    assert found.not_reached == ()
    assert found.lines_reached == found.lines
    assert found.branches_reached == found.branches > 6
    assert found.not_taken == ()


def test_an_outcome_that_never_came_is_named_where_no_line_tells_it():
    found = watch_of(looped, (60,))
    assert found.not_reached == ()
    (told,) = [text.partition(": ")[2] for text in found.not_taken]
    # Which text a jump stands for is the compiler's, and differs with the version.
    assert told in ("1 if total else 2 is never false", "total is never false")


def test_a_loop_that_is_always_left_early_is_a_branch_not_taken():
    def rule(xs):
        for x in xs:
            return x
        return None

    found = watch_of(rule, ([1],))
    assert len(found.not_reached) == 1
    assert watch_of(rule, ([1],), ([],)).branches_reached == 2


def test_none_of_the_outcomes_of_a_test_on_none_is_mixed_up():
    def rule(x):
        y = 1
        if x is None:
            y = 2
        if x is not None:
            y = 3
        return y

    told = [text.partition(": ")[2] for text in watch_of(rule, (None,)).not_taken]
    assert told == ["x is None is never false"]
    told = [text.partition(": ")[2] for text in watch_of(rule, (3,)).not_taken]
    assert told == ["x is not None is never false"]


def test_what_the_author_says_need_not_run_does_not_count():
    def rule(x):
        if x > 100:  # pragma: no cover
            x = 5
            x = 6
        return x

    found = watch_of(rule, (1,))
    assert found.not_reached == ()
    assert found.lines == 1


def test_few_calls_are_watched_where_that_is_dear_and_all_where_that_is_asked():
    calls = [(1,)] * (FIRST_CALLS + 10 * CALL_STRIDE)
    seen = seen_by(looped, *calls).watched
    assert seen == len(calls) if MONITORED else FIRST_CALLS < seen <= FIRST_CALLS + 10
    assert seen_by(looped, *calls, always=True).watched == len(calls)


def test_code_that_ran_whole_is_watched_no_more():
    calls = [(60,), (0,), *[(1,)] * 100]
    assert seen_by(looped, *calls, always=True).watched == 2


def test_another_trace_function_is_left_alone():
    def other(frame, event, arg):
        return None

    before = sys.gettrace()
    sys.settrace(other)
    try:
        watch = seen_by(looped, (1,))
        assert sys.gettrace() is other
    finally:
        sys.settrace(before)
    assert watch.watched == MONITORED


def test_what_sees_goes_where_the_code_raises():
    def rule():
        raise ValueError("no")

    watch = CoverageMonitor(find_reachable(rule).codes)
    with monitor_coverage(watch), pytest.raises(ValueError, match="no"):
        call_monitored(rule)
    assert sys.gettrace() is None
    assert watch.watched == 1


def guarded(target, draft, drafted, rng):
    if target.shape[1] > 40_000:
        never(1)
        return [0]
    return token(target, draft, drafted, rng)


def test_an_audit_says_what_it_did_not_reach():
    run = audit(Subject("guarded", guarded, None), "verify", SMALL)
    assert run.verdict == "PASS"
    words = line_coverage_words(run.coverage)
    assert words.startswith("reached ")
    assert "(if target.shape[1] > 40000)" in words
    assert "never is never called" in words


def test_strict_coverage_fails_what_was_not_reached_and_passes_what_was():
    strict = AuditSettings(gamma=2, vocab=3, strict_coverage=True)
    run = audit(Subject("guarded", guarded, None), "verify", strict)
    assert run.verdict == "FAIL"
    assert run.findings[-1].kind == "coverage"
    assert run.findings[-1].text.startswith("not reached: ")
    assert "--strict-coverage" in run.reproduce
    # Negative control: code that every audit runs whole.
    assert audit(Subject("token", token, None), "verify", strict).verdict == "PASS"


def test_a_compiled_rule_has_no_lines():
    assert line_coverage_words(None) == ""
    empty = measure_coverage([])
    assert line_coverage_words(empty) == ""
    assert find_reachable(SimpleNamespace(__call__=np.add)).codes == []
