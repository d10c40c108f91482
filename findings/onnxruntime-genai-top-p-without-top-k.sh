#!/usr/bin/env bash
# With top_k=0, ONNX Runtime GenAI's top_p keeps more tokens than reach p.
#
# Library:  onnxruntime-genai 0.18.0 on a CPU, Python 3.11, Linux.
# Guess:    top_k=0 turns top-k off, and top_p=.5 then keeps the likeliest tokens that reach .5.
# Seen:     without top-k it stops at a token where the sum so far is p of that sum and a bound on
#           the rest, as if all other tokens were as likely as this one. On a row with a long tail
#           many more are kept. With top_k set to the vocabulary's size the cut is exact.
#           Of 400 first tokens each, with top_p=.5 on a row of 2,000 tokens that falls as 1/rank:
#             top_k=2000: 0 of 400 outside of the 34 tokens that reach .5
#             top_k=0: 138 of 400 outside of the 34 tokens that reach .5
#           Its comment calls the bound tight for peaked rows. The default of a generation config
#           that was written by its builder is top_k=50, where the cut is exact among the 50.
# Matters:  "top-p .9" without top-k samples from far below the nucleus.
#
# Exits 0 while this is so, 1 when both settings cut alike.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 transformers==5.24.0 onnx==1.23.2 onnx-ir \
    onnxruntime-genai==0.18.0 tokenizers

cat > model.py <<'PY'
import torch
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

V = 2000
config = LlamaConfig(
    vocab_size=V, hidden_size=64, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64,
    bos_token_id=0, eos_token_id=0, pad_token_id=0,
)
torch.manual_seed(0)
model = LlamaForCausalLM(config)
with torch.no_grad():
    # The head reads one direction: token i gets a probability in proportion to 1 / i.
    hidden = model.model(torch.tensor([[5]])).last_hidden_state[0, -1]
    logits = -torch.arange(V).clamp(min=1).log()
    logits[0] = -20.0
    model.lm_head.weight.copy_(torch.outer(logits, hidden / hidden.dot(hidden)))
model.save_pretrained("hf")
words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(V)}, unk_token="w0"))
PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w0").save_pretrained("hf")
PY

cat > cuts.py <<'PY'
import sys

import numpy as np
import onnxruntime_genai as og

model, outside = og.Model("ort"), {}
for top_k in (2000, 0):
    outside[top_k] = 0
    for seed in range(400):
        options = og.GeneratorParams(model)
        options.set_search_options(
            do_sample=True, max_length=2, top_k=top_k, top_p=0.5, random_seed=seed
        )
        generator = og.Generator(model, options)
        generator.append_tokens([5])
        row = np.asarray(generator.get_logits()).reshape(-1).astype(float)
        p = np.exp(row - row.max())
        p /= p.sum()
        order = np.argsort(-p, kind="stable")
        size = int((np.cumsum(p[order]) < 0.5).sum()) + 1
        generator.generate_next_token()
        outside[top_k] += int(generator.get_sequence(0)[-1]) not in order[:size]
    print(f"top_k={top_k}: {outside[top_k]} of 400 outside of the {size} tokens that reach .5")
sys.exit(0 if outside[2000] == 0 and outside[0] > 100 else 1)
PY

venv/bin/python model.py
venv/bin/python -m onnxruntime_genai.models.builder -i hf -o ort -p fp32 -e cpu -c cache > log 2>&1
if venv/bin/python cuts.py; then
    exit 0
fi
echo "both settings cut alike: onnxruntime-genai no longer behaves as stated" >&2
exit 1
