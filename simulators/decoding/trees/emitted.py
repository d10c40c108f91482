"""What a decoding run on draft trees keeps of its calls: sums, and no rows."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.simulators.decoding.emitted import TokenSums
from simverify.simulators.decoding.expected import Interval, LaneMeans
from simverify.simulators.decoding.trees.loop import TreeBlock
from simverify.simulators.decoding.trees.worth import TreeWorth, steps_of
from simverify.simulators.features import Features
from simverify.trees import Drafting, TreeShape
from simverify.verifiers.trees import TreeVerifier

BEST, COUPLING, OWN, TAU = range(4)
"""Parts of what is kept of each call: bounds on Pr(tau >= l) without state, those of any rule,
what the rule itself is to keep by the rows of the tree, tau."""


@dataclass(frozen=True, eq=False)
class DecodedTrees:
    """All that is judged of a rule's run.

    ``features``: of the emitted tokens. ``accepted``: int64 (depth+1,), how often tau was each
    value; ``nodes`` int64 (nodes,), how often the way kept went through each node of the shape.
    ``worth``: per lane, of each call the parts ``BEST`` to ``TAU``. ``known``: whether
    ``OWN`` is; ``stepped``: whether the rule's steps are. ``went`` bool (n,), ``chances`` float64
    (n,): of the first nodes that each lane came by, whether its rule went on, and with what
    probability it was to.
    """

    features: Features
    accepted: Ints
    nodes: Ints
    worth: LaneMeans
    known: bool
    stepped: bool
    went: npt.NDArray[np.bool_]
    chances: Floats

    @property
    def gamma(self) -> int:
        """Depth of the trees."""
        return len(self.accepted) - 1

    @property
    def tails(self) -> Ints:
        """Calls in which l tokens or more were kept, l = 1..depth."""
        tails: Ints = np.cumsum(self.accepted[::-1])[::-1][1:]
        return tails

    def interval(self, part: int, confidence: float, level: int | None = None) -> Interval:
        """Return the mean a call of a part, ``BEST`` to ``TAU``, with its interval.

        ``level``: of the probability of one level l = level + 1, alone.
        """
        weights = np.zeros(3 * self.gamma + 1)
        first = part * self.gamma
        weights[first : first + self.gamma] = 1.0
        if level is not None:
            weights[first : first + self.gamma] = np.arange(self.gamma) == level
        return self.worth.interval(weights, confidence)


def fewest_nodes(shape: TreeShape, tokens: int) -> int:
    """Return how many nodes with children a lane comes by at least, until it emitted ``tokens``.

    A call that emits m tokens comes by m of them, or by one less where it keeps a whole way.
    """
    shortest = min(d for node, d in enumerate(shape.depths) if not shape.children[node])
    return tokens * shortest // (shortest + 1)


class TreesEmitted:
    """Observer of :func:`~simverify.simulators.decoding.trees.loop.decode_trees`.

    ``nodes``: so many first nodes that each lane comes by have the rule's step judged, a number
    to be fixed beforehand.
    """

    def __init__(
        self, lanes: int, seed: int, drafting: Drafting, rule: TreeVerifier, nodes: int
    ) -> None:
        gamma = drafting.shape.depth
        self._drafting, self._rule, self._nodes = drafting, rule, nodes
        self._best = TreeWorth(drafting)
        self._tokens = TokenSums(gamma=gamma, lanes=lanes, seed=seed, one_draft=False)
        self._accepted: Ints = np.zeros(gamma + 1, np.int64)
        self._kept: Ints = np.zeros(len(drafting.shape), np.int64)
        self._worth = LaneMeans(lanes, 3 * gamma + 1)
        self._steps: list[list[tuple[float, bool]]] = [[] for _ in range(lanes)]
        self._stepped = self._known = True

    def __call__(self, call: TreeBlock) -> None:
        """Count a call."""
        block = call.block
        self._accepted[block.tau] += 1
        for node in call.way:
            self._kept[call.drawn.places[node]] += 1
        steps = steps_of(self._rule, self._drafting, call.drawn, call.found)
        if steps is None:
            self._stepped = False
        else:
            own = self._steps[block.lane]
            own += steps[: self._nodes - len(own)]
        expected = self._best.expected(self._rule, call.drawn)
        if expected is None:
            expected = np.zeros(len(self._accepted) - 1)
            expected[: len(steps or ())] = [chance for chance, _ in steps or ()]
            self._known &= steps is not None
        levels, of_any = self._best.levels(call.drawn)
        self._worth.add(block.lane, [*levels, *of_any, *expected, block.tau])
        self._tokens.add(block)

    def complete(self, call: TreeBlock) -> None:
        """Count the tokens of a call alone."""
        self._tokens.add(call.block)

    @property
    def decoded(self) -> DecodedTrees:
        """What there is so far."""
        steps = [step for own in self._steps for step in own]
        return DecodedTrees(
            features=self._tokens.features,
            accepted=self._accepted,
            nodes=self._kept,
            worth=self._worth,
            known=self._known,
            stepped=self._stepped,
            went=np.array([went for _, went in steps], np.bool_),
            chances=np.array([chance for chance, _ in steps], np.float64),
        )
