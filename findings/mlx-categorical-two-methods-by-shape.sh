#!/usr/bin/env bash
# mlx.core.random.categorical draws the same row by two methods, depending on the shape around it.
#
# Library:  mlx 0.32.4 with its CPU backend, Python 3.11, Linux.
# Guess:    one key and one row of logits give one token, whether the row comes as (V,), as (1, V) or
#           as the first of (2, V); at least (V,) and (1, V) agree, as they do in JAX.
# Seen:     for 300 keys and a row of 1,000 logits, (1, V) gives the token of (V,) once and the
#           token of the first of two rows once. With num_samples=1, (V,) always gives the
#           token of (1, V). The source has two methods, and the shape chooses.
# Matters:  a decoding loop that is replayed with another batch size, or with num_samples=1 in the
#           place of none, gives other tokens from the same keys, so that "same seed, same text"
#           fails when the batch size is 1.
#
# Exits 0 while this is so, 1 when the shapes agree.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet 'mlx[cpu]==0.32.4'

cat > shapes.py <<'PY'
import sys

import mlx.core as mx

row = mx.random.normal((1000,), key=mx.random.key(9))
agree = {"(V,)": 0, "first of (2, V)": 0, "num_samples=1": 0}
for seed in range(300):
    key = mx.random.key(seed)
    token = mx.random.categorical(row[None], key=key).item()
    agree["(V,)"] += token == mx.random.categorical(row, key=key).item()
    two = mx.random.categorical(mx.stack([row, row]), key=key)
    agree["first of (2, V)"] += token == two[0].item()
    one = mx.random.categorical(row, num_samples=1, key=key)
    agree["num_samples=1"] += token == one.item()
print("of 300 keys (1, V) agrees with:", agree)
sys.exit(0 if agree["(V,)"] < 30 > agree["first of (2, V)"] and agree["num_samples=1"] > 270 else 1)
PY

if venv/bin/python shapes.py; then
    exit 0
fi
echo "the shapes agree: mlx no longer behaves as stated" >&2
exit 1
