"""Histograms of PITs as curves short enough for a document: what a reader sees of a PIT test."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.results import PitCurve

ORDERS = ("q/p order", "token order")

STEPS = 64
"""Steps of a curve from u = 0 to 1: finer than a picture of it shows."""

CONFIDENCE = 0.999


def pit_curves(pits: npt.NDArray[Any]) -> tuple[PitCurve, ...]:
    """Return the curve of each order from ``pits`` (orders, positions, bins); none if empty.

    The band is that of Dvoretzky, Kiefer, Wolfowitz and Massart for n values. It holds for
    tokens of all positions together as n grows: each PIT is uniform given all before it.
    """
    curves = []
    for order, histograms in zip(ORDERS, pits, strict=True):
        counts = histograms.sum(axis=0)
        n = int(counts.sum()) if counts.size else 0
        if n == 0:
            continue
        below = np.concatenate([[0], np.cumsum(counts)])[:: counts.size // STEPS] / n
        # A ten-millionth is less than a picture shows, and the document stays short.
        differences = np.round(below - np.linspace(0, 1, STEPS + 1), 7)
        curves.append(
            PitCurve(
                order=order,
                n=n,
                differences=tuple(differences.tolist()),
                band=math.sqrt(math.log(2 / (1 - CONFIDENCE)) / (2 * n)),
                confidence=CONFIDENCE,
            )
        )
    return tuple(curves)
