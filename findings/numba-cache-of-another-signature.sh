#!/usr/bin/env bash
# Numba's on-disk cache can hand a function the machine code of another signature, for good.
#
# Library:  numba 0.68.1 (llvmlite 0.50.0, numpy 2.4.6), Python 3.11, two cores.
# Guess:    two processes that compile two signatures of one @njit(cache=True) function at the same
#           time lose one cache entry at worst; the next process compiles that signature again.
# Seen:     both processes number their file of machine code by the index they read before either
#           wrote it, so both take number 1. The index of one then leads to the code of the other.
#           Every later process that calls f(0.5) runs the code for int64: x + 7 gives 7, not 7.5.
#           Nothing is raised or warned of, and the cache keeps answering so until it is deleted.
#           0 to 1 of 60 functions that two processes call first at the same moment:
#             round 4: f25(0.5) = 25, cache hits 1
# Matters:  test suites on several workers, and jobs of a cluster with a shared cache folder,
#           compile at the same moment whenever the cache is new.
#
# Exits 0 while this is so, 1 when 20 rounds of 60 functions give no wrong number.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet numba==0.68.1 numpy==2.4.6

cat > make.py <<'PY'
lines = ["from numba import njit"]
for i in range(60):
    lines += ["@njit(cache=True)", f"def f{i}(x):", f"    return x + {i}"]
open("functions.py", "w").write("\n".join(lines) + "\n")
PY

cat > two_processes.py <<'PY'
import multiprocessing


def call_each(value, barrier):
    import functions
    from numba import njit

    njit(lambda x: x + 1)(value)  # so that Numba itself is loaded
    for i in range(60):
        barrier.wait()
        getattr(functions, f"f{i}")(value)


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    processes = [context.Process(target=call_each, args=(v, barrier)) for v in (1, 0.5)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
PY

cat > later.py <<'PY'
import functions

wrong = []
for i in range(60):
    function = getattr(functions, f"f{i}")
    for value in (0.5, 1):
        if function(value) != value + i:
            hits = sum(function.stats.cache_hits.values())
            wrong.append(f"f{i}({value}) = {function(value)}, cache hits {hits}")
            break
print("; ".join(wrong))
PY

venv/bin/python make.py
for round in $(seq 20); do
    rm -rf __pycache__
    venv/bin/python two_processes.py
    result=$(venv/bin/python later.py)
    if [ -n "$result" ]; then
        echo "round $round: $result"
        exit 0
    fi
done
echo "20 rounds without a wrong number: numba no longer behaves as stated" >&2
exit 1
