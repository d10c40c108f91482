"""Searching for a counterexample, and for the smallest one, over rational rows."""

import random
from collections.abc import Callable
from typing import Any

from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.instances.rows import Weights


def search(
    fails: Callable[[SmallModel], bool],
    *,
    max_vocab: int,
    max_gamma: int,
    examples: int,
    seed: int,
) -> SmallModel | None:
    """Return the simplest failing instance that Hypothesis finds and shrinks, if any.

    ``fails`` is asked for at most some multiple of ``examples`` instances with V up to
    ``max_vocab``, gamma up to ``max_gamma`` and integer weights up to 8, 50 or 1000; what is
    shrunk first is gamma, then V, the number of different rows, and the weights.
    """
    from hypothesis import HealthCheck, Phase, Verbosity, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import Flaky, NoSuchExample

    def weights(vocab: int) -> st.SearchStrategy[Weights]:
        row = st.tuples(*[st.integers(0, 8) | st.sampled_from([50, 1000])] * vocab)
        return row.filter(any)

    @st.composite
    def models(draw: Any) -> SmallModel:
        gamma = draw(st.integers(1, max_gamma))
        vocab = draw(st.integers(2, max_vocab))
        count = draw(st.integers(1, 4))
        rows = st.tuples(*[weights(vocab)] * count)
        return SmallModel(f"found, V={vocab}, gamma={gamma}", gamma, draw(rows), draw(rows))

    try:
        return find(
            models(),
            fails,
            settings=settings(
                max_examples=examples,
                database=None,
                deadline=None,
                phases=[Phase.generate, Phase.shrink],
                verbosity=Verbosity.quiet,
                suppress_health_check=list(HealthCheck),
            ),
            random=random.Random(seed),
        )
    except (Flaky, NoSuchExample):
        # Code that fails now and then draws from something that is not followed.
        return None
