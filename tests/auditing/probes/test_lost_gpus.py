"""Code whose GPU a probe ends: an audit begins again, and what is no violation stays none.

Without a GPU: the code raises what torch does, and from then on at every call.
"""

import numpy as np
import pytest

from simverify.auditing import invocation
from simverify.auditing import run as supervised
from simverify.auditing.invocation import GpuLost, ProbeRecorder, is_gpu_lost, make_caller
from simverify.auditing.probes import ForcedCalls, edge_uniforms, forced_generator, run_probes
from simverify.auditing.run import supervised_audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject

pytestmark = pytest.mark.usefixtures("unsearched")

SMALL = AuditSettings(gamma=1, vocab=3, seconds=4)
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
    begun = [line for line in said if line.startswith("starting again: the probe")]
    assert begun
    told = [x.name for x in run.probes if "device-side assert triggered" in x.message]
    assert len(told) == len(begun)
    assert {x.outcome for x in run.probes if x.name in told} == {"warning"}


def test_a_wrong_rule_fails_all_the_same():
    run = audited(no_law, wrong=True)
    assert run.verdict == "FAIL"
    assert run.counterexample is not None


def one_hot(weights):
    return weights.max() > 0.999


def test_rows_of_the_contract_may_not():
    said = []
    run = audited(one_hot, said)
    assert run.verdict == "FAIL"
    assert [x.name for x in run.probes if x.outcome == "violation"] == ["one-hot targets"]
    probes = {x.name: x for x in run.probes}
    assert "device-side assert triggered" in probes["one-hot targets"].message
    # It ends there, as after a hang.
    assert probes["NaN rows"].message == ("the code ends the use of its GPU, see 'one-hot targets'")
    assert sum(line.startswith("starting again: the probe") for line in said) == 1


def test_code_that_always_loses_it_begins_once_more():
    said = []
    run = audited(lambda weights: True, said)
    assert run.verdict == "FAIL"
    assert [x.name for x in run.probes if x.outcome == "violation"] == ["output"]
    assert sum(line.startswith("starting again: the probe") for line in said) == 1


def test_in_the_users_own_process_nothing_begins_again(monkeypatch):
    """As where a child could not use the GPU: what is lost is lost, and is said."""
    monkeypatch.setattr(supervised, "run_in_child", lambda work, say: work(say))
    said = []
    with pytest.raises(GpuLost, match="'one-hot targets' ended the use of the GPU by this process"):
        audited(one_hot, said)
    assert not any(line.startswith("starting again") for line in said)


def test_a_drafter_that_loses_it_fails():
    def draft(prefix, row, k, rng):
        if len(row) > 500:
            raise RuntimeError(WORDS)
        return [int(rng.choice(len(row), p=row)) for _ in range(k)], row

    run = supervised_audit(lambda: Subject("mine", draft, None), "draft", SMALL, spec="mine")
    assert run.verdict == "FAIL"
    assert any("device-side assert" in x.message for x in run.probes if x.outcome == "violation")


@pytest.mark.parametrize(("kind", "grade"), [("float64", "warning"), ("bfloat16", "violation")])
def test_an_edge_that_a_coarse_draw_reaches_often_is_a_violation(kind, grade):
    torch = pytest.importorskip("torch")
    forcing = []  # ordinary draws of bfloat16 are 0 now and then

    def rule(p, q, x, rng):
        if torch.rand((), dtype=getattr(torch, kind)) == 0 and forcing:
            raise RuntimeError(WORDS)
        return [int(rng.choice(p.shape[1], p=p[0]))]

    with forced_generator(rule) as (source, generator):
        kept = ForcedCalls(make_caller(rule, "verify"), "verify", source, generator)
        forcing.append(True)
        with pytest.raises(GpuLost) as lost:
            edge_uniforms(ProbeRecorder(), kept, "first")
    assert lost.value.grade == grade


def test_a_process_that_others_use_is_spared(monkeypatch):
    rule = on_gpu(no_law)
    with pytest.raises(GpuLost, match="ended the use of the GPU by this process: raised Runtime"):
        run_probes(rule, "verify")
    monkeypatch.setattr(invocation, "is_gpu_in_use", lambda: True)
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
    assert is_gpu_lost(error) is lost
