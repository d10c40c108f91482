"""Where Python has ``sys.monitoring``, the interpreter reports what runs: to whom, and what."""

import sys
import threading

import pytest

from simverify.auditing import coverage
from simverify.auditing.coverage import (
    CoverageMonitor,
    call_monitored,
    find_reachable,
    measure_coverage,
    monitor_coverage,
)

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="this Python cannot be asked what runs"
)


def rule(x):
    total = 0
    for i in range(x):
        total += i
    if total > 10:
        total = 10
    return 1 if total else 2


def found(watch):
    return measure_coverage(list(watch.instructions.values()))


def found_of(function, *arguments):
    watch = CoverageMonitor(find_reachable(function).codes)
    with monitor_coverage(watch):
        call_monitored(function, *arguments)
    return found(watch)


def test_the_place_of_a_tool_is_taken_while_it_looks_and_let_go():
    def tools():
        return [sys.monitoring.get_tool(x) for x in range(6)]

    before = tools()
    watch = CoverageMonitor(find_reachable(rule).codes)
    with monitor_coverage(watch):
        call_monitored(rule, 1)
        assert tools() != before
    assert tools() == before


def test_two_look_at_one_function_and_a_later_one_sees_it_anew():
    inner, outer = (
        CoverageMonitor(find_reachable(rule).codes),
        CoverageMonitor(find_reachable(rule).codes),
    )
    with monitor_coverage(outer):
        call_monitored(rule, 1)
        with monitor_coverage(inner):
            call_monitored(rule, 60)
    assert found(inner).not_reached == ()
    assert found(inner).not_taken != ()
    # The outer one looks as long as it is open, at what others call too.
    assert found(outer).not_taken == ()
    assert found_of(rule, 60) == found(inner)


def test_where_other_tools_have_all_places_nothing_is_watched():
    taken = [x for x in coverage._TOOL_IDS if sys.monitoring.get_tool(x) is None]
    for tool in taken:
        sys.monitoring.use_tool_id(tool, "another")
    try:
        watch = CoverageMonitor(find_reachable(rule).codes)
        with monitor_coverage(watch):
            call_monitored(rule, 60)
        assert watch.watched == 0
        assert [sys.monitoring.get_tool(x) for x in taken] == ["another"] * len(taken)
    finally:
        for tool in taken:
            sys.monitoring.free_tool_id(tool)


def test_what_a_thread_runs_is_seen():
    def threaded(x):
        worker = threading.Thread(target=rule, args=(x,))
        worker.start()
        worker.join()

    assert found_of(threaded, 60).not_reached == ()
    assert found_of(threaded, 0).not_reached != ()
