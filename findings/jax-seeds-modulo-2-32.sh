#!/usr/bin/env bash
# JAX makes the same key of seeds that are equal modulo 2^32, and says nothing.
#
# Library:  jax and jaxlib 0.10.2, Python 3.11, CPU, Linux.
# Guess:    a key has 64 bits and the seed may have as many: seeds up to 2^63 give different keys,
#           or those above 2^32 are refused.
# Seen:     without jax_enable_x64, the default, the seed becomes an int32. Its upper half is lost,
#           and -1 is 2^32 - 1. With it on, all are different:
#             default: 5, 4294967301 and 8589934597: 1 keys; -1 and 4294967295: 1 keys
#             x64: 5, 4294967301 and 8589934597: 3 keys; -1 and 4294967295: 2 keys
#           2^63 raises OverflowError.
# Matters:  a server that makes a request's seed of 64 bits, say (worker << 32) + number, gives the
#           requests of all workers the same random numbers.
#
# Exits 0 while this is so, 1 when the seeds give different keys.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet jax==0.10.2 jaxlib==0.10.2

cat > keys.py <<'PY'
import jax
import numpy as np


def keys(*seeds):
    return len({np.asarray(jax.random.key_data(jax.random.key(seed))).tobytes() for seed in seeds})


far, ends = keys(5, 2**32 + 5, 2**33 + 5), keys(-1, 2**32 - 1)
print(f"5, {2**32 + 5} and {2**33 + 5}: {far} keys; -1 and {2**32 - 1}: {ends} keys")
PY

narrow=$(venv/bin/python keys.py)
wide=$(JAX_ENABLE_X64=1 venv/bin/python keys.py)
printf 'default: %s\nx64: %s\n' "$narrow" "$wide"
[[ $narrow == *": 1 keys; "*": 1 keys" && $wide == *": 3 keys; "*": 2 keys" ]] && exit 0
echo "equal seeds modulo 2^32 give other keys: jax no longer behaves as stated" >&2
exit 1
