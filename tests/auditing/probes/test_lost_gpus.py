"""Code whose GPU a probe ends: an audit begins again, and what is no violation stays none.

Without a GPU: the code raises what torch does, and from then on at every call.
"""

import numpy as np
import pytest

from simverify.auditing.probes import gpu
from simverify.auditing.probes.gpu import GpuLost, is_lost
from simverify.auditing.probes.run import run_probes
from simverify.auditing.process.supervised import supervised_audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject

pytestmark = pytest.mark.usefixtures("unsearched")

SMALL = AuditSettings(gamma=1, vocab_size=3, seconds=4)
WORDS = "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in ..."


def on_gpu(asserts, wrong=False):
    """Return token verification whose process fails for good once ``asserts(weights)``."""
    lost = []

    def drawn(weights, rng):
        if asserts(weights):
            lost.append(True)
        if lost:
            raise RuntimeError(WORDS)
        return int(rng.choice(len(weights), p=weights / weights.sum()))

    def verify(p, q, x, rng):
        for i, t in enumerate(x):
            if not rng.random() * q[i][t] < p[i][t]:
                return [*x[:i].tolist(), drawn(p[i] if wrong else np.maximum(p[i] - q[i], 0), rng)]
        return [*x.tolist(), drawn(p[-1], rng)]

    return verify


def no_law(weights):
    """What CUDA's multinomial asserts."""
    return not (np.isfinite(weights).all() and weights.sum() > 0)


def audited(asserts, said=None, **how):
    return supervised_audit(
        lambda: Subject("mine", on_gpu(asserts, **how), None), "verify", SMALL, spec="mine",
        progress=None if said is None else said.append,
    )  # fmt: skip


def test_rows_that_are_no_laws_may_end_it():
    said = []
    run = audited(no_law, said)
    assert (run.verdict, run.tier) == ("PASS", "exact")
    begun = [line for line in said if line.startswith("again: the probe")]
    assert begun
    told = [x.name for x in run.probes if "device-side assert triggered" in x.message]
    assert len(told) == len(begun)
    assert {x.outcome for x in run.probes if x.name in told} == {"warning"}


def test_a_wrong_rule_fails_all_the_same():
    run = audited(no_law, wrong=True)
    assert run.verdict == "FAIL"
    assert run.counterexample is not None


def test_rows_of_the_contract_may_not():
    run = audited(lambda weights: weights.max() > 0.999)  # one-hot rows
    assert run.verdict == "FAIL"
    probes = {x.name: x for x in run.probes}
    assert probes["one-hot targets"].outcome == "violation"
    assert "device-side assert triggered" in probes["one-hot targets"].message


def test_a_process_that_others_use_is_spared(monkeypatch):
    rule = on_gpu(no_law)
    with pytest.raises(GpuLost, match="ended the use of the GPU by this process: RuntimeError"):
        run_probes(rule, "verify")
    monkeypatch.setattr(gpu, "in_use", lambda: True)
    probes = run_probes(on_gpu(no_law), "verify")
    spared = {x.name for x in probes if x.message == "it may end this process's use of the GPU"}
    assert spared == {
        "zero rows", "NaN rows", "u = 0", "u = 1 - ulp", "p = q = 0 at a draft token",
    }  # fmt: skip
    assert all(x.outcome == "ok" for x in probes if x.name not in spared)


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RuntimeError(WORDS), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), True),
        (RuntimeError("CUDA error: out of memory"), False),
        (RuntimeError("device-side assert triggered"), False),
        (ValueError(WORDS), False),
    ],
)
def test_what_says_that_it_is_lost(error, lost):
    assert is_lost(error) is lost
