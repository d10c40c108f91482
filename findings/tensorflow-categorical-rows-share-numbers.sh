#!/usr/bin/env bash
# Rows of one call of tf.random.categorical share random numbers, and threads decide how many.
#
# Library:  tensorflow-cpu 2.21.0, Python 3.11, CPU, Linux.
# Guess:    the rows of a batch are drawn independently, whatever the number of threads; one seed
#           gives one result.
# Seen:     16 rows of 1,000,000 equal logits, 64 samples each, seed 1. Independent rows share a
#           token once in some 250 pairs. Tokens of 64 that a row shares with the one before it:
#             2 threads: 62 at most
#             1 thread: 0
#           So the same seed gives other tokens on another number of threads. With 3 samples a row
#           nothing is shared.
# Matters:  sampling a batch of requests, or many tokens a row, gives tokens that depend on each
#           other, though each row by itself follows its logits. Compare rows before you take
#           them as independent.
#
# Exits 0 while this is so, 1 when rows share nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet tensorflow-cpu==2.21.0

cat > rows.py <<'PY'
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import tensorflow as tf

threads = int(sys.argv[1])
tf.config.threading.set_intra_op_parallelism_threads(threads)


def shared(samples):
    tf.random.set_seed(1)
    tokens = tf.random.categorical(tf.zeros((16, 1_000_000)), samples).numpy()
    pairs = zip(tokens[1:], tokens[:-1], strict=True)
    return max(len(set(row) & set(before)) for row, before in pairs)


many, few = shared(64), shared(3)
print(f"{threads} threads: rows share {many} of 64 tokens with the row before, {few} of 3")
sys.exit(0 if few == 0 and (many > 50) == (threads == 2) and (many == 0 or threads == 2) else 1)
PY

if venv/bin/python rows.py 2 && venv/bin/python rows.py 1; then
    exit 0
fi
echo "rows of a batch are independent: tensorflow no longer behaves as stated" >&2
exit 1
