"""Comparisons as the terminal has them, and what of them must fit it."""

import io
from functools import cache

from msgspec.structs import replace
from rich.console import Console

import simverify
from simverify.reports.present import print_run

ALL = ["token", "block", "greedy", "match", "temperature-0"]


@cache
def small_comparison():
    """All built-in rules on two models, with too few blocks for a verdict."""
    return simverify.compare(["toy", "markov-16"], ALL, gamma=6, calls=12, blocks=1000)


def shown(run, width=80, **options):
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, **options)
    print_run(run, console, verbose=True)
    return file.getvalue()


def assert_fits(text):
    for line in text.splitlines():
        assert len(line) <= 80, line
    tables, _, _ = text.partition("\nLossless: ")
    assert "…" not in tables


def every(run, change):
    return replace(run, results=tuple(change(row) for row in run.results))


def flat(run):
    return " ".join(shown(run).split())
