#!/usr/bin/env bash
# paddle.distribution.Categorical samples one law and gives the probabilities of another.
#
# Library:  paddlepaddle 3.3.1 on the CPU, Python 3.11, Linux.
#           Known upstream as issue 54733, and open since 2023.
# Guess:    Categorical(logits).log_prob(token) is the logarithm of how often sample() draws it.
# Seen:     for the logits 1, 2, 3, 4 token 0 is drawn with .032, its softmax, and probs() says .1,
#           which is 1 / 10: probs() and log_prob() divide the logits by their sum, sample() and
#           entropy() take the softmax. For the logits -1, 0, 1, 2 probs() says -.5 for token 0.
# Matters:  importance weights, acceptance ratios and policy gradients that divide by the
#           probability of a drawn token are wrong, though sampling and entropy look right.
#
# Exits 0 while this is so, 1 when the two agree.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet paddlepaddle==3.3.1

cat > laws.py <<'PY'
import sys

import numpy as np
import paddle

paddle.set_device("cpu")
paddle.seed(1)
draws, tokens = 200_000, paddle.to_tensor([0, 1, 2, 3])
law = paddle.distribution.Categorical(paddle.to_tensor([1.0, 2.0, 3.0, 4.0]))
drawn = np.bincount(law.sample([draws]).numpy().ravel(), minlength=4) / draws
said = law.probs(tokens).numpy()
negative = paddle.distribution.Categorical(paddle.to_tensor([-1.0, 0.0, 1.0, 2.0])).probs(tokens)
print("drawn ", drawn.round(3))
print("probs ", said.round(3))
print("probs of the logits -1, 0, 1, 2:", negative.numpy().round(3))
softmax = np.exp([1.0, 2.0, 3.0, 4.0]) / np.exp([1.0, 2.0, 3.0, 4.0]).sum()
two_laws = abs(drawn - softmax).max() < 0.01 < abs(said - softmax).max()
sys.exit(0 if two_laws and negative.numpy().min() < 0 else 1)
PY

if venv/bin/python laws.py; then
    exit 0
fi
echo "probs() is the law of sample(): paddle no longer behaves as stated" >&2
exit 1
