#!/usr/bin/env bash
# torch.rand in half precision turns numbers that round to 1 into exactly 0.
#
# Library:  torch 2.13.0, Python 3.11, CPU, Linux.
# Guess:    float16 and bfloat16 numbers of torch.rand are the float32 ones, rounded down, or lie on
#           a grid of their own. Exactly 0 comes as often as the step of that grid is wide.
# Seen:     they are the float32 numbers of the same seed, rounded to nearest. Those that round to
#           1, which torch.rand may not return, come out as 0: not as the largest number below 1.
#           Of 4,194,304 numbers:
#             float16: 1028 are 0; of these 1028 above 0.9997, 0 below 1e-6
#             bfloat16: 8272 are 0; of these 8272 above 0.998, 0 below 1e-6
#           where "above" and "below" are of the float32 numbers of the same seed.
#           So 0 comes about once in 4,096 and once in 512 draws. All other numbers are the float32
#           ones, rounded to nearest.
# Matters:  code that accepts a draft where `u <= p / q`, or `u < p / q`, accepts nearly everything
#           at the draws that should reject most surely: a token of probability 1e-4 is accepted
#           once in 512 draws by its bfloat16 number alone. Draw in float32, and
#           never cast random numbers down.
#
# Exits 0 while this is so, 1 when half-precision zeros are small float32 numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.2.6

cat > zeros.py <<'PY'
import sys

import torch

N, so = 1 << 22, True


def numbers(dtype):
    return torch.rand(N, dtype=dtype, generator=torch.Generator().manual_seed(0))


single = numbers(torch.float32)
for dtype, top in ((torch.float16, 0.9997), (torch.bfloat16, 0.998)):
    zeros = single[numbers(dtype) == 0]
    large, small = int((zeros > top).sum()), int((zeros < 1e-6).sum())
    name = str(dtype).removeprefix("torch.")
    print(f"{name}: {len(zeros)} are 0; of these {large} above {top}, {small} below 1e-6")
    others = numbers(dtype) != 0
    so &= bool((single.to(dtype) == numbers(dtype))[others].all())
    so &= large > 0.9 * len(zeros) > 900
sys.exit(0 if so else 1)
PY

if venv/bin/python zeros.py; then
    exit 0
fi
echo "zeros in half precision are small numbers: torch no longer behaves as stated" >&2
exit 1
