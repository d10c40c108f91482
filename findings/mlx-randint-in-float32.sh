#!/usr/bin/env bash
# mx.random.randint(2**30 - 8, 2**30) always returns 2**30 - 1.
#
# Library:  mlx 0.32.4 with its CPU back end, Python 3.11, Linux.
# Guess:    randint takes random words: each integer of the range can come out, about as often as
#           any other.
# Seen:     it draws a float32 number between the bounds and rounds it down. float32 numbers just
#           below 2^30 are 64 apart, so all eight integers round to 2^30, and MLX replaces that by
#           the bound minus 1. Of 100,000 int32 draws each:
#             randint(0, 8): 8 of 8 come out
#             randint(2**24, 2**24 + 8): 5 of 8 come out
#             randint(2**30 - 8, 2**30): 1 of 8 come out
#             randint(2**29, 2**30): 100000 of 100000 draws are multiples of 64
#           Nothing is raised or warned of.
# Matters:  token ids are small enough: at 152,000 the total variation is 0.0013. Seeds, hashes and
#           offsets that are drawn with randint are not: many draws are equal, and their low bits
#           are 0.
#
# Exits 0 while this is so, 1 when every integer of these ranges can come out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet 'mlx[cpu]==0.32.4' numpy==2.2.6

cat > integers.py <<'PY'
import sys

import mlx.core as mx
import numpy as np

N, reached = 100_000, []


def draw(low, high):
    return np.array(mx.random.randint(low, high, (N,), key=mx.random.key(1)))


for words in ("0, 8", "2**24, 2**24 + 8", "2**30 - 8, 2**30"):
    reached.append(len(np.unique(draw(*eval(words)))))
    print(f"randint({words}): {reached[-1]} of 8 come out")
multiples = int((draw(2**29, 2**30) % 64 == 0).sum())
print(f"randint(2**29, 2**30): {multiples} of {N} draws are multiples of 64")
sys.exit(0 if reached[0] == 8 and max(reached[1:]) < 8 and multiples == N else 1)
PY

if venv/bin/python integers.py; then
    exit 0
fi
echo "all integers come out: mlx no longer behaves as stated" >&2
exit 1
