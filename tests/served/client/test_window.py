"""A window of work: in order, no barrier, nothing lost that came early."""

import threading

import pytest
from support.waiting import PATIENCE, wait_for

from simverify.served.client import run_in_order


def test_values_come_in_order_whatever_ends_first():
    early, told = [], [threading.Event() for _ in range(8)]

    def tell(number, value):
        early.append((number, value))
        told[number].set()

    def work(number):
        """The first of each four ends when the next has come, which is told before its turn."""
        if number % 4 == 0:
            assert told[number + 1].wait(PATIENCE)
        return 10 * number

    found = list(run_in_order(work, range(8), 4, early=tell))
    assert found == [(n, 10 * n) for n in range(8)]
    assert {1, 5} <= {n for n, _ in early}
    assert all(value == 10 * n for n, value in early)


def test_a_slow_one_holds_up_no_other():
    release, done = threading.Event(), []

    def work(number):
        if number == 0:
            assert release.wait(PATIENCE)
        else:
            done.append(number)
            if len(done) == 6:
                release.set()
        return number

    assert [n for n, _ in run_in_order(work, range(7), 2)] == list(range(7))
    assert done == [1, 2, 3, 4, 5, 6]  # with a barrier the slow one would never end


def test_no_more_are_under_way_than_the_window_holds(monkeypatch):
    """None of the first ends before the window says that it waits, with all begun that may be."""
    monkeypatch.setattr("simverify.served.client.REPORT_SECONDS", 0.01)
    begun, ended, at_most, waited, release = [], [], [], [], threading.Event()

    def numbers():
        for number in range(30):
            begun.append(number)
            at_most.append(len(begun) - len(ended))
            yield number

    def work(number):
        assert release.wait(PATIENCE)
        ended.append(number)
        return number

    def waiting():
        waited.append(len(begun))
        release.set()

    assert len(list(run_in_order(work, numbers(), 3, waiting))) == 30
    assert waited[0] == 3
    assert max(at_most) == 3


def test_what_came_is_told_when_nobody_listens_any_more():
    """Threads that have ended have handed over what they came to."""
    release, early, threads = threading.Event(), {}, {}

    def work(number):
        threads[number] = threading.current_thread()
        if number == 1:
            release.wait(PATIENCE)
        return number

    window = run_in_order(work, range(5), 5, early=early.__setitem__)
    try:
        assert next(window) == (0, 0)
        wait_for(lambda: len(threads) == 5)
        for number in (2, 3, 4):
            threads[number].join(PATIENCE)
        window.close()
        assert early == {2: 2, 3: 3, 4: 4}
    finally:
        release.set()


def test_an_error_comes_in_its_turn_and_nothing_begins_after_it():
    """It is known as soon as its thread has ended."""
    begun, threads = [], {}

    def work(number):
        begun.append(number)
        threads[number] = threading.current_thread()
        if number == 1:
            raise ValueError("no")
        wait_for(lambda: 1 in threads)
        threads[1].join(PATIENCE)
        return number

    window = run_in_order(work, range(50), 2)
    assert next(window) == (0, 0)
    with pytest.raises(ValueError, match="no"):
        next(window)
    assert begun == [0, 1]


def test_it_ends_where_no_more_may_begin():
    allowed = [3]

    def more(under_way):
        allowed[0] -= 1
        return allowed[0] >= 0

    assert [n for n, _ in run_in_order(lambda n: n, range(99), 1, more=more)] == [0, 1, 2]
    assert list(run_in_order(lambda n: n, [], 4)) == []
