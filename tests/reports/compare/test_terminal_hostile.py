"""Every kind of document on a terminal, with texts that a run file may hold and no run makes."""

import msgspec
import pytest
from support.pages.report_runs import HOSTILE, example, hostile_runs, spoilt

from simverify.reports.present import run_text
from simverify.results import PlanLine, PlanMeta, PlanRun, SelfTestRun, Timing, Tried
from simverify.results.registry import document_type


def self_test(entries):
    tried = Tried(name="lenient(0.9)", kind="fault", caught=True, tier="exact", effort=7, tv=0.1)
    return SelfTestRun(
        schema_version=1, seed=0, gamma=3, vocab_size=4, alpha=1e-6, detect=0.01, verdict="FAIL",
        results=(tried,) * entries, unexpected=(HOSTILE * 10,) * entries,
        meta=example("compare").meta,
    )  # fmt: skip


def plan():
    meta = PlanMeta(
        version="0", started="", seconds=0.0, machine="", python="", threads=2,
        timings=(Timing(model="markov-64", verifier="token", blocks_per_second=1e6),),
        row_seconds=(90.0,),
    )  # fmt: skip
    row = PlanLine(test="G2", level=1e-7, samples=1e6, unit="tokens", deviation=0.01, measure="TV")
    return PlanRun(
        schema_version=1, seed=0, alpha=1e-6, power=0.9, vocab_size=64, gamma=8, contexts=577,
        asked="deviation", deviation=0.01, samples=None, seconds=None, tokens_per_block=3.7,
        rows=(row,), meta=meta,
    )  # fmt: skip


def failing(run):
    """A comparison whose first result has 500 findings of 10,000 characters."""
    document = msgspec.to_builtins(run)
    document["results"][0]["lossless"]["findings"] = [HOSTILE + "x" * 10_000] * 500
    return msgspec.convert(document, document_type())


def hostile(run):
    return msgspec.convert(spoilt(msgspec.json.decode(msgspec.json.encode(run))), document_type())


RUNS = [
    *hostile_runs(),
    failing(example("compare")),
    hostile(self_test(3)),
    hostile(self_test(5000)),
    hostile(plan()),
    hostile(example("engines")),
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: type(run).__name__)
@pytest.mark.parametrize("verbose", [False, True])
def test_texts_move_no_cursor_are_no_markup_and_end(run, verbose):
    text = run_text(run, verbose=verbose)
    assert {c for c in text if not c.isprintable()} <= {"\n"}
    assert "<script>" in text
    assert len(text) < 400_000


def test_findings_that_are_left_out_are_counted():
    text = run_text(failing(example("compare")), verbose=True)
    assert "498 more stand in the run file" in text
