#!/usr/bin/env bash
# MLX: every thread draws the same random numbers, and a seed is heard by one thread alone.
#
# Library:  mlx 0.32.4 on the CPU, Python 3.11, Linux.
# Guess:    the threads of a process share one random state, or each has its own seed.
# Seen:     the state belongs to the thread, and its first value to the process. So two new threads
#           draw exactly the four numbers that the main thread drew first. mx.random.seed(7) in the
#           main thread changes nothing for a thread that starts after it.
# Matters:  a server that samples each request in a thread of its own gives all first requests the
#           same random numbers, and a seed that it sets at start never reaches them. Give each
#           thread a key.
#
# Exits 0 while this is so, 1 when threads draw numbers of their own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet 'mlx[cpu]==0.32.4'

cat > threads.py <<'PY'
import os
import threading

import mlx.core as mx


def four():
    return mx.random.uniform(shape=(4,)).tolist()


def in_a_thread():
    drawn = []
    thread = threading.Thread(target=lambda: drawn.append(four()))
    thread.start()
    thread.join()
    return drawn[0]


first = four()
one, two = in_a_thread(), in_a_thread()
mx.random.seed(7)
later = in_a_thread()
for name, row in {"main": first, "one": one, "two": two, "after a seed": later}.items():
    print(f"{name:12}", [round(x, 4) for x in row])
print("main, seeded", [round(x, 4) for x in four()], flush=True)
os._exit(0 if first == one == two == later else 1)
PY

if venv/bin/python threads.py; then
    exit 0
fi
echo "threads draw other numbers: mlx no longer behaves as stated" >&2
exit 1
