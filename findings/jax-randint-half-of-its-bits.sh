#!/usr/bin/env bash
# jax.random.randint(0, 3 * 2**29) draws a number below 2^30 three times in four, not two in three.
#
# Library:  jax and jaxlib 0.10.2, Python 3.11, CPU, Linux.
# Guess:    randint takes 64 bits for an int32, "to reduce that bias", as its comments say. The
#           remainder of 64 bits then favours no integer noticeably, whatever the range.
# Seen:     that holds for ranges up to 2^16. Above, the factor of the upper 32 bits is 2^16 times
#           2^16 in uint32, which wraps to 0: the lower 32 bits alone are left. Of 200,000 draws,
#           how many equal the remainder of both words (64 bits), and of the lower word alone:
#             range 10: both 200000, lower alone 40354
#             range 152000: both 87, lower alone 200000
#             range 1610612736: both 66307, lower alone 200000
#           The last range is 3 * 2^29; the share of its draws below 2^30 should be 0.6667:
#             0.7503
# Matters:  for tokens of a vocabulary of 152,000 the bias is a total variation of 8e-6. Seeds,
#           hashes and positions from a uint32 range of about 3 * 10^9 are off by a total
#           variation of 0.17, while a reader of the source counts on 64 bits. Nothing is raised
#           or warned of.
#
# Exits 0 while this is so, 1 when the upper word counts for large ranges.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet jax==0.10.2 jaxlib==0.10.2

cat > remainders.py <<'PY'
import sys

import jax
import numpy as np

N, as_stated = 200_000, True
key = jax.random.key(1)
high, low = (
    np.asarray(jax.random.bits(part, (N,))).astype(object) for part in jax.random.split(key)
)
for size in (10, 152_000, 3 << 29):
    drawn = np.asarray(jax.random.randint(key, (N,), 0, size))
    both = int((drawn == (high * 2**32 + low) % size).sum())
    alone = int((drawn == low % size).sum())
    print(f"range {size}: both {both}, lower alone {alone}")
    as_stated &= (both == N) if size <= 1 << 16 else (alone == N)
share = float((drawn < 1 << 30).mean())
print(f"{share:.4f}")
sys.exit(0 if as_stated and share > 0.74 else 1)
PY

if venv/bin/python remainders.py; then
    exit 0
fi
echo "the upper word counts: jax no longer behaves as stated" >&2
exit 1
