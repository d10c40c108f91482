"""The search for a failing instance that the battery lacks, and for the simplest one.

A part of it aims at what no instance has reached so far.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from simverify.auditing.coverage.conditions import Aim, aims
from simverify.auditing.coverage.watch import FIRST, Watch
from simverify.auditing.exact.instances.aimed import Aimed, Recipe
from simverify.auditing.exact.instances.hinted import Contract
from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.instances.rows import Weights
from simverify.auditing.exact.instances.trees import most_trees
from simverify.trees import ROOT, Drafting, Scheme, TreeShape

MOST_TREES = 64
"""Draft trees of one instance at most: each is one or more paths."""

MOST_NODES = 5
_SMALL = 3
"""Nodes of a tree, at most; and of half the trees that are drawn."""

AIMED_EXAMPLES = 200
"""Instances that are tried at most; most end before, for what they may cost is spent."""

_ROWS = 8
"""Instances of other rows that are tried where something new was reached."""

_GOALS = 4
"""Outcomes that are aimed at in turn."""

_LATEST = 4
"""Of what led to something new, so many are varied: what came last has come the furthest."""

_VARIED = 0.6
"""How often what led to something new is varied, where anything did."""


@dataclass(frozen=True)
class Within:
    """Where to look: V up to ``vocab``, gamma up to ``gamma``, the depth of trees.

    ``scheme``: how siblings are drafted, of code that is tried on trees; ``shape``: the one tree
    that the code takes; ``fits``: which it takes. ``nodes``: of a tree, at most.
    """

    vocab: int
    gamma: int
    scheme: Scheme | None = None
    shape: TreeShape | None = None
    fits: Callable[[TreeShape], bool] = lambda shape: True
    nodes: int = MOST_NODES


def search(
    fails: Callable[[SmallModel], bool], within: Within, *, examples: int, seed: int
) -> SmallModel | None:
    """Return the simplest failing instance that Hypothesis finds and shrinks, if any.

    ``fails`` is asked for at most some multiple of ``examples`` instances with integer weights up
    to 8, 50 or 1000; what is shrunk first is gamma, or the tree, then V, the number of different
    rows, and the weights.
    """
    from hypothesis import HealthCheck, Phase, Verbosity, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import Flaky, NoSuchExample

    def weights(vocab: int) -> st.SearchStrategy[Weights]:
        row = st.tuples(*[st.integers(0, 8) | st.sampled_from([50, 1000])] * vocab)
        return row.filter(any)

    shapes = [] if within.scheme is None else _shapes(within)
    if within.scheme is not None and not shapes:
        return None

    @st.composite
    def models(draw: Any) -> SmallModel:
        drafting = None if within.scheme is None else draw(draftings(within.scheme))
        gamma = draw(st.integers(1, within.gamma)) if drafting is None else drafting.shape.depth
        vocab = draw(st.integers(2, within.vocab))
        count = draw(st.integers(1, 4))
        rows = st.tuples(*[weights(vocab)] * count)
        what = f"gamma={gamma}" if drafting is None else f"tree of {len(drafting.shape)}"
        name = f"found, V={vocab}, {what}"
        return SmallModel(name, gamma, draw(rows), draw(rows), drafting=drafting)

    @st.composite
    def draftings(draw: Any, scheme: Scheme) -> Drafting:
        small = [shape for shape in shapes if len(shape) <= _SMALL] or shapes
        # One list would nearly always give the most nodes; shrinking goes to the first of either.
        return Drafting(draw(st.sampled_from(small) | st.sampled_from(shapes)), scheme)

    def is_within(model: SmallModel) -> bool:
        if model.drafting is None:
            return True
        return most_trees(model) <= MOST_TREES or model.drafting.shape == within.shape

    try:
        return find(
            models().filter(is_within),
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


def _shapes(within: Within) -> list[TreeShape]:
    """Return the trees of so many nodes at most, the smallest first; the one, if one was named."""
    if within.shape is not None:
        return [within.shape]
    every = [
        TreeShape(parents)
        for count in range(1, min(within.nodes, MOST_NODES) + 1)
        for parents in itertools.product(*(range(ROOT, node) for node in range(count)))
    ]
    return [shape for shape in every if shape.depth <= within.gamma and within.fits(shape)]


def where_to_look(
    models: Sequence[SmallModel],
    failure: SmallModel | None,
    fits: Callable[[TreeShape], bool],
    *,
    beyond: int,
) -> Within:
    """Return where a search goes: below a ``failure``, or beyond the battery ``models``.

    ``beyond``: V up to which code on single drafts is searched.
    """
    first = failure or models[0]
    if first.drafting is None:
        return Within(failure.vocab_size, failure.gamma) if failure else Within(beyond, 2)
    shapes = {model.drafting.shape for model in models if model.drafting is not None}
    scheme, shape = first.drafting.scheme, shapes.pop() if len(shapes) == 1 else None
    if failure is not None:
        size = len(first.drafting.shape)
        return Within(failure.vocab_size, failure.gamma, scheme, shape, fits, size)
    # As far as was asked for: a tree is small there, for many are not drafted.
    most = max(model.vocab_size for model in models), max(model.gamma for model in models)
    return Within(min(most[0], 9), most[1], scheme, shape, fits)


def aimed(
    fails: Callable[[SmallModel], bool],
    watch: Watch,
    contract: Contract,
    *,
    eos: int | None,
    seed: int,
    affordable: Callable[[], bool],
) -> SmallModel | None:
    """Return the first failing instance of those that lead to outcomes that never came, if any.

    The outcomes are those that ``watch`` knows of; where all came, nothing is tried. ``affordable``
    says whether there may be another.
    """
    rng, makes = random.Random(seed), Aimed(contract, seed)
    watch.closely()
    led = [Recipe.of(model) for model in watch.led]
    tried: set[SmallModel] = set()
    goals, goal = _goals(watch), Aim()
    steps = _steps(makes, led, goals)
    rows = 0
    for n in range(AIMED_EXAMPLES):
        if not affordable() or not (goals or rows):
            return None
        if rows:  # what was reached last need not have gone wrong on the first rows
            recipe, rows = makes.rows(led[-1], goal), rows - 1
        elif (step := next(steps, None)) is not None:
            recipe, goal = step
        else:
            goal = goals[n % len(goals)]
            vary = led and rng.random() < _VARIED
            recipe = makes.varied(rng.choice(led[-_LATEST:]), goal) if vary else makes.fresh(goal)
        model = recipe.model(eos)
        if model in tried:
            continue
        tried.add(model)
        known = watch.known
        watch.closely(least=FIRST)
        if fails(model):
            return model
        if watch.known != known:
            led.append(recipe)
            goals, rows = _goals(watch), _ROWS
            steps = _steps(makes, led, goals)
    return None


def _steps(makes: Aimed, led: list[Recipe], goals: list[Aim]) -> Iterator[tuple[Recipe, Aim]]:
    """Yield what is one change away from what came the furthest, for all goals in turn."""
    for recipe in led[: -_LATEST - 1 : -1]:
        ways = [((x, goal) for x in makes.one_change(recipe, goal)) for goal in goals[:_GOALS]]
        for together in itertools.zip_longest(*ways):
            yield from (step for step in together if step is not None)


def _goals(watch: Watch) -> list[Aim]:
    every = aims(watch.instructions.values(), watch.named)
    return [aim for aim in every if any(map(_leads, aim.near))]


def _leads(number: float) -> bool:
    """Whether it leads beyond the battery: not 0, 1 and 2, nor a tolerance."""
    return number >= 3 or (number > 1e-6 and not float(number).is_integer())
