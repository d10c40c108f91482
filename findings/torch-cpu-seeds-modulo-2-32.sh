#!/usr/bin/env bash
# torch's CPU generator reports a 64-bit seed and uses its low 32 bits.
#
# Library:  torch 2.13.0, Python 3.11, CPU, Linux.
# Guess:    manual_seed documents seeds up to 0xffff_ffff_ffff_ffff, and initial_seed() gives the
#           seed back. Different seeds give different numbers.
# Seen:     seeds that agree in their low 32 bits give the same numbers, of rand and of randperm:
#             seed 5: rand 0.8303, randperm 2 0 3 1
#             seed 4294967301: rand 0.8303, randperm 2 0 3 1
#             seed 8589934597: rand 0.8303, randperm 2 0 3 1
#           initial_seed() says 5, 4294967301 and 8589934597. Nothing warns.
# Matters:  a server that seeds each request with 64 random bits, or with request_id << 32, repeats
#           its draws: after 77,000 random seeds two requests share all of them with probability
#           one half, and seeds shifted by 32 bits are all one. Tests that
#           count on one stream for each seed have fewer than they think.
#
# Exits 0 while this is so, 1 when such seeds give different numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.2.6

cat > seeds.py <<'PY'
import sys

import torch

drawn = set()
for seed in (5, 5 + (1 << 32), 5 + (1 << 33)):
    numbers = torch.Generator().manual_seed(seed)
    assert numbers.initial_seed() == seed
    uniform = torch.rand(1, generator=numbers).item()
    order = " ".join(map(str, torch.randperm(4, generator=numbers).tolist()))
    print(f"seed {seed}: rand {uniform:.4f}, randperm {order}")
    drawn.add((uniform, order))
control = torch.rand(1, generator=torch.Generator().manual_seed(6)).item()
sys.exit(0 if len(drawn) == 1 and control not in {u for u, _ in drawn} else 1)
PY

if venv/bin/python seeds.py; then
    exit 0
fi
echo "seeds differ in more than their low 32 bits: torch no longer behaves as stated" >&2
exit 1
