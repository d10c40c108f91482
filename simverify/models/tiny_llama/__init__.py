"""The pair of small Llama models that ships: weights, tokenizer, prompts, and how they came to be.

``MODEL_CARD.md`` says what was measured.
"""
