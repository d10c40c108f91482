#!/usr/bin/env bash
# tinygrad: a Tensor.rand that is computed after a later one gets the later one's numbers.
#
# Library:  tinygrad 0.14.0 on its Python device, Python 3.11, Linux; its CPU device does the same.
#           Known upstream as issue 16520, and open.
# Guess:    three tensors of random numbers differ from each other, and which numbers each has is
#           settled when it is made, or when it is computed.
# Seen:     a, b, c = Tensor.rand(4) three times after one seed. Computed as a, b, c they differ.
#           As b, a, c: a equals b in every number. As c, b, a: all three are equal. A tensor reads
#           the generator's counter when it is computed, and a later one has moved it by then.
# Matters:  noise that is made first and used last, such as the uniform number of an acceptance and
#           that of the correction, may be one number. Call realize() on each when it is made.
#
# Exits 0 while this is so, 1 when the tensors differ.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet tinygrad==0.14.0

cat > order.py <<'PY'
import sys

from tinygrad import Tensor


def different(order):
    Tensor.manual_seed(0)
    made = {name: Tensor.rand(4) for name in "abc"}
    return len({tuple(made[name].tolist()) for name in order})


seen = {order: different(order) for order in ("abc", "bac", "cba")}
print("different tensors of three, by the order in which they are computed:", seen)
sys.exit(0 if seen == {"abc": 3, "bac": 2, "cba": 1} else 1)
PY

if DEV=PYTHON venv/bin/python order.py; then
    exit 0
fi
echo "the order no longer matters as stated: tinygrad has changed" >&2
exit 1
