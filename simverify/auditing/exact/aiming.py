"""The part of the search that aims at what no instance has reached so far."""

import itertools
import random
from collections.abc import Callable, Iterator

from simverify.auditing.coverage.conditions import Aim, aims
from simverify.auditing.coverage.watch import FIRST, Watch
from simverify.auditing.exact.instances.aimed import Aimed, Recipe
from simverify.auditing.exact.instances.hinted import Contract
from simverify.auditing.exact.instances.made import SmallModel

EXAMPLES = 200
"""Instances that are tried at most; most end before, for what they may cost is spent."""

_ROWS = 8
"""Instances of other rows that are tried where something new was reached."""

_GOALS = 4
"""Outcomes that are aimed at in turn."""

_LATEST = 4
"""Of what led to something new, so many are varied: what came last has come the furthest."""

_VARIED = 0.6
"""How often what led to something new is varied, where anything did."""


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
    for n in range(EXAMPLES):
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
