"""Where p and q come from: simulated models, the user's own file, and real language models.

``get_model`` knows toy, compact, markov-V, ngram and files. ``transformer`` loads a pair of real
models, ``kv_cache`` computes their rows, ``distribution`` processes them as a request asks
(temperature, cuts, penalties), ``trace`` stores drafts and logits.
"""

__simverify_role__ = "shared"


import re
from collections.abc import Callable
from pathlib import Path

from simverify.checks import pick_name
from simverify.errors import UsageError
from simverify.models.base import MarkovModel, Model, compact, load_model, toy
from simverify.models.markov import DEFAULT_DISTANCE, check_vocabulary, markov

BUILT_IN_MODELS = {
    "toy": "2 tokens, independent; Sun et al. 2025, section 2",
    "compact": "3 tokens, order-1 Markov in twelfths; exposes every fault tried",
    "markov-V": "V tokens, seeded random rows; knobs: draft distance, temperature",
    "ngram": "256 bytes, 5-gram target and 3-gram draft trained on Python's own texts",
}

REAL_MODELS = {
    "tiny-llama": "1,024 byte pairs, Llama of 6 layers, draft of 1; trained on Python's own texts",
    "tiny-llama-deep": "the same target, draft of 12 layers",
}
"""Bundled pairs of real models, which ``compare`` takes alone."""

__all__ = [
    "BUILT_IN_MODELS",
    "DEFAULT_DISTANCE",
    "REAL_MODELS",
    "MarkovModel",
    "Model",
    "check_model",
    "get_model",
    "load_model",
    "markov",
]

_MARKOV = re.compile(r"markov-(\d{1,30})")


def get_model(
    name: str,
    *,
    distance: float = DEFAULT_DISTANCE,
    temperature: float = 1.0,
    announce: Callable[[str], None] | None = None,
) -> Model:
    """Return a built-in model by name, or the pair in the file ``name`` (.json, .npz).

    ``distance`` and ``temperature`` are knobs of markov-V (:func:`markov`); other models
    keep their own rows. ``announce`` receives a line when training takes a while. Raises
    ``UsageError`` on an unknown name or a bad file.
    """
    if match := _MARKOV.fullmatch(name):
        return markov(int(match[1]), distance=distance, temperature=temperature)
    if name.endswith((".json", ".npz")) or "/" in name:
        path = Path(name)
        if path.suffix not in (".json", ".npz"):
            raise UsageError(f"{name}: expected a .json or .npz file")
        return load_model(path)
    if name in REAL_MODELS:
        raise UsageError(f"{name} is a pair of real models, which runs alone: --models {name}")
    match pick_name(name, [*BUILT_IN_MODELS, "markov-64"], "model"):
        case "toy":
            return toy()
        case "compact":
            return compact()
        case "ngram":
            from simverify.models.ngram import load_ngram

            return load_ngram(announce=announce)
        case _:
            raise UsageError("markov-V needs a number for V, such as markov-64")


def check_model(name: str) -> None:
    """Raise ``UsageError`` for a name or a file that :func:`get_model` refuses."""
    if match := _MARKOV.fullmatch(name):
        check_vocabulary(int(match[1]))
    else:
        get_model(name)
