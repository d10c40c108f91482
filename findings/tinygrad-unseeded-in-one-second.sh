#!/usr/bin/env bash
# tinygrad: processes that start in the same second and set no seed draw the same numbers.
#
# Library:  tinygrad 0.14.0 on its Python device, Python 3.11, Linux.
# Guess:    without a seed each process draws other numbers, as in numpy, torch and TensorFlow.
# Seen:     the seed is int(time.time()) at import. Eight processes that are started at once draw
#           one or two different sequences, as many as the seconds they were imported in.
# Matters:  workers of a job that start together sample the same tokens, and an average over them
#           is no better than one. Seed each with its own number.
#
# Exits 0 while this is so, 1 when processes of one second differ.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet tinygrad==0.14.0

cat > draw.py <<'PY'
from tinygrad import Tensor

# The second, then four tokens.
print(Tensor._seed, Tensor.ones(1000).multinomial(4, replacement=True).tolist())
PY
for worker in 1 2 3 4 5 6 7 8; do
    DEV=PYTHON venv/bin/python draw.py > "$worker.txt" &
done
wait
cat ./*.txt
sequences=$(sort -u ./*.txt | wc -l)
seconds=$(cut -d' ' -f1 ./*.txt | sort -u | wc -l)
echo "8 processes of $seconds seconds drew $sequences different sequences"
if [ "$sequences" -eq "$seconds" ] && [ "$sequences" -lt 8 ]; then
    exit 0
fi
echo "processes of one second differ: tinygrad no longer behaves as stated" >&2
exit 1
