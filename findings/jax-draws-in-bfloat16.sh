#!/usr/bin/env bash
# Of 20,000 tokens that JAX draws from 32,000 equal bfloat16 logits, 722 are different.
#
# Library:  jax and jaxlib 0.10.2, Python 3.11, CPU, Linux.
# Guess:    bfloat16 logits cost their own rounding, some 0.4% of a probability. Draws from equal
#           logits are uniform over all tokens.
# Seen:     the noise has the type of the logits too. jax.random.categorical takes the largest of
#           32,000 bfloat16 Gumbel numbers: many are equal, and the first of them wins. The
#           number of different tokens, and the mean of token / 32,000:
#             categorical float32: 14831 tokens, mean 0.504
#             categorical float16: 3640 tokens, mean 0.032
#             categorical bfloat16: 722 tokens, mean 0.004
#           jax.random.choice(p=) looks up one uniform number, which has 128 values in bfloat16:
#             choice float32: 14905 tokens, mean 0.503
#             choice bfloat16: 128 tokens, mean 0.497
#           Nothing is raised or warned of.
# Matters:  a draft or a target in bfloat16 that is sampled as its logits come does not follow its
#           own probabilities. A verifier that is told these probabilities is then lossy, at
#           acceptance rates that look normal. Cast to float32 first.
#
# Exits 0 while this is so, 1 when bfloat16 draws reach as many tokens as float32 ones.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet jax==0.10.2 jaxlib==0.10.2

cat > draws.py <<'PY'
import sys

import jax
import jax.numpy as jnp
import numpy as np

V, N = 32_000, 20_000
reached = {}


def show(name, tokens):
    tokens = np.asarray(tokens)
    reached[name] = len(np.unique(tokens))
    print(f"{name}: {reached[name]} tokens, mean {tokens.mean() / V:.3f}")


key = jax.random.key(1)
for dtype in ("float32", "float16", "bfloat16"):
    logits = jnp.zeros(V, dtype)
    show(f"categorical {dtype}", jax.random.categorical(key, logits, shape=(N,)))
for dtype in ("float32", "bfloat16"):
    row = jnp.full(V, 1 / V, dtype)
    show(f"choice {dtype}", jax.random.choice(key, V, (N,), p=row))
few = reached["categorical bfloat16"] < 2_000 and reached["choice bfloat16"] <= 128
sys.exit(0 if few and reached["categorical float32"] > 10_000 else 1)
PY

if venv/bin/python draws.py; then
    exit 0
fi
echo "bfloat16 draws reach more tokens: jax no longer behaves as stated" >&2
exit 1
