"""What an enumeration has run so far, as a count: budgets of counts end alike on any machine."""

from collections.abc import Iterator
from contextlib import contextmanager

from simverify.symbolic.enumeration.source import Source

TORCH_CALLS = 40
"""So many calls of torch take about as long as a run of a rule without torch."""

FOLLOWED_CALLS = 10
"""A call of torch that draws are followed through counts as so many."""


def effort_of(source: Source) -> float:
    """Return the effort of all runs so far: that of one without torch is 1."""
    return source.epoch + source.torch_calls / TORCH_CALLS


@contextmanager
def charged_to(payer: Source, source: Source) -> Iterator[None]:
    """Let ``payer`` count as its own what ``source`` runs inside."""
    before = effort_of(source)
    try:
        yield
    finally:
        payer.torch_calls += round(TORCH_CALLS * (effort_of(source) - before))
