#!/usr/bin/env bash
# A parallel numba function sets how many threads torch computes on, against OMP_NUM_THREADS=1.
#
# Library:  numba 0.68.1 (llvmlite 0.50.0, numpy 2.4.6), torch 2.13.0, Python 3.11, two cores, Linux.
# Guess:    numba and torch each have threads of their own. OMP_NUM_THREADS=1 and
#           torch.set_num_threads(1) hold for torch whatever numba does.
# Seen:     numba does not read OMP_NUM_THREADS. Its first parallel function loads the OpenMP layer
#           and sets OpenMP's number of threads for the calling thread, which torch reads:
#             torch threads 1
#             numba threads 2, layer omp
#             torch threads 2
#           Nothing is raised or warned of. NUMBA_NUM_THREADS=1 leaves torch at 1.
# Matters:  test suites and servers that keep torch on one thread a process, to share the cores or
#           to get the same bits on each run, lose that with the first prange in the process.
#
# Exits 0 while this is so, 1 when torch's number of threads stays as it was set.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet numba==0.68.1 numpy==2.4.6 torch==2.13.0

cat > threads.py <<'PY'
import numba
import torch

torch.set_num_threads(1)
print("torch threads", torch.get_num_threads())


@numba.njit(parallel=True)
def total(n):
    s = 0.0
    for i in numba.prange(n):
        s += i
    return s


total(10)
print(f"numba threads {numba.get_num_threads()}, layer {numba.threading_layer()}")
print("torch threads", torch.get_num_threads())
PY

[ "$(nproc)" -gt 1 ] || { echo "one core: nothing to see" >&2; exit 1; }
seen=$(OMP_NUM_THREADS=1 NUMBA_THREADING_LAYER=omp venv/bin/python threads.py)
echo "$seen"
apart=$(OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 NUMBA_THREADING_LAYER=omp venv/bin/python threads.py)
if [ "$(echo "$seen" | tail -1)" != "torch threads 1" ] \
    && [ "$(echo "$apart" | tail -1)" = "torch threads 1" ]; then
    exit 0
fi
echo "torch's number of threads is not changed: numba no longer behaves as stated" >&2
exit 1
