"""Work on many numbers at a time, without a barrier: as one ends the next begins."""

from collections.abc import Callable, Generator, Iterable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from simverify.emitted.serving.pace import EVERY
from simverify.errors import UsageError

TOGETHER = 8
"""Requests under way at a time: requests that share a stream must meet to show it."""

MOST_TOGETHER = 1024

T = TypeVar("T")


def together_iv(concurrency: int | None) -> int:
    """Return how many requests are under way at a time; ``UsageError`` for none, or too many."""
    if concurrency is not None and not 1 <= concurrency <= MOST_TOGETHER:
        raise UsageError(f"concurrency is {concurrency}: expected 1 to {MOST_TOGETHER:,}")
    return TOGETHER if concurrency is None else concurrency


def in_window(
    work: Callable[[int], T],
    numbers: Iterable[int],
    width: int,
    waiting: Callable[[], None] = lambda: None,
    *,
    more: Callable[[int], bool] = lambda _: True,
    early: Callable[[int, T], None] = lambda _number, _value: None,
) -> Generator[tuple[int, T], None, None]:
    """Do ``work`` on ``width`` numbers at a time; yield each with what it comes to, in their order.

    ``more``, told how many are under way, says whether to begin another one now; where it says no
    and none is left, that is the end. What comes before its turn, or has come when nobody listens
    any more, goes to ``early`` at once. An error is raised in its turn, and no further work is
    begun once it is known. The threads are nobody's to wait for: whoever stops listening, or is
    interrupted, leaves at once. ``waiting`` is called every so often where nothing comes.
    """
    todo, came = iter(numbers), SimpleQueue[tuple[int, T | None, BaseException | None]]()
    order: list[int] = []
    ready: dict[int, tuple[T | None, BaseException | None]] = {}
    under_way, failed, ended = 0, False, False

    def do(number: int) -> None:
        try:
            came.put((number, work(number), None))
        except BaseException as error:
            came.put((number, None, error))

    try:
        while True:
            # Before more is begun, so that whoever listens knows all that has come.
            if order and order[0] in ready:
                value, error = ready.pop(order[0])
                if error is not None:
                    raise error
                yield order.pop(0), value  # type: ignore[misc]
            while not ended and not failed and under_way < width and more(under_way):
                number = next(todo, None)
                if number is None:
                    ended = True
                    break
                order.append(number)
                under_way += 1
                Thread(target=do, args=(number,), daemon=True).start()
            if order and order[0] in ready:
                continue
            if not under_way:
                if ended or failed or not more(0):
                    return
                continue
            try:
                number, value, error = came.get(timeout=EVERY)
            except Empty:
                waiting()
                continue
            under_way -= 1
            failed = failed or error is not None
            ready[number] = (value, error)
            if number != order[0]:
                if error is None:
                    early(number, value)  # type: ignore[arg-type]
                waiting()  # for the first of them, though others come
    finally:
        # Those that came before their turn were told already.
        while not came.empty():
            number, value, error = came.get()
            if error is None:
                early(number, value)  # type: ignore[arg-type]
        if order and order[0] in ready and ready[order[0]][1] is None:
            early(order[0], ready[order[0]][0])  # type: ignore[arg-type]
