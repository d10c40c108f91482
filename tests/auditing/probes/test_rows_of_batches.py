"""The probe of batches: each row has its own output."""

import numpy as np
import pytest

from simverify.auditing.probes import run_probes
from simverify.verifiers import VERIFIERS

TOKEN = VERIFIERS["token"].rule


def batch_of_tokens(p, q, x, rng):
    return [TOKEN(*row, rng) for row in zip(p, q, x, strict=True)]


BATCHES = {
    "right": (batch_of_tokens, ""),
    "swapped rows": (lambda p, q, x, rng: batch_of_tokens(p, q, x, rng)[::-1], "emitted"),
    "first row's bonus": (
        lambda p, q, x, rng: batch_of_tokens(
            np.concatenate([p[:, :-1], p[:1, -1:].repeat(len(p), 0)], 1), q, x, rng
        ),
        "where its target allows only",
    ),
    "a row short": (
        lambda p, q, x, rng: batch_of_tokens(p, q, x, rng)[1:],
        "returned 3 rows for 4",
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_rows_of_a_batch_have_their_own_output(name):
    rule, words = BATCHES[name]
    probes = run_probes(TOKEN, "verify", batched=rule, rows=4)
    assert probes[-1].name == "batch rows"
    assert probes[-1].outcome == ("violation" if words else "ok")
    assert words in probes[-1].message


def test_batch_rows_are_left_out_where_there_is_no_batch():
    assert "batch rows" not in {probe.name for probe in run_probes(TOKEN, "verify")}
