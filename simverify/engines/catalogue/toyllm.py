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

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function
from simverify.engines.fake_models import BOS_TOKEN, FixedPromptTokenizer, RowFunction, RowsModel

TOYLLM_CLASS = "SpsTextGenerator"
TOYLLM_ONE_TOKEN = SimpleNamespace(max_new_tokens=1)


class ToyllmModel(RowsModel):
    """A model that is asked for probabilities, and for its device by a call."""

    def __init__(self, rows: RowFunction, prefix: Any) -> None:
        super().__init__(rows, prefix)
        self.device = lambda: "cpu"

    def inference(self, tokens: Any, _: Any) -> Any:
        """Return the probabilities (L, V) after each of the tokens (L,)."""
        return self.logits(tokens.tolist())[0].exp()


def load_toyllm(path: Path, *, seeded: bool) -> Callable[..., Any]:
    """Return the method as a ``step`` callable, with its own seeded generator or the audit's."""
    given: dict[str, Any] = {"GenerationConfig": object, "print": lambda _: None}
    make = load_function(path, TOYLLM_CLASS, **given)

    def step(prefix: Any, target: RowFunction, draft: RowFunction, gamma: int, rng: Any) -> Any:
        tokenizer = FixedPromptTokenizer([BOS_TOKEN, *prefix])
        generator = make(tokenizer, ToyllmModel(target, prefix), ToyllmModel(draft, prefix), gamma)
        if not seeded:
            generator.rng = rng
        return generator.generate("", TOYLLM_ONE_TOKEN)[1 + len(prefix) :]

    return step


TOYLLM_AS_IS_ENGINE = Engine(
    name="toyllm-as-is",
    package="toyllm",
    source="sps/generate.py",
    function=f"{TOYLLM_CLASS}.generate",
    **LOOP_DEFAULTS,
    loader=partial(load_toyllm, seeded=True),
    repository="https://github.com/ai-glimpse/toyllm",
    commit="1a3c832",
    parameters=("prompt", "config"),
)
TOYLLM_NOTE = (
    "the adapter replaces the generator of coins, which is seeded with 42: see toyllm-as-is"
)
ENGINES = (
    replace(
        TOYLLM_AS_IS_ENGINE,
        name="toyllm",
        loader=partial(load_toyllm, seeded=False),
        note=TOYLLM_NOTE,
    ),
    TOYLLM_AS_IS_ENGINE,
)
