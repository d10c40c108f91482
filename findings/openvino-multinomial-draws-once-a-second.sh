#!/usr/bin/env bash
# OpenVINO's Multinomial without a seed gives the same tokens for a whole second.
#
# Library:  openvino 2026.4.1, Python 3.11, CPU, Linux.
# Guess:    each call of a compiled model draws anew; with seeds, calls go on in one stream, as
#           those of RandomUniform of the same library do.
# Seen:     without seeds, thousands of calls of one compiled model in two and a half seconds gave 3
#           or 4 different results of 8 tokens among 1,000 equal ones, as if the clock's second were
#           the seed of each call. With global seed 5, all calls of a compiled model give the
#           same tokens, while RandomUniform with seed 5 goes on from call to call.
# Matters:  a decoding loop that samples with this operation draws the same numbers in all steps of
#           a second; seeded, it repeats one draw forever. Each single call is right.
#
# Exits 0 while this is so, 1 when calls differ.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet openvino==2026.4.1

cat > calls.py <<'PY'
import sys
import time

import numpy as np
import openvino as ov
import openvino.opset13 as ops

core, row = ov.Core(), np.zeros((1, 1000), np.float32)


def compiled(seed):
    given = ops.parameter([1, 1000], np.float32)
    count = ops.constant(np.array([8], np.int64))
    node = ops.multinomial(given, count, "i64", True, True, seed, 0)
    return core.compile_model(ov.Model([node], [given]), "CPU")


def tokens(model):
    return tuple(next(iter(model(row).values()))[0].tolist())


model, seen, end = compiled(0), [], time.monotonic() + 2.5
while time.monotonic() < end:
    seen.append(tokens(model))
seeded = compiled(5)
same = len({tokens(seeded) for _ in range(100)})
count, low, high = (ops.constant(x) for x in (np.array([8]), np.float32(0), np.float32(1)))
uniform = core.compile_model(
    ov.Model([ops.random_uniform(count, low, high, "f32", 5, 0)], []), "CPU"
)
others = len({tuple(next(iter(uniform([]).values())).tolist()) for _ in range(100)})
many = "more than 1,000" if len(seen) > 1_000 else str(len(seen))
print(f"without seeds: {len(set(seen))} different results in {many} calls")
print(f"seed 5: {same} of 100 calls; RandomUniform with seed 5: {others} of 100 calls")
sys.exit(0 if len(seen) > 1_000 and len(set(seen)) <= 4 and same == 1 and others == 100 else 1)
PY

if venv/bin/python calls.py; then
    exit 0
fi
echo "calls draw anew: openvino no longer behaves as stated" >&2
exit 1
