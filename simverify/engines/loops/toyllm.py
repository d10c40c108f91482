"""toyllm: ``SpsTextGenerator.generate``, a whole loop.

It draws tokens from torch's global generator, and coins from a numpy generator that every object
seeds with 42. ``toyllm`` hands it another generator; ``toyllm-as-is`` leaves it as it is.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import BOS, Rows, RowsModel

CLASS = "SpsTextGenerator"
TOKENIZER = SimpleNamespace(encode=lambda prefix: [BOS, *prefix], decode=lambda ids: ids)
ONE_TOKEN = SimpleNamespace(max_new_tokens=1)


class Model(RowsModel):
    """A model that is asked for probabilities, and for its device by a call."""

    def __init__(self, rows: Rows, prefix: Any) -> None:
        super().__init__(rows, prefix)
        self.device = lambda: "cpu"

    def inference(self, tokens: Any, _: Any) -> Any:
        """Return the probabilities (L, V) after each of the tokens (L,)."""
        return self.logits(tokens.tolist())[0].exp()


def load(seeded: bool, path: Path) -> Callable[..., Any]:
    """Return the method as a ``step`` callable, with its own seeded generator or the audit's."""
    given: dict[str, Any] = {"GenerationConfig": object, "print": lambda _: None}
    make = load_function(path, CLASS, **given)

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        generator = make(TOKENIZER, Model(target, prefix), Model(draft, prefix), gamma)
        if not seeded:
            generator.rng = rng
        return generator.generate(prefix, ONE_TOKEN)[1 + len(prefix) :]

    return step


def _engine(name: str, seeded: bool) -> Engine:
    return Engine(
        name=name,
        package="toyllm",
        source="sps/generate.py",
        function=f"{CLASS}.generate",
        **LOOP,
        loader=partial(load, seeded),
        repository="https://github.com/ai-glimpse/toyllm",
        commit="1a3c832",
        parameters=("prompt", "config"),
    )


ENGINES = (_engine("toyllm", False), _engine("toyllm-as-is", True))
