"""The gates of acceptance: the script runs, and each gate does what its name says."""

import numpy as np
import pytest
from docs.examples import ROOT
from support.pages.scripts import load

from simverify.history.baseline import mean_pvalue

gates = load(ROOT / "benchmarks" / "gates.py")


def test_gates_judge_as_they_are_named():
    generator = np.random.default_rng(0)
    old, same = (
        gates.tokens(gates.histograms(gates.curve(), 400_000, 1, generator)[0]) for _ in range(2)
    )
    less = gates.tokens(gates.histograms(0.96 * gates.curve(), 400_000, 1, generator)[0])
    said = {name: (judge(old, same), judge(old, less)) for name, judge in gates.GATES.items()}
    assert said == {
        "within 2%": ("same", "worse"),
        "95% of it": ("same", "same"),
        "baseline check": ("same", "worse"),
    }


def test_many_pvalues_are_those_of_one_by_one():
    generator = np.random.default_rng(1)
    old, new = (gates.histograms(gates.curve(), 500, 3, generator) for _ in range(2))
    alone = [mean_pvalue(gates.tokens(a), gates.tokens(b)) for a, b in zip(old, new, strict=True)]
    assert gates.pvalues(old, new) == pytest.approx(alone)


def test_it_prints_its_tables(capsys, monkeypatch):
    monkeypatch.setattr(gates, "SIZES", (1_000,))
    gates.table(5, 0)
    gates.size(1_000, 5, 0)
    said = capsys.readouterr().out
    assert "baseline check" in said
    assert "negative control" in said
