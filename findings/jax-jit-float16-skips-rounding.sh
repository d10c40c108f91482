#!/usr/bin/env bash
# jax.jit changes float16 results, by leaving out roundings; it does not change bfloat16 ones.
#
# Library:  jax and jaxlib 0.10.2, Python 3.11, CPU, Linux.
# Guess:    a compiled function rounds after each operation in both types of 16 bits, or in
#           neither.
# Seen:     how many of 4,096 random numbers x give a different value when compiled:
#             float16 x + 0.3 + 0.7: 1028
#             bfloat16 x + 0.3 + 0.7: 0
#             float16 x * 1.3 + 4 - 4: 3624
#             bfloat16 x * 1.3 + 4 - 4: 0
#           Compiled float16 results are closer to float32: the sum is rounded once, not twice.
#           jax.random.gumbel is compiled too, so that its float16 numbers are not always those of
#           -log(-log(u)) of the float16 numbers u that jax.random.uniform gives.
# Matters:  a compiled float16 verifier can accept other tokens than the same code without jit.
#           Compare in float32.
#
# Exits 0 while this is so, 1 when compiled float16 agrees, or compiled bfloat16 differs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet jax==0.10.2 jaxlib==0.10.2

cat > rounding.py <<'PY'
import sys

import jax
import jax.numpy as jnp
import numpy as np

FUNCTIONS = {"x + 0.3 + 0.7": lambda x: x + 0.3 + 0.7, "x * 1.3 + 4 - 4": lambda x: x * 1.3 + 4 - 4}
numbers = np.random.default_rng(0).random(4096)
seen = {}
for words, function in FUNCTIONS.items():
    for dtype in ("float16", "bfloat16"):
        x = jnp.asarray(numbers, dtype)
        seen[dtype, words] = int((jax.jit(function)(x) != function(x)).sum())
        print(f"{dtype} {words}: {seen[dtype, words]}")
as_stated = all((count > 500) == (dtype == "float16") for (dtype, _), count in seen.items())
sys.exit(0 if as_stated else 1)
PY

if venv/bin/python rounding.py; then
    exit 0
fi
echo "compiled float16 and bfloat16 round alike: jax no longer behaves as stated" >&2
exit 1
