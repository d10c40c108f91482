"""The document of ``simverify sampler``."""

import math
from collections.abc import Iterator
from typing import Literal

from simverify.results.common import (
    Count,
    Judged,
    Meta,
    NonNegative,
    Positive,
    Probability,
    Rate,
    Struct,
    Test,
    Verdict,
    check_verdict,
    overall,
)
from simverify.results.registry import Kind, register_kind


class SamplerRow(Struct, frozen=True):
    """What a sampler makes of one row.

    ``cast_tv``: total variation between the row and what its type makes of it, which the sampler
    gets and is judged by. ``compared``: draws of the library that were compared with those that
    ought to come of its seed, 0 where none are known, and ``same``: how many were equal. ``tier``:
    "exact" where all were and their law could be computed. ``tv``: from the row that it gets.
    ``never``: tokens of that row that cannot come out, and ``never_mass`` their probability.
    ``impossible``: probability of tokens that the row excludes; of a sampled run the share seen,
    null where there was none. ``worst``: the token that is furthest off, with its probability
    ``expected`` and ``emitted``. ``detectable``: total variation that the tests find.
    """

    row: Literal["flat", "peaked", "heavy"]
    tier: Literal["exact", "sampled"]
    cast_tv: NonNegative
    compared: Count
    same: Count
    tv: Probability | None
    never: Count | None
    never_mass: Probability | None
    impossible: Probability | None
    worst: Count
    expected: Probability
    emitted: Probability
    samples: Count
    tests: tuple[Test, ...]
    detectable: NonNegative | None
    verdict: Verdict


class SamplerRun(Judged, frozen=True, kw_only=True, tag_field="command", tag="sampler"):
    """A ``simverify sampler`` run.

    ``package``: what pip calls the library, "" for Python itself, with its ``package_version``.
    ``known``: whether that version is in the table of ``simverify generators``. ``method``: how the
    function draws, in words. ``detect``: the total variation above which it fails.
    """

    about = "{0.name}, {0.dtype}, V = {0.vocab_size}"

    name: str
    package: str
    package_version: str
    known: bool
    method: str
    dtype: Literal["float64", "float32", "float16", "bfloat16"]
    vocab_size: Positive
    seed: Count
    alpha: Rate
    detect: Rate
    power: Rate
    rows: tuple[SamplerRow, ...]
    verdict: Verdict
    reproduce: str
    meta: Meta


def _complaints(run: SamplerRun) -> Iterator[str]:
    if not run.rows:
        yield "rows is empty: expected one or more"
    for i, row in enumerate(run.rows):
        exact = row.tier == "exact"
        if exact != (row.tv is not None):
            yield f"rows[{i}].tv is {row.tv}: expected a number where the tier is exact alone"
        if row.same > row.compared or (exact and row.same < row.compared):
            yield f"rows[{i}].same is {row.same}, of {row.compared}: not so of an {row.tier} row"
        if exact == bool(row.tests):
            yield f"rows[{i}].tests: expected where the tier is sampled alone"


def _verdicts(run: SamplerRun) -> Iterator[str]:
    for i, row in enumerate(run.rows):
        yield from check_verdict(f"rows[{i}].verdict", row.verdict, _verdict(run, row), "by its tv")
    if run.rows:
        expected = overall([row.verdict for row in run.rows])
        yield from check_verdict("verdict", run.verdict, expected, "by its rows")


def _verdict(run: SamplerRun, row: SamplerRow) -> Verdict:
    if row.tv is not None:
        return "FAIL" if row.tv > run.detect else "PASS"
    if any(test.rejected for test in row.tests) or row.impossible:
        return "FAIL"
    found = math.inf if row.detectable is None else row.detectable
    return "PASS" if found <= run.detect else "INCONCLUSIVE"


register_kind(
    Kind(
        SamplerRun,
        "a judged sampler",
        ".samplers:sampler_report",
        check=_complaints,
        verdicts=_verdicts,
    )
)
