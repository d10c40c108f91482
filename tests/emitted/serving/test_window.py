"""A window of work: in order, no barrier, nothing lost that came early."""

import threading
import time

import pytest

from simverify.emitted.serving.window import in_window


def test_values_come_in_order_whatever_ends_first():
    def work(number):
        time.sleep(0.02 * (3 - number % 4))
        return 10 * number

    early = []
    found = list(in_window(work, range(8), 4, early=lambda n, value: early.append((n, value))))
    assert found == [(n, 10 * n) for n in range(8)]
    assert early
    assert all(value == 10 * n for n, value in early)


def test_a_slow_one_holds_up_no_other():
    release, done = threading.Event(), []

    def work(number):
        if number == 0:
            assert release.wait(20)
        else:
            done.append(number)
            if len(done) == 6:
                release.set()
        return number

    assert [n for n, _ in in_window(work, range(7), 2)] == list(range(7))
    assert done == [1, 2, 3, 4, 5, 6]  # with a barrier the slow one would never end


def test_no_more_are_under_way_than_the_window_holds():
    lock, now, most = threading.Lock(), [0], [0]

    def work(number):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.005)
        with lock:
            now[0] -= 1
        return number

    assert len(list(in_window(work, range(30), 3))) == 30
    assert most[0] <= 3


def test_what_came_is_told_when_nobody_listens_any_more():
    release, early = threading.Event(), {}

    def work(number):
        if number == 1:
            release.wait(20)
        return number

    window = in_window(work, range(5), 5, early=early.__setitem__)
    try:
        assert next(window) == (0, 0)
        time.sleep(0.1)
        window.close()
        assert early == {2: 2, 3: 3, 4: 4}
    finally:
        release.set()


def test_an_error_comes_in_its_turn_and_nothing_begins_after_it():
    begun, release = [], threading.Event()

    def work(number):
        begun.append(number)
        if number == 1:
            raise ValueError("no")
        assert release.wait(20)
        return number

    window = in_window(work, range(50), 2)
    timer = threading.Timer(0.1, release.set)
    timer.start()
    assert next(window) == (0, 0)
    with pytest.raises(ValueError, match="no"):
        next(window)
    assert begun == [0, 1]


def test_it_ends_where_no_more_may_begin():
    allowed = [3]

    def more(under_way):
        allowed[0] -= 1
        return allowed[0] >= 0

    assert [n for n, _ in in_window(lambda n: n, range(99), 1, more=more)] == [0, 1, 2]
    assert list(in_window(lambda n: n, [], 4)) == []
