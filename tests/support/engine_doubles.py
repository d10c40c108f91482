"""Engines' adapters, tried on small doubles of the engines, and the law of what comes out."""

from simverify.auditing.exact.generations.steps import law_of_tokens
from simverify.auditing.exact.judging.law import compare_blocks, compare_tokens
from simverify.engines import get_engine
from simverify.models.small import compact
from simverify.symbolic import Enumeration


def checkout(folder, name, text):
    """A checkout that holds the engine's one file; ``folder`` is its top."""
    engine = get_engine(name)
    file = folder / engine.package / engine.source
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return folder


def largest_deviation(name, folder, gamma=2, length=None):
    """How far the law of an adapted double is from the compact model's target.

    Of a step rule, of its first ``length`` tokens: gamma + 1 if not given.
    """
    engine, model = get_engine(name), compact()
    rule = engine.load(folder)
    with Enumeration(rule, prune=1e-12) as enumeration:
        if engine.contract == "verify":
            found = compare_blocks(enumeration, rule, model, gamma)
        else:
            law = law_of_tokens(
                enumeration,
                rule,
                model.target,
                model.draft,
                gamma=gamma,
                length=length or gamma + 1,
            )
            found = compare_tokens(law, model.target)
    return found.max_abs_deviation


def check_double(name, folder, text, right, wrong, gamma=2, length=None):
    """An adapter gives the double's law: the target's, and, with one line wrong, another."""
    assert text.count(right) == 1, f"{right!r} is to stand in the double once"
    assert largest_deviation(name, checkout(folder / "right", name, text), gamma, length) < 1e-6
    faulty = text.replace(right, wrong)
    assert largest_deviation(name, checkout(folder / "wrong", name, faulty), gamma, length) > 1e-3
