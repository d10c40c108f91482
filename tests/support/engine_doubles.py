"""Engines' adapters, tried on small doubles of the engines, and the law of what comes out."""

import pytest

from simverify.auditing.comparison import compare_blocks, compare_tokens
from simverify.auditing.enumeration import Generation, enumerate_tokens
from simverify.engines import get_engine
from simverify.errors import SimverifyError
from simverify.models.base import compact
from simverify.symbolic import Enumeration


def checkout(folder, name, text, beside=None):
    """A checkout that holds the engine's file; ``folder`` is its top.

    ``beside``: the texts of other files, by their paths from the top.
    """
    engine = get_engine(name)
    for path, written in {f"{engine.package}/{engine.source}": text, **(beside or {})}.items():
        file = folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(written)
    return folder


def largest_deviation(name, folder, gamma=None, model=None, length=None):
    """How far the law of an adapted double is from a model's target, the compact one's.

    ``gamma``: 2, and 1 for a loop, whose calls are many, if not given. ``length``: how many of the
    first tokens of a step rule; gamma + 1 if not given.
    """
    engine, model = get_engine(name), model or compact()
    gamma = gamma or (2 if engine.contract == "verify" else 1)
    rule = engine.load(folder)
    with Enumeration(rule, prune=1e-12) as enumeration:
        if engine.contract == "verify":
            found = compare_blocks(enumeration, rule, model, gamma)
        else:
            generation = Generation(model.target, model.draft, gamma, length or gamma + 1)
            law = enumerate_tokens(enumeration, rule, generation)
            found = compare_tokens(law, model.target)
    return found.max_abs_deviation


def check_double(name, folder, text, right, wrong, gamma=None, beside=None, length=None):
    """An adapter gives the double's law: the target's, and, with one line wrong, another."""
    assert text.count(right) == 1, f"{right!r} is to stand in the double once"
    good = checkout(folder / "right", name, text, beside)
    assert largest_deviation(name, good, gamma, length=length) < 1e-6
    bad = checkout(folder / "wrong", name, text.replace(right, wrong), beside)
    assert largest_deviation(name, bad, gamma, length=length) > 1e-3


def check_signature(name, folder, text, known, beside=None):
    """A double without a parameter that the adapter passes is refused in one line."""
    engine = get_engine(name)
    other = checkout(folder, name, text.replace(known, "another"), beside)
    with pytest.raises(SimverifyError, match=rf"'{name}': .* and no {known}: .*{engine.commit}"):
        engine.load(other)
