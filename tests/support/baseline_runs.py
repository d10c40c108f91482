"""Comparisons with any numbers of accepted tokens, for the tests of baselines."""

import numpy as np
from msgspec.structs import replace
from support.pages.report_runs import example


def tail(gamma=8, share=1.0):
    """Pr(tau >= l): half of the blocks accept at .9, half at .6; all of it times ``share``."""
    levels = np.arange(1, gamma + 1)
    return share * (0.9**levels + 0.6**levels) / 2.0


def counted(blocks, law, seed):
    """Draw #{tau >= l} of so many blocks."""
    histogram = np.random.default_rng(seed).multinomial(blocks, -np.diff([1.0, *law, 0.0]))
    return [int(k) for k in blocks - np.cumsum(histogram)[:-1]]


def run_of(counts, blocks, *, seed=0, verdict="PASS"):
    """A comparison of one rule whose law nobody knows, with these counts."""
    run = example("compare")
    row = run.results[0]
    curve = tuple(k / blocks for k in counts)
    mean = sum(counts) / blocks
    row = replace(
        row,
        gamma=len(counts),
        verdict=verdict,
        lossless=replace(
            row.lossless, verdict=verdict,
            certificate=row.lossless.certificate if verdict == "PASS" else None,
        ),
        expected_accepted=replace(
            row.expected_accepted, exact=None, fraction=None, method="measured",
            lower=0.0, upper=float(len(counts)), confidence=0.999,
        ),
        measured=replace(
            row.measured, mean=mean, ci_low=0.0, ci_high=float(len(counts)), blocks=blocks
        ),
        speedup=replace(row.speedup, rows=None),
        acceptance_ccdf=replace(
            row.acceptance_ccdf, exact=None, measured=curve,
            lower=(0.0,) * len(counts), upper=(1.0,) * len(counts),
        ),
    )  # fmt: skip
    models = tuple(model for model in run.models if model.name == row.model)
    return replace(
        run, seed=seed, gamma=len(counts), verdict=verdict, results=(row,), models=models
    )


def drawn(blocks, share=1.0, seed=0):
    """A comparison of so many blocks, drawn from the law."""
    return run_of(counted(blocks, tail(share=share), seed), blocks, seed=seed)
