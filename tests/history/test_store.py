"""The run store: what is in it, who may write to it, and what a broken one says."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest
from msgspec.structs import replace
from support.baseline_runs import drawn
from support.pages.report_runs import example, real_run

from simverify import sweep
from simverify.errors import UsageError
from simverify.history import record
from simverify.history.baseline import check_baseline
from simverify.history.record import (
    add_run,
    check_store,
    get_run,
    init_store,
    run_differences,
    runs,
)
from simverify.reports.surveys import check_lines

# Runs on real models: E[tau] alone is tested, with the error over lanes.


def moved(run, by, width):
    rows = tuple(
        replace(
            row,
            measured=replace(
                row.measured, mean=3.0 + by, ci_low=3.0 + by - width, ci_high=3.0 + by + width
            ),
        )
        for row in run.results
    )
    return replace(run, results=rows, decoding=replace(run.decoding, lanes=64))


def test_the_mean_is_tested_and_no_level_is():
    run = real_run()
    old = moved(run, 0.0, 0.01)
    assert check_baseline(old, moved(run, 0.002, 0.01)).verdict == "PASS"
    worse = check_baseline(old, moved(run, -0.1, 0.01))
    assert worse.verdict == "FAIL"
    assert {item.what for item in worse.of("worse")} == {"E[tau], measured"}
    short = check_baseline(old, moved(run, -0.1, 0.5))
    assert short.verdict == "INCONCLUSIVE"
    assert short.blocks is not None


def test_too_few_lanes_tell_nothing():
    run = moved(real_run(), 0.0, 0.01)
    few = replace(run, decoding=replace(run.decoding, lanes=2))
    assert check_baseline(few, few).verdict == "INCONCLUSIVE"


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "a folder" / "runs.db"
    init_store(path)
    return path


def test_a_run_comes_back_whole(store):
    for name in ("compare", "transformers", "faulty-block", "draft-trees", "engines"):
        number = add_run(store, example(name), ["simverify", name, "a b"])
        entry, document = get_run(store, number)
        assert document == example(name)
        assert entry.words == f"simverify {name} 'a b'"
        assert entry.version == document.meta.version
    assert [run.id for run in runs(store)] == [5, 4, 3, 2, 1]


def test_every_seed_fits(store):
    run = replace(drawn(100), seed=2**64 - 1)
    assert get_run(store, add_run(store, run))[0].seed == 2**64 - 1


def test_search(store):
    add_run(store, example("compare"), ["simverify", "compare"])
    add_run(store, example("faulty-block"), ["simverify", "audit"])
    assert [run.verdict for run in runs(store, verdict="fail")] == ["FAIL"]
    assert [run.id for run in runs(store, command="compare")] == [1]
    assert [run.id for run in runs(store, search="AUDIT")] == [2]
    sha = runs(store, limit=1)[0].document_sha256
    assert [run.id for run in runs(store, search=sha[:12])] == [2]
    assert runs(store, search="' OR 1 --") == runs(store, search="%") == ()
    assert runs(store, since="2999-01-01") == ()
    assert len(runs(store, since="2000-01-01")) == len(runs(store, limit=10**30)) == 2


def test_the_hash_of_the_code_is_that_of_a_run_not_of_an_added_file(store, tmp_path):
    code = tmp_path / "rule.py"
    code.write_text("def verify(): ...\n")
    run = replace(example("transformers"), spec=f"{code}:verify")
    first = get_run(store, add_run(store, run, ["simverify", "audit"]))[0].code_sha256
    code.write_text("def verify(): return 1\n")
    assert first != get_run(store, add_run(store, run, ["simverify", "audit"]))[0].code_sha256
    assert get_run(store, add_run(store, run))[0].code_sha256 is None


WRITER = """
import sys
from pathlib import Path
from simverify.reports.surveys import check_lines
from simverify.history.record import add_run as add, check_store
from simverify.results.reading import read_document
run = read_document(Path(sys.argv[2]))
for i in range(int(sys.argv[3])):
    check_store(Path(sys.argv[1]))
    add(Path(sys.argv[1]), run, ["writer", sys.argv[4], str(i)])
"""


@pytest.mark.thorough
def test_two_processes_and_many_threads_lose_nothing(tmp_path):
    store, file = tmp_path / "new.db", tmp_path / "run.json"
    drawn(100).save(file)
    # None of them finds a store: both make it.
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(store), str(file), "15", str(k)])
        for k in range(2)
    ]
    assert [process.wait(120) for process in processes] == [0, 0]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: add_run(store, drawn(100), ["thread", str(i)]), range(20)))
    words = [run.words for run in runs(store)]
    assert len(words) == len(set(words)) == 50


def test_a_store_that_another_makes_meanwhile_is_one(tmp_path, monkeypatch):
    """It was taken for a database of somebody else: no version at the first look, and then one."""
    path, version, others = tmp_path / "new.db", record._store_version, []

    def looked(store):
        found = version(store)
        if not others:
            others.append(Thread(target=init_store, args=(path,)))
            others[0].start()
            others[0].join(0.5)  # who looks at one moment keeps it waiting
        return found

    monkeypatch.setattr(record, "_store_version", looked)
    init_store(path)
    others[0].join()
    assert get_run(path, add_run(path, drawn(100)))[0].id == 1


def test_a_broken_store_is_one_line(store, tmp_path):
    for number in range(30):
        add_run(store, drawn(1000, seed=number))
    data = bytearray(store.read_bytes())
    data[5000:40000] = b"\xff" * 35000
    store.write_bytes(data)
    with pytest.raises(UsageError, match=r"cannot be used|broken") as raised:
        [get_run(store, run.id) for run in runs(store)]
    assert "\n" not in str(raised.value)
    text = tmp_path / "text.db"
    text.write_text("no database at all, but long enough to be taken for one" * 20)
    with pytest.raises(UsageError, match="not a database"):
        check_store(text)
    assert text.read_text().startswith("no database")


def test_other_databases_and_newer_stores_are_refused(store, tmp_path):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE theirs (a)")
    with pytest.raises(UsageError, match="is not a run store"):
        init_store(other)
    database.close()
    with sqlite3.connect(store) as database:
        database.execute("PRAGMA user_version = 3")
    database.close()
    for use in (init_store, check_store, runs, lambda path: get_run(path, 1)):
        with pytest.raises(UsageError, match="version 3, this simverify knows 2"):
            use(store)


def test_a_document_that_was_changed_is_refused(store):
    number = add_run(store, drawn(100))
    with sqlite3.connect(store) as database:
        database.execute("UPDATE runs SET document = x'00'")
    database.close()
    with pytest.raises(UsageError, match="is broken"):
        get_run(store, number)


def altered(store, words, *values):
    with sqlite3.connect(store) as database:
        database.execute(words, values)
    database.close()


@pytest.mark.parametrize("words", ["title = CAST(x'e6' AS TEXT)", "started = NULL", "seed = 'N'"])
def test_a_row_that_was_damaged_is_one_line(store, words):
    """SQLite has no checksum: a byte that changed within a text is found by nobody else."""
    add_run(store, drawn(100))
    altered(store, f"UPDATE runs SET {words}")
    for use in (runs, lambda path: get_run(path, 1)):
        with pytest.raises(UsageError, match="damaged") as raised:
            use(store)
        assert "\n" not in str(raised.value)


def test_documents_that_changed_places_are_refused(store):
    for seed in (1, 2):
        add_run(store, drawn(100, seed=seed))
    altered(store, "UPDATE runs SET document = (SELECT document FROM runs WHERE id = 2)")
    assert get_run(store, 2)[0].seed == 2
    with pytest.raises(UsageError, match="run 1 does not have its hash"):
        get_run(store, 1)


def test_searches_are_in_any_case_and_of_any_text(store):
    add_run(store, drawn(100), ["simverify", "compare", "RÉSUMÉ.py:verify", "100%_of 'it'"])
    for text in ("résumé", "RÉSUMÉ", "100%_", "", "Compare"):
        assert len(runs(store, search=text)) == 1, text
    for text in ("%summ%", "R_SUM", "\x00", "x" * 100_000):
        assert runs(store, search=text) == (), text
    with pytest.raises(UsageError, match="not UTF-8"):
        runs(store, search="a\udcff")


def test_days_are_compared_as_times(store):
    run = drawn(100)
    add_run(store, replace(run, meta=replace(run.meta, started="2026-01-31T10:00:00+00:00")))
    for since in ("2026-01-31", "20260131", "2026-01-31T10:00", "2026-01-31T15:00+05:00"):
        assert len(runs(store, since=since)) == 1, since
    for since in ("2026-02-01", "20260201", "2026-01-31T10:00:01", "2026-01-31T10:00-05:00"):
        assert runs(store, since=since) == (), since


@pytest.mark.parametrize(
    "asked", [{"since": "yesterday"}, {"verdict": "maybe"}, {"command": "audi"}]
)
def test_what_no_run_can_have_is_an_error_and_not_an_empty_list(store, asked):
    with pytest.raises(UsageError, match=r"expected a day|unknown"):
        runs(store, **asked)


@pytest.mark.parametrize("name", ["x" * 300, "."])
def test_places_that_no_store_can_have(tmp_path, name):
    for use in (init_store, runs, check_store):
        with pytest.raises(UsageError, match=r"cannot be used|is a folder"):
            use(tmp_path / name)


@pytest.mark.parametrize("number", [0, 2, 10**30])
def test_numbers_that_are_not_there(store, number):
    add_run(store, drawn(100))
    with pytest.raises(UsageError, match=f"has no run {number}"):
        get_run(store, number)


def test_no_store_is_made_by_reading(tmp_path):
    with pytest.raises(UsageError, match="simverify runs init"):
        runs(tmp_path / "none.db")
    assert not list(tmp_path.iterdir())


def test_differences(store):
    run = drawn(200_000, seed=1)
    later = replace(run, meta=replace(run.meta, machine="another"))
    numbers = [
        add_run(store, run), add_run(store, later), add_run(store, drawn(200_000, 0.95, 2)),
        add_run(store, example("transformers")),
    ]  # fmt: skip
    first, second, third, fourth = (get_run(store, number) for number in numbers)
    lines, check = run_differences(first, second)
    assert check is None
    assert "equal" in lines[-1]
    lines, check = run_differences(first, third)
    assert "seed: 1 -> 2" in lines
    assert check.verdict == "FAIL"
    lines, check = run_differences(first, fourth)
    assert check is None
    assert "do not compare" in lines[-1]


def test_sweeps_are_told_apart_cell_by_cell(store, tmp_path):
    def swept(name, gamma):
        return sweep(
            models=["toy"], verifiers=["token"], gamma=gamma, blocks=1000, out=tmp_path / name,
            executor="threads",
        )  # fmt: skip

    one, two = swept("one", [1]), swept("two", [1, 2])
    first, second, again = (get_run(store, add_run(store, run)) for run in (one, two, one))
    assert (first[0].title, second[0].title) == ("1 cell", "2 cells")
    assert first[0].machine
    lines, check = run_differences(first, second)
    assert lines[-1] == "token on toy, gamma 2, seed 0: in the second run alone"
    assert not any("gamma 1" in line for line in lines)
    assert {item.outcome for item in check.items} <= {"same", "too short"}
    assert check.cells == 1
    assert "1 of 1 cells and audits are equal" in check_lines(check, "it")
    lines, _ = run_differences(second, first)
    assert lines[-1] == "token on toy, gamma 2, seed 0: in the first run alone"
    assert "equal" in run_differences(first, again)[0][-1]
