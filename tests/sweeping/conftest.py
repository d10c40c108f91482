import pytest

from simverify.sweeping import tasks
from simverify.sweeping.run import run_sweep
from simverify.sweeping.spec import SweepSpec

SPEC = SweepSpec(
    models=("toy", "markov-4"), verifiers=("block", "greedy"), gamma=(2,), blocks=900, shard=250
)
"""Twelve cells' parts of four shards each: enough that a run can break anywhere."""


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch):
    """Each shard by itself: a sweep of so few blocks would be one load."""
    monkeypatch.setattr(tasks, "MIN_LOAD_SECONDS", 1e-9)
    monkeypatch.setattr(tasks, "SECONDS_PER_BYTE", 0.0)
    monkeypatch.setattr(tasks, "INITIAL_BLOCKS", 1)


@pytest.fixture(scope="session")
def spec():
    return SPEC


@pytest.fixture(scope="session")
def expected(tmp_path_factory):
    """The bytes that every run of the sweep ends with."""
    out = tmp_path_factory.mktemp("expected") / "sweep"
    run_sweep(SPEC, out, executor="threads", workers=1)
    return (out / "sweep.json").read_bytes()


@pytest.fixture
def ends_as_expected(expected):
    def check(out, executor="threads", **how):
        said = []
        run_sweep(SPEC, out, executor=executor, workers=2, progress=said.append, **how)
        assert (out / "sweep.json").read_bytes() == expected
        return said

    return check
