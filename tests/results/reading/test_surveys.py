"""Fields of a table and of a bisection that contradict each other are named."""

import pytest
from msgspec.structs import replace
from support.pages.report_runs import example

from simverify.results import BisectRun, Visited
from simverify.results.reading.surveys import bisect_complaints, table_complaints

TABLE = example("engines")


def visited(version, changed, verdict="PASS"):
    state = "not loaded" if verdict is None else "judged"
    return Visited(version=version, title="", state=state, verdict=verdict, reason="",
                   max_abs_deviation=None, instances=0, changed=changed)  # fmt: skip


RUN = BisectRun(
    schema_version=1, spec="a:b", seed=0, what="law", source="releases", package="a", good="1",
    bad="4", versions=("1", "2", "3", "4"), outcome="changed", last="2", first="3", how="",
    differences=(), lines=(), reproduce="",
    tried=(visited("1", False), visited("4", True, "FAIL"), visited("2", False),
           visited("3", True, "FAIL")),
    meta=example("faulty-block").meta,
)  # fmt: skip


def test_right_ones_have_no_complaint():
    assert list(bisect_complaints(RUN)) == []
    assert list(table_complaints(TABLE)) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"versions": ("2", "3", "4")}, "does not begin with good"),
        ({"outcome": "unchanged"}, "expected neither first nor last"),
        ({"outcome": "unchanged", "first": None, "last": None}, "expected bad among tried"),
        ({"outcome": "open"}, "outcome is open with 0 versions between"),
        ({"first": "4"}, "outcome is changed with 1 versions between"),
        ({"first": None}, "expected first and last"),
        ({"first": "2", "last": "3"}, "one that changed and one that did not"),
        ({"tried": (*RUN.tried, visited("9", None, None))}, "which is not in versions"),
        ({"tried": (replace(RUN.tried[0], verdict=None), *RUN.tried[1:])}, "with the state judged"),
    ],
)
def test_a_bisection_that_contradicts_itself_is_named(changes, words):
    assert words in "; ".join(bisect_complaints(replace(RUN, **changes)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": ()}, "rows is empty"),
        ({"rows": TABLE.rows[1:]}, "one for each row"),
        ({"rows": (TABLE.rows[1], *TABLE.rows[1:])}, "which has a row already"),
    ],
)
def test_a_table_that_contradicts_itself_is_named(changes, words):
    assert words in "; ".join(table_complaints(replace(TABLE, **changes)))
