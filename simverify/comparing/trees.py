"""Comparisons on draft trees: the tree, the rules, and the exact law of each rule."""

import itertools
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Ints
from simverify.checks import MAX_GAMMA, clean_line, pick_name
from simverify.comparing.custom_rules import UserRule
from simverify.errors import OptionError, UsageError
from simverify.models.base import MarkovModel
from simverify.simulators.run import stack_rows
from simverify.symbolic.paths import ForkedGenerator, TooManyPaths, explore
from simverify.trees import (
    ROOT,
    Drafting,
    DraftTree,
    RowAfter,
    Scheme,
    TreeShape,
    enumerate_trees,
    get_scheme,
    shape_of_levels,
)
from simverify.verifiers import VERIFIERS, Verifier
from simverify.verifiers.trees import TREE_VERIFIERS, TreeVerifier

# The draft tree of the options: K drafts, children per level, or a file.


MAX_DRAFTS = 64


def parse_drafting(
    drafts: int | None, tree: str | None, scheme: str | None, gamma: int | None
) -> Drafting:
    """Return how trees are drafted.

    ``drafts``: so many chains of ``gamma`` tokens. ``tree``: children per level, such as "3,2,1",
    or the path of a JSON file ``{"parents": [-1, 0, ...]}``.

    Raises ``UsageError`` for both, for a bad tree, or one that is deeper than ``gamma``.
    """
    draft_scheme = get_scheme("iid" if scheme is None else scheme)
    if drafts is not None and tree is not None:
        raise OptionError("{drafts} and {tree} are two ways to say one thing: name one of them")
    if tree is not None:
        if not tree.strip():
            raise UsageError("tree is empty: expected children per level, such as 3,2,1, or a file")
        try:
            levels = [int(count) for count in tree.split(",")]
        except ValueError:
            shape = _read_shape(Path(tree))
        else:
            shape = shape_of_levels(levels)
        if gamma is not None and shape.depth > gamma:
            raise OptionError(
                f"the tree has a depth of {shape.depth}, above {{gamma}} {gamma}: cut it, or raise "
                "{gamma}"
            )
        if shape.depth > MAX_GAMMA:
            raise UsageError(f"the tree has a depth of {shape.depth}: expected 1 to {MAX_GAMMA}")
        return Drafting(shape, draft_scheme)
    assert drafts is not None
    if gamma is None:
        raise OptionError("{gamma} is missing: {drafts} are so many drafts of {gamma} tokens")
    if not 1 <= drafts <= MAX_DRAFTS:
        raise OptionError(f"{{drafts}} is {drafts}: expected 1 to {MAX_DRAFTS}")
    if not 1 <= gamma <= MAX_GAMMA:
        raise UsageError(f"gamma is {gamma}: expected 1 to {MAX_GAMMA}")
    return Drafting(shape_of_levels([drafts] + [1] * (gamma - 1)), draft_scheme)


def _read_shape(path: Path) -> TreeShape:
    """Return the tree of a file; ``UsageError`` in one line for any other content."""
    shown = clean_line(str(path), 200)
    example = '{"parents": [-1, 0, 0]}'
    try:
        data: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(
            f"tree {clean_line(str(path), 80)!r} is no file: expected children per level, such as "
            "3,2,1, or a JSON file of parents"
        ) from None
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{shown} is not JSON: {clean_line(str(error), 80)}; expected {example}"
        ) from None
    parents = data.get("parents") if isinstance(data, dict) and set(data) == {"parents"} else None
    if not isinstance(parents, list):
        raise UsageError(f"{shown} holds no tree: expected {example} and nothing else")
    try:
        return TreeShape(tuple(parents))
    except UsageError as error:
        raise UsageError(f"{shown}: {clean_line(str(error))}") from None


# The rows of a Markov pair by state, and how mass goes from one state to the next.


Array = npt.NDArray[Any]  # float64, or object arrays of :class:`fractions.Fraction`


@dataclass(frozen=True, eq=False)
class StateRows:
    """``target``, ``draft``: (S+1, V), the row after each state; that of no token stands last.

    The state after a token is ``token % S``.
    """

    target: Array
    draft: Array

    @classmethod
    def of(cls, model: MarkovModel) -> "StateRows":
        """Return the rows of ``model``, as fractions where it is defined by fractions."""

        def stack(rows: Any, start: Any) -> Array:
            if model.rational is None:
                return stack_rows(rows, start)
            return np.array([*rows, start], dtype=object)

        rows: Any = model.rational or model
        return cls(
            stack(rows.target_rows, rows.target_start), stack(rows.draft_rows, rows.draft_start)
        )

    @property
    def states(self) -> int:
        """Number of distinct rows after a token."""
        return len(self.target) - 1

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return int(self.target.shape[1])

    @property
    def rational(self) -> bool:
        """Whether the rows are fractions."""
        return self.target.dtype == object

    def start(self) -> Array:
        """Return all mass where no token has come yet: (S+1,)."""
        mass: Array = 0 * self.target[:, 0]
        mass[-1] = mass[-1] + 1
        return mass

    def by_state(self, mass: Array) -> Array:
        """Add up the mass (V,) of tokens that lead to the same state: (S+1,)."""
        totals: Array = 0 * self.target[:, 0]
        np.add.at(totals, np.arange(len(mass)) % self.states, mass)
        return totals

    def after(self, of: Array) -> RowAfter:
        """Return the function that gives the row of ``of`` (S+1, V) after a text."""
        return lambda text: of[text[-1] % self.states if text else -1]


# The rules of a comparison on draft trees.


SINGLE_DRAFT_RULES = ("token", "block")
"""Rules for a single draft that may be named beside those for trees."""


def tree_rules(
    names: Sequence[str] | None, drafting: Drafting, own: Mapping[str, UserRule]
) -> dict[str, Verifier | TreeVerifier | UserRule]:
    """Return the rules called ``names``; by default all that are lossless on such trees.

    ``own``: the rules that are not built in, by name.

    Raises ``UsageError`` for a name that is unknown, or a rule that does not fit.
    """
    if names is None:
        return {
            rule.name: rule
            for rule in TREE_VERIFIERS.values()
            if _unsupported_reason(rule, drafting) is None
        }
    return {name: own.get(name) or _find_rule(name, drafting) for name in names}


def _find_rule(name: str, drafting: Drafting) -> Verifier | TreeVerifier:
    if name in SINGLE_DRAFT_RULES:
        return VERIFIERS[name]
    if name in VERIFIERS and name not in TREE_VERIFIERS:
        raise UsageError(
            f"{name} is for a single draft: on draft trees take "
            f"{' or '.join(SINGLE_DRAFT_RULES)}, which "
            f"are judged on one draft, or one of {', '.join(TREE_VERIFIERS)}"
        )
    rule = TREE_VERIFIERS[
        pick_name(name, (*TREE_VERIFIERS, *SINGLE_DRAFT_RULES), "rule for draft trees")
    ]
    if (why := _unsupported_reason(rule, drafting)) is not None:
        raise UsageError(why)
    return rule


def _unsupported_reason(rule: TreeVerifier, drafting: Drafting) -> str | None:
    scheme = drafting.scheme.name
    if scheme not in rule.schemes:
        return (
            f"{rule.name} is not lossless on siblings drafted by {scheme}: it takes "
            f"{' or '.join(rule.schemes)}"
        )
    if not rule.fits(drafting.shape):
        return f"{rule.name} takes {rule.needs}: got a tree of {drafting.shape.words()}"
    return None


# The law of a rule that walks down the tree, a step at a time.
#
# The draft below a node does not depend on its siblings, so the mass that reaches the states of the
# next level obeys a linear recursion: the work grows with the nodes, whatever the tree. A closed
# form of a step is that of a hit among all siblings, so subtrees of one form count as one. A tree
# whose siblings have subtrees of different forms needs the law of which sibling it was, which can
# be written out for small vocabularies.


MAX_STEPS = 20_000
"""Work limit for steps that are written out: ordered siblings times tokens, over all rows."""

MAX_CLOSED_FORM_WORK = 200_000
"""Work limit for closed forms that list rejected siblings: V^(k-1) for each row."""


@dataclass(frozen=True, eq=False)
class RuleLaw:
    """``curve``: Pr(tau >= l) for each level l; ``nodes``: Pr(the way kept goes through it).

    ``deviation``, ``tv``: of the completed outputs of a call from the target's; where steps were
    written out, the largest of a step that is taken from the target's row.
    """

    curve: list[Any]
    nodes: list[Any] | None = None
    deviation: Any = None
    tv: Any = None


def enumerate_walk(rule: TreeVerifier, drafting: Drafting, rows: StateRows) -> RuleLaw | None:
    """Return the law of ``rule`` from every step's, or None: too many, or not such a rule."""
    shape, size = drafting.shape, rows.vocab_size
    work = sum(len(rows.target) * size ** (k + 1) for k in shape.child_counts[1:])
    if rule.one_step is None or work > MAX_STEPS:
        return None
    steps = {
        k: [_step_law(rule, drafting.scheme, p, q, k) for p, q in zip(rows.target, rows.draft)]  # noqa: B905
        for k in shape.child_counts[1:]
    }
    mass: dict[int, Array] = {ROOT: rows.start()}
    for node, children in shape.children.items():
        for place, child in enumerate(children):
            hits = [step_hits[place] for step_hits, _ in steps[len(children)]]
            mass[child] = rows.by_state(_propagate_mass(mass[node], hits))
    nodes = [mass[node].sum() for node in range(len(shape))]
    curve = [
        sum(nodes[node] for node in range(len(shape)) if shape.depths[node] == level)
        for level in range(1, shape.depth + 1)
    ]
    # The steps that are taken: numbers of children, and the states before them.
    taken = {
        (len(children), int(state))
        for node, children in shape.children.items()
        if children
        for state in np.flatnonzero(mass[node])
    }
    gaps = []
    for k, state in taken:
        reached, missed = steps[k][state]
        gaps.append(abs(reached.sum(axis=0) + missed - rows.target[state]))
    return RuleLaw(curve, nodes, max(gap.max() for gap in gaps), max(gap.sum() for gap in gaps) / 2)


def closed_form_walk(rule: TreeVerifier, drafting: Drafting, rows: StateRows) -> RuleLaw | None:
    """Return the law of ``rule`` from the closed form of a hit, or None where there is none."""
    shape, scheme = drafting.shape, drafting.scheme
    hits = rule.hits.get(scheme.name)
    most = shape.child_counts[-1]
    cases = 1 if scheme.replaced else rows.vocab_size ** (most - scheme.certain(most) - 1)
    # The form of the subtree below each node, and the forms of the children of each form.
    form_of: dict[int, int] = {}
    forms: dict[tuple[int, ...], int] = {}
    for node in reversed(range(ROOT, len(shape))):
        below_it = tuple(form_of[child] for child in shape.children[node])
        form_of[node] = forms.setdefault(below_it, len(forms))
    alike = all(len(set(children)) <= 1 for children in forms)
    if hits is None or not alike or cases * len(rows.target) > MAX_CLOSED_FORM_WORK:
        return None
    children_of = list(forms)
    hit_rows = {
        k: [hits(p, q, k) for p, q in zip(rows.target, rows.draft, strict=True)]
        for k in shape.child_counts[1:]
    }
    level: dict[int, Array] = {form_of[ROOT]: rows.start()}
    curve: list[Any] = []
    while True:
        below: dict[int, Array] = defaultdict(rows.start().__mul__(0).copy)
        for form, mass in level.items():
            if children := children_of[form]:
                step = rows.by_state(_propagate_mass(mass, hit_rows[len(children)]))
                below[children[0]] = below[children[0]] + step
        if not below:
            return RuleLaw(curve)
        curve.append(sum(mass.sum() for mass in below.values()))
        level = below


def _step_law(
    rule: TreeVerifier, scheme: Scheme, p: Array, q: Array, k: int
) -> tuple[Array, Array]:
    """Return Pr(token y, and sibling j is the first that has it) (k, V), and of no sibling (V,)."""
    assert rule.one_step is not None
    one_step = rule.one_step
    hits, misses = np.array([0 * p] * k), 0 * p
    for siblings, mass in scheme.law(q, k).items():
        drafted = list(siblings)
        for token, weight in explore(
            lambda path, drafted=drafted: one_step(p, q, drafted, ForkedGenerator(path))  # type: ignore[misc]
        ):
            if token in siblings:
                hits[siblings.index(token), token] += mass * weight
            else:
                misses[token] += mass * weight
    return hits, misses


def _propagate_mass(mass: Array, hits: list[Array]) -> Array:
    """Return the mass (V,) of the tokens that are hit, from that of the rows (S+1,) before."""
    total = 0 * hits[0]
    for weight, each in zip(mass, hits, strict=True):
        if weight > 0:
            total = total + weight * each
    return total


# The law of a readable rule over all trees that can be drafted and all of its coins.


MAX_TREES = 2_000
MAX_WALKED_TREES = 100  # of a rule that walks; beyond, the law of its steps says the same
MAX_NODES = 64  # of trees that are drawn one by one

MAX_PATHS = 12_000
"""Most paths of a rule, trees and coins together: a second, or a few where a step is slow."""

MAX_OUTPUTS = 4_096  # most completed outputs V^(depth+1) that are compared with the target's

Text = tuple[int, ...]


def enumerate_law(rule: TreeVerifier, drafting: Drafting, rows: StateRows) -> RuleLaw | None:
    """Run ``rule`` on every tree and every path of its choices; None where there are too many."""
    depth = drafting.shape.depth
    if rows.vocab_size ** (depth + 1) > MAX_OUTPUTS:
        return None
    most = MAX_TREES if rule.one_step is None else MAX_WALKED_TREES
    fewest = int((rows.draft > 0).sum(axis=1).min())
    if len(drafting.shape) > MAX_NODES or (
        drafting.scheme.replaced and fewest ** len(drafting.shape) > most
    ):
        return None
    target, draft = rows.after(rows.target), rows.after(rows.draft)
    try:
        trees = enumerate_trees(drafting, draft, max_trees=most)
    except TooManyPaths:
        return None
    left = MAX_PATHS
    curve, nodes = [0] * depth, [0] * len(drafting.shape)
    law: dict[Text, Any] = {}
    for tree, mass in trees:
        probs = tree.rows(target), tree.rows(draft)
        arrays = _as_ints(tree.tokens), _as_ints(tree.shape.parents)
        try:
            paths = list(
                explore(
                    lambda path, rows=(*probs, *arrays): rule.rule(*rows, ForkedGenerator(path)),  # type: ignore[misc]
                    most=left,
                )
            )
        except TooManyPaths:
            return None
        left -= len(paths)
        place = map_nodes_to_shape(drafting, tree, tuple(range(len(tree.tokens))))
        for emitted, weight in paths:
            text = tuple(map(int, emitted))
            law[text] = law.get(text, 0) + mass * weight
            for level, node in enumerate(tree.way_of(text[:-1])):
                curve[level] += mass * weight
                nodes[place[node]] += mass * weight
    return RuleLaw(curve, nodes, *_output_deviation(law, rows, depth))


def map_nodes_to_shape(drafting: Drafting, tree: DraftTree, nodes: Text) -> Text:
    """Return the nodes of the drafting's shape for those of a tree, whose last siblings may miss.

    They do where a row has too few tokens.
    """
    if len(tree.tokens) == len(drafting.shape):
        return nodes
    mapping = {ROOT: ROOT}
    for parent, children in tree.shape.children.items():
        if parent in mapping:
            shape_children = drafting.shape.children[mapping[parent]]
            mapping.update(zip(children, shape_children, strict=False))
    return tuple(mapping[node] for node in nodes)


def _output_deviation(law: dict[Text, Any], rows: StateRows, depth: int) -> tuple[Any, Any]:
    """Largest deviation of the outputs, completed with the target's own tokens, and their TV."""
    target = rows.after(rows.target)
    size = range(rows.vocab_size)
    completed: dict[Text, Any] = {}
    expected: dict[Text, Any] = {(): 1}
    for length in range(depth + 1):
        # Texts that end here are continued by the target; longer ones come later.
        for text in [text for text in law if len(text) == length]:
            completed[text] = completed.get(text, 0) + law[text]
        completed = _extend_law(completed, target, size)
        expected = _extend_law(expected, target, size)
    for text in [text for text in law if len(text) == depth + 1]:
        completed[text] = completed.get(text, 0) + law[text]
    texts = itertools.product(size, repeat=depth + 1)
    gaps = [abs(completed.get(text, 0) - expected.get(text, 0)) for text in texts]
    return max(gaps), sum(gaps) / 2


def _extend_law(law: dict[Text, Any], target: Any, size: range) -> dict[Text, Any]:
    return {
        (*text, token): mass * row[token]
        for text, mass, row in ((text, mass, target(text)) for text, mass in law.items())
        for token in size
        if row[token] > 0
    }


def _as_ints(values: Text) -> Ints:
    return np.array(values, dtype=np.int64)
