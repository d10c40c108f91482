"""A sweep is what compare says of each cell, whoever counts it and wherever it is broken off."""

import time
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext

import msgspec
import pytest

import simverify
from simverify.errors import SimverifyError, UsageError
from simverify.sweeping import run as running
from simverify.sweeping import tasks
from simverify.sweeping.run import MAX_TRIES, SweepProgress, duration_words, run_sweep, status_lines
from simverify.sweeping.spec import SweepSpec
from simverify.sweeping.store import HEADER_BYTES, SweepFolder
from simverify.sweeping.tasks import CellState, CountTask
from simverify.sweeping.workers import WorkerPool

# How far a sweep is, by a clock that nobody sets.


def test_a_line_now_and_then():
    now, said = [0.0], []
    progress = SweepProgress(said.append, 1000, every=10, clock=lambda: now[0])
    progress.found = 100
    for second in range(1, 26):
        now[0] = second
        progress.done += 4
        progress.tick("block on toy")
    assert said == [
        "140 of 1,000 shards, 4 a second, 4 min left: block on toy",
        "180 of 1,000 shards, 4 a second, 3 min left: block on toy",
    ]


def test_the_time_until_workers_are_there_is_no_time_of_a_shard():
    now, said = [0.0], []
    progress = SweepProgress(said.append, 100, every=10, clock=lambda: now[0])
    now[0] = 60.0
    progress.begin()
    now[0] = 65.0
    progress.done = 20
    progress.tick("block on toy")
    assert said == ["20 of 100 shards, 4 a second, 20 s left: block on toy"]


def test_nothing_is_foretold_before_anything_is_done():
    assert SweepProgress(print, 10, every=0).line("a cell", 0.0) == "0 of 10 shards: a cell"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_times_in_words(seconds, words):
    assert duration_words(seconds) == words


def test_a_clock_that_is_set_changes_nothing(ends_as_expected, tmp_path, monkeypatch):
    """The wall clock jumps by years, back and forth, at every look."""
    jumps = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: 1e9 * (-1) ** next(jumps))
    said = ends_as_expected(tmp_path / "sweep", every=0)
    shown = [line for line in said if " of " in line]
    assert len(shown) == 24 + 4
    assert shown[-1].startswith("24 of 24 shards")
    assert not any("-" in line.split("left")[0] for line in shown)


class Counting(Executor):
    """An executor of one thread that counts the loads it is given, and may fail at one."""

    def __init__(self, fail=lambda number, load: None):
        self.loads, self.fail = [], fail

    def submit(self, function, load):
        future = Future()
        self.loads.append(load)
        error = self.fail(len(self.loads), load)
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(function(load))
        return future


def test_each_cell_is_the_row_of_a_comparison(spec, expected, tmp_path):
    run = simverify.load(_written(tmp_path, expected))
    assert len(run.cells) == spec.number_of_cells == 4
    assert run.alpha_each == spec.alpha / 4
    for cell in run.cells:
        alone = simverify.compare(
            [cell.result.model], [cell.result.verifier], gamma=cell.result.gamma,
            blocks=spec.blocks, seed=cell.seed, alpha=run.alpha_each,
        )  # fmt: skip
        assert msgspec.json.encode(cell.result) == msgspec.json.encode(alone.results[0])
        assert msgspec.json.encode(cell.model) == msgspec.json.encode(alone.models[0])
    other = simverify.compare(["toy"], ["block"], gamma=2, blocks=spec.blocks, seed=1,
                              alpha=run.alpha_each)  # fmt: skip
    assert other.results[0] != run.cells[0].result


TREES = SweepSpec(
    models=("toy", "markov-4"), verifiers=("naive", "match", "k-seq", "token"), gamma=(2,),
    drafts=(1, 2), blocks=700, shard=250,
)  # fmt: skip
"""A rule with a kernel, one that is called, one of either, and one for a single draft."""


@pytest.mark.thorough
def test_drafts_are_a_list_like_the_others(tmp_path):
    """Each cell is the row of a comparison on its draft trees, whoever counts it."""
    run = run_sweep(TREES, tmp_path / "threads", executor="threads", workers=1)
    assert len(run.cells) == TREES.number_of_cells == 16
    assert len({cell.name for cell in run.cells}) == 16
    for cell in run.cells:
        alone = simverify.compare(
            [cell.result.model], [cell.result.verifier], gamma=2, drafts=cell.drafts,
            scheme=cell.scheme, blocks=TREES.blocks, alpha=run.alpha_each,
        )  # fmt: skip
        assert msgspec.json.encode(cell.result) == msgspec.json.encode(alone.results[0])
        assert msgspec.json.encode(cell.model) == msgspec.json.encode(alone.models[0])
    document = (tmp_path / "threads" / "sweep.json").read_bytes()
    with ThreadPoolExecutor(3) as pool:
        run_sweep(TREES, tmp_path / "pool", executor=pool, workers=3)
    assert (tmp_path / "pool" / "sweep.json").read_bytes() == document
    by_drafts = {(c.result.model, c.result.verifier, c.drafts): c.result for c in run.cells}
    for model in TREES.models:  # a second draft is worth something to these, and to token nothing
        one, two = (by_drafts[model, "naive", k].block_efficiency for k in (1, 2))
        assert two > one
        one, two = (by_drafts[model, "token", k].block_efficiency for k in (1, 2))
        assert one == two


def _written(folder, data):
    path = folder / "read.json"
    path.write_bytes(data)
    return path


def test_shards_of_any_size_add_up_to_the_same(spec, expected, tmp_path):
    whole = msgspec.structs.replace(spec, shard=10**6)
    run = run_sweep(whole, tmp_path / "sweep", executor="threads")
    assert run.cells == simverify.load(_written(tmp_path, expected)).cells


def shards_of(load):
    """How many shards a load counts."""
    return sum(end - first for task in load if isinstance(task, CountTask)
               for first, end in [task.shards])  # fmt: skip


def test_short_shards_go_in_loads(spec, ends_as_expected, tmp_path, monkeypatch):
    """All shards of a part are one task, and tasks of several cells one load."""
    monkeypatch.setattr(tasks, "INITIAL_BLOCKS", 2900)
    together = Counting()
    ends_as_expected(tmp_path / "sweep", together)
    assert sum(map(shards_of, together.loads)) == spec.number_of_shards
    counts = [load for load in together.loads if shards_of(load)]
    assert [len(load) for load in counts] == [3, 3]  # of 900 blocks each, 2,900 at most
    first = counts[0][0]
    assert (first.shards, first.trial, first.trials) == ((0, 4), 0, 900)


def test_a_load_whose_worker_died_is_done_task_by_task(spec, ends_as_expected, tmp_path):
    """Whichever of them it died of is then found, and the others are done."""
    made = []

    def make():
        first = not made
        made.append(Counting(lambda _number, _load: BrokenExecutor() if first else None))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "INITIAL_BLOCKS", 2900)
        patch.setattr(running, "open_workers", lambda *_: nullcontext(WorkerPool(make, 2)))
        ends_as_expected(tmp_path / "sweep")
    assert len(made[0].loads[0]) == 3
    again = [load for load in made[1].loads if shards_of(load)]
    assert [len(load) for load in again[:3]] == [1, 1, 1]


def test_threads_and_any_executor_end_with_the_same_bytes(ends_as_expected, tmp_path):
    ends_as_expected(tmp_path / "threads")
    with ThreadPoolExecutor(3) as pool:
        ends_as_expected(tmp_path / "pool", pool)
        assert pool.submit(int).result() == 0  # it is its owner's to end


def test_a_worker_that_dies_takes_nothing_with_it(ends_as_expected, tmp_path):
    """All that were out went with it: they are done again, and the rest as before."""
    made = []

    def make():
        die = {9: BrokenExecutor()} if not made else {}
        made.append(Counting(lambda number, _load: die.get(number)))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "open_workers", lambda *_: nullcontext(WorkerPool(make, 2)))
        said = ends_as_expected(tmp_path / "sweep")
    assert len(made) == 2
    assert [line for line in said if line.startswith("a worker died; done again: ")]


@pytest.mark.slow
def test_processes_end_with_the_same_bytes_though_one_is_killed(
    ends_as_expected, tmp_path, monkeypatch
):
    real, killed = running._SweepRunner._hand_out, []

    def hand_out(self, workers, load):
        real(self, workers, load)
        if len(self.out) == 4 and not killed:
            processes = list(workers._executor._processes.values())
            processes[0].kill()
            killed.append(processes[0])

    monkeypatch.setattr(running._SweepRunner, "_hand_out", hand_out)
    said = ends_as_expected(tmp_path / "sweep", "processes")
    assert killed
    assert any("a worker died" in line for line in said)


@pytest.mark.parametrize("after", [2, 9, 17])
def test_a_run_that_is_interrupted_goes_on(spec, ends_as_expected, tmp_path, after):
    out = tmp_path / "sweep"

    def interrupt(number, _task):
        if number > after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="every finished shard is kept"):
        run_sweep(spec, out, executor=Counting(interrupt), workers=2)
    assert not (out / "sweep.json").exists()
    kept = sum(CellState(cell, spec, SweepFolder(out)).finished for cell in spec.cells())
    again = Counting()
    ends_as_expected(out, again)
    counted = sum(isinstance(load[0], CountTask) for load in again.loads)
    assert counted == spec.number_of_shards - kept
    nothing = Counting()
    ends_as_expected(out, nothing)
    assert nothing.loads == []


@pytest.mark.thorough
def test_a_changed_byte_anywhere_is_found_and_done_again(spec, ends_as_expected, tmp_path):
    out = tmp_path / "sweep"
    run_sweep(spec, out, executor="threads")
    file = SweepFolder(out).cell_file(1)
    data = file.read_bytes()
    for place in (0, 5, HEADER_BYTES - 1, HEADER_BYTES, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert any("damaged" in line for line in status_lines(out))
        said = ends_as_expected(out)
        assert any("damaged or cut short, done again" in line for line in said)
        assert not any("damaged" in line for line in status_lines(out))
    file.write_bytes(data[:-7])
    assert ends_as_expected(out)
    file.unlink()
    ends_as_expected(out)


def test_files_of_other_cells_are_not_taken(spec, ends_as_expected, tmp_path):
    out = tmp_path / "sweep"
    run_sweep(spec, out, executor="threads")
    one, other = SweepFolder(out).cell_file(0), SweepFolder(out).cell_file(2)
    first = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(first)
    assert len(ends_as_expected(out)) >= 2


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.thorough
def test_files_of_another_sweep_are_not_taken(spec, ends_as_expected, tmp_path, behind):
    """They have the names and the cells' numbers of this one's, and hashes of their own."""
    out, another = tmp_path / "sweep", tmp_path / "another"
    run_sweep(spec, out, executor="threads")
    run_sweep(msgspec.structs.replace(spec, seeds=(7,)), another, executor="threads")
    for cell in spec.cells():
        file = SweepFolder(out).cell_file(cell.index)
        theirs = SweepFolder(another).cell_file(cell.index).read_bytes()
        file.write_bytes(file.read_bytes() + theirs if behind else theirs)
    assert any("damaged" in line for line in status_lines(out))
    assert ends_as_expected(out)


def test_shards_counted_twice_are_one(spec, ends_as_expected, tmp_path):
    """Dask may do a task twice, and a file may hold a record twice."""
    out = tmp_path / "sweep"
    first = next(spec.cells())

    def interrupt(number, _task):
        if number > 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(spec, out, executor=Counting(interrupt), workers=1)
    file = SweepFolder(out).cell_file(first.index)
    file.write_bytes(file.read_bytes() * 2)
    assert any("damaged" in line for line in ends_as_expected(out))


def test_two_runs_exclude_each_other(spec, ends_as_expected, tmp_path):
    out = tmp_path / "sweep"
    refused = []

    def meanwhile(number, _task):
        if number == 3:
            with pytest.raises(UsageError, match="in use by another run, process") as found:
                run_sweep(spec, out, executor="threads")
            refused.append(found)
            assert status_lines(out)[-1] == "a run is in the folder now"

    ends_as_expected(out, Counting(meanwhile))
    assert refused
    assert status_lines(out)[-1] == "no run is in the folder"


def test_workers_that_keep_dying_end_the_run_in_a_line(spec, ends_as_expected, tmp_path):
    out = tmp_path / "sweep"
    dying = Counting(lambda number, _load: BrokenExecutor() if number > 6 else None)
    with pytest.raises(SimverifyError, match="broken; every finished shard is kept"):
        run_sweep(spec, out, executor=dying)
    made = []

    def make():
        made.append(Counting(lambda _number, _load: BrokenExecutor()))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "open_workers", lambda *_: nullcontext(WorkerPool(make, 1)))
        with pytest.raises(SimverifyError, match=f"workers died {MAX_TRIES} times at"):
            run_sweep(spec, out)
    assert len(made) == MAX_TRIES
    ends_as_expected(out)
