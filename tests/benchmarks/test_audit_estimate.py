"""The estimate on paper: what is measured is there, and its sums are those of an audit."""

import numpy as np
import pytest

from simverify.battery.battery import output_tokens


@pytest.fixture
def estimate(monkeypatch):
    from pathlib import Path

    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import audit_estimate

    return audit_estimate


@pytest.fixture
def found(estimate):
    return estimate.measure("token", 97, 3, 40)


def test_costs_are_measured(found):
    assert found.block == found.rows + found.bare + found.harness
    assert min(found.rows, found.bare, found.harness) > 0
    assert 1 < found.tokens < 4
    assert found.sent > 1  # three histograms of 65,536 counts


def test_lines_are_those_of_the_plan_that_real_rows_have(estimate):
    names = [name for name, _, _ in estimate.plan(151_936, 3)]
    for name in ("PIT-KS, q/p order", "acceptance", "certificate, monotone", "pairs, correlation"):
        assert name in names
    assert not any("transitions" in name or "plug-in" in name for name in names)


def test_the_table_adds_up(estimate, found, capsys):
    estimate.show(found, 151_936, 3, 100)
    line = next(x for x in capsys.readouterr().out.splitlines() if "waits for" in x)
    samples, unit, blocks, seconds, shared = line.removeprefix("what the audit waits for").split()
    due = output_tokens(0.01, 1e-6)
    assert (int(samples.replace(",", "")), unit) == (due, "tokens")
    assert float(blocks.replace(",", "")) == pytest.approx(due / found.tokens, abs=1)
    assert float(seconds.replace(",", "")) == pytest.approx(due / found.tokens * found.block, abs=1)
    assert float(shared.replace(",", "")) <= 1 + float(seconds.replace(",", ""))


def test_a_share_of_the_tokens_finds_less(estimate, found, capsys):
    estimate.say(found, 100)
    text = capsys.readouterr().out
    assert "in one process today" in text
    each = float(text.partition("finds a deviation of ")[2].split(";")[0])
    # Ten times the deviation for a hundredth of the tokens, and some more for a hundredth of alpha.
    assert 0.1 < each < 0.13
    assert np.isfinite(found.judged)
