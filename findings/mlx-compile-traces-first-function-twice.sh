#!/usr/bin/env bash
# The first function that an MLX process compiles is traced twice, at its first two calls.
#
# Library:  mlx 0.32.4 with its CPU wheel, Python 3.11, Linux.
# Guess:    mx.compile traces a function at its first call, and keeps a global that it read then.
# Seen:     how often the Python function has run after each of four calls with equal shapes:
#             nothing computed before: 1 2 2 2
#             after one addition: 1 1 1 1
#           If a global changes from 1 to 3 between the first call and the second, three calls of
#           u * global at u = 1 give:
#             nothing computed before: 1 3 3
#             after one addition: 1 1 1
# Matters:  a call at import that warms a compiled verifier up does not settle what it keeps: a
#           constant that is set later takes effect or not, depending on what ran before.
#
# Exits 0 while this is so, 1 when both are traced equally often.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet 'mlx[cpu]==0.32.4'

cat > traced.py <<'PY'
import sys

import mlx.core as mx

if sys.argv[1] == "after":
    mx.eval(mx.array(1.0) + 1)
runs, factor = 0, 1.0


def scaled(u):
    global runs
    runs += 1
    return u * factor


compiled, counts, values = mx.compile(scaled), [], []
for call in range(4):
    result = compiled(mx.array(1.0))
    mx.eval(result)
    counts.append(runs)
    values.append(int(result.item()))
    factor = 3.0
print(*counts, "|", *values[:3])
PY

first=$(venv/bin/python traced.py before)
second=$(venv/bin/python traced.py after)
echo "nothing computed before: $first"
echo "after one addition: $second"
if [ "$first" = "1 2 2 2 | 1 3 3" ] && [ "$second" = "1 1 1 1 | 1 1 1" ]; then
    exit 0
fi
echo "mx.compile traces both alike: mlx no longer behaves as stated" >&2
exit 1
