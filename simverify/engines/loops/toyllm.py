"""toyllm: ``SpsTextGenerator.generate``, a whole loop.

It draws tokens from torch's global generator, and coins from a numpy generator that every object
seeds with 42. ``toyllm`` hands it another generator; ``toyllm-as-is`` leaves it as it is.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import BOS, Rows, RowsModel
from simverify.engines.loading.tokenizers import IdsTokenizer

CLASS = "SpsTextGenerator"
ONE_TOKEN = SimpleNamespace(max_new_tokens=1)


class Model(RowsModel):
    """A model that is asked for probabilities, and for its device by a call."""

    def __init__(self, rows: Rows, prefix: Any) -> None:
        super().__init__(rows, prefix)
        self.device = lambda: "cpu"

    def inference(self, tokens: Any, _: Any) -> Any:
        """Return the probabilities (L, V) after each of the tokens (L,)."""
        return self.logits(tokens.tolist())[0].exp()


def load(path: Path, *, seeded: bool) -> Callable[..., Any]:
    """Return the method as a ``step`` callable, with its own seeded generator or the audit's."""
    given: dict[str, Any] = {"GenerationConfig": object, "print": lambda _: None}
    make = load_function(path, CLASS, **given)

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        tokenizer = IdsTokenizer([BOS, *prefix])
        generator = make(tokenizer, Model(target, prefix), Model(draft, prefix), gamma)
        if not seeded:
            generator.rng = rng
        return generator.generate("", ONE_TOKEN)[1 + len(prefix) :]

    return step


AS_IS = Engine(
    name="toyllm-as-is",
    package="toyllm",
    source="sps/generate.py",
    function=f"{CLASS}.generate",
    **LOOP,
    loader=partial(load, seeded=True),
    repository="https://github.com/ai-glimpse/toyllm",
    commit="1a3c832",
    parameters=("prompt", "config"),
)
NOTE = "the adapter replaces the generator of coins, which is seeded with 42: see toyllm-as-is"
ENGINES = (replace(AS_IS, name="toyllm", loader=partial(load, seeded=False), note=NOTE), AS_IS)
