#!/usr/bin/env bash
# MLX: compiling with the random state among the inputs alone leaves mx.random broken.
#
# Library:  mlx 0.32.4 on the CPU, Python 3.11, Linux.
# Guess:    mx.compile(f, inputs=mx.random.state), without outputs=, draws from a state that does not
#           move on: the same numbers at each call, or an error when the function is made.
# Seen:     the first call draws. The second raises "Attempting to eval an array without a
#           primitive". From then on mx.random.uniform(), which nobody compiled, raises that too, until
#           mx.random.seed() is called.
# Matters:  a sampler that forgets outputs= takes the random numbers of the whole thread down, far
#           from where it was made.
#
# Exits 0 while this is so, 1 when the state survives.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet 'mlx[cpu]==0.32.4'

cat > state.py <<'PY'
import sys

import mlx.core as mx


def outcome(call):
    try:
        return f"{call().item():.4f}"
    except RuntimeError as error:
        return str(error).partition(".")[0]


sample = mx.compile(lambda: mx.random.uniform(), inputs=mx.random.state)
seen = [outcome(sample), outcome(sample), outcome(mx.random.uniform)]
mx.random.seed(3)
seen.append(outcome(mx.random.uniform))
for what, text in zip(("first call", "second call", "uniform", "after a seed"), seen, strict=True):
    print(f"{what:12}", text)
raised = [text.startswith("[eval]") for text in seen]
sys.exit(0 if raised == [False, True, True, False] else 1)
PY

if venv/bin/python state.py; then
    exit 0
fi
echo "the state survives: mlx no longer behaves as stated" >&2
exit 1
