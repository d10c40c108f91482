"""Runs the attention blocks of a group at once: on threads of a CPU, on streams of a GPU."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any, TypeVar

import torch

Member = TypeVar("Member")


def run_each(
    run: Callable[[Member], Any], members: Sequence[Member], device: torch.device, at_once: bool
) -> list[Any]:
    """Return what ``run`` gives for each member, computed at once or one after another.

    The numbers are the same either way. On a CPU there are as many threads as torch computes on,
    and on one all go in order; on CUDA every member has a stream of its own.
    """
    if at_once and device.type == "cuda":
        return _on_streams(run, members, device)
    threads = min(len(members), torch.get_num_threads())
    if at_once and device.type == "cpu" and threads > 1:
        return _on_threads(run, members, threads)
    return [run(member) for member in members]


def _on_threads(run: Callable[[Member], Any], members: Sequence[Member], threads: int) -> list[Any]:
    """Share the members among this thread and ``threads`` - 1 of the pool.

    torch releases the interpreter while it computes. Each thread splits its own operations among
    as many as torch is set to, so that every sum is taken in the order it has without a pool.
    """
    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    def share(start: int) -> list[Any]:
        # Both modes are a thread's own.
        with torch.inference_mode(inference), torch.set_grad_enabled(grad):
            return [run(member) for member in members[start::threads]]

    pool = _pool(torch.get_num_threads() - 1)
    others = [pool.submit(share, start) for start in range(1, threads)]
    try:
        shares = [share(0)]
    finally:
        wait(others)  # none writes on behind the back of who handles an error
    shares += [other.result() for other in others]
    return [shares[i % threads][i // threads] for i in range(len(members))]


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="simverify-group")


# Threads do not come along into a forked process.
os.register_at_fork(after_in_child=_pool.cache_clear)


def _on_streams(
    run: Callable[[Member], Any], members: Sequence[Member], device: torch.device
) -> list[Any]:
    """Run each member on a stream that begins after the present one and ends before its next step.

    None stays on the present stream, and each has the same stream in every call: memory that is
    let go on one is then taken again only behind what still reads it.
    """
    present = torch.cuda.current_stream(device)
    found = []
    for member, stream in zip(members, _streams(device, len(members)), strict=True):
        stream.wait_stream(present)
        with torch.cuda.stream(stream):
            found.append(run(member))
    for stream in _streams(device, len(members)):
        present.wait_stream(stream)
    return found


_STREAMS: dict[torch.device, list[torch.cuda.Stream]] = {}


def _streams(device: torch.device, count: int) -> list[torch.cuda.Stream]:
    stream: Any = torch.cuda.Stream  # its stubs have no types
    own = _STREAMS.setdefault(device, [])
    own += [stream(device) for _ in range(count - len(own))]
    return own[:count]
