import compileall
import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from support import own_names
from support.interpreted import choose_interpreter
from support.levels import leave_to_the_night, thorough_ones

# A worker to a core: linear algebra on more threads would wait for one that the other worker keeps
# from running. Read when numpy and torch are loaded, so set before any test is collected; processes
# that tests start inherit it.
for _library in ("OMP", "OPENBLAS", "MKL", "VECLIB"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# A shell that starts the suite in the background has it ignore Ctrl-C, others block it, and so
# would every process the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

choose_interpreter()

ROOT = Path(__file__).parents[1]

DISTRIBUTION_TESTS = pytest.StashKey[int]()


def pytest_addoption(parser):
    parser.addoption(
        "--thorough", action="store_true",
        help="run tests marked thorough too, as .ci/run does; those of a file or -m always run",
    )  # fmt: skip


def pytest_configure():
    if sys.dont_write_bytecode:  # or each of hundreds of processes would compile what it imports
        for room in ("simverify", "reports", "simulators", "stats"):
            compileall.compile_dir(ROOT / room, quiet=2)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    # First: before -m or -k deselects any.
    marked = [item for item in items if item.get_closest_marker("distribution")]
    config.stash[DISTRIBUTION_TESTS] = len(marked)
    leave_to_the_night(items)
    # Not by addopts: a -m of the caller would replace it, and -m distribution run them.
    for mark in ("slow", "engines"):
        if mark not in config.option.markexpr:
            _leave_out(config, items, [item for item in items if item.get_closest_marker(mark)])
    named = config.option.markexpr or any(".py" in argument for argument in config.args)
    if not (config.option.thorough or named):
        _leave_out(config, items, thorough_ones(items))


def _leave_out(config, items, left_out):
    config.hook.pytest_deselected(items=left_out)
    ids = set(map(id, left_out))
    items[:] = [item for item in items if id(item) not in ids]


def pytest_collection_finish(session):
    own_names.collected(session.items)
    # Nine thousand tests and what they import are there to the end: the garbage collector need not
    # walk through their 780,000 objects again and again.
    gc.collect()
    gc.freeze()
    # Asked before every comparison of the command line; Python would count the objects.
    gc.get_freeze_count = lambda: 1


def pytest_runtest_setup(item):
    own_names.running(item)


def pytest_unconfigure():
    # What is kept is let go in order at the end, or libraries complain of leaks.
    gc.unfreeze()


@pytest.fixture(autouse=True)
def forking_after_jax(monkeypatch):
    """Audits are forked although an earlier test in this process has used JAX: these use none."""
    monkeypatch.setattr("simverify.auditing.sandbox.has_threads_of_libraries", lambda: False)


@pytest.fixture(scope="session", autouse=True)
def kept_results(tmp_path_factory):
    """What the catalogue's faults do on an instance is computed once for both workers.

    What a test breaks stays out of the user's cache.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "results"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simverify.disk_cache.cache_folder", lambda _: folder)
        yield


@pytest.fixture
def distribution_tests(request):
    """Return the number of distribution tests collected in this run."""
    return request.config.stash[DISTRIBUTION_TESTS]


@pytest.fixture
def two_threads():
    """Torch computes on two threads here, as in most processes outside this suite."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def unsearched_module():
    """As ``unsearched``, for fixtures that keep an audit for all tests of their file."""
    with pytest.MonkeyPatch.context() as patch:
        _search_nothing(patch)
        yield


def _search_nothing(patch):
    for search in ("search_failure", "smallest_failure", "search_branch_targets"):
        patch.setattr(f"simverify.auditing.exact_tier.{search}", lambda *_, **__: None)


@pytest.fixture
def unsearched(monkeypatch):
    """Audits end with their battery: Hypothesis looks for no other counterexample.

    For tests of what else an audit does: the search takes half the time of a small audit, and
    most of one that fails. Its own tests are in tests/auditing/exact/instances; whole audits are
    in tests/auditing/test_whole_runs.py and on every page of the documentation.
    """
    _search_nothing(monkeypatch)


@pytest.fixture
def no_gpu(monkeypatch):
    """Torch finds no GPU, whatever is here: kernels run on the CPU."""
    monkeypatch.setattr(pytest.importorskip("torch").cuda, "is_available", lambda: False)


@pytest.fixture
def unprobed(monkeypatch):
    """Audits leave their edge probes out, a fifth of a small one.

    For tests of what the tiers say. The probes have tests of their own in tests/auditing/probes,
    and are part of the other audits in each file that takes this fixture.
    """
    monkeypatch.setattr("simverify.auditing.run.run_subject_probes", lambda *_, **__: ())


@pytest.fixture
def unnamed(monkeypatch):
    """No laws of catalogued faults are computed, which takes most of a small audit's time."""
    monkeypatch.setattr("simverify.auditing.run.refuted_faults", lambda *_: ())
    monkeypatch.setattr("simverify.auditing.run.nearest_faults", lambda *_: ())
