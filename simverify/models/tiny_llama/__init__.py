"""The pair of small Llama models that ships: weights, tokenizer, prompts, and how they came to be.

``MODEL_CARD.md`` says what was measured.
"""

from pathlib import Path

BUNDLED = Path(__file__).parent
"""Where it is: ``target``, the drafts ``draft`` and ``draft-deep``, ``tokenizer``."""
