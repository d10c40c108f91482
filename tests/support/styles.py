"""The corpus of styles: verifiers as strangers write them, right and wrong ones, a file each.

``tests/auditing/styles/right`` and ``wrong``, by what they draw with. A file says its CONTRACT,
and under those of draft trees and drafters the SCHEME of the siblings;
a fault that shows only beyond what the battery reaches (V, gamma, the length of a prefix, the
number of calls) says so in BEYOND; its docstring says how far off it is.
"""

import ast
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.instances import draft_instances, instances_for, tree_instances
from simverify.auditing.subject import load_subject
from simverify.auditing.verdict import is_complete
from simverify.symbolic.engine import Budget
from simverify.symbolic.watchdog import SharedModules, contain_process
from simverify.trees import SCHEMES

FOLDER = Path(__file__).parents[1] / "auditing" / "styles"

CORE = (
    "plain, V=2, gamma=1",
    "equal, V=2, gamma=1",
    "q zero, V=2, gamma=1",
    "skewed, V=2, gamma=1",
    "one-hot draft, V=3, gamma=1",
    "p zero, V=3, gamma=1",
    "ties, V=3, gamma=1",
    "disjoint, V=2, gamma=2, after end of sequence 1",
    "q zero, V=2, gamma=2",
    "two tokens, V=2, gamma=2",
    "plain, V=3, gamma=2",
)
"""Instances of the fast level: few and small, and nearly every fault shows on one of them."""

MOST_PATHS = 600
"""Paths on all of them: enough for code without endless loops or wide integers."""

SECONDS = 2.0
"""The same for code that takes milliseconds a path."""


@dataclass(frozen=True)
class Style:
    """One file of the corpus."""

    path: Path

    @property
    def name(self):
        """As right/numpy/numpy_beta."""
        return str(self.path.relative_to(FOLDER).with_suffix(""))

    @property
    def right(self):
        """Whether its law is the target's."""
        return self.name.startswith("right/")

    @cached_property
    def _said(self):
        """The file's names, as far as they are constants or functions, read and not run."""
        said = {}
        for node in ast.parse(self.path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                value = node.value
                said[node.targets[0].id] = value.value if isinstance(value, ast.Constant) else None
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                said[node.name] = None
        return said

    @property
    def contract(self):
        """verify, step, tree or draft."""
        return self._said["CONTRACT"]

    @property
    def scheme(self):
        """How siblings are drafted; None but for draft trees and drafters."""
        return self._said.get("SCHEME")

    @property
    def beyond(self):
        """What the battery does not reach, where that hides the fault; else None."""
        return self._said.get("BEYOND")

    @property
    def spec(self):
        """What an audit is asked for: a function of the contract's name, or a class Rule."""
        name = self.contract if self.contract in self._said else "Rule"
        return f"{self.path}:{name}"


def styles():
    """All files of the corpus."""
    return [Style(path) for path in sorted(FOLDER.rglob("*.py"))]


TREE_CORE = (
    "plain, V=2, tree 1", "equal, V=2, tree 2", "q zero, V=2, tree 2,1", "p zero, V=3, tree 2",
    "disjoint, V=3, tree 2", "one-hot draft, V=3, tree 2", "random 1, V=4, tree 2",
    "random 2, V=4, tree 2", "wide residual, V=3, tree 1,2", "plain, V=3, tree 2,1",
    "plain, V=2, a leaf first", "plain, V=2, numbered by depth",
)  # fmt: skip


DRAFT_CORE = (
    "plain, V=2, tree 1", "one-hot, V=2, tree 2,1", "ties, V=3, tree 2", "zeros, V=3, tree 3",
    "zeros, V=4, tree 3", "zeros, V=3, tree 1,1",
)  # fmt: skip


def core(style):
    """The instances of the fast level."""
    if style.contract == "draft":
        models = draft_instances(SCHEMES[style.scheme], 2, 4, 0)
        return [m for m in models if m.core or m.name in DRAFT_CORE]
    if style.scheme is not None:
        models = tree_instances(SCHEMES[style.scheme], 3, 4, 0)
        return [m for m in models if m.name in TREE_CORE]
    return [m for m in instances_for(style.contract, 2, 3, 0) if m.name in CORE]


def exact_outcome(style, seconds=SECONDS):
    """What the exact tier alone says on the core: followed, refused or caught; and why."""
    shared = SharedModules()
    modules = set(sys.modules)
    try:
        with contain_process():
            tier = run_exact_tier(
                load_subject(style.spec),
                style.contract,
                core(style),
                tolerance=None,
                budget=Budget(MOST_PATHS if style.scheme is None else 2 * MOST_PATHS, seconds),
                searching=False,
            )
    finally:
        shared.restore()
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(FOLDER)):
                del sys.modules[name]
    if tier.failure is not None:
        kinds = [f.kind for f in tier.failure.comparison.findings if f.severity == "violation"]
        return "caught", ", ".join(kinds) or f"TV {tier.failure.comparison.tv:.3g}"
    findings = tier.not_enumerable.findings if tier.not_enumerable else ()
    kinds = [f.kind for f in findings if f.severity == "violation"]
    if kinds:
        return "caught", ", ".join(kinds)
    if is_complete(tier):
        return "followed", ""
    why = tier.not_enumerable or tier.aborted or f"paths of {len(tier.skipped)} instances"
    return "refused", str(why)
